"""Order book of a feed: converts messages to deltas of BIDS, ASKS and TRADES, and to rows of TOUCHES if wanted.

* An added order inserts a row.
* An execution or a partial cancel replaces the row; t, price and broker stay the same.
* A delete or a full execution removes the row.
* A message for an order that is not live is counted and changes nothing.

Of all changes of an order during one call, only the net effect is emitted, because the versions in between belong to no
epoch. The rows of TRADES and TOUCHES do not depend on how messages are divided into calls.

Live orders are in a hash table of flat arrays. One compiled loop applies the messages of a batch in order and changes
the table. Before the first change of an order in a batch, the loop saves the order's values; the net effect is the
difference from the saved values. A checkpoint saves the changed slots.
"""

from __future__ import annotations

import inspect
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runtime.native.structures import Structure
from runtime.native.tiers import Kernels, MachineKernel, await_kernels, plain_kernel
from runtime.relations import book_kernel as kernel
from runtime.relations.book_rows import SymbolUnits, Units, int64_columns
from runtime.relations.live_orders import LiveOrders
from runtime.relations.touches import Touches
from runtime.state import ObjectSpace

__all__ = [
    "BOOK_SCHEMA",
    "DBTOASTER",
    "FEED",
    "ITCH",
    "KERNEL_SOURCE",
    "TRADES_SCHEMA",
    "Dialect",
    "Messages",
    "OrderBookAdaptor",
]

Integers = npt.NDArray[np.int64]

BOOK_SCHEMA: Final = pa.schema(
    [
        ("t", pa.int64()),
        ("id", pa.int64()),
        ("broker_id", pa.int64()),
        ("volume", pa.int64()),
        ("price", pa.int64()),
        ("symbol", pa.string()),
        ("weight", pa.int64()),
    ]
)
"""Schema of deltas of BIDS and ASKS."""
TRADES_SCHEMA: Final = pa.schema(
    [
        ("t", pa.int64()),
        ("match_id", pa.int64()),
        ("symbol", pa.string()),
        ("price", pa.int64()),
        ("volume", pa.int64()),
        ("side", pa.string()),
        ("resting_id", pa.int64()),
        ("aggressor_id", pa.int64()),
        ("broker_id", pa.int64()),
        ("weight", pa.int64()),
    ]
)
"""Schema of deltas of TRADES."""
KERNEL_SOURCE: Final = inspect.getsource(kernel)
"""Source of the kernel that applies a batch of messages to orders."""
_BID: Final = kernel.BID
_INT64: Final = pa.int64()
_SIDES: Final = pa.array(["B", "S", None], pa.string())


class Dialect(msgspec.Struct, frozen=True):
    """Effects of the actions of a message format on orders."""

    reduces: bytes
    """Actions that reduce the volume of an order."""
    kills: bytes
    """Actions that end an order."""
    trades: bytes
    """Actions that report a match."""
    replaces: bytes = b""
    """Actions that end an order and add another order with the same side, symbol and broker."""
    brokers: int = 0
    """Number of brokers if messages have none: then ``broker_id = id % brokers``. 0 if each message has its broker."""


FEED: Final = Dialect(reduces=b"EX", kills=b"FD", trades=b"EFT")
"""Dialect of the exchange's text feed."""
ITCH: Final = msgspec.structs.replace(FEED, replaces=b"U")
"""Dialect of NASDAQ's messages, with the letters of the text feed."""
DBTOASTER: Final = Dialect(reduces=b"E", kills=b"DF", trades=b"E", brokers=10)
"""Dialect of the traces of the DBToaster finance benchmark; X, T and C have no effect."""


class Messages(msgspec.Struct, frozen=True):
    """A batch of feed messages in feed order, as arrays of one length."""

    t: Integers
    """Time, in the unit of the feed."""
    order_id: Integers
    """Number of the order."""
    broker_id: Integers
    """Broker of the order."""
    action: npt.NDArray[np.uint8]
    """ASCII code of the action letter."""
    volume: Integers
    """Volume, in the unit of the feed."""
    price: Integers
    """Price, in the unit of the feed."""
    symbol: Integers
    """Number of the symbol in the pool."""
    number: Integers
    """Position of the message in its feed; it becomes ``match_id``."""
    new_order_id: Integers | None = None
    """Number of the order that replaces another one; None if nothing is replaced."""


class OrderBookAdaptor:
    """Order book of one feed, with its live orders in the object space.

    Not thread-safe: one owner at a time.
    """

    def __init__(
        self,
        space: ObjectSpace,
        name: str,
        dialect: Dialect,
        prefix: str = "",
        *,
        kernels: Kernels | None = None,
        units: Units | None = None,
    ) -> None:
        """Restore the book.

        ``prefix`` is put before every symbol, so that two feeds' symbols differ. Without ``kernels`` the kernel is
        interpreted. ``units`` has the units of prices and volumes in relations; by default they are those of the
        messages.
        """
        self._prefix, self._dialect, self._kernels = prefix, dialect, kernels
        self._orders = LiveOrders(space, f"{name}/orders")
        self.symbols = space.pool(f"{name}/symbols")
        actions = np.zeros(256, np.int64)
        for letters, kind in (
            (b"BS", kernel.ADD),
            (dialect.reduces, kernel.REDUCE),
            (dialect.kills, kernel.KILL),
            (dialect.replaces, kernel.REPLACE),
        ):
            actions[list(letters)] = kind
        actions[list(dialect.trades)] += kernel.MATCH
        self._numbers = np.zeros(kernel.NUMBER_COUNT, np.int64)
        self._book: Integers = np.zeros((kernel.B_COLUMNS, 0), np.int64)
        self._root = Structure(11)
        self._root.put(kernel.NUMBERS, self._numbers)
        self._root.put(kernel.ACTIONS, actions)
        self._root.link(kernel.ORDERS, self._orders.table)
        self._root.link(kernel.EDITS, self._orders.edits)
        self._units = None if units is None else SymbolUnits(self.symbols, units)
        self.off_scale = 0
        """Number of inserted rows in whose price or volume a fraction of a unit was cut off."""
        self._touches: Touches | None = None
        self._compiled: MachineKernel | None = None
        if kernels is not None:
            kernels.request([KERNEL_SOURCE])

    def __len__(self) -> int:
        """Return the number of live orders."""
        return len(self._orders)

    @property
    def gives_touches(self) -> bool:
        """True if `apply` returns rows of TOUCHES."""
        return self._touches is not None

    def switch_touches(self, on: bool) -> None:
        """Switch rows of TOUCHES on or off: compute the levels from the live orders, or drop the levels."""
        if on and self._touches is None:
            self._touches = Touches(self._root, self.symbols, self._orders.table.dump(), self._units)
        elif not on and self._touches is not None:
            self._touches.unlink()
            self._touches = None

    def counts(self) -> dict[str, int]:
        """Return counters of messages by name, and the number of live orders."""
        seen = self._numbers
        counts = {
            "messages": int(seen[kernel.MESSAGES_SEEN]),
            "unknown_orders": int(seen[kernel.UNKNOWN]),
            "duplicate_orders": int(seen[kernel.DUPLICATES]),
            "bad_volumes": int(seen[kernel.BAD_VOLUMES]),
            "live_orders": len(self),
        }
        if self._touches is not None:
            counts["large_touches"] = int(seen[kernel.LARGE_TOUCHES])
        return counts | ({"unknown_replaces": int(seen[kernel.UNKNOWN_REPLACES])} if self._dialect.replaces else {})

    def symbol_numbers(self, column: pa.Array) -> Integers:
        """Return the numbers of a column of symbols, for `Messages.symbol`; new symbols are added to the pool."""
        if self._prefix:
            column = pc.binary_join_element_wise(self._prefix, column.cast(pa.string()), "")
        return self.symbols.encode(column)

    def clear(self) -> dict[str, pa.RecordBatch]:
        """Drop all orders; return the deltas that remove them."""
        orders = self._orders.clear()
        if self._touches is not None:
            self._touches.load(orders[:0])
        is_bid = orders[:, kernel.SIDE] == _BID
        order_id, t, broker, volume, price, symbol, _ = np.concatenate([orders[is_bid], orders[~is_bid]]).T
        rows = np.stack([t, order_id, broker, volume, price, symbol, np.full(len(orders), -1, np.int64)])
        if self._units is not None:
            self._units.convert(rows, kernel.B_PRICE, kernel.B_VOLUME, kernel.B_SYMBOL)
        return self._sides(rows, int(is_bid.sum()))

    def apply(self, messages: Messages) -> dict[str, pa.RecordBatch]:
        """Apply a batch; return the non-empty deltas by relation (``bids``, ``asks``, ``trades``, ``touches``)."""
        count = len(messages.action)
        if not count:
            return {}
        matches = self._begin(messages, count)
        self._run(count)
        numbers, room = self._numbers, self._book.shape[1]
        bids, asks, matched = (int(numbers[place]) for place in (kernel.BIDS, kernel.ASKS, kernel.MATCH_COUNT))
        rows = np.concatenate([self._book[:, :bids], self._book[:, room - asks :]], axis=1)
        trades = matches[:, :matched].copy()
        if self._units is not None:
            is_cut = self._units.convert(rows, kernel.B_PRICE, kernel.B_VOLUME, kernel.B_SYMBOL)
            self.off_scale += int((is_cut & (rows[kernel.B_WEIGHT] > 0)).sum())
            if matched:
                self.off_scale += int(
                    self._units.convert(trades, kernel.K_PRICE, kernel.K_VOLUME, kernel.K_SYMBOL).sum()
                )
        deltas = self._sides(rows, bids)
        if matched:
            deltas["trades"] = self._trades(trades)
        touches = None if self._touches is None else self._touches.take()
        if touches is not None:
            deltas["touches"] = touches
        return deltas

    def _begin(self, messages: Messages, count: int) -> Integers:
        """Pass the messages to the kernel and make room; return the array into which the kernel writes matches."""
        brokers, new = self._dialect.brokers, messages.new_order_id
        columns = np.empty((kernel.M_COLUMNS, count), np.int64)
        columns[kernel.M_T] = messages.t
        columns[kernel.M_ORDER] = messages.order_id
        columns[kernel.M_BROKER] = messages.order_id % brokers if brokers else messages.broker_id
        columns[kernel.M_ACTION] = messages.action
        columns[kernel.M_VOLUME] = messages.volume
        columns[kernel.M_PRICE] = messages.price
        columns[kernel.M_SYMBOL] = messages.symbol
        columns[kernel.M_NUMBER] = messages.number
        columns[kernel.M_NEW_ORDER] = 0 if new is None else new
        matches = np.empty((kernel.K_COLUMNS, count), np.int64)
        self._root.put(kernel.MESSAGES, columns.reshape(-1))
        self._root.put(kernel.MATCHES, matches.reshape(-1))
        self._orders.reserve(count)
        if self._book.shape[1] < 2 * count:
            self._book = np.zeros((kernel.B_COLUMNS, 2 * count), np.int64)
            self._root.put(kernel.BOOK, self._book.reshape(-1))
        if self._touches is not None:
            self._touches.reserve(count)
        self._numbers[: kernel.MATCH_COUNT + 1] = count, 0, 0, self._book.shape[1], 0
        return matches

    def _run(self, messages: int) -> None:
        if self._compiled is None and self._kernels is not None:
            await_kernels(self._kernels, [KERNEL_SOURCE], messages)
            self._compiled = self._kernels.get(KERNEL_SOURCE)
        if self._compiled is None:
            plain_kernel(KERNEL_SOURCE)(self._root.views)
        else:
            self._compiled(self._root.address)

    def _sides(self, rows: Integers, bids: int) -> dict[str, pa.RecordBatch]:
        """Return the rows of bids and of asks: parts of one batch, bids first."""
        count = rows.shape[1]
        if not count:
            return {}
        columns = int64_columns(rows)
        columns[kernel.B_SYMBOL] = self.symbols.decode(rows[kernel.B_SYMBOL])
        batch = pa.RecordBatch.from_arrays(columns, schema=BOOK_SCHEMA)
        if 0 < bids < count:
            return {"bids": batch.slice(0, bids), "asks": batch.slice(bids)}
        return {"bids" if bids else "asks": batch}

    def _trades(self, rows: Integers) -> pa.RecordBatch:
        """Return one row for each match: executions of live orders, and trades without a displayed order."""
        columns, side, order_id = int64_columns(rows), rows[kernel.K_SIDE], rows[kernel.K_ORDER]
        is_hidden = side == 0
        # The aggressor of a match with a bid sells; for a match without a displayed order the side is unknown.
        aggressor = np.where(is_hidden, 2, side == _BID)
        broker = pa.array(rows[kernel.K_BROKER], mask=is_hidden) if is_hidden.any() else columns[kernel.K_BROKER]
        arrays = [
            columns[kernel.K_T],
            columns[kernel.K_NUMBER],
            self.symbols.decode(rows[kernel.K_SYMBOL]),
            columns[kernel.K_PRICE],
            columns[kernel.K_VOLUME],
            _SIDES.take(pa.array(aggressor)),
            columns[kernel.K_ORDER] if order_id.all() else pa.array(order_id, mask=order_id == 0),
            pa.nulls(len(side), _INT64),
            broker,
            pa.array(np.ones(len(side), np.int64)),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=TRADES_SCHEMA)

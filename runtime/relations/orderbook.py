"""The order-book adaptor: feed messages in, deltas of BIDS, ASKS and TRADES out.

An add inserts a row; an execution or a partial cancel replaces it (same t, price and broker); a delete or a full
execution removes it; a message for an order that is not live changes nothing and is counted. Only the net effect of a
call on each order is emitted: versions in between belong to no epoch.
"""

from __future__ import annotations

import inspect
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runtime.native.kernels import Kernels, await_kernels
from runtime.native.structures import Batch, Structure
from runtime.native.tiers import MachineKernel, plain_kernel
from runtime.relations import book_kernel as kernel
from runtime.relations.live_orders import LiveOrders
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
KERNEL_SOURCE: Final = inspect.getsource(kernel)
"""What a batch of messages does to orders."""
_BID: Final = kernel.BID
_INT64: Final = pa.int64()
_SIDES: Final = pa.array(["B", "S", None], pa.string())


class Dialect(msgspec.Struct, frozen=True):
    """What the actions of a message format do to orders."""

    reduces: bytes
    """Actions that take volume away."""
    kills: bytes
    """Actions that end an order."""
    trades: bytes
    """Actions that are a match."""
    replaces: bytes = b""
    """Actions that end an order and add another one with its side, symbol and broker."""
    brokers: int = 0
    """Where the format names no broker: ``broker_id = id % brokers``; 0 takes the message's."""


FEED: Final = Dialect(reduces=b"EX", kills=b"FD", trades=b"EFT")
"""The exchange's text feed."""
ITCH: Final = msgspec.structs.replace(FEED, replaces=b"U")
"""NASDAQ's messages, with the letters of the text feed."""
DBTOASTER: Final = Dialect(reduces=b"E", kills=b"DF", trades=b"E", brokers=10)
"""Traces of the DBToaster finance benchmark; X, T and C have no effect."""


class Messages(msgspec.Struct, frozen=True):
    """A batch of feed messages in feed order, as arrays of one length."""

    t: Integers
    """Time, in the unit of the feed."""
    order_id: Integers
    """The order."""
    broker_id: Integers
    """Its broker."""
    action: npt.NDArray[np.uint8]
    """The action letter's ASCII code."""
    volume: Integers
    """Lots."""
    price: Integers
    """Ticks."""
    symbol: Integers
    """Number in the symbol pool."""
    number: Integers
    """Position of the message in its feed; becomes ``match_id``."""
    new_order_id: Integers | None = None
    """The order that takes the place of another one; None if nothing is replaced."""


class OrderBookAdaptor:
    """Keeps the live orders of one feed in the object space.

    Not thread-safe: one owner at a time.
    """

    def __init__(
        self, space: ObjectSpace, name: str, dialect: Dialect, prefix: str = "", *, kernels: Kernels | None = None
    ) -> None:
        """``prefix`` stands in front of every symbol, so that two feeds' symbols differ; without ``kernels`` the
        kernel is interpreted."""
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
        self._numbers = np.zeros(8, np.int64)
        self._messages = Structure(9)
        self._book = Batch([1] * 6)
        self._matches = Batch([1] * 8)
        self._root = Structure(7)
        self._root.put(kernel.NUMBERS, self._numbers)
        self._root.put(kernel.ACTIONS, actions)
        for place, part in (
            (kernel.MESSAGES, self._messages),
            (kernel.ORDERS, self._orders.table),
            (kernel.EDITS, self._orders.edits),
            (kernel.BOOK, self._book),
            (kernel.MATCHES, self._matches),
        ):
            self._root.link(place, part)
        self._compiled: MachineKernel | None = None
        if kernels is not None:
            kernels.request([KERNEL_SOURCE])

    def __len__(self) -> int:
        """Live orders."""
        return len(self._orders)

    def counts(self) -> dict[str, int]:
        """What it saw and holds, by name."""
        seen = self._numbers
        found = {
            "messages": int(seen[kernel.MESSAGES_SEEN]),
            "unknown_orders": int(seen[kernel.UNKNOWN]),
            "duplicate_orders": int(seen[kernel.DUPLICATES]),
            "bad_volumes": int(seen[kernel.BAD_VOLUMES]),
            "live_orders": len(self),
        }
        return found | ({"unknown_replaces": int(seen[kernel.UNKNOWN_REPLACES])} if self._dialect.replaces else {})

    def symbol_numbers(self, column: pa.Array) -> Integers:
        """The numbers of the symbols of some messages, as `Messages` has them."""
        if self._prefix:
            column = pc.binary_join_element_wise(self._prefix, column.cast(pa.string()), "")
        return self.symbols.encode(column)

    def clear(self) -> dict[str, pa.RecordBatch]:
        """Forget every order; gives the deltas of all that were live."""
        orders = self._orders.clear()
        is_bid = orders[:, kernel.SIDE] == _BID
        order_id, t, broker, volume, price, symbol, _ = np.concatenate([orders[is_bid], orders[~is_bid]]).T.copy()
        weight = np.full(len(orders), -1, np.int64)
        return self._sides([t, order_id, broker, volume, price, symbol], weight, int(is_bid.sum()))

    def apply(self, messages: Messages) -> dict[str, pa.RecordBatch]:
        """Take a batch in; gives the deltas by relation (``bids``, ``asks``, ``trades``), without empty ones."""
        count = len(messages.action)
        if not count:
            return {}
        self._fill(messages)
        self._orders.reserve(count)
        self._book.grow(2 * count)
        self._matches.grow(count)
        self._run(count)
        bids, asks = int(self._numbers[kernel.BIDS]), int(self._numbers[kernel.ASKS])
        weight, *columns = [self._rows(1 + place, bids, asks) for place in range(7)]
        deltas = self._sides(columns, weight, bids)
        if self._matches.rows:
            deltas["trades"] = self._trades([self._matches.column(place).copy() for place in range(8)])
        self._matches.rows = 0
        return deltas

    def _rows(self, place: int, bids: int, asks: int) -> Integers:
        """An array of the book's deltas, copied."""
        held = self._book.array(place)
        return np.concatenate([held[:bids], held[len(held) - asks :]])

    def _fill(self, messages: Messages) -> None:
        brokers, new = self._dialect.brokers, messages.new_order_id
        for place, column in (
            (kernel.M_T, messages.t),
            (kernel.M_ORDER, messages.order_id),
            (kernel.M_BROKER, messages.order_id % brokers if brokers else messages.broker_id),
            (kernel.M_ACTION, messages.action.astype(np.int64)),
            (kernel.M_VOLUME, messages.volume),
            (kernel.M_PRICE, messages.price),
            (kernel.M_SYMBOL, messages.symbol),
            (kernel.M_NUMBER, messages.number),
            (kernel.M_NEW_ORDER, messages.order_id if new is None else new),
        ):
            self._messages.put(place, np.ascontiguousarray(column))
        self._numbers[kernel.COUNT] = len(messages.action)
        self._numbers[kernel.BIDS] = self._numbers[kernel.ASKS] = 0

    def _run(self, messages: int) -> None:
        if self._compiled is None and self._kernels is not None:
            await_kernels(self._kernels, [KERNEL_SOURCE], messages)
            self._compiled = self._kernels.get(KERNEL_SOURCE)
        if self._compiled is None:
            plain_kernel(KERNEL_SOURCE)(self._root.views)
        else:
            self._compiled(self._root.address)

    def _sides(self, columns: list[Integers], weight: Integers, bids: int) -> dict[str, pa.RecordBatch]:
        """The rows of bids and, behind them, those of asks: one batch, of which each is a part."""
        *plain, symbol = columns
        arrays = [*map(_int64, plain), self.symbols.decode(symbol), _int64(weight)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=BOOK_SCHEMA)
        if 0 < bids < len(weight):
            return {"bids": batch.slice(0, bids), "asks": batch.slice(bids)}
        return {"bids" if bids else "asks": batch} if len(weight) else {}

    def _trades(self, columns: list[Integers]) -> pa.RecordBatch:
        """One row a match: executions of live orders, and trades that name no displayed order."""
        t, number, symbol, price, volume, order_id, broker, side = columns
        is_hidden = side == 0
        # Against a bid one sells; of a match that names no order nobody knows.
        aggressor = np.where(is_hidden, 2, side == _BID)
        arrays = [
            _int64(t),
            _int64(number),
            self.symbols.decode(symbol),
            _int64(price),
            _int64(volume),
            _SIDES.take(pa.array(aggressor)),
            _int64(order_id) if order_id.all() else pa.array(order_id, mask=order_id == 0),
            pa.nulls(len(t), _INT64),
            pa.array(broker, mask=is_hidden) if is_hidden.any() else _int64(broker),
            _int64(np.ones(len(t), np.int64)),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=TRADES_SCHEMA)


def _int64(values: Integers) -> pa.Array:
    """A contiguous array without NULLs, not copied; in half the time of `pyarrow.array`, which looks at its type."""
    return pa.Array.from_buffers(_INT64, len(values), [None, pa.py_buffer(values)])

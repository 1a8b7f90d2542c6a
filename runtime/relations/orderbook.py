"""The order-book adaptor: feed messages in, deltas of BIDS, ASKS and TRADES out.

An add inserts a row; an execution or a partial cancel replaces it (same t, price and broker); a delete or a full
execution removes it; a message for an order that is not live changes nothing and is counted. Only the net effect of a
call on each order is emitted: versions in between belong to no epoch.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.relations.orderlife import ADD, KILL, NONE, REDUCE, Lives, Operations, trace_lives
from runtime.state import KeyedTable, ObjectSpace

__all__ = ["BOOK_SCHEMA", "DBTOASTER", "FEED", "TRADES_SCHEMA", "Counters", "Dialect", "Messages", "OrderBookAdaptor"]

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

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
VOLUME_LIMIT: Final = 2**62
_VALUES: Final = ("t", "broker_id", "volume", "price", "symbol", "side")
_T, _BROKER, _VOLUME, _PRICE, _SYMBOL, _SIDE = range(6)
_BID: Final = ord("B")
_ASK: Final = ord("S")


class Dialect(msgspec.Struct, frozen=True):
    """What the actions of a message format do to orders."""

    reduces: bytes
    """Actions that take volume away."""
    kills: bytes
    """Actions that end an order."""
    trades: bytes
    """Actions that are a match."""
    brokers: int = 0
    """Where the format names no broker: ``broker_id = id % brokers``; 0 takes the message's."""


FEED: Final = Dialect(reduces=b"EX", kills=b"FD", trades=b"EFT")
"""The exchange's text feed."""
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


class Counters:
    """What the adaptor saw; only ever grows."""

    def __init__(self) -> None:
        self.messages = 0
        self.unknown_orders = 0
        self.duplicate_orders = 0
        self.bad_volumes = 0


class OrderBookAdaptor:
    """Keeps the live orders of one feed in a keyed table of the object space.

    Not thread-safe: one owner at a time.
    """

    def __init__(self, space: ObjectSpace, name: str, dialect: Dialect) -> None:
        self._orders: KeyedTable = space.table(f"{name}/orders", 1, _VALUES)
        self.symbols = space.pool(f"{name}/symbols")
        self._dialect = dialect
        self._kinds = np.full(256, NONE, np.uint8)
        for letters, kind in ((b"BS", ADD), (dialect.reduces, REDUCE), (dialect.kills, KILL)):
            self._kinds[list(letters)] = kind
        self._is_trade = np.zeros(256, np.bool_)
        self._is_trade[list(dialect.trades)] = True
        self.counters = Counters()

    def __len__(self) -> int:
        """Live orders."""
        return len(self._orders)

    def counts(self) -> dict[str, int]:
        """What it saw and holds, by name."""
        seen = self.counters
        return {
            "messages": seen.messages,
            "unknown_orders": seen.unknown_orders,
            "duplicate_orders": seen.duplicate_orders,
            "bad_volumes": seen.bad_volumes,
            "live_orders": len(self),
        }

    def held(self, order_id: Integers) -> tuple[Flags, dict[str, Integers]]:
        """Which of these orders are live, and their values by name."""
        slots = self._orders.lookup(order_id[:, None])
        values = self._orders.get(np.maximum(slots, 0))
        return slots >= 0, dict(zip(_VALUES, values, strict=True))

    def apply(self, messages: Messages) -> dict[str, pa.RecordBatch]:
        """Take a batch in; gives the deltas by relation (``bids``, ``asks``, ``trades``), without empty ones."""
        self.counters.messages += len(messages.action)
        kind = self._kinds[messages.action]
        bad = ((kind == ADD) | (kind == REDUCE)) & ((messages.volume < 0) | (messages.volume > VOLUME_LIMIT))
        bad |= (kind == ADD) & (messages.volume == 0)
        hidden = self._is_trade[messages.action] & (kind == NONE)
        bad |= hidden & (messages.volume <= 0)
        if bad.any():
            self.counters.bad_volumes += int(bad.sum())
            kind = np.where(bad, NONE, kind).astype(np.uint8)
        rows = np.flatnonzero(kind != NONE)
        rows = rows[np.argsort(messages.order_id[rows], kind="stable")]
        order_id = messages.order_id[rows]
        slots = self._orders.lookup(order_id[:, None])
        held = np.where(slots >= 0, self._orders.get(np.maximum(slots, 0)), 0)
        operations = Operations(order_id, kind[rows], messages.volume[rows], held[_VOLUME])
        lives = trace_lives(operations)
        self.counters.unknown_orders += lives.unknown
        self.counters.duplicate_orders += lives.duplicates
        trades = self._trades(messages, rows, lives, held, np.flatnonzero(hidden & ~bad))
        deltas = self._book_changes(messages, rows, lives, held, slots >= 0)
        if trades is not None:
            deltas["trades"] = trades
        return deltas

    def _added(self, messages: Messages, rows: Integers) -> Integers:
        """The order-table values of these adds, shape (values, n)."""
        order_id = messages.order_id[rows]
        broker = order_id % self._dialect.brokers if self._dialect.brokers else messages.broker_id[rows]
        action = messages.action[rows].astype(np.int64)
        return np.stack(
            [messages.t[rows], broker, messages.volume[rows], messages.price[rows], messages.symbol[rows], action]
        )

    def _book_changes(
        self, messages: Messages, rows: Integers, lives: Lives, held: Integers, was_held: Flags
    ) -> dict[str, pa.RecordBatch]:
        last = lives.last_of_order
        old, was_live = held[:, last], was_held[last]
        new = old.copy()
        readded = lives.final_origin >= 0
        new[:, readded] = self._added(messages, rows[lives.final_origin[readded]])
        new[_VOLUME] = lives.final_volume
        is_live = lives.final_volume > 0
        changed = (was_live != is_live) | (is_live & (old != new).any(axis=0))
        order_id = messages.order_id[rows[last]]
        put = changed & is_live
        self._orders.put(order_id[put][:, None], new[:, put])
        gone = changed & was_live & ~is_live
        self._orders.delete(order_id[gone][:, None])
        removed = changed & was_live
        values = np.concatenate([old[:, removed], new[:, put]], axis=1)
        ids = np.concatenate([order_id[removed], order_id[put]])
        weight = np.concatenate([np.full(int(removed.sum()), -1), np.full(int(put.sum()), 1)])
        deltas: dict[str, pa.RecordBatch] = {}
        for name, side in (("bids", _BID), ("asks", _ASK)):
            chosen = values[_SIDE] == side
            if chosen.any():
                deltas[name] = self._book_batch(ids[chosen], values[:, chosen], weight[chosen])
        return deltas

    def _book_batch(self, ids: Integers, values: Integers, weight: Integers) -> pa.RecordBatch:
        columns = [
            pa.array(values[_T]),
            pa.array(ids),
            pa.array(values[_BROKER]),
            pa.array(values[_VOLUME]),
            pa.array(values[_PRICE]),
            self.symbols.decode(values[_SYMBOL]),
            pa.array(weight),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=BOOK_SCHEMA)

    def _trades(
        self, messages: Messages, rows: Integers, lives: Lives, held: Integers, hidden: Integers
    ) -> pa.RecordBatch | None:
        """One row a match: executions of live orders, and trades that name no displayed order."""
        matched = self._is_trade[messages.action[rows]] & lives.effective
        against = np.flatnonzero(matched)
        if not len(against) and not len(hidden):
            return None
        resting = held[:, against].copy()
        readded = lives.origin[against] >= 0
        resting[:, readded] = self._added(messages, rows[lives.origin[against][readded]])
        source = np.concatenate([rows[against], hidden])
        order = np.argsort(source, kind="stable")
        source = source[order]
        known = (np.arange(len(order)) < len(against))[order]

        def of_resting(value: int) -> Integers:
            return np.concatenate([resting[value], np.zeros(len(hidden), np.int64)])[order]

        price = np.where(messages.price[source] != 0, messages.price[source], of_resting(_PRICE))
        symbol = np.where(known, of_resting(_SYMBOL), messages.symbol[source])
        side = np.where(known, np.where(of_resting(_SIDE) == _BID, 1, 0), 2)  # the aggressor's: against a bid one sells
        order_id = messages.order_id[source]
        columns = [
            pa.array(messages.t[source]),
            pa.array(messages.number[source]),
            self.symbols.decode(symbol),
            pa.array(price),
            pa.array(messages.volume[source]),
            pa.array(["B", "S", None], pa.string()).take(pa.array(side)),
            pa.array(order_id, mask=order_id == 0),
            pa.nulls(len(source), pa.int64()),
            pa.array(of_resting(_BROKER), mask=~known),
            pa.array(np.ones(len(source), np.int64)),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=TRADES_SCHEMA)

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
import pyarrow.compute as pc

from runtime.relations.orderlife import ADD, KILL, NONE, REDUCE, Lives, Operations, sorted_stably, trace_lives
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


class _Touched(msgspec.Struct, frozen=True):
    """The messages of a batch that touch orders, sorted by order and then by arrival, and the orders before it."""

    messages: Messages
    """The whole batch."""
    rows: Integers
    """Which of its messages; arrays of one length from here on."""
    order_id: Integers
    """The order."""
    slots: Integers
    """Its slot in the table, -1 where it was not live."""
    was_held: Flags
    """Whether it was live."""
    volume: Integers
    """Its volume, 0 where it was not live."""


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

    def __init__(self, space: ObjectSpace, name: str, dialect: Dialect, prefix: str = "") -> None:
        """``prefix`` stands in front of every symbol, so that two feeds' symbols differ."""
        self._prefix = prefix
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

    def symbol_numbers(self, column: pa.Array) -> Integers:
        """The numbers of the symbols of some messages, as `Messages` has them."""
        if self._prefix:
            column = pc.binary_join_element_wise(self._prefix, column.cast(pa.string()), "")
        return self.symbols.encode(column)

    def clear(self) -> dict[str, pa.RecordBatch]:
        """Forget every order; gives the deltas of all that were live."""
        slots = self._orders.live_slots()
        ids, values = self._orders.keys_of(slots)[:, 0], self._orders.get(slots)
        self._orders.delete_at(slots)
        return self._book_deltas(ids, values, np.full(len(ids), -1, np.int64))

    def apply(self, messages: Messages) -> dict[str, pa.RecordBatch]:
        """Take a batch in; gives the deltas by relation (``bids``, ``asks``, ``trades``), without empty ones."""
        self.counters.messages += len(messages.action)
        kind = self._kinds.take(messages.action)
        is_trade = self._is_trade.take(messages.action)
        hidden = is_trade & (kind == NONE)
        bad = self._bad(messages.volume, kind, hidden)
        if bad is not None:
            self.counters.bad_volumes += int(bad.sum())
            kind[bad] = NONE
            hidden &= ~bad
        rows = kind.nonzero()[0]
        order_id, order = sorted_stably(messages.order_id.take(rows))
        rows = rows.take(order)
        slots = self._orders.lookup(order_id[:, None])
        was_held = slots >= 0
        volume = np.where(was_held, self._orders.column_at(_VOLUME, slots), 0)
        touched = _Touched(messages, rows, order_id, slots, was_held, volume)
        lives = trace_lives(Operations(order_id, kind.take(rows), messages.volume.take(rows), volume))
        self.counters.unknown_orders += lives.unknown
        self.counters.duplicate_orders += lives.duplicates
        trades = self._trades(touched, lives, is_trade.take(rows) & lives.effective, hidden.nonzero()[0])
        deltas = self._book_changes(touched, lives)
        if trades is not None:
            deltas["trades"] = trades
        return deltas

    @staticmethod
    def _bad(volume: Integers, kind: npt.NDArray[np.uint8], hidden: Flags) -> Flags | None:
        """Which messages have a volume that they must not have; None for none."""
        if len(volume) and volume.min() > 0 and volume.max() <= VOLUME_LIMIT:
            return None
        is_add = kind == ADD
        bad: Flags = (is_add | (kind == REDUCE)) & ((volume < 0) | (volume > VOLUME_LIMIT))
        bad |= (is_add | hidden) & (volume <= 0)
        return bad if bad.any() else None

    def _added(self, messages: Messages, rows: Integers) -> Integers:
        """The order-table values of these adds, shape (values, n)."""
        order_id = messages.order_id.take(rows)
        brokers = self._dialect.brokers
        values = np.empty((len(_VALUES), len(rows)), np.int64)
        values[_T] = messages.t.take(rows)
        values[_BROKER] = order_id % brokers if brokers else messages.broker_id.take(rows)
        values[_VOLUME] = messages.volume.take(rows)
        values[_PRICE] = messages.price.take(rows)
        values[_SYMBOL] = messages.symbol.take(rows)
        values[_SIDE] = messages.action.take(rows)
        return values

    def _book_changes(self, touched: _Touched, lives: Lives) -> dict[str, pa.RecordBatch]:
        """Bring the table up to date; gives the deltas of both sides."""
        last, final = lives.last_of_order, lives.final_volume
        order_id, slots = touched.order_id.take(last), touched.slots.take(last)
        was_live, is_live, readded = touched.was_held.take(last), final > 0, lives.final_origin >= 0
        added = (readded & is_live).nonzero()[0]
        new = self._added(touched.messages, touched.rows.take(lives.final_origin.take(added)))
        new[_VOLUME] = final.take(added)
        gone = was_live & ~is_live
        again = was_live.take(added).nonzero()[0]  # orders that ended and began anew within the batch
        if len(again):
            old = self._orders.get(slots.take(added.take(again)))
            gone[added.take(again)] = True
            same = again.compress((old == new.take(again, axis=1)).all(axis=0))
            if len(same):
                gone[added.take(same)] = False
                added, new = np.delete(added, same), np.delete(new, same, axis=1)
        kept = was_live & is_live & ~readded & (final != touched.volume.take(last))
        changed, ended = kept.nonzero()[0], gone.nonzero()[0]
        removed = slots.take(np.concatenate([changed, ended]))
        old = self._orders.get(removed)
        moved = old[:, : len(changed)].copy()
        moved[_VOLUME] = final.take(changed)
        self._orders.put_column_at(removed[: len(changed)], _VOLUME, moved[_VOLUME])
        self._orders.delete_at(removed[len(changed) :])
        self._orders.put_new(order_id.take(added)[:, None], new)
        ids = order_id.take(np.concatenate([changed, ended, changed, added]))
        weight = np.ones(len(ids), np.int64)
        weight[: len(removed)] = -1
        return self._book_deltas(ids, np.concatenate([old, moved, new], axis=1), weight)

    def _book_deltas(self, ids: Integers, values: Integers, weight: Integers) -> dict[str, pa.RecordBatch]:
        """The rows of bids and those of asks: one batch, of which each is a part."""
        is_bid = values[_SIDE] == _BID
        bids, asks = is_bid.nonzero()[0], (~is_bid).nonzero()[0]
        order = np.concatenate([bids, asks])
        values = values.take(order, axis=1)
        columns = [
            _int64(values[_T]),
            _int64(ids.take(order)),
            _int64(values[_BROKER]),
            _int64(values[_VOLUME]),
            _int64(values[_PRICE]),
            self.symbols.decode(values[_SYMBOL]),
            _int64(weight.take(order)),
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=BOOK_SCHEMA)
        if not len(asks) or not len(bids):
            return {"bids" if len(bids) else "asks": batch} if len(order) else {}
        return {"bids": batch.slice(0, len(bids)), "asks": batch.slice(len(bids))}

    def _trades(self, touched: _Touched, lives: Lives, matched: Flags, hidden: Integers) -> pa.RecordBatch | None:
        """One row a match: executions of live orders, and trades that name no displayed order."""
        messages = touched.messages
        against = matched.nonzero()[0]
        if not len(against) and not len(hidden):
            return None
        source = touched.rows.take(against)
        in_order = source.argsort()
        against, source = against.take(in_order), source.take(in_order)
        resting = self._resting(touched, lives, against)
        known = None
        if len(hidden):  # their place is among the others, with zeros for what is not known
            places = np.searchsorted(source, hidden)
            source = np.insert(source, places, hidden)
            known = np.insert(np.ones(len(against), np.bool_), places, False)
            resting = np.insert(resting, places, 0, axis=1)
        price = messages.price.take(source)
        price = np.where(price != 0, price, resting[_PRICE])
        aggressor = (resting[_SIDE] == _BID).view(np.int8)  # against a bid one sells
        symbol, broker = resting[_SYMBOL], resting[_BROKER]
        if known is not None:
            aggressor[~known] = len(_SIDES) - 1
            symbol = np.where(known, symbol, messages.symbol.take(source))
        order_id = messages.order_id.take(source)
        columns = [
            _int64(messages.t.take(source)),
            _int64(messages.number.take(source)),
            self.symbols.decode(symbol),
            _int64(price),
            _int64(messages.volume.take(source)),
            _SIDES.take(pa.array(aggressor)),
            _int64(order_id) if order_id.all() else pa.array(order_id, mask=order_id == 0),
            pa.nulls(len(source), pa.int64()),
            _int64(broker) if known is None else pa.array(broker, mask=~known),
            _int64(np.ones(len(source), np.int64)),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=TRADES_SCHEMA)

    def _resting(self, touched: _Touched, lives: Lives, against: Integers) -> Integers:
        """The order-table values of the orders that these operations are on, shape (values, n)."""
        resting = self._orders.get(touched.slots.take(against))
        origin = lives.origin.take(against)
        readded = (origin >= 0).nonzero()[0]
        if len(readded):
            resting[:, readded] = self._added(touched.messages, touched.rows.take(origin.take(readded)))
        return resting


def _int64(values: Integers) -> pa.Array:
    """A contiguous array without NULLs, not copied; in half the time of `pyarrow.array`, which looks at its type."""
    return pa.Array.from_buffers(_INT64, len(values), [None, pa.py_buffer(values)])

"""Parts that adaptors of order books share: TOUCHES, retained trades, and places where an epoch may end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.compiler.relations import MARKET_RELATIONS, TOUCHES
from runtime.plan import Relation
from runtime.relations.adaptor import Adaptor, AdaptorError, Offsets, Prepared
from runtime.relations.orderbook import TRADES_SCHEMA, OrderBookAdaptor
from runtime.relations.retention import Retained, Retention
from runtime.state import KeyColumn, ObjectSpace

__all__ = ["BookAdaptor", "MarketAdaptor", "RecentTrades", "action_codes", "valid_flags", "without_heartbeats"]


class RecentTrades:
    """Trades that are still in TRADES; they expire as `Retention` requires."""

    def __init__(self, space: ObjectSpace, name: str, retention: Retention) -> None:
        columns = [KeyColumn(f.name, _key_type(f.type), nullable=True) for f in TRADES_SCHEMA if f.name != "weight"]
        self._retained = Retained(space, f"{name}/trades", columns, retention, time="t")

    def take(self, deltas: Mapping[str, pa.RecordBatch]) -> None:
        """Store the trades that these deltas contain."""
        if "trades" in deltas:
            self._retained.add(deltas["trades"])

    def expire(self) -> Mapping[str, pa.RecordBatch]:
        """Return the deltas of trades whose retention is over."""
        expired = self._retained.expire()
        return {} if expired is None else {"trades": expired}

    def clear(self) -> Mapping[str, pa.RecordBatch]:
        """Drop all trades; return the deltas that remove them."""
        trades = self._retained.clear()
        return {} if trades is None else {"trades": trades}


class BookAdaptor(Adaptor):
    """Adaptor whose relations are filled from one order book; TOUCHES is one of them while it is switched on."""

    def __init__(self, book: OrderBookAdaptor, relations: Sequence[Relation], *, gives_touches: bool) -> None:
        """Prepare the adaptor; raise `AdaptorError` as `switch_touches` does."""
        self._book = book
        self._relations = tuple(relations)
        self.switch_touches(gives_touches)

    @property
    def relations(self) -> tuple[Relation, ...]:
        return (*self._relations, TOUCHES) if self.gives_touches else self._relations

    @property
    def gives_touches(self) -> bool:
        return self._book.gives_touches

    def switch_touches(self, on: bool) -> None:
        """Switch rows of TOUCHES on or off; raise `AdaptorError` if another relation of the adaptor has this name."""
        if on and any(relation.name == TOUCHES.name for relation in self._relations):
            raise AdaptorError(f"expected no stream called {TOUCHES.name} beside the touches of a book, was one")
        self._book.switch_touches(on)

    def counters(self) -> Mapping[str, int]:
        return self._book.counts()


class MarketAdaptor(BookAdaptor):
    """Adaptor of a sequenced feed of a whole market: BIDS, ASKS and, for as long as they are retained, TRADES."""

    def __init__(
        self,
        book: OrderBookAdaptor,
        space: ObjectSpace,
        name: str,
        retention: Retention,
        next_sequence: int,
        *,
        gives_touches: bool,
    ) -> None:
        super().__init__(book, MARKET_RELATIONS, gives_touches=gives_touches)
        self._trades = RecentTrades(space, name, retention)
        self._next = next_sequence

    @property
    def next_sequence(self) -> int:
        """Number of the first message that has not been applied yet."""
        return self._next

    def at_barrier(self) -> Mapping[str, pa.RecordBatch]:
        return self._trades.expire()

    def leave(self) -> Mapping[str, pa.RecordBatch]:
        return {**self._book.clear(), **self._trades.clear()}


def without_heartbeats(
    rows: pa.RecordBatch, row_ends: Offsets, heartbeat: npt.NDArray[np.bool_], time_ns: npt.NDArray[np.int64]
) -> Prepared:
    """Return the rows that are messages, not heartbeats.

    An epoch may end before a heartbeat, and between messages with different times.
    """
    cuttable = np.zeros(len(heartbeat), np.bool_)
    cuttable[:-1] = heartbeat[1:] | (time_ns[1:] != time_ns[:-1])
    if not heartbeat.any():
        return Prepared(rows, row_ends, cuttable)
    first = int(heartbeat.argmax())
    if heartbeat[first:].all():  # the usual case: all heartbeats follow the messages, so nothing has to be copied
        return Prepared(rows.slice(0, first), row_ends[:first], cuttable[:first])
    keep = ~heartbeat
    return Prepared(rows.filter(pa.array(keep)), row_ends[keep], cuttable[keep])


def action_codes(column: pa.Array) -> npt.NDArray[np.uint8]:
    """Return the code of each action's letter; 0 if an action is not one ASCII letter."""
    codes = _letters(column)
    if codes is not None:
        return codes
    encoded = column.dictionary_encode()
    of_text = np.array(
        [ord(t) if t is not None and len(t) == 1 and t.isascii() else 0 for t in [*encoded.dictionary.to_pylist(), ""]],
        np.uint8,
    )
    text_codes: npt.NDArray[np.uint8] = of_text.take(encoded.indices.fill_null(len(of_text) - 1).to_numpy())
    return text_codes


def _letters(column: pa.Array) -> npt.NDArray[np.uint8] | None:
    """Return the byte of each string, 0 for empty strings and NULL; None if a string is longer than one byte."""
    if column.type != pa.string() or not len(column):
        return None
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32, len(column) + 1, 4 * column.offset)
    lengths = ends[1:] - ends[:-1]
    if lengths.max() > 1:
        return None
    start, count = int(ends[0]), int(ends[-1]) - int(ends[0])
    letters = np.frombuffer(data, np.uint8, count, start) if count else np.zeros(0, np.uint8)
    if count == len(column) and not column.null_count:
        return letters
    codes = np.zeros(len(column), np.uint8)
    codes[lengths == 1] = letters
    return codes * valid_flags(column) if column.null_count else codes


def valid_flags(column: pa.Array) -> npt.NDArray[np.uint8]:
    """Return 1 for each value of a column that is not NULL, 0 for NULL."""
    bits = np.frombuffer(column.buffers()[0], np.uint8)
    first = column.offset >> 3
    last = (column.offset + len(column) + 7) >> 3
    return np.unpackbits(bits[first:last], bitorder="little")[column.offset & 7 :][: len(column)]


def _key_type(type_: pa.DataType) -> str:
    return "string" if pa.types.is_string(type_) else "int64"

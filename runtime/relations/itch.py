"""Adaptor of NASDAQ's TotalView-ITCH 5.0: BIDS, ASKS, TRADES and TOUCHES of all symbols.

The types of messages have these effects:

======== ==============================================================================================
A, F     an order is added; F has the broker of the order, and for A the broker is 0
E        an order is executed at its own price
C        an order is executed at the price of the message; no trade if not printable, as in a cross
X, D     X reduces an order; D ends an order
U        an order ends, and a new order with the same side, symbol and broker is added
P        a trade without a displayed order
Q        one trade for the whole cross; no trade if the cross has no shares
others   no effect; B (broken trade) has no effect either, because the trade did take place
======== ==============================================================================================

A message in an unsequenced packet has no effect: it has no number that shows whether it was applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltabook.wire.itch import LARGEST_BROKER, broker_of
from runtime.formats import FormattedBatch, Pushdown, Schema
from runtime.formats.itch import itch_schema
from runtime.native.tiers import Kernels
from runtime.relations.adaptor import FeedGapError, Offsets, Prepared
from runtime.relations.market import MarketAdaptor, action_codes, valid_flags, without_heartbeats
from runtime.relations.orderbook import ITCH, Messages, OrderBookAdaptor
from runtime.relations.retention import Retention
from runtime.state import ObjectSpace

__all__ = ["ItchAdaptor", "Scale"]

Integers = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint8]

_NEEDED: Final = (
    "message_type",
    "packet_type",
    "timestamp",
    "order_reference_number",
    "buy_sell_indicator",
    "shares",
    "stock",
    "price",
    "attribution",
    "executed_shares",
    "printable",
    "execution_price",
    "canceled_shares",
    "cross_shares",
    "cross_price",
    "new_order_reference_number",
)
# In the row of a message, at most one column of each of these groups has a value; the others are NULL.
_VOLUMES: Final = ("shares", "executed_shares", "canceled_shares", "cross_shares")
_PRICES: Final = ("price", "execution_price", "cross_price")
_SEQUENCE: Final = pa.field("sequence", pa.int64())
_FEW: Final = 64
"""Up to this many messages, attributions are looked up one by one."""


def _codes(letters: Mapping[str, int]) -> Codes:
    table = np.zeros(256, np.uint8)
    for letter, code in letters.items():
        table[ord(letter)] = code
    return table


# Letter of the text feed for each letter of ITCH. For A and F, and for a C that is not printable, the letter depends on
# another column.
_ACTIONS: Final = _codes({
    "E": ord("E"), "C": ord("E"), "X": ord("X"), "D": ord("D"), "U": ord("U"), "P": ord("T"), "Q": ord("T"),
})  # fmt: skip
_IS_ORDER: Final = _codes(dict.fromkeys("AFECXDUPQ", 1)).astype(np.bool_)
_SIDES: Final = _codes({"B": ord("B"), "S": ord("S")})


class Scale(msgspec.Struct, frozen=True):
    """Sizes of an instrument's tick and lot, in units of the messages.

    Fractions of a tick or lot are cut off, and rows with such a fraction are counted as ``off_scale``.
    """

    tick_units: int = 1
    """Number of units of 0.0001 in a tick."""
    lot_shares: int = 1
    """Number of shares in a lot."""


class ItchAdaptor(MarketAdaptor):
    """Adaptor of rows of the wide ITCH relation, with the same relations as the text feed.

    The number of a message is its position among the sequenced messages of the session, from 1, including malformed
    messages. The number becomes ``match_id``. An epoch may end before a heartbeat, and between two messages with
    different times.
    """

    def __init__(
        self,
        space: ObjectSpace,
        name: str,
        retention: Retention,
        next_sequence: int = 1,
        *,
        schema: Schema | None = None,
        scale: Scale = Scale(),  # noqa: B008 (frozen)
        scales: Mapping[str, Scale] | None = None,
        prefix: str = "",
        kernels: Kernels | None = None,
        gives_touches: bool = False,
    ) -> None:
        """Prepare the adaptor.

        ``schema`` is a result of `itch_schema`, by default the schema of files. ``scales`` has the scales of some
        symbols, and ``scale`` is the scale of all other symbols. ``prefix`` is put before every symbol. Without
        ``kernels`` the book's kernel is interpreted.
        """
        self._schema = schema or itch_schema()
        self._scale, self._scales = scale, {prefix + symbol: each for symbol, each in (scales or {}).items()}
        is_scaled = any(each != Scale() for each in (scale, *self._scales.values()))
        units = self._units if is_scaled else None
        book = OrderBookAdaptor(space, name, ITCH, prefix, kernels=kernels, units=units)
        super().__init__(book, space, name, retention, next_sequence, gives_touches=gives_touches)
        self._base = next_sequence
        self._unsequenced = 0
        self._counts = {"gaps": 0, "repeated": 0, "bad_sides": 0}
        self._brokers: dict[str, int] = {}

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def pushdown(self) -> Pushdown:
        """Columns that the adaptor reads."""
        return Pushdown(_NEEDED)

    def opened(self, sequence: int) -> None:
        self._base, self._unsequenced = max(1, sequence), 0

    def received(self, batch: FormattedBatch) -> pa.RecordBatch:
        """Return the rows with their numbers; a row outside the sequence gets the number of the next message."""
        rows: pa.RecordBatch = batch.rows
        numbers = batch.tuple_numbers + (self._base - self._unsequenced)
        packets = rows.column("packet_type")
        if packets.null_count < len(packets):
            outside = action_codes(packets) != ord("S")
            if packets.null_count:
                outside &= valid_flags(packets) == 1
            numbers = numbers - (np.cumsum(outside) - outside)
            self._unsequenced += int(outside.sum())
        return rows.append_column(_SEQUENCE, pa.array(numbers, pa.int64()))

    def prepare(self, rows: pa.RecordBatch, row_ends: Offsets) -> Prepared:
        packets = rows.column("packet_type")
        if packets.null_count < len(packets) and (unsequenced := action_codes(packets) == ord("U")).any():
            keep = ~unsequenced
            rows, row_ends = rows.filter(pa.array(keep)), row_ends[keep]
        types = rows.column("message_type")
        heartbeat = action_codes(types) == 0
        if heartbeat.any():  # code 0 also means a type of several bytes, so compare the lengths
            heartbeat = np.diff(np.frombuffer(types.buffers()[1], np.int32, len(types) + 1, 4 * types.offset)) == 0
        return without_heartbeats(rows, row_ends, heartbeat, _numbers(rows, "timestamp"))

    def apply(self, prepared: Prepared) -> Mapping[str, pa.RecordBatch]:
        rows = self._in_sequence(prepared.rows)
        letters = action_codes(rows.column("message_type"))
        is_order, is_cross = _IS_ORDER[letters], letters == ord("Q")
        if is_cross.any():
            is_order &= ~is_cross | (_numbers(rows, "cross_shares") != 0)
        chosen = np.flatnonzero(is_order)
        if not len(chosen):
            return {}
        if len(chosen) < len(letters):
            rows, letters = rows.take(pa.array(chosen)), letters[chosen]
        deltas = self._book.apply(self._messages(rows, letters))
        self._trades.take(deltas)
        return deltas

    def counters(self) -> Mapping[str, int]:
        return {**super().counters(), **self._counts, "off_scale": self._book.off_scale}

    def _in_sequence(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that have not been applied; count the missing rows, which were malformed messages."""
        sequence = rows.column("sequence").to_numpy()
        if (np.diff(sequence) < 0).any():
            raise FeedGapError("expected feed messages in order, was a lower number after a higher number")
        repeated = int(np.searchsorted(sequence, self._next))
        self._counts["repeated"] += repeated
        rows, sequence = rows.slice(repeated), sequence[repeated:]
        if len(sequence):
            following = int(sequence[-1]) + 1
            self._counts["gaps"] += max(0, following - self._next - len(sequence))
            self._next = following
        return rows

    def _messages(self, rows: pa.RecordBatch, letters: Codes) -> Messages:
        """Return the messages in the terms of the text feed."""
        return Messages(
            t=_numbers(rows, "timestamp"),
            order_id=_numbers(rows, "order_reference_number"),
            broker_id=self._broker_ids(rows.column("attribution")),
            action=self._actions(rows, letters),
            volume=_merged(rows, _VOLUMES),
            price=_merged(rows, _PRICES),
            symbol=self._book.symbol_numbers(rows.column("stock")),
            number=rows.column("sequence").to_numpy(),
            new_order_id=_numbers(rows, "new_order_reference_number") if (letters == ord("U")).any() else None,
        )

    def _actions(self, rows: pa.RecordBatch, letters: Codes) -> Codes:
        action = _ACTIONS[letters]
        is_add = (letters == ord("A")) | (letters == ord("F"))
        sides = _SIDES[action_codes(rows.column("buy_sell_indicator"))]
        action[is_add] = sides[is_add]
        self._counts["bad_sides"] += int((is_add & (sides == 0)).sum())
        is_priced = letters == ord("C")
        if is_priced.any():
            action[is_priced & (action_codes(rows.column("printable")) == ord("N"))] = ord("X")
        return action

    def _broker_ids(self, column: Any) -> Integers:
        """Return the brokers of attributions, 0 for none.

        The loop is over distinct values, or over a column of at most `_FEW` messages.
        """
        if column.null_count == len(column):
            return np.zeros(len(column), np.int64)
        if len(column) <= _FEW:
            return np.array([0 if text is None else self._broker(text) for text in column.to_pylist()], np.int64)
        encoded = column.dictionary_encode()
        numbers = np.zeros(len(encoded.dictionary) + 1, np.int64)
        numbers[:-1] = [self._broker(text) for text in encoded.dictionary.to_pylist()]
        broker_ids: Integers = numbers[encoded.indices.fill_null(len(numbers) - 1).to_numpy()]
        return broker_ids

    def _broker(self, text: str) -> int:
        if text not in self._brokers:
            known = broker_of(text)
            self._brokers[text] = _other_broker(text) if known is None else known
        return self._brokers[text]

    def _units(self, symbol: str | None) -> tuple[int, int]:
        scale = self._scale if symbol is None else self._scales.get(symbol, self._scale)
        return scale.tick_units, scale.lot_shares


def _other_broker(text: str) -> int:
    """Return a unique number for an attribution that does not name a broker; 0 for a blank attribution."""
    return LARGEST_BROKER + int.from_bytes(text.encode(), "big") if text else 0


def _merged(rows: pa.RecordBatch, names: Iterable[str]) -> Integers:
    """Return for each row the value of the only column among these that is not NULL; 0 if all are NULL."""
    merged = np.zeros(rows.num_rows, np.int64)
    for name in names:
        if rows.column(name).null_count < rows.num_rows:
            merged += _numbers(rows, name)
    return merged


def _numbers(rows: pa.RecordBatch, name: str) -> Integers:
    """Return an integer column, with 0 for NULL."""
    column = rows.column(name)
    numbers: Integers
    if column.null_count and column.type == pa.int64():
        values = np.frombuffer(column.buffers()[1], np.int64, len(column), 8 * column.offset)
        numbers = values * valid_flags(column)
    else:
        numbers = (column.fill_null(0) if column.null_count else column).to_numpy()
    return numbers

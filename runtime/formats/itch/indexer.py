"""NASDAQ TotalView-ITCH 5.0: all messages in one wide relation, with NULL where a type lacks a field.

Prices stay the integers of the wire: four of their decimals are implied, eight in ``level_1`` to ``level_3``. Times are
nanoseconds since midnight, plus `ItchFormat.midnight_ns`. Alphas have no blanks at their end.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltabook.wire.itch import MESSAGES, Kind
from runtime.formats.batches import record_batch
from runtime.formats.errors import SchemaError
from runtime.formats.format import BadTuple, Block, InputFormatIndexer, ParsedBlock, Run, RunIndex
from runtime.formats.itch.chain import FILE, HEARTBEAT, SOUPBIN, ItchRunIndex, refused, walk
from runtime.formats.itch.columns import MESSAGE_TYPE, PACKET_TYPE, WIDE, ItchColumns, Wrong
from runtime.formats.pushdown import Pushdown
from runtime.formats.schema import Field, Malformed, Schema

__all__ = ["ITCH_FIELDS", "ItchFormat", "itch_schema"]

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_FRAMINGS: Final = {framing.name: framing for framing in (FILE, SOUPBIN)}
_NO_PLACES: Final = np.zeros(0, np.int64)


class ItchFormat(msgspec.Struct, frozen=True):
    """Length-prefixed ITCH 5.0 messages.

    Tuples are the messages. In SoupBinTCP, server heartbeats are rows too, with an empty ``message_type`` and NULL
    elsewhere; ``packet_type`` is S for messages that are part of the sequence, U for others and H for heartbeats. Other
    packets (login replies, end of session, debug) are not tuples. A message is bad if its type is unknown, if its
    length is not that of its type, or if it exceeds the schema's limit. A bad message is skipped by its own length
    prefix.
    """

    framing: Literal["file", "soupbin"] = "file"
    """``file``: a length in two bytes and the message, as in NASDAQ's daily files; ``soupbin``: SoupBinTCP packets as a
    server sends them."""
    midnight_ns: int = 0
    """Midnight of the day, in nanoseconds of the UTC epoch, which is added to timestamps."""

    def __post_init__(self) -> None:
        if self.framing not in _FRAMINGS:
            raise SchemaError(f"expected framing {' or '.join(_FRAMINGS)}, was {self.framing!r}")
        if not 0 <= self.midnight_ns < 1 << 62:
            raise SchemaError(f"expected midnight_ns of 0 or more and below 2**62, was {self.midnight_ns}")

    @property
    def name(self) -> str:
        return "itch"

    def indexer(self, schema: Schema, pushdown: Pushdown) -> ItchIndexer:
        return ItchIndexer(self, schema, pushdown)


ITCH_FIELDS: Final = (
    Field(MESSAGE_TYPE, "string"),
    Field(PACKET_TYPE, "string", nullable=True),
    *(Field(name, "string" if f.kind is Kind.ALPHA else "int64", nullable=True) for name, f in WIDE.items()),
)
"""Wide relation: the fields of every row, then those of all messages."""


def itch_schema(framing: Literal["file", "soupbin"] = "file", midnight_ns: int = 0) -> Schema:
    """Return the schema of the wide relation."""
    return Schema(ITCH_FIELDS, format=ItchFormat(framing, midnight_ns))


class ItchIndexer(InputFormatIndexer):
    """Indexer of `ItchFormat`; a schema may name any of the wide relation's fields, in any order."""

    def __init__(self, format_: ItchFormat, schema: Schema, pushdown: Pushdown) -> None:
        self._framing = _FRAMINGS[format_.framing]
        self._is_ignored = np.zeros(256, np.bool_)
        self._is_ignored[list(self._framing.ignored)] = True
        self._limit = schema.limits.tuple_bytes
        self._described = schema.limits.described
        self._keeps_wrong = schema.malformed_nullable == Malformed.NULL
        ItchColumns(schema.fields, self._framing.header, 0)  # also checks the columns that are not requested
        self._columns = ItchColumns(schema.select(pushdown.parsed_columns), self._framing.header, format_.midnight_ns)
        self._parsed = schema.arrow_schema(pushdown.parsed_columns)
        self._wanted = schema.arrow_schema(pushdown.columns)
        if self._wanted == self._parsed:
            self._wanted = self._parsed
        by_type = tuple(c for c in pushdown.conditions if c.column == MESSAGE_TYPE)
        self._conditions = Pushdown(conditions=tuple(c for c in pushdown.conditions if c.column != MESSAGE_TYPE))
        self._types: Any = None
        if by_type:
            letters = pa.array(["", *MESSAGES], pa.string())
            matches = Pushdown(conditions=by_type).wanted(pa.record_batch([letters], [MESSAGE_TYPE]))
            self._types = np.zeros(256, np.bool_)
            self._types[[0, *map(ord, MESSAGES)]] = matches.to_numpy(zero_copy_only=False)

    def index(self, run: Run) -> RunIndex:
        """Index the run, with one pass over the bytes; see `ItchRunIndex`."""
        return ItchRunIndex(run.array, self._framing, self._limit)

    def terminated(self, tail: bytes, state: int) -> bytes | None:
        """Return None, as a message that is cut off cannot be completed."""
        del tail, state
        return None

    def empty_rows(self) -> Any:
        return pa.RecordBatch.from_pylist([], self._wanted)

    def parse(self, block: Block) -> ParsedBlock:
        """Gather the wanted messages, and their wanted fields."""
        data = block.array
        starts, bad_starts = self._tuples(data, block)
        kept: Any = None
        at, bad = starts, _NO_PLACES
        described: list[BadTuple] = []
        if len(bad_starts):
            bad = np.searchsorted(starts, bad_starts)
            kept = np.delete(np.arange(len(starts)), bad)
            at = starts.take(kept)
            described = [self._framed_badly(data, i, int(starts[i])) for i in bad[: self._described].tolist()]
        kinds = self._kinds(data, at)
        if self._types is not None:
            chosen = np.flatnonzero(self._types.take(kinds))
            at, kinds = at.take(chosen), kinds.take(chosen)
            kept = chosen if kept is None else kept.take(chosen)
        arrays, wrong = self._columns.read(data, at, kinds)
        nulled = _NO_PLACES
        refused = None
        if wrong:
            places = np.arange(len(starts)) if kept is None else kept
            nulled, refused = self._judge(arrays, wrong, places)
            described += self._described_values(data, wrong, refused, places, at)
            bad = np.union1d(bad, places[refused])
            described = sorted(described, key=attrgetter("index"))[: self._described]
        rows = record_batch(arrays, self._parsed, len(at))
        mask = self._conditions.wanted(rows)
        if refused is not None and refused.any():
            mask = pa.array(~refused) if mask is None else pc.and_(mask, pa.array(~refused))
        if mask is not None:
            rows = rows.filter(mask)
            chosen = np.flatnonzero(mask.to_numpy(zero_copy_only=False))
            kept = chosen if kept is None else kept.take(chosen)
        return ParsedBlock(
            rows=rows if self._wanted is self._parsed else rows.select(self._wanted.names),
            tuples=len(starts),
            ends=lambda: starts + _tuple_lengths(data, starts),
            kept=kept,
            bad=tuple(described),
            bad_tuples=bad,
            nulled=nulled,
        )

    def _tuples(self, data: Bytes, block: Block) -> tuple[Integers, Integers]:
        """Return the starts of a block's tuples, and those of malformed ones, in order."""
        parts: list[Integers] = []
        bad: list[Integers] = []
        singles: list[int] = []
        for section in block.sections:
            if section.stop == section.start:
                continue
            if isinstance(section.index, ItchRunIndex):
                chain = section.index.chain(section.state)
                low, high = section.index_offset, section.index_offset + section.stop - section.start
                shift = section.start - low
                parts.append(_between(chain.starts, low, high) + shift)
                bad.append(_between(chain.bad, low, high) + shift)
            elif (int(data[section.start]) << 8 | int(data[section.start + 1])) + 2 == section.stop - section.start:
                parts.append(np.array([section.start], np.int64))
                singles.append(section.start)
            else:
                chain = walk(data[section.start : section.stop], self._framing, self._limit)
                parts.append(chain.starts + section.start)
                bad.append(chain.bad + section.start)
        if singles:
            bad.append(refused(data, np.array(singles, np.int64), self._framing, self._limit))
        starts = parts[0] if len(parts) == 1 else np.concatenate([_NO_PLACES, *parts])
        bad_starts = np.sort(np.concatenate([_NO_PLACES, *bad]))
        if self._framing.ignored and len(starts):
            ignored = self._is_ignored.take(data.take(starts + 2, mode="clip"))
            if ignored.any():
                starts = starts[~ignored | np.isin(starts, bad_starts)]
        return starts, bad_starts

    def _kinds(self, data: Bytes, at: Integers) -> Bytes:
        """Return the message type of each tuple that is not malformed, 0 for heartbeats."""
        if self._framing is FILE:
            return data.take(at + 2)
        kinds = data.take(at + 3, mode="clip")
        kinds[data.take(at + 2) == HEARTBEAT] = 0
        return kinds

    def _judge(self, arrays: list[Any], wrong: list[Wrong], places: Integers) -> tuple[Integers, Flags]:
        """Replace malformed values by NULL where the schema requires it; return their tuples, and the refused rows."""
        refused = np.zeros(len(places), np.bool_)
        nulled = [_NO_PLACES]
        for each in wrong:
            if not (each.field.nullable and self._keeps_wrong):
                refused[each.rows] = True
        for each in wrong:
            if each.field.nullable and self._keeps_wrong:
                rows = each.rows[~refused[each.rows]]
                mask = np.zeros(len(places), np.bool_)
                mask[rows] = True
                i = self._parsed.get_field_index(each.field.name)
                arrays[i] = pc.if_else(pa.array(mask), pa.scalar(None, arrays[i].type), arrays[i])
                nulled.append(places[rows])
        return np.sort(np.concatenate(nulled)), refused

    def _described_values(
        self, data: Bytes, wrong: list[Wrong], refused: Flags, places: Integers, at: Integers
    ) -> list[BadTuple]:
        described: dict[int, BadTuple] = {}
        for each in wrong:
            for row in each.rows[refused[each.rows]][: self._described].tolist():
                start = int(at[row])
                stop = start + int(_tuple_lengths(data, at[row : row + 1])[0])
                tuple_ = int(places[row])
                described.setdefault(tuple_, BadTuple(tuple_, start, stop, each.field.name, each.expected, each.reason))
        return list(described.values())

    def _framed_badly(self, data: Bytes, index: int, start: int) -> BadTuple:
        length = int(_tuple_lengths(data, np.array([start]))[0])
        stop = start + length
        header = self._framing.header
        if length > self._limit:
            return BadTuple(index, start, stop, "", f"at most {self._limit} bytes", f"{length} bytes")
        packet = chr(data[start + 2]) if length > 2 else ""
        if header == 3 and (not packet or packet not in "SU"):
            bare = int(self._framing.bare[ord(packet)]) if packet else 255
            expected = f"a packet {packet} of length {bare}" if bare < 255 else "a packet of type S, U, H, Z, A, J or +"
            return BadTuple(index, start, stop, "", expected, f"type {packet!r}, length {length - 2}")
        letter = chr(data[start + header]) if length > header else ""
        known = MESSAGES.get(letter)
        expected = f"{known.length} bytes for a message {letter}" if known else "a type of ITCH 5.0"
        return BadTuple(index, start, stop, MESSAGE_TYPE, expected, f"type {letter!r}, {length - header} bytes")


def _between(places: Integers, low: int, high: int) -> Integers:
    return places[np.searchsorted(places, low) : np.searchsorted(places, high)]


def _tuple_lengths(data: Bytes, starts: Integers) -> Integers:
    lengths: Integers = (data.take(starts).astype(np.int64) << 8 | data.take(starts + 1)) + 2
    return lengths

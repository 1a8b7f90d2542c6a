"""What goes into a formatter and what comes out: raw buffers, formatted batches, dead letters, counters."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

import msgspec
import numpy as np

__all__ = [
    "DEAD_LETTER_BYTES",
    "DeadLetter",
    "FormatCounters",
    "Formatted",
    "FormattedBatch",
    "RawBuffer",
    "TupleLayout",
]

DEAD_LETTER_BYTES: Final = 256
"""How much of a bad tuple a dead letter quotes."""


class RawBuffer(msgspec.Struct, frozen=True, eq=False):
    """Bytes as they arrived: any number of whole tuples and pieces of tuples."""

    origin_id: int
    """Which source they came from."""
    sequence_number: int
    """Position among the origin's buffers: 1, 2, 3 … per incarnation of the origin, without holes."""
    data: bytes
    """The bytes, possibly none."""
    offset: int
    """Where `data[0]` stands in the origin's decoded stream, in bytes; -1 if that is not known, as behind a codec."""


class DeadLetter(msgspec.Struct, frozen=True):
    """One tuple that does not fit the schema: where it stood, what was expected, what was there."""

    origin_id: int
    """Which source it came from."""
    sequence_number: int
    """The raw buffer in which the tuple ended."""
    byte_offset: int
    """Where the tuple starts in the origin's stream; in its batch, until `InOrder` has placed one of unknown offset."""
    row: int
    """Number of the tuple in the stream, from 0, bad ones counted too; in its batch, until `InOrder` has placed it."""
    field: str
    """Name of the field at fault, empty when the tuple as a whole is."""
    expected: str
    """What should have been there."""
    reason: str
    """What was wrong."""
    data: bytes
    """The tuple without its delimiter, cut to `DEAD_LETTER_BYTES`."""

    def __str__(self) -> str:
        """The sentence that an error message or a log line carries."""
        what = f"field {self.field}" if self.field else "the tuple"
        return (
            f"expected {self.expected} for {what}, was {self.data!r} ({self.reason}): origin {self.origin_id}, "
            f"buffer {self.sequence_number}, row {self.row}, byte {self.byte_offset}"
        )


class TupleLayout(msgspec.Struct, frozen=True, eq=False):
    """Where the rows of a batch stand in the block that they were parsed from."""

    ends: Callable[[], Any]
    """Gives the offset behind each tuple of the block."""
    first: int
    """Index of the batch's first tuple in the block."""
    start: int
    """Offset of the batch's first byte in the block."""
    kept: Any = None
    """int64 array: for each row of the batch the index of its tuple in the block; None if every tuple has a row."""
    bad: Any = None
    """int64 array: indices of the batch's malformed tuples in the block; None if there are none."""


class FormattedBatch(msgspec.Struct, frozen=True, eq=False, dict=True):
    """A contiguous part of one origin's stream, as columns.

    The parts of a stream join without holes at *places*: 0 is the start of the stream, 2n-1 stands behind the first
    tuple delimiter of the neighbouring raw buffers that were formatted as one and end with the n-th, 2n behind their
    last one. The n-th is counted from the start of the stream on, also where sequence numbers start again at 1.
    """

    origin_id: int
    """Which source the tuples came from."""
    first_sequence: int
    """First raw buffer of the span in which the tuples stand, 0 for the start of the stream."""
    last_sequence: int
    """Last raw buffer of the span, the one in which they end."""
    from_place: int
    """Place in the stream at which the part starts."""
    to_place: int
    """Place at which it ends, and the next one starts."""
    offset: int
    """Byte offset in the stream at which the part starts; -1 if only `InOrder` can tell."""
    length: int
    """Bytes of the stream that the part takes up."""
    rows: Any
    """`pyarrow.RecordBatch` of the good tuples that were not filtered out, in stream order."""
    tuples: int = 0
    """Tuples of the part: good, bad and filtered out; empty ones and the header are none."""
    bad: int = 0
    """Tuples that have no row because they are malformed, whether or not they are described."""
    filtered: int = 0
    """Tuples that have no row because a condition of the pushdown left them out."""
    nulled: int = 0
    """Malformed values that became NULL."""
    dead: tuple[DeadLetter, ...] = ()
    """Descriptions of bad tuples, a bounded number; none where the policy is to skip or to fail."""
    failure: DeadLetter | None = None
    """Where the policy is to fail: the first bad tuple. The part ends in front of it, and nothing follows."""
    first_tuple: int = -1
    """Number of the part's first tuple in the stream, from 0; -1 until `InOrder` has placed it."""
    layout: TupleLayout | None = None
    """From what `row_ends`, `tuple_numbers` and `bad_offsets` are made; None without rows and malformed tuples, and for
    a malformed tuple that stands alone."""

    @property
    def end_offset(self) -> int:
        """Byte offset in the stream just behind the part; -1 if only `InOrder` can tell."""
        return self.offset + self.length if self.offset >= 0 else -1

    @cached_property
    def row_ends(self) -> Any:
        """int64 array, one per row: the byte offset in the stream just behind it, delimiter included."""
        layout, count = self.layout, self.rows.num_rows
        if layout is None or not count:
            return np.zeros(0, np.int64)
        if self.offset < 0:
            raise ValueError("expected a batch that InOrder has placed, was one of unknown offset")
        ends = layout.ends()
        ends = ends[layout.first : layout.first + count] if layout.kept is None else ends[layout.kept]
        return np.minimum(ends + (self.offset - layout.start), self.end_offset)

    @cached_property
    def tuple_numbers(self) -> Any:
        """int64 array, one per row: its number among all tuples of the stream, from 0."""
        layout, count = self.layout, self.rows.num_rows
        if layout is None or not count:
            return np.zeros(0, np.int64)
        if self.first_tuple < 0:
            raise ValueError("expected a batch that InOrder has placed, was one without a first tuple")
        if layout.kept is None:
            return np.arange(self.first_tuple, self.first_tuple + count, dtype=np.int64)
        return layout.kept + (self.first_tuple - layout.first)

    @cached_property
    def bad_offsets(self) -> Any:
        """int64 array, one per malformed tuple: the byte offset in the stream behind the tuple before it."""
        layout = self.layout
        if not self.bad:
            return np.zeros(0, np.int64)
        if self.offset < 0:
            raise ValueError("expected a batch that InOrder has placed, was one of unknown offset")
        if layout is None or layout.bad is None:
            return np.full(self.bad, self.offset, np.int64)
        starts = np.where(layout.bad > layout.first, layout.ends()[layout.bad - 1], layout.start)
        return starts + (self.offset - layout.start)


class Formatted(msgspec.Struct, frozen=True, eq=False):
    """What one call of the formatter gives."""

    batches: list[FormattedBatch]
    """Everything that the call completed, of all its origins; per origin in stream order, with or without gaps."""
    again: list[RawBuffer]
    """Buffers too far ahead of the oldest missing one: to be given again later."""


class FormatCounters(msgspec.Struct, frozen=True):
    """What a formatter has done for one origin since it was opened."""

    buffers: int = 0
    """Raw buffers admitted."""
    bytes: int = 0
    """Their bytes, behind the codec."""
    tuples: int = 0
    """Tuples: good, bad and filtered out."""
    bad: int = 0
    """Tuples without a row because they are malformed."""
    nulled: int = 0
    """Malformed values that became NULL."""
    filtered: int = 0
    """Tuples left out by conditions."""
    repeats: int = 0
    """Raw buffers that were too far ahead and had to be given again."""
    ring_slots: int = 0
    """Size of the shredder's ring now, in slots of 64 buffers."""
    held_bytes: int = 0
    """Bytes that wait now for a neighbour."""

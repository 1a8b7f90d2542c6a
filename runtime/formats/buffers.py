"""Inputs and outputs of a formatter: raw buffers, formatted batches, dead letters, counters."""

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
"""Greatest number of bytes of a bad tuple in a dead letter."""


class RawBuffer(msgspec.Struct, frozen=True, eq=False):
    """Bytes as they arrived: any number of whole tuples and pieces of tuples."""

    origin_id: int
    """Source of the bytes."""
    sequence_number: int
    """Position among the origin's buffers: 1, 2, 3 … per incarnation of the origin, without holes."""
    data: bytes
    """The bytes, possibly none."""
    offset: int
    """Offset of `data[0]` in the origin's decoded stream, in bytes; -1 if unknown, as after a codec."""


class DeadLetter(msgspec.Struct, frozen=True):
    """Tuple that does not fit the schema: its place, the expected and the actual value."""

    origin_id: int
    """Source of the tuple."""
    sequence_number: int
    """Raw buffer in which the tuple ended."""
    byte_offset: int
    """Offset of the tuple in the origin's stream. If the batch's offset is unknown, it is the offset in the batch until
    `InOrder` has placed the batch.
    """
    row: int
    """Number of the tuple in the stream, from 0, counting bad tuples. Until `InOrder` has placed the batch, it is the
    number in the batch.
    """
    field: str
    """Name of the field at fault, empty when the tuple as a whole is."""
    expected: str
    """Expected value or shape."""
    reason: str
    """Actual value or shape."""
    data: bytes
    """The tuple without its delimiter, cut to `DEAD_LETTER_BYTES`."""

    def __str__(self) -> str:
        """Return the sentence for an error message or a log line."""
        what = f"field {self.field}" if self.field else "the tuple"
        return (
            f"expected {self.expected} for {what}, was {self.data!r} ({self.reason}): origin {self.origin_id}, "
            f"buffer {self.sequence_number}, row {self.row}, byte {self.byte_offset}"
        )


class TupleLayout(msgspec.Struct, frozen=True, eq=False):
    """Places of a batch's rows in the block from which they were parsed."""

    ends: Callable[[], Any]
    """Function that returns the offset after each tuple of the block."""
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

    The parts of a stream join without holes at *places*. Place 0 is the start of the stream. For the n-th raw buffer of
    the stream, place 2n-1 is after its first tuple delimiter, and place 2n after its last one. Neighbouring raw buffers
    may be formatted as one; n is then the number of the last of them. Buffers are counted from the start of the stream
    on, also where sequence numbers start again at 1.
    """

    origin_id: int
    """Source of the tuples."""
    first_sequence: int
    """First raw buffer of the span of the tuples, 0 for the start of the stream."""
    last_sequence: int
    """Last raw buffer of the span, the one in which the tuples end."""
    from_place: int
    """Place in the stream at which the part starts."""
    to_place: int
    """Place at which the part ends and the next part starts."""
    offset: int
    """Byte offset in the stream at which the part starts; -1 until `InOrder` computes it."""
    length: int
    """Length of the part in the stream, in bytes."""
    rows: Any
    """`pyarrow.RecordBatch` of the good tuples that were not filtered out, in stream order."""
    tuples: int = 0
    """Tuples of the part: good, bad and filtered out; empty ones and the header do not count."""
    bad: int = 0
    """Tuples that have no row because they are malformed, whether or not they are described."""
    filtered: int = 0
    """Tuples that have no row because they do not satisfy a condition of the pushdown."""
    nulled: int = 0
    """Malformed values that became NULL."""
    dead: tuple[DeadLetter, ...] = ()
    """Descriptions of bad tuples, a bounded number; none if the policy is to skip or to fail."""
    failure: DeadLetter | None = None
    """First bad tuple, if the policy is to fail. The rows end before it, and no batch of the stream follows."""
    first_tuple: int = -1
    """Number of the part's first tuple in the stream, from 0; -1 until `InOrder` has placed it."""
    layout: TupleLayout | None = None
    """Source of `row_ends`, `tuple_numbers` and `bad_offsets`. None if there are neither rows nor malformed tuples, or
    if the part is a single malformed tuple that was never in a block."""

    @property
    def end_offset(self) -> int:
        """Byte offset in the stream just after the part; -1 until `InOrder` computes it."""
        return self.offset + self.length if self.offset >= 0 else -1

    @cached_property
    def row_ends(self) -> Any:
        """int64 array, one per row: the byte offset in the stream just after the row's delimiter.

        Raises `ValueError` before `InOrder` has placed the batch.
        """
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
        """int64 array, one per row: the number of the row's tuple among all tuples of the stream, from 0.

        Raises `ValueError` before `InOrder` has placed the batch.
        """
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
        """int64 array, one per malformed tuple: the byte offset in the stream after the tuple before it.

        Raises `ValueError` before `InOrder` has placed the batch.
        """
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
    """Result of one call of the formatter."""

    batches: list[FormattedBatch]
    """Batches that the call completed, of all its origins. The batches of one origin are in stream order, possibly with
    gaps.
    """
    again: list[RawBuffer]
    """Buffers too far ahead of the oldest missing one; the caller must pass them again later."""


class FormatCounters(msgspec.Struct, frozen=True):
    """Memory that a formatter uses for one origin at present; numbers of tuples are in the batches."""

    ring_slots: int = 0
    """Present size of the shredder's ring, in slots of 64 buffers."""
    held_bytes: int = 0
    """Bytes that wait for a neighbouring buffer or for their turn."""

"""What goes into a formatter and what comes out: raw buffers, formatted batches, dead letters."""

from __future__ import annotations

from typing import Any, Final

import msgspec

__all__ = ["BODY", "DEAD_LETTER_BYTES", "LEAD", "DeadLetter", "FormattedBatch", "RawBuffer"]

LEAD: Final = 0
"""Part of a batch: the spanning tuple that ends in the raw buffer `last_sequence`."""
BODY: Final = 1
"""Part of a batch: the tuples that lie wholly inside the raw buffer `last_sequence`."""
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
    """Where `data[0]` stands in the origin's stream, in bytes."""


class DeadLetter(msgspec.Struct, frozen=True):
    """One tuple that does not fit the schema: where it stood, what was expected, what was there."""

    origin_id: int
    """Which source it came from."""
    sequence_number: int
    """The raw buffer in which the tuple ended."""
    byte_offset: int
    """Where the tuple starts in the origin's stream."""
    row: int
    """Index of the tuple among all tuples of its batch, bad ones counted too."""
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


class FormattedBatch(msgspec.Struct, frozen=True, eq=False):
    """The tuples of one part of one raw buffer, as columns.

    Every raw buffer has exactly one `BODY`; every raw buffer with a tuple delimiter has exactly one `LEAD` as well.
    Either may hold no rows. The end of a stream adds one `LEAD` if a tuple without its delimiter was left.
    In stream order the `LEAD` of a buffer comes before its `BODY`.
    """

    origin_id: int
    """Which source the tuples came from."""
    first_sequence: int
    """First raw buffer of the span: of a `LEAD` the buffer in which its tuple starts, 0 for the start of the stream."""
    last_sequence: int
    """Last raw buffer of the span, the one in which the tuples end."""
    part: int
    """`LEAD` or `BODY`."""
    rows: Any
    """`pyarrow.RecordBatch` of the good tuples in stream order."""
    row_ends: Any
    """int64 `numpy.ndarray`, one per good row: the byte offset in the stream just behind it, delimiter included."""
    end_offset: int
    """Byte offset in the stream just behind this part, delimiter included; of an undelimited body where it starts."""
    messages: int
    """Tuples of this part, bad ones included, empty lines not."""
    dead: tuple[DeadLetter, ...] = ()
    """The first bad tuples, a bounded number; `messages - rows.num_rows` counts them all."""
    nulled: int = 0
    """Malformed values of nullable fields that became NULL."""
    delimited: bool = True
    """Whether the raw buffer holds a tuple delimiter; a body without one has no `LEAD` of its own."""

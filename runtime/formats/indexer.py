"""What a new format has to write: where its tuples end, and how a block of whole tuples becomes columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import msgspec

__all__ = ["BadTuple", "InputFormatIndexer", "ParsedBlock"]


class BadTuple(msgspec.Struct, frozen=True):
    """One tuple of a block that is not among its rows."""

    index: int
    """Position among all tuples of the block."""
    start: int
    """Byte offset of the tuple in the block."""
    stop: int
    """Byte offset behind the tuple, its delimiter not included."""
    field: str
    """Name of the field at fault, empty for the tuple as a whole."""
    expected: str
    """What should have been there."""
    reason: str
    """What was wrong."""


class ParsedBlock(msgspec.Struct, frozen=True, eq=False):
    """A block of whole tuples, as columns. All offsets are relative to the block."""

    rows: Any
    """`pyarrow.RecordBatch` of the good tuples, in order."""
    row_ends: Any
    """int64 array, one per row: the offset just behind it, delimiter included."""
    tuple_ends: Any
    """int64 array, one per tuple, good or bad, empty ones left out."""
    bad: tuple[BadTuple, ...] = ()
    """The tuples that have no row, in order; a bounded number of them, at least one if there are any."""
    nulled_ends: Any = ()
    """int64 array, one per malformed value that became NULL: the offset just behind its tuple."""


class InputFormatIndexer(ABC):
    """The contract of a format; `InputFormatter` does the rest (spanning tuples, sequence numbers, dead letters).

    An indexer has no state that changes: several worker threads call it at once. It never blocks, and its work per
    block runs in libraries that release the interpreter lock; a Python loop over tuples is allowed only for tuples that
    are bad. It is never told what a block is part of: a block is simply a run of whole tuples.
    """

    @abstractmethod
    def delimiters(self, data: bytes) -> tuple[int, int] | None:
        """Phase 1: the offsets just behind the first and just behind the last tuple delimiter, None without one.

        Must look at the bytes once, at memory speed, and must not depend on what stood before them.
        """

    @abstractmethod
    def parse(self, block: bytes) -> ParsedBlock:
        """Phase 2: the columns of a block that consists of whole tuples, each with its delimiter.

        Takes any bytes: what does not fit the schema is reported as a bad tuple, never raised and never left out.
        """

    @abstractmethod
    def terminated(self, tail: bytes) -> bytes:
        """The last tuple of a stream with the delimiter that it lacks."""

    @abstractmethod
    def empty_rows(self) -> Any:
        """A `pyarrow.RecordBatch` of the same columns and no rows."""

"""Contract of a format: where tuples end in a run of bytes, and how whole tuples become columns.

```
 Run (neighbouring raw buffers) ──index──▶ RunIndex ──cut(state)──▶ TupleRange   phase 1: any order, any thread
 Block (whole tuples)           ──parse──▶ ParsedBlock                           phase 2: any order, any thread
```

The meaning of a byte may depend on earlier bytes: a line end inside quotes ends no tuple, a delimiter of two bytes may
begin in the previous buffer, and a length-prefixed message determines where the next one starts. The relevant past is
one integer, the *state*. A run may be indexed before its left neighbour is known. The index then has a cut for every
state in which the run may start. One of these cuts is chosen once the neighbour's end state is known.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar, Final, Protocol

import msgspec
import numpy as np

__all__ = [
    "COALESCE_BYTES",
    "BadTuple",
    "Block",
    "Format",
    "InputFormatIndexer",
    "ParsedBlock",
    "Piece",
    "Run",
    "RunIndex",
    "Section",
    "SettledIndex",
    "TupleRange",
]

COALESCE_BYTES: Final = 1 << 21
"""Number of bytes that one call of the formatter takes by default. Arrow's readers reach their full speed at 256 KiB to
1 MiB, and Python joins bytes outside the interpreter lock from 1 MiB on. Twice that size halves the work per byte that
a call does under the lock.
"""

Piece = bytes | memoryview
_LARGE_PIECE_BYTES: Final = 16 * 1024
"""If pieces have at least this average size in bytes, numpy joins them, without the interpreter lock."""


class TupleRange(msgspec.Struct, frozen=True):
    """Begin and end of the whole tuples of a run."""

    first: int
    """Offset just after the first tuple delimiter that ends in the run; -1 if none does."""
    last: int
    """Offset just after the last tuple delimiter that ends in the run; -1 if none does."""
    end_state: int = 0
    """State in which the next run starts."""

    @property
    def is_delimited(self) -> bool:
        """True if a tuple delimiter ends in the run."""
        return self.first >= 0


class Run:
    """Adjacent bytes of one origin: one raw buffer or several, joined only if a format needs it."""

    def __init__(self, pieces: Sequence[Piece], offset: int) -> None:
        """Create a run of adjacent pieces.

        ``offset`` is the offset of the first byte in the origin's (decoded) stream; -1 if unknown.
        """
        self.pieces = pieces
        self.offset = offset
        self.length = sum(map(len, pieces))

    @cached_property
    def data(self) -> bytes:
        """All bytes as one; a copy, unless there is one piece."""
        pieces = self.pieces
        return pieces[0] if len(pieces) == 1 and isinstance(pieces[0], bytes) else joined(pieces)

    @cached_property
    def array(self) -> Any:
        """All bytes as a uint8 array."""
        return joined_array(self.pieces)


def joined(pieces: Sequence[Piece]) -> bytes:
    """Return all pieces as one.

    `bytes.join` releases the interpreter lock only if every piece is `bytes` and all together have at least 1 MiB.
    """
    views = [len(piece) for piece in pieces if type(piece) is not bytes]
    if 4 * sum(views) > sum(map(len, pieces)):  # to copy the views to bytes first would cost more than it saves
        return b"".join(pieces)
    return b"".join([piece if type(piece) is bytes else bytes(piece) for piece in pieces])


def joined_array(pieces: Sequence[Piece]) -> Any:
    """Return the bytes of all pieces as a uint8 array, which may be read-only.

    Large pieces are copied outside the interpreter lock.
    """
    if len(pieces) == 1:
        return np.frombuffer(pieces[0], np.uint8)
    if sum(map(len, pieces)) >= _LARGE_PIECE_BYTES * len(pieces):
        return np.concatenate([np.frombuffer(piece, np.uint8) for piece in pieces if len(piece)])
    return np.frombuffer(joined(pieces), np.uint8)


class RunIndex(ABC):
    """Result of phase 1 for a run: its cut, for any state in which the run starts."""

    @property
    def settled(self) -> TupleRange | None:
        """The cut, if it is the same for every state in which the run starts; None otherwise."""
        return None

    @property
    def end_state(self) -> int | None:
        """The state at the run's end, if it is the same for every state at its start; None otherwise."""
        return None if self.settled is None else self.settled.end_state

    @abstractmethod
    def cut(self, state: int) -> TupleRange:
        """Return the cut for this start state; light work, done in stream order under the origin's lock."""


class SettledIndex(RunIndex):
    """Index of a format without states."""

    __slots__ = ("_cut",)

    def __init__(self, cut: TupleRange) -> None:
        self._cut = cut

    @property
    def settled(self) -> TupleRange:
        return self._cut

    def cut(self, state: int) -> TupleRange:
        del state
        return self._cut


class Section(msgspec.Struct, frozen=True, eq=False):
    """Part of a block that is contiguous in its origin's stream."""

    start: int
    """Offset of its first byte in the block."""
    stop: int
    """Offset after its last byte."""
    index: RunIndex | None = None
    """Index of the run whose body the section is, so that parsing need not search again; None for other sections."""
    index_offset: int = 0
    """Offset of the section's first byte in that run."""
    state: int = 0
    """State in which that run started."""
    opens: bool = False
    """True if the stream starts with this section, so that a byte order mark may be there."""


class Block:
    """Whole tuples, each with its delimiter, of one origin or of several that share a formatter."""

    def __init__(self, pieces: Sequence[Piece], sections: Sequence[Section]) -> None:
        self.pieces = pieces
        self.sections = sections
        self.length = sections[-1].stop if sections else 0

    @cached_property
    def data(self) -> Piece:
        """All bytes as one; a copy, unless there is one piece."""
        return self.pieces[0] if len(self.pieces) == 1 else joined(self.pieces)

    @cached_property
    def array(self) -> Any:
        """All bytes as a uint8 array, made outside the interpreter lock if the pieces are large."""
        return joined_array(self.pieces)


class BadTuple(msgspec.Struct, frozen=True):
    """Tuple of a block that has no row, because it does not fit the schema."""

    index: int
    """Position among all tuples of the block."""
    start: int
    """Byte offset of the tuple in the block."""
    stop: int
    """Byte offset after the tuple, its delimiter not included."""
    field: str
    """Name of the field at fault, empty for the tuple as a whole."""
    expected: str
    """Expected value or shape."""
    reason: str
    """Actual value or shape."""


class ParsedBlock(msgspec.Struct, frozen=True, eq=False):
    """A block as columns. All offsets are relative to the block."""

    rows: Any
    """`pyarrow.RecordBatch` of the good tuples that were not filtered out, in order."""
    tuples: int
    """Tuples of the block: good, bad and filtered out; empty ones do not count."""
    ends: Callable[[], Any]
    """Function that returns an int64 array, one per tuple: the offset just after it, delimiter included. It is called
    only if offsets are needed: for a border between batches, for the ends of rows, or for a bad tuple.
    """
    kept: Any = None
    """int64 array of the index of each row's tuple; None if every tuple has a row."""
    bad: tuple[BadTuple, ...] = ()
    """Bad tuples, in order; a bounded number of them, at least one if there are any."""
    bad_tuples: Any = msgspec.field(default_factory=lambda: np.zeros(0, np.int64))
    """int64 array: indices of all bad tuples, in order."""
    nulled: Any = msgspec.field(default_factory=lambda: np.zeros(0, np.int64))
    """int64 array of the index of the tuple of each malformed value that became NULL, in order."""
    delimiters: Callable[[int, int], int] | None = None
    """Function that counts the tuple delimiters between two offsets, if that is faster than `ends`. If a block has as
    many tuple delimiters as tuples, counts replace the search for the borders between batches.
    """


class InputFormatIndexer(ABC):
    """Interface that a new format implements; `InputFormatter` handles order, spanning tuples, policies, dead letters.

    Several worker threads call an indexer at once, so no result depends on earlier calls. It never blocks, and works in
    libraries that release the interpreter lock. A Python loop over tuples is allowed only for bad tuples, and for so
    few tuples that a call of a library would take longer.
    """

    block_bytes: ClassVar[int] = COALESCE_BYTES
    """Number of bytes that should be formatted and parsed at once; it is larger if a call has a high fixed cost."""
    initial_state: ClassVar[int] = 0
    """State at the start of a stream."""
    ordered: ClassVar[bool] = False
    """True if the format can only be indexed in stream order (synchronised mode): `index` is then called for one run of
    an origin after another, by one worker at a time. No worker waits for its turn: it leaves its buffers to the worker
    that has the turn."""
    has_header: bool = False
    """True if the first tuple of a stream is a header: it names the columns, and gives no row."""

    @abstractmethod
    def index(self, run: Run) -> RunIndex:
        """Return where tuples end (phase 1). The bytes are read once, at memory speed."""

    @abstractmethod
    def parse(self, block: Block) -> ParsedBlock:
        """Return the columns of whole tuples (phase 2).

        Any bytes are accepted: a tuple that does not fit the schema is reported as bad. It raises no error, and is not
        left out.
        """

    @abstractmethod
    def terminated(self, tail: bytes, state: int) -> bytes | None:
        """Return the last tuple of a stream with the delimiter that it lacks, given the state at its end.

        Return None if an unfinished tuple of this format can only be an error, as with a length prefix.
        """

    @abstractmethod
    def empty_rows(self) -> Any:
        """Return a `pyarrow.RecordBatch` of the same columns and no rows."""


class Format(Protocol):
    """Division of an origin's bytes into tuples and fields: a frozen configuration that makes indexers."""

    @property
    def name(self) -> str:
        """Name of the format in scripts."""

    def indexer(self, schema: Any, pushdown: Any) -> InputFormatIndexer:
        """Return an indexer for a `Schema`, which reads only the columns of a `Pushdown`.

        Raise `SchemaError` if they do not fit the format.
        """

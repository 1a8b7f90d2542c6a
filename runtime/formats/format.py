"""The contract of a format: where tuples end in a run of bytes, and how whole tuples become columns.

```
 Run (neighbouring raw buffers) ──index──▶ RunIndex ──cut(state)──▶ Cut       phase 1: any order, any thread
 Block (whole tuples)           ──parse──▶ ParsedBlock                        phase 2: any order, any thread
```

What a byte means may depend on what stood before it: a line end inside quotes ends no tuple, a delimiter of two bytes
may begin in the buffer before, a length-prefixed message says itself where the next one starts. What of the past
matters is one integer, the *state*. A run is indexed before its left neighbour is known; the index then answers for
every state in which it may start, and is settled once the neighbour has told.
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
    "Cut",
    "Format",
    "InputFormatIndexer",
    "ParsedBlock",
    "Piece",
    "Run",
    "RunIndex",
    "Section",
    "SettledIndex",
]

COALESCE_BYTES: Final = 1 << 21
"""Bytes that one call of the formatter takes by default: Arrow's readers reach their full speed from 256 KiB to 1 MiB
on, Python joins bytes outside the interpreter lock from 1 MiB on, and with twice as much a call does half as much a
byte under the lock."""

Piece = bytes | memoryview
_LARGE_PIECE_BYTES: Final = 16 * 1024


class Cut(msgspec.Struct, frozen=True):
    """Where the whole tuples of a run begin and end."""

    first: int
    """Offset just behind the first tuple delimiter that ends in the run; -1 if none does."""
    last: int
    """Offset just behind the last one; -1 if none does."""
    end_state: int = 0
    """The state in which the run behind this one starts."""

    @property
    def is_delimited(self) -> bool:
        """Whether a tuple delimiter ends in the run."""
        return self.first >= 0


class Run:
    """Bytes of one origin that follow each other: one raw buffer or several, joined only where a format asks for it."""

    def __init__(self, pieces: Sequence[Piece], offset: int) -> None:
        """``offset``: where the first byte stands in the origin's (decoded) stream; -1 if that is not known."""
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
        """The same as a uint8 array."""
        return joined_array(self.pieces)


def joined(pieces: Sequence[Piece]) -> bytes:
    """One copy of all. `bytes.join` lets other threads go on only if it joins a MiB or more of nothing but bytes."""
    views = [len(piece) for piece in pieces if type(piece) is not bytes]
    if 4 * sum(views) > sum(map(len, pieces)):  # copying them first would cost more than it sets free
        return b"".join(pieces)
    return b"".join([piece if type(piece) is bytes else bytes(piece) for piece in pieces])


def joined_array(pieces: Sequence[Piece]) -> Any:
    """A uint8 array of all, read-only if it is no copy; large pieces are copied outside the interpreter lock."""
    if len(pieces) == 1:
        return np.frombuffer(pieces[0], np.uint8)
    if sum(map(len, pieces)) >= _LARGE_PIECE_BYTES * len(pieces):
        return np.concatenate([np.frombuffer(piece, np.uint8) for piece in pieces if len(piece)])
    return np.frombuffer(joined(pieces), np.uint8)


class RunIndex(ABC):
    """What phase 1 found out about a run, for whatever state it starts in."""

    @property
    def settled(self) -> Cut | None:
        """The cut, if neither it nor its end state depends on the state at the start; then nobody waits for it."""
        return None

    @property
    def end_state(self) -> int | None:
        """The state at the run's end, if it does not depend on the one at its start."""
        return None if self.settled is None else self.settled.end_state

    @abstractmethod
    def cut(self, state: int) -> Cut:
        """The cut for this state at the start; light work, it is done in stream order under the origin's lock."""


class SettledIndex(RunIndex):
    """The index of a format without states."""

    __slots__ = ("_cut",)

    def __init__(self, cut: Cut) -> None:
        self._cut = cut

    @property
    def settled(self) -> Cut:
        return self._cut

    def cut(self, state: int) -> Cut:
        del state
        return self._cut


class Section(msgspec.Struct, frozen=True, eq=False):
    """A part of a block that is contiguous in its origin's stream."""

    start: int
    """Offset of its first byte in the block."""
    stop: int
    """Offset behind its last byte."""
    index: RunIndex | None = None
    """Of the body of a run: the run's index, so that parsing need not search again; None for a spanning tuple."""
    index_offset: int = 0
    """Then also: where the section's first byte stands in the run."""
    state: int = 0
    """Then also: the state in which the run started."""
    opens: bool = False
    """Whether the stream starts with it, so that a byte order mark may stand there."""


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
        """The same as a uint8 array, made outside the interpreter lock where the pieces are large."""
        return joined_array(self.pieces)


class BadTuple(msgspec.Struct, frozen=True):
    """One tuple of a block that has no row, or only with a NULL where something else stood."""

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
    """A block as columns. All offsets are relative to the block."""

    rows: Any
    """`pyarrow.RecordBatch` of the good tuples that were not filtered out, in order."""
    tuples: int
    """Tuples of the block: good, bad and filtered out; empty ones are none."""
    ends: Callable[[], Any]
    """Gives an int64 array, one per tuple: the offset just behind it, delimiter included. Called only where a cut or a
    border between sections has to be found, so that a format need not count what nobody asks for."""
    kept: Any = None
    """int64 array: for each row the index of its tuple; None if every tuple has a row."""
    bad: tuple[BadTuple, ...] = ()
    """Bad tuples, in order; a bounded number of them, at least one if there are any."""
    bad_tuples: Any = msgspec.field(default_factory=lambda: np.zeros(0, np.int64))
    """int64 array: indices of all bad tuples, in order."""
    nulled: Any = msgspec.field(default_factory=lambda: np.zeros(0, np.int64))
    """int64 array: for each malformed value that became NULL the index of its tuple, in order."""
    delimiters: Callable[[int, int], int] | None = None
    """Counts the tuple delimiters between two offsets, if that is faster than `ends`: where a block has as many of them
    as tuples, the borders between sections are counted and not searched."""


class InputFormatIndexer(ABC):
    """What a new format writes; `InputFormatter` does the rest: order, spanning tuples, policies, dead letters.

    An indexer has no state that changes: several worker threads call it at once. It never blocks, and its work runs in
    libraries that release the interpreter lock; a Python loop over tuples is allowed only for tuples that are bad.
    """

    block_bytes: ClassVar[int] = COALESCE_BYTES
    """How much is best formatted and parsed at once: more where a call costs much beside its bytes."""
    initial_state: ClassVar[int] = 0
    """The state at the start of a stream."""
    ordered: ClassVar[bool] = False
    """Whether the format can only be indexed in stream order (synchronised mode): `index` is then called for run after
    run of an origin, by one worker at a time. Workers do not wait for their turn: one leaves its buffers to another."""

    @abstractmethod
    def index(self, run: Run) -> RunIndex:
        """Phase 1: where tuples end. Looks at the bytes once, at memory speed."""

    @abstractmethod
    def parse(self, block: Block) -> ParsedBlock:
        """Phase 2: the columns of whole tuples. Takes any bytes: what does not fit the schema is a bad tuple, never
        raised and never left out."""

    @abstractmethod
    def terminated(self, tail: bytes, state: int) -> bytes | None:
        """The last tuple of a stream with the delimiter that it lacks, given the state at its end.

        None if an unfinished tuple of this format can only be an error, as with a length prefix.
        """

    @abstractmethod
    def empty_rows(self) -> Any:
        """A `pyarrow.RecordBatch` of the same columns and no rows."""


class Format(Protocol):
    """How the bytes of an origin are cut into tuples and fields: a frozen configuration that makes indexers."""

    @property
    def name(self) -> str:
        """As scripts write it."""

    def indexer(self, schema: Any, pushdown: Any) -> InputFormatIndexer:
        """An indexer for a `Schema`, which reads only what a `Pushdown` asks for; raises `SchemaError`."""

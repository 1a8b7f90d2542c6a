"""The bytes of the tuples that lie across raw buffers, held until the last missing buffer arrives."""

from __future__ import annotations

from threading import Lock

import msgspec

from runtime.formats.buffers import DEAD_LETTER_BYTES, RawBuffer
from runtime.formats.errors import DuplicateSequenceError
from runtime.formats.shredder import SequenceShredder, Span

__all__ = ["Admitted", "SpanningTuple", "SpanningTuples"]


class SpanningTuple(msgspec.Struct, frozen=True, eq=False):
    """One tuple put together from its pieces."""

    span: Span
    """The buffers in which it starts and ends."""
    offset: int
    """Where it starts in the origin's stream."""
    pieces: tuple[bytes | memoryview, ...] | None
    """Its bytes, delimiter included; None if it is too long."""
    length: int
    """How many bytes, delimiter included."""
    sample: bytes = b""
    """The first bytes of a tuple that is too long."""


class Admitted(msgspec.Struct, frozen=True, eq=False):
    """What the arrival of a buffer completed."""

    ending: SpanningTuple | None
    """The tuple that ends in the buffer."""
    others: tuple[SpanningTuple, ...]
    """The tuple that starts in the buffer or passes through it."""


class _OpenTuple:
    """A tuple whose end has not been seen: pieces up to a limit, beyond it only their number of bytes."""

    __slots__ = ("_limit", "length", "offset", "pieces", "sample", "until")

    def __init__(self, offset: int, until: int, limit: int) -> None:
        self.offset = offset
        self.until = until
        self.pieces: list[bytes] | None = []
        self.length = 0
        self.sample = b""
        self._limit = limit

    def append(self, piece: bytes) -> None:
        self.length += len(piece)
        if self.pieces is None:
            return
        if piece:
            self.pieces.append(piece)
        if self.length > self._limit:
            self.sample = b"".join(self.pieces)[:DEAD_LETTER_BYTES]
            self.pieces = None


class SpanningTuples:
    """The spanning tuples of one origin; thread-safe.

    What is held: per buffer that still misses a neighbour its bytes before the first and behind the last delimiter. A
    tuple without an end gives its bytes back as soon as they are known to be more than ``tuple_limit_bytes``.
    """

    def __init__(self, shredder: SequenceShredder, tuple_limit_bytes: int, highest_sequence: int) -> None:
        self.shredder = shredder
        self._limit = tuple_limit_bytes
        self._highest_sequence = highest_sequence
        self._lock = Lock()
        self._open: dict[int, _OpenTuple] = {0: _OpenTuple(0, 0, tuple_limit_bytes)}
        self._middles: dict[int, bytes] = {}
        self._heads: dict[int, bytes] = {}
        self.start_offset = 0
        """Where the origin's first buffer stands in its stream, once it has been seen."""

    def admit(self, raw: RawBuffer, cut: tuple[int, int] | None) -> Admitted | None:
        """Enter a buffer with the offsets behind its first and last delimiter; None: out of range, nothing changed."""
        number = raw.sequence_number
        with self._lock:
            if number in self._heads or number in self._middles or number in self._open:
                raise DuplicateSequenceError(f"expected each sequence number once, was {number} again")
            if cut is None:
                self._middles[number] = raw.data
            else:
                self._heads[number] = raw.data[: cut[0]]
                opened = _OpenTuple(raw.offset + cut[1], number, self._limit)
                opened.append(raw.data[cut[1] :])
                self._open[number] = opened
            if number == 1 and 0 in self._open:
                self._open[0].offset = self.start_offset = raw.offset
        try:
            found = self.shredder.process(number, cut is not None)
        except DuplicateSequenceError:
            self._forget(number)
            raise
        if found is None:
            self._forget(number)
            return None
        with self._lock:
            ending = self._collect(found.ending) if found.ending is not None else None
            others = tuple([self._collect(span) for span in found.others])
            if found.open_first is not None and found.open_first in self._open:
                self._absorb(self._open[found.open_first], found.open_last)
        return Admitted(ending, others)

    def last(self) -> SpanningTuple | None:
        """At the end of the stream: the tuple that lacks its delimiter, None if there is none."""
        span = self.shredder.open_span()
        if span is None:
            return None
        with self._lock:
            opened = self._open.pop(span.first)
            self._absorb(opened, span.last)
        if opened.length == 0:
            return None
        return self._tuple(span, opened, b"")

    def held_bytes(self) -> int:
        """How many bytes wait for a neighbour."""
        with self._lock:
            opened = sum(sum(map(len, o.pieces)) for o in self._open.values() if o.pieces is not None)
            return opened + sum(map(len, self._middles.values())) + sum(map(len, self._heads.values()))

    def _collect(self, span: Span) -> SpanningTuple:
        opened = self._open.pop(span.first)
        self._absorb(opened, span.last)
        return self._tuple(span, opened, self._heads.pop(span.last))

    def _tuple(self, span: Span, opened: _OpenTuple, head: bytes) -> SpanningTuple:
        opened.append(head)
        pieces = None if opened.pieces is None else tuple(opened.pieces)
        return SpanningTuple(span, opened.offset, pieces, opened.length, opened.sample)

    def _absorb(self, opened: _OpenTuple, last: int) -> None:
        """Move the buffers without delimiter up to this one into the open tuple; some may be there already."""
        number = opened.until
        while number != last:
            number = number + 1 if number < self._highest_sequence else 1
            piece = self._middles.pop(number, None)
            if piece is None:
                return
            opened.append(piece)
            opened.until = number

    def _forget(self, number: int) -> None:
        with self._lock:
            self._heads.pop(number, None)
            self._middles.pop(number, None)
            self._open.pop(number, None)

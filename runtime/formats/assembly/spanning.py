"""Bytes of the tuples that span several raw buffers, stored until the last missing buffer arrives."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from runtime.formats.assembly.shredder import Found, Span
from runtime.formats.buffers import DEAD_LETTER_BYTES
from runtime.formats.format import Piece, Run, RunIndex, TupleRange

__all__ = ["SpanningTuples", "TuplePart", "Unit"]

_MOST_WAITING_PIECES: Final = 64
_TINY_PIECE_BYTES: Final = 1 << 12


class Unit:
    """Neighbouring raw buffers that arrived together; the shredder handles them as one buffer."""

    __slots__ = ("cut", "first", "index", "last", "run", "state")

    def __init__(self, first: int, last: int, run: Run) -> None:
        self.first = first
        self.last = last
        self.run = run
        self.index: RunIndex | None = None
        self.cut: TupleRange | None = None
        self.state = 0

    def position_of(self, stop: int) -> int:
        """Return the position of the raw buffer that contains the byte before this offset."""
        pieces = self.run.pieces
        if len(pieces) == 1 or stop <= len(pieces[0]):
            return self.first
        return self.first + min(bisect_left(list(accumulate(map(len, pieces))), stop), len(pieces) - 1)

    def between(self, start: int, stop: int) -> Sequence[Piece]:
        """Return the bytes from one offset to another, not copied."""
        pieces = self.run.pieces
        if len(pieces) > 1:
            made = self.run.__dict__  # bytes that the index has joined need no pieces
            joined = made.get("data", made.get("array"))
            if joined is None:
                return _between(pieces, start, stop, self.run.length)
            return (memoryview(joined)[start:stop],)
        return (memoryview(pieces[0])[start:stop],)


class TuplePart:
    """Whole tuples that are adjacent in the stream: a spanning tuple, or the body of a unit."""

    __slots__ = ("first", "from_place", "last", "length", "offset", "pieces", "position", "sample", "to_place", "unit")

    def __init__(
        self, places: tuple[int, int], span: tuple[int, int], offset: int, pieces: Sequence[Piece] | None, length: int
    ) -> None:
        self.from_place, self.to_place = places
        self.first, self.last = span  # positions of the first and the last raw buffer
        self.offset = offset
        self.pieces = pieces  # None for a tuple that is too long, which has the sample
        self.length = length
        self.sample = b""
        self.position = 0  # the raw buffer in which a spanning tuple ends
        self.unit: Unit | None = None  # the unit of a body


class _Open:
    """Tuple whose end has not been seen: its pieces up to a limit, and beyond the limit only the number of bytes."""

    __slots__ = ("length", "offset", "pieces", "sample", "until")

    def __init__(self, offset: int, until: int) -> None:
        self.offset = offset
        self.until = until
        self.pieces: list[Piece] | None = []
        self.length = 0
        self.sample = b""

    def append(self, pieces: Sequence[Piece], length: int, limit: int) -> None:
        self.length += length
        if self.pieces is None:
            return
        self.pieces += pieces
        if self.length > limit:
            self.sample = b"".join(self.pieces)[:DEAD_LETTER_BYTES]
            self.pieces = None
        elif len(self.pieces) > max(_MOST_WAITING_PIECES, self.length // _TINY_PIECE_BYTES):
            # Many tiny pieces take more memory than their bytes. Large pieces are not joined here, because they would
            # be copied again and again.
            self.pieces = [b"".join(self.pieces)]


class SpanningTuples:
    """Spanning tuples of one origin; the caller has the origin's lock.

    For each unit that still lacks a neighbour, the bytes before its first delimiter and after its last one are stored.
    Of a tuple that is known to be longer than ``limit`` bytes, only the first bytes and the length are stored.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: dict[int, _Open] = {0: _Open(-1, 0)}
        self._middles: dict[int, tuple[int, Sequence[Piece], int]] = {}  # by first position: last, pieces, length
        self._heads: dict[int, tuple[Sequence[Piece], int, int]] = {}  # by last position: pieces, length, end position

    def start_at(self, offset: int) -> None:
        """Set the offset at which the stream starts."""
        if 0 in self._open:
            self._open[0].offset = offset

    def enter(self, unit: Unit, cut: TupleRange) -> TuplePart | None:
        """Store the bytes outside a unit's delimiters; return the part between them."""
        run = unit.run
        if cut.first < 0:
            self._middles[unit.first] = (unit.last, self._kept(run.pieces, run.length), run.length)
            return None
        first, last, length = cut.first, cut.last, run.length
        if unit.first != unit.last or first > self._limit:
            self._heads[unit.last] = (self._kept(unit.between(0, first), first), first, unit.position_of(first))
        else:
            self._heads[unit.last] = ((bytes(run.pieces[0][:first]),), first, unit.last)
        offset = run.offset
        opened = _Open(offset + last if offset >= 0 else -1, unit.last)
        if last < length:
            opened.append(self._kept(unit.between(last, length), length - last), length - last, self._limit)
        self._open[unit.last] = opened
        place = 2 * unit.last
        body = TuplePart(
            (place - 1, place),
            (unit.first, unit.last),
            offset + first if offset >= 0 else -1,
            unit.between(first, last) if first < last else (),
            last - first,
        )
        body.unit = unit
        return body

    def put_together(self, completed: Found, parts: list[TuplePart]) -> None:
        """Assemble the tuples that the shredder has completed."""
        if completed.ending is not None:
            parts.append(self._collect(completed.ending))
        parts += [self._collect(span) for span in completed.others]
        if completed.open_first is not None:
            self._absorb(self._open[completed.open_first], completed.open_last)

    def last(self, span: Span) -> TuplePart | None:
        """Return the tuple that lacks its delimiter at the end of the stream, None if there is none."""
        opened = self._open.pop(span.first)
        self._absorb(opened, span.last)
        if opened.length == 0:
            return None
        return _part(span, 2 * span.last + 1, opened, span.last)

    def held_bytes(self) -> int:
        """Return the number of bytes that wait for a neighbouring buffer."""
        return (
            sum(_length(opened.pieces) + len(opened.sample) for opened in self._open.values())
            + sum(_length(pieces) for _, pieces, _ in self._middles.values())
            + sum(_length(pieces) for pieces, _, _ in self._heads.values())
        )

    def _collect(self, span: Span) -> TuplePart:
        opened = self._open.pop(span.first)
        self._absorb(opened, span.last)
        pieces, length, position = self._heads.pop(span.last)
        opened.append(pieces, length, self._limit)
        return _part(span, 2 * span.last - 1, opened, position)

    def _absorb(self, opened: _Open, last: int) -> None:
        """Move the units without delimiter up to this position into the open tuple, which may contain some already."""
        while opened.until < last and (middle := self._middles.pop(opened.until + 1, None)) is not None:
            opened.until = middle[0]
            opened.append(middle[1], middle[2], self._limit)

    def _kept(self, pieces: Sequence[Piece], length: int) -> Sequence[Piece]:
        """Return a copy, as a few bytes must not keep whole buffers alive; beyond the limit, only the first bytes."""
        if length > self._limit:
            return (b"".join(_between(pieces, 0, DEAD_LETTER_BYTES, length)),)
        return (bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces),) if length else ()


def _part(span: Span, to_place: int, opened: _Open, position: int) -> TuplePart:
    part = TuplePart((2 * span.first, to_place), (span.first, span.last), opened.offset, opened.pieces, opened.length)
    part.sample = opened.sample
    part.position = position
    return part


def _length(pieces: Sequence[Piece] | None) -> int:
    return sum(map(len, pieces)) if pieces is not None else 0


def _between(pieces: Sequence[Piece], start: int, stop: int, length: int) -> list[Piece]:
    """Return the bytes from one offset to another as pieces; usually from the first piece into the last one."""
    low, high = 0, len(pieces) - 1
    if len(pieces) > 1 and (start >= len(pieces[0]) or stop <= length - len(pieces[-1])):
        stops = list(accumulate(map(len, pieces)))
        low, high = bisect_left(stops, start + 1), bisect_left(stops, stop)
        before, behind = (stops[low] - len(pieces[low])) if low <= high else 0, stops[min(high, len(stops) - 1)]
        if low > high or start >= stop:
            return []
        start, length, stop = start - before, behind - before, stop - before
    if low == high:
        return [memoryview(pieces[low])[start:stop]]
    tail = stop - (length - len(pieces[high]))
    return [memoryview(pieces[low])[start:], *pieces[low + 1 : high], memoryview(pieces[high])[:tail]]

"""Ends of unquoted tuples: cuts of runs that may start and stop within a delimiter, and all ends of a block.

The state between two runs is the number of bytes of a delimiter that are matched so far: the length of the longest
prefix of the delimiter that is a suffix of the text after the last delimiter. The next run is searched with these bytes
before it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from runtime.formats.format import Run, RunIndex, SettledIndex, TupleRange

__all__ = [
    "BYTE_ORDER_MARK",
    "QUOTE",
    "STREAM_START",
    "delimiter_ends",
    "index_unquoted",
    "is_bordered",
    "long_cut",
    "matched",
]

STREAM_START: Final = 16
"""State at the start of a stream, where a byte order mark may be; this number plus n is the state after n bytes of the
mark."""
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
"""Byte order mark, which may start a stream and means UTF-8."""

QUOTE: Final = b'"'
"""Quote of a field, if quoting is on."""

_LONGEST_GROUP: Final = 64
"""Greatest number of overlapping matches through which `_bordered_cut` searches backwards."""


def index_unquoted(run: Run, delimiter: bytes) -> RunIndex:
    """Return an index by searches from both ends of the run.

    With a delimiter of one byte the index does not depend on the state.
    """
    if len(delimiter) == 1:
        return SettledIndex(_byte_cut(run, delimiter))
    return _LongIndex(run.data, delimiter)


def _byte_cut(run: Run, delimiter: bytes) -> TupleRange:
    """Return the cut of a run by a delimiter of one byte; search from both ends, without joining the pieces."""
    first = last = -1
    start = 0
    for piece in run.pieces:
        at = _bytes(piece).find(delimiter)
        if at >= 0:
            first = start + at + 1
            break
        start += len(piece)
    if first >= 0:
        stop = run.length
        for piece in reversed(run.pieces):
            stop -= len(piece)
            at = _bytes(piece).rfind(delimiter)
            if at >= 0:
                last = stop + at + 1
                break
    return TupleRange(first, last)


def _bytes(piece: Any) -> bytes:
    return piece if isinstance(piece, bytes) else bytes(piece)


class _LongIndex(RunIndex):
    """Index with a cut for every number of matched bytes."""

    def __init__(self, data: bytes, delimiter: bytes) -> None:
        self._delimiter = delimiter
        self._cuts = [long_cut(data, delimiter, state) for state in range(len(delimiter))]
        self._settled = self._cuts[0] if len(set(self._cuts)) == 1 else None
        ends = {cut.end_state for cut in self._cuts}
        self._end_state = ends.pop() if len(ends) == 1 else None

    @property
    def settled(self) -> TupleRange | None:
        return self._settled

    @property
    def end_state(self) -> int | None:
        return self._end_state

    def cut(self, state: int) -> TupleRange:
        return self._cuts[0 if state == STREAM_START else state]


def long_cut(data: bytes, delimiter: bytes, state: int) -> TupleRange:
    """Return the cut of a run that follows ``state`` bytes of the delimiter."""
    length = len(delimiter)
    if is_bordered(delimiter):
        return _bordered_cut(data, delimiter, state)
    across = (delimiter[:state] + data[: length - 1]).find(delimiter)
    first = across + length - state if across >= 0 else data.find(delimiter) + length
    if across < 0 and first < length:
        return TupleRange(-1, -1, matched(delimiter[:state] + data, delimiter))
    at = data.rfind(delimiter)
    last = at + length if at >= 0 else first
    return TupleRange(first, last, matched(data[last:], delimiter))


def _bordered_cut(data: bytes, delimiter: bytes, state: int) -> TupleRange:
    """Cut a run with delimiters that may overlap.

    Whether a match is a delimiter depends on the match before it. Therefore the last group of overlapping matches is
    split from its first match on; that match is a delimiter in any case. If the group has more than `_LONGEST_GROUP`
    matches, all of the run is split from its first match on instead.
    """
    length = len(delimiter)
    text = delimiter[:state] + data
    first = text.find(delimiter)
    if first < 0:
        return TupleRange(-1, -1, matched(text, delimiter))
    start = text.rfind(delimiter)
    for _ in range(_LONGEST_GROUP):
        before = text.rfind(delimiter, max(start - length + 1, 0), start + length - 1)
        if before < 0:
            break
        start = before
    else:
        start = first
    rest = text[start:].split(delimiter)[-1]
    return TupleRange(first + length - state, len(data) - len(rest), matched(rest, delimiter))


def matched(text: bytes, delimiter: bytes) -> int:
    """Return the length of the longest proper prefix of the delimiter that is a suffix of the text."""
    for length in range(len(delimiter) - 1, 0, -1):
        if text.endswith(delimiter[:length]):
            return length
    return 0


def delimiter_ends(text: bytes, delimiter: bytes) -> Any:
    """Return an int64 array of the offset after each delimiter of a text, leftmost first and not overlapping."""
    codes = np.frombuffer(text, np.uint8)
    length = len(delimiter)
    if length == 1:
        return np.flatnonzero(codes == delimiter[0]) + 1
    if is_bordered(delimiter):
        parts = text.split(delimiter)[:-1]
        return np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)) + length)
    starts = np.flatnonzero(codes[: max(len(codes) - length + 1, 0)] == delimiter[0])
    for place in range(1, length):
        starts = starts[codes[starts + place] == delimiter[place]]
    return starts + length


def is_bordered(delimiter: bytes) -> bool:
    """Return True if an end of the delimiter is also its beginning, so that two of them can overlap.

    >>> is_bordered(b"aab"), is_bordered(b"aba")
    (False, True)
    """
    return any(delimiter.endswith(delimiter[:n]) for n in range(1, len(delimiter)))

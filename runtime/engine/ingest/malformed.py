"""Malformed tuples that no epoch counts yet."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import msgspec
import numpy as np

from runtime.formats import DeadLetter

__all__ = ["MalformedTuples", "Passed"]

_MOST_LETTERS: Final = 1000
_MOST_COUNTED: Final = 1 << 20


class _Bad(msgspec.Struct, frozen=True, eq=False):
    """Those of one batch."""

    offsets: Any
    """int64 array: where each of them starts, in order; not empty."""
    letters: tuple[DeadLetter, ...]
    """Those of them that are described."""
    more: int = 0
    """So many stand behind them, nobody knows where: too many wait."""
    until: int = 0
    """Then also: none of these starts behind this offset."""


class Passed(msgspec.Struct, frozen=True):
    """Malformed tuples that a cut has passed."""

    letters: tuple[DeadLetter, ...] = ()
    """Those that are described."""
    count: int = 0
    """How many they are."""
    until: int = 0
    """None of them starts behind this offset."""


class MalformedTuples:
    """Malformed tuples in stream order that wait for a cut to pass them: before that, a restart reads them again.

    Each is told once, with the epoch whose cut is the first behind it. At most some thousand are described; of those
    beyond the first million that wait, as where nothing well-formed comes, only the number is known.
    """

    def __init__(self) -> None:
        self._waiting: deque[_Bad] = deque()
        self._letters = 0
        self._counted = 0

    @property
    def first_described(self) -> int | None:
        """Where the first one starts that waits and is described; None if there is none."""
        if not self._letters:
            return None
        return next(bad.letters[0].byte_offset for bad in self._waiting if bad.letters)

    def add(self, offsets: Any, letters: tuple[DeadLetter, ...], end_offset: int) -> None:
        """Those of the next batch, which ends at this offset: where each starts, and those that are described."""
        if self._waiting and self._counted + len(offsets) > _MOST_COUNTED:
            last = self._waiting.pop()
            self._waiting.append(msgspec.structs.replace(last, more=last.more + len(offsets), until=end_offset))
            return
        letters = letters[: _MOST_LETTERS - self._letters]
        self._waiting.append(_Bad(offsets, letters))
        self._letters += len(letters)
        self._counted += len(offsets)

    def passed(self, offset: int) -> Passed:
        """Those that start before this offset; none of them waits any more."""
        letters: list[DeadLetter] = []
        count = until = 0
        while self._waiting and self._waiting[0].offsets[0] < offset:
            bad = self._waiting.popleft()
            stop = int(np.searchsorted(bad.offsets, offset))
            told = [letter for letter in bad.letters if letter.byte_offset < offset]
            letters += told
            self._letters -= len(told)
            self._counted -= stop
            count += stop
            until = int(bad.offsets[stop - 1])
            if stop < len(bad.offsets):
                rest = msgspec.structs.replace(bad, offsets=bad.offsets[stop:], letters=bad.letters[len(told) :])
                self._waiting.appendleft(rest)
                break
            if bad.more:
                count += bad.more
                until = bad.until
        return Passed(tuple(letters), count, until)

    def clear(self) -> None:
        """None waits: they will be read again."""
        self._waiting.clear()
        self._letters = self._counted = 0

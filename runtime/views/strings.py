"""Strings as numbers, with arrays for kernels: the order of strings, and the results of tests.

Kernels read only numbers. Equal strings have equal numbers. To compare strings a kernel reads ranks, which are ordered
like the strings; for LIKE it reads one array per pattern, for IN one per list. The arrays grow with the pool. Strings
that no row has any more are dropped when a base is written.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Final
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.native.structures import Structure

__all__ = ["Strings"]

Words = npt.NDArray[np.int64]

_LEAST: Final = 64
"""Number of strings for which a new array has room."""
_GAP: Final = 1 << 32
"""Distance of the ranks of neighbours after all strings were ranked."""
_FEW: Final = 64
"""Greatest number of values that are converted one by one, because calls of Arrow may release the interpreter lock."""
_STRING: Final = pa.string()
_MANY: Final = 8
"""New strings are ranked one by one if this many strings per new one are ranked already; otherwise all are ranked
again.
"""


class _PerString(Structure):
    """Array with a number for every string, and how often all of these numbers were replaced."""

    def __init__(self) -> None:
        super().__init__(2)
        self.put(0, np.zeros(_LEAST, np.int64))
        self.put(1, np.zeros(1, np.int64))


class _Tested(_PerString):
    """Array of flags of the strings that pass a test: those LIKE a pattern, or those of a list."""

    def __init__(self, test: str | frozenset[str]) -> None:
        """Prepare a test: a pattern of LIKE, or the strings of a list."""
        super().__init__()
        self._passes = _like(test) if isinstance(test, str) else test.__contains__
        self.known = 0
        """Number of strings that were tested."""

    def follow(self, strings: Sequence[str]) -> None:
        """Test the new strings."""
        if self.known < len(strings):
            _reserve(self, len(strings))
            self.array(0)[self.known : len(strings)] = [bool(self._passes(text)) for text in strings[self.known :]]
            self.known = len(strings)


def _like(pattern: str) -> Callable[[str], object]:
    """Return a function whose result is true for strings LIKE a pattern, in time linear in the length of the string.

    The first match of a part between two ``%`` is never worse than a later one, so it is final (an atomic group).
    Otherwise the time would be a power of the length, with the number of ``%`` as the exponent.
    """
    parts = ["".join("." if char == "_" else re.escape(char) for char in part) for part in pattern.split("%")]
    if len(parts) == 1:
        return re.compile(parts[0], re.DOTALL).fullmatch
    first, *middle, last = parts
    return re.compile("".join([first, *(f"(?>.*?{part})" for part in middle), ".*", last]), re.DOTALL).fullmatch


class Strings:
    """Numbers of strings, counted up from 0 in the order of their first use. One owner at a time."""

    def __init__(self, strings: Iterable[str] = ()) -> None:
        self._strings = list(strings)
        self._numbers = {text: number for number, text in enumerate(self._strings)}
        self._array = pa.array([], pa.string())
        self._ranks: _PerString | None = None
        self._sorted: list[str] = []
        self._labels: list[int] = []
        self._ranked = 0
        # A test is dropped with the last kernel that reads its array.
        self._tested: WeakValueDictionary[str | frozenset[str], _Tested] = WeakValueDictionary()
        self._refreshed = 0
        """Number of strings that every array contains; -1 if there is a new array."""

    def __len__(self) -> int:
        return len(self._strings)

    def texts(self) -> list[str]:
        """Return all strings in the order of their numbers."""
        return list(self._strings)

    def number(self, text: str) -> int:
        """Return the number of a string; after a new string, `refresh` must be called before a kernel runs."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self._strings)
            self._strings.append(text)
        return number

    def text(self, number: int) -> str:
        """Return the string that has this number."""
        return self._strings[number]

    def replace(self, strings: Iterable[str]) -> None:
        """Replace all strings; the constants of every kernel must be resolved afterwards."""
        self._strings = list(strings)
        self._numbers = {text: number for number, text in enumerate(self._strings)}
        self._array = pa.array([], pa.string())
        self._sorted, self._labels, self._ranked = [], [], 0
        for each in self._tested.values():
            each.known = 0
        self._refreshed = -1
        self.refresh()

    def keep(self, used: Words) -> Words:
        """Drop all strings but those with these numbers; return an array from old to new number."""
        numbers = np.zeros(max(1, len(self._strings)), np.int64)
        numbers[used] = np.arange(len(used))
        self.replace([self._strings[number] for number in used.tolist()])
        return numbers

    def encode(self, column: pa.Array) -> Words:
        """Return the numbers of a string column's values, with 0 for NULL.

        The loop is over distinct values only, unless the column has few values.
        """
        if len(column) <= _FEW and column.type == _STRING:
            known = self._numbers
            texts = column.to_pylist()
            ids = [known[text] if text in known else 0 if text is None else self.number(text) for text in texts]
            return np.array(ids, np.int64)
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        numbers = np.zeros(len(encoded.dictionary) + 1, np.int64)
        numbers[:-1] = [self.number(text) for text in encoded.dictionary.to_pylist()]
        codes = encoded.indices.fill_null(len(encoded.dictionary)) if column.null_count else encoded.indices
        return np.asarray(numbers.take(codes.to_numpy()))

    def decode(self, numbers: Words, valid: npt.NDArray[np.bool_] | None = None) -> pa.Array:
        """Return the strings with these numbers, and NULL where ``valid`` is False."""
        if len(numbers) <= _FEW:
            known, places = self._strings, numbers.tolist()
            if valid is None:
                return pa.array([known[place] for place in places], _STRING)
            is_there = valid.tolist()
            return pa.array([known[x] if there else None for x, there in zip(places, is_there, strict=True)], _STRING)
        if len(self._array) != len(self._strings):
            added = pa.array(self._strings[len(self._array) :], pa.string())
            self._array = pa.concat_arrays([self._array, added])
        return self._array.take(pa.array(numbers, mask=None if valid is None else ~valid))

    def ranks(self) -> Structure:
        """Return the structure of ranks, which are ordered like the strings.

        A string keeps its rank until all ranks are replaced; place 1 of the structure counts these replacements.
        """
        if self._ranks is None:
            self._ranks = _PerString()
            self._refreshed = -1
        self.refresh()
        return self._ranks

    def tested(self, test: str | frozenset[str]) -> Structure:
        """Return the array that is 1 for strings LIKE a pattern (case-sensitive, without escape), or in a list."""
        tested = self._tested.get(test)
        if tested is None:
            tested = self._tested[test] = _Tested(test)
            self._refreshed = -1
        self.refresh()
        return tested

    def refresh(self) -> None:
        """Add to all arrays the strings that are new since the last call."""
        count = len(self._strings)
        if count == self._refreshed:
            return
        self._refreshed = count
        for each in self._tested.values():
            each.follow(self._strings)
        if self._ranks is not None and self._ranked < count:
            _reserve(self._ranks, count)
            self._rank(self._ranks, self._strings[self._ranked :])
            self._ranked = count

    def _rank(self, ranks: Structure, added: list[str]) -> None:
        if len(added) * _MANY <= len(self._sorted):
            for text in added:
                if not self._insert(ranks, text):
                    break
            else:
                return
        self._sorted = sorted(self._strings)
        self._labels = [place * _GAP for place in range(len(self._sorted))]
        cells = ranks.array(0)
        cells[[self._numbers[text] for text in self._sorted]] = self._labels
        ranks.views[1][0] += 1

    def _insert(self, ranks: Structure, text: str) -> bool:
        """Insert a string with a label between its neighbours' labels; return False if no label is left there."""
        place = bisect_left(self._sorted, text)
        low = self._labels[place - 1] if place else self._labels[0] - 2 * _GAP
        high = self._labels[place] if place < len(self._labels) else low + 2 * _GAP
        if high - low < 2 or not -(2**62) < low < 2**62:
            return False
        label = (low + high) // 2
        self._sorted.insert(place, text)
        self._labels.insert(place, label)
        ranks.array(0)[self._numbers[text]] = label
        return True


def _reserve(cells: Structure, count: int) -> None:
    room = len(cells.array(0))
    if count > room:
        while room < count:
            room *= 2
        cells.extend(0, room)

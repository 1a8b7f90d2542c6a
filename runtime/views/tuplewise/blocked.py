"""Sorted keys with sums over any interval of them: the ordered index of the tuple-wise kernel.

The keys lie in blocks of a hundred or two, as in sortedcontainers' lists of lists; beside each block stands the sum of
each column over it, and beside every 64 blocks the sum over those. An update is a bisection, an insertion into a short
list and two additions; a prefix sum is the sums of three short slices, which Python's ``sum`` does in C. Not a Fenwick
tree, whose every step is interpreted, nor arrays of numpy, whose calls take a microsecond each and whose sums wrap.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import pairwise
from operator import add
from typing import Any, Final

__all__ = ["BlockedSums", "Position"]

Position = tuple[int, int]
"""A block and a place in it: what stands before it is a prefix of the keys."""

_LOAD: Final = 96  # a block is split at twice this and joined to its neighbour at a third of it
_SHIFT: Final = 6


class BlockedSums:
    """Distinct comparable keys, ascending, each with ``width`` exact integers; a key whose integers are all 0 is gone.

    Updates and prefix sums take a few microseconds up to millions of keys.

    >>> held = BlockedSums(2)
    >>> [held.add(key, (1, 10 * key)) for key in (5, 1, 3)]
    [1, 1, 1]
    >>> held.prefix(held.upto(3), 1)
    40
    >>> held.add(3, (-1, -30))
    -1
    >>> list(held)
    [1, 5]
    """

    __slots__ = ("_columns", "_keys", "_last", "_sums", "_tops", "irregular", "totals")

    def __init__(self, width: int) -> None:
        self.irregular = 0
        """Keys whose first integer, the weight, is not positive or of which another is negative."""
        self.totals = [0] * width
        """The sum of each column over all keys."""
        self._keys: list[list[Any]] = []
        self._last: list[Any] = []
        self._columns: list[list[list[int]]] = [[] for _ in range(width)]
        self._sums: list[list[int]] = [[] for _ in range(width)]
        self._tops: list[list[int]] = [[] for _ in range(width)]

    def __bool__(self) -> bool:
        return bool(self._last)

    def __len__(self) -> int:
        return sum(map(len, self._keys))

    def __iter__(self) -> Iterator[Any]:
        for block in self._keys:
            yield from block

    @property
    def end(self) -> Position:
        """The position after all keys."""
        return len(self._last), 0

    @property
    def least(self) -> Any:
        """The first key; there must be one."""
        return self._keys[0][0]

    @property
    def greatest(self) -> Any:
        """The last key; there must be one."""
        return self._last[-1]

    def below(self, key: Any) -> Position:
        """The position after all keys that are less."""
        at = bisect_left(self._last, key)
        return (at, bisect_left(self._keys[at], key)) if at < len(self._last) else (at, 0)

    def upto(self, key: Any) -> Position:
        """The position after all keys that are less or equal."""
        at = bisect_right(self._last, key)
        return (at, bisect_right(self._keys[at], key)) if at < len(self._last) else (at, 0)

    def prefix(self, position: Position, column: int) -> int:
        """The sum of a column over the keys before a position."""
        at, within = position
        sums = self._sums[column]
        top = at >> _SHIFT
        total = sum(sums[top << _SHIFT : at])
        if top:
            total += sum(self._tops[column][:top])
        if within:
            block = self._columns[column][at]
            if 2 * within <= len(block):
                return total + sum(block[:within])
            return total + sums[at] - sum(block[within:])
        return total

    def key_before(self, position: Position) -> Any:
        """The last key before a position, None where there is none."""
        at, within = position
        if within:
            return self._keys[at][within - 1]
        return self._last[at - 1] if at else None

    def first(self, test: Callable[[Any], bool], near: Any = None) -> Any:
        """The least key for which a test is true that is false for all before it and true for all after it.

        None where it is true for none. The search goes out from the key ``near``: a few tests where that is close.
        """
        last = self._last
        if not last:
            return None
        at, within = (0, 0) if near is None else self.below(near)
        if at == len(last):
            at -= 1
            within = len(self._keys[at]) - 1
        keys = self._keys[at]
        step = 1
        if test(keys[within]):
            low, high = within - 1, within
            while low >= 0 and test(keys[low]):
                step *= 2
                low, high = low - step, low
            if low >= 0 or not at or not test(last[at - 1]):
                return keys[bisect_left(keys, True, max(low + 1, 0), high, key=test)]
            at = bisect_left(last, True, 0, at - 1, key=test)
        else:
            low, high = within + 1, within + 1
            while high < len(keys) and not test(keys[high]):
                step *= 2
                low, high = high + 1, high + step
            if high < len(keys) or test(last[at]):
                return keys[bisect_left(keys, True, low, min(high, len(keys) - 1), key=test)]
            at = bisect_left(last, True, at + 1, key=test)
            if at == len(last):
                return None
        keys = self._keys[at]
        return keys[bisect_left(keys, True, 0, len(keys) - 1, key=test)]

    def add(self, key: Any, deltas: tuple[int, ...]) -> int:
        """Add to a key's integers; 1 if it was not there before, -1 if it is gone now, else 0."""
        last = self._last
        at = bisect_left(last, key)
        if at == len(last):
            if not any(deltas):
                return 0
            if at:
                at -= 1
                within = len(self._keys[at])
                last[at] = key
            else:
                self._open_block(key)
                within = 0
        else:
            keys = self._keys[at]
            within = bisect_left(keys, key)
            if keys[within] == key:
                return self._change(at, within, deltas)
            if not any(deltas):
                return 0
        self._insert(at, within, key, deltas)
        return 1

    def _insert(self, at: int, within: int, key: Any, deltas: tuple[int, ...]) -> None:
        keys = self._keys[at]
        keys.insert(within, key)
        for column, delta in enumerate(deltas):
            self._columns[column][at].insert(within, delta)
        self._add_to_sums(at, deltas)
        self.irregular += deltas[0] <= 0 or min(deltas) < 0
        if len(keys) > 2 * _LOAD:
            self._split(at)

    def _change(self, at: int, within: int, deltas: tuple[int, ...]) -> int:
        self._add_to_sums(at, deltas)
        blocks = [column[at] for column in self._columns]
        old = [block[within] for block in blocks]
        new = list(map(add, old, deltas))
        if old[0] <= 0 or min(old) < 0:
            self.irregular -= 1
        if any(new):
            if new[0] <= 0 or min(new) < 0:
                self.irregular += 1
            for block, value in zip(blocks, new):  # noqa: B905  # strict costs as much as the rest of the line
                block[within] = value
            return 0
        keys = self._keys[at]
        del keys[within]
        for column in self._columns:
            del column[at][within]
        if keys:
            self._last[at] = keys[-1]
        if len(keys) < _LOAD // 3:
            self._join(at)
        return -1

    def _add_to_sums(self, at: int, deltas: tuple[int, ...]) -> None:
        top = at >> _SHIFT
        for sums, tops, delta in zip(self._sums, self._tops, deltas):  # noqa: B905  # strict costs as much as a line
            sums[at] += delta
            tops[top] += delta
        self.totals = list(map(add, self.totals, deltas))

    def _open_block(self, key: Any) -> None:
        self._keys.append([])
        self._last.append(key)
        for column, sums, tops in zip(self._columns, self._sums, self._tops, strict=True):
            column.append([])
            sums.append(0)
            tops.append(0)

    def _split(self, at: int) -> None:
        keys = self._keys[at]
        half = len(keys) // 2
        self._keys[at : at + 1] = [keys[:half], keys[half:]]
        self._last.insert(at, keys[half - 1])
        for column, sums in zip(self._columns, self._sums, strict=True):
            block = column[at]
            column[at : at + 1] = [block[:half], block[half:]]
            sums[at : at + 1] = [sum(block[:half]), sum(block[half:])]
        self._sum_tops(at)

    def _join(self, at: int) -> None:
        """A block that has become short goes into a neighbour, and an empty one goes."""
        if len(self._last) == 1:
            if self._keys[0]:
                return
            for lists in (self._keys, self._last, *self._columns, *self._sums, *self._tops):
                lists.clear()
            return
        at = max(at - 1, 0)
        for blocks in (self._keys, *self._columns):
            blocks[at] += blocks.pop(at + 1)
        del self._last[at]
        self._last[at] = self._keys[at][-1]
        for sums in self._sums:
            sums[at] += sums.pop(at + 1)
        self._sum_tops(at)
        if len(self._keys[at]) > 2 * _LOAD:
            self._split(at)

    def _sum_tops(self, at: int) -> None:
        """The sums over blocks again, from a block on whose number others have changed."""
        first = at >> _SHIFT
        for sums, tops in zip(self._sums, self._tops, strict=True):
            tops[first:] = [
                sum(sums[start : start + (1 << _SHIFT)]) for start in range(first << _SHIFT, len(sums), 1 << _SHIFT)
            ]

    def _check(self) -> None:
        """Assert every invariant."""
        keys = list(self)
        assert all(a < b for a, b in pairwise(keys))
        assert self._last == [block[-1] for block in self._keys]
        assert all(0 < len(block) <= 2 * _LOAD for block in self._keys)
        rows = [
            tuple(column[at][i] for column in self._columns) for at, b in enumerate(self._keys) for i in range(len(b))
        ]
        assert all(map(any, rows))
        assert self.irregular == sum(row[0] <= 0 or min(row) < 0 for row in rows)
        for place, (column, sums, tops) in enumerate(zip(self._columns, self._sums, self._tops, strict=True)):
            assert sums == [sum(block) for block in column]
            assert tops == [sum(sums[start : start + (1 << _SHIFT)]) for start in range(0, len(sums), 1 << _SHIFT)]
            assert self.totals[place] == sum(sums)

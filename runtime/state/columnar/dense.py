"""A layout of an ordered index for small ranges of keys: dense sums with running totals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from runtime.state.columnar.exactsums import Exact, fit, largest
from runtime.state.columnar.packing import Packing

__all__ = ["Dense"]

Integers = npt.NDArray[np.int64]

_ROOM: Final = 2**62
_LOOSE: Final = 2**58
"""Magnitudes that are added up are found anew from here on: what reads the index needs room for sums of several."""


class Dense:
    """Sums in arrays of groups × offsets, with running totals."""

    def __init__(self, sums: int, groups: int, packing: Packing) -> None:
        self.groups = groups
        self._packing = packing
        self._cells: list[Exact] = [np.zeros((groups, 1 << packing.bits), np.int64) for _ in range(sums)]
        self._running: list[Exact] = [np.zeros((groups, (1 << packing.bits) + 1), np.int64) for _ in range(sums)]
        self._stale: list[slice | None] = [None] * sums  # groups whose running totals are not those of the cells
        self._used = slice(0, 0)  # all others have only zeros
        self._magnitudes = [0] * sums  # at least the sum of all magnitudes

    def entries(self) -> int:
        """How many cells are not 0."""
        return int(np.count_nonzero(self._occupied()))

    def bounds(self) -> list[int]:
        """See `OrderedIndex.bounds`."""
        return list(self._magnitudes)

    def add(self, groups: Integers, keys: Integers, values: list[Exact], bounds: Sequence[int] | None = None) -> None:
        """Add deltas; (group, key) may repeat. ``bounds``: of the magnitudes of each sum."""
        places, touched = keys - self._packing.base, slice(0, 1)
        self._reach(int(np.minimum.reduce(places)), int(np.maximum.reduce(places)) + 1)
        if self.groups > 1:
            places += groups << self._packing.bits
            touched = slice(int(np.minimum.reduce(groups)), int(np.maximum.reduce(groups)) + 1)
        for number, given in enumerate(values):
            (value,) = self._prepared(number, given, None if bounds is None else bounds[number])
            np.add.at(self._cells[number].reshape(-1), places, value)
            stale = self._stale[number]
            self._stale[number] = touched if stale is None else _both(stale, touched)

    def below(self, groups: Integers, bounds: Exact, *, inclusive: bool) -> list[Exact]:
        """See `OrderedIndex.below`."""
        flat = self._flat(groups, bounds, inclusive=inclusive)
        return [self._upto(number).reshape(-1).take(flat) for number in range(len(self._cells))]

    def above(self, groups: Integers, bounds: Exact, *, inclusive: bool) -> list[Exact]:
        """See `OrderedIndex.above`."""
        flat = self._flat(groups, bounds, inclusive=not inclusive)
        found = []
        for number in range(len(self._cells)):
            running = self._upto(number)
            found.append(running[:, self._used.stop].take(groups) - running.reshape(-1).take(flat))
        return found

    def between(self, groups: Integers, low: int, high: int) -> list[Exact]:
        """See `OrderedIndex.between`."""
        begin, end = self._place(low, inclusive=False), self._place(high, inclusive=True)
        # Once along the cells, and not along all of them for running totals that nobody else may ask for.
        return [np.add.reduce(cells[:, begin:end], axis=1)[groups] for cells in self._cells]

    def totals(self, groups: Integers) -> list[Exact]:
        """See `OrderedIndex.totals`."""
        return [self._upto(number)[:, self._used.stop].take(groups) for number in range(len(self._cells))]

    def first_reaching(self, number: int, target: int) -> int | None:
        """See `OrderedIndex.first_reaching`."""
        running = self._upto(number)[0, : self._used.stop + 1]
        place = int(running.searchsorted(target))
        return self._packing.base + max(place - 1, 0) if place < len(running) else None

    def total(self, numbers: Sequence[int]) -> list[int]:
        """See `OrderedIndex.total`."""
        return [self._upto(number).item(0, self._used.stop) for number in numbers]

    def prefix(self, numbers: Sequence[int], *, inclusive: bool, is_above: bool) -> Callable[[int], list[int]]:
        """See `OrderedIndex.prefix`."""
        last, shift = self._used.stop, inclusive - self._packing.base
        values = [self._upto(number)[0].item for number in numbers]
        totals = [value(last) for value in values]

        def read(bound: int) -> list[int]:
            place = bound + shift
            place = 0 if place < 0 else min(place, last)
            if is_above:
                return [total - value(place) for total, value in zip(totals, values, strict=True)]
            return [value(place) for value in values]

        return read

    def span(self) -> tuple[int, int] | None:
        """See `OrderedIndex.span`."""
        if not self._packing.bits:
            return None
        return max(self._packing.base, -(2**63)), min(self._packing.base + (1 << self._packing.bits) - 2, 2**63 - 1)

    def has_negative(self, numbers: Sequence[int]) -> bool:
        """See `OrderedIndex.has_negative`."""
        used = self._used
        return any(np.minimum.reduce(self._cells[number][:, used], axis=None, initial=0) < 0 for number in numbers)

    def content(self) -> tuple[Integers, Integers, list[Exact]]:
        """See `OrderedIndex.entries`."""
        groups, places = np.nonzero(self._occupied())
        return groups, places + self._packing.base, [cells[groups, places] for cells in self._cells]

    def keys_of_group(self, group: int) -> Integers:
        """See `OrderedIndex.keys_of_group`."""
        occupied = np.zeros(1 << self._packing.bits, np.bool_)
        for cells in self._cells:
            occupied |= cells[group] != 0
        return np.flatnonzero(occupied) + self._packing.base

    def _occupied(self) -> npt.NDArray[np.bool_]:
        occupied = np.zeros((self.groups, 1 << self._packing.bits), np.bool_)
        for cells in self._cells:
            occupied |= cells != 0
        return occupied

    def _prepared(self, number: int, value: Exact, bound: int | None) -> tuple[Exact, ...]:
        """A delta in the type of its column, which is widened first if a running total might not fit any more."""
        cells = self._cells[number]
        self._magnitudes[number] += (largest(value) if bound is None else bound) * value.size
        if cells.dtype != object and self._magnitudes[number] >= _LOOSE:
            self._magnitudes[number] = int(np.abs(cells).astype(object).sum()) + largest(value) * value.size
            if self._magnitudes[number] >= _ROOM:
                self._cells[number] = cells = cells.astype(object)
                self._running[number] = self._running[number].astype(object)
        return fit(0 if cells.dtype != object else _ROOM, value)

    def _reach(self, begin: int, end: int) -> None:
        """Take places into use; the running totals end where the used places do."""
        used = slice(begin, end) if self._used.stop == 0 else _both(self._used, slice(begin, end))
        if used != self._used:
            self._used = used
            self._stale = [slice(0, self.groups)] * len(self._cells)

    def _flat(self, groups: Integers, bounds: Exact, *, inclusive: bool) -> Integers:
        """Where the running totals of what is below bounds stand."""
        flat = np.minimum(self._packing.places(bounds, inclusive=inclusive), self._used.stop)
        if self.groups > 1:
            flat += groups * ((1 << self._packing.bits) + 1)
        return flat

    def _place(self, bound: int, *, inclusive: bool) -> int:
        return min(max(bound - self._packing.base + inclusive, 0), self._used.stop)

    def _upto(self, number: int) -> Exact:
        """The running totals of one sum up to the last place in use, after adding what they lack."""
        stale, used = self._stale[number], self._used
        if stale is not None:
            begin, end = used.start, used.stop
            np.cumsum(self._cells[number][stale, used], axis=1, out=self._running[number][stale, begin + 1 : end + 1])
            self._stale[number] = None
        return self._running[number]

    def _check(self) -> None:
        begin, end = self._used.start, self._used.stop
        for number, cells in enumerate(self._cells):
            running = self._upto(number)
            assert (running[:, : begin + 1] == 0).all()
            assert (np.diff(running[:, : end + 1], axis=1) == cells[:, :end]).all()
            assert (cells[:, end:] == 0).all()


def _both(left: slice, right: slice) -> slice:
    return slice(min(left.start, right.start), max(left.stop, right.stop))

"""The two layouts of an ordered index: dense running totals, and a spine of sorted runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from runtime.state.exactsums import Exact, fit, grouped, largest, of_integers

__all__ = ["Dense", "Packing", "Run", "Spine"]

Integers = npt.NDArray[np.int64]

_WORD: Final = 62
_SMALL: Final = 1 << 15
"""Runs up to this many entries are merged with any batch: a rewrite of them costs no more than looking into two."""
_FACTOR: Final = 4
_ROOM: Final = 2**62


class Packing(msgspec.Struct, frozen=True):
    """How a group number and a key become one sortable number: ``group << bits | key - base``."""

    base: int
    """The least key that can be held."""
    bits: int
    """Keys from ``base`` to ``base + 2**bits - 2`` can be held: one less, so that a bound can lie behind them."""

    def holds(self, lowest: int, highest: int) -> bool:
        """Whether keys between these have a place."""
        return lowest >= self.base and highest - self.base < (1 << self.bits) - 1

    def widened(self, lowest: int, highest: int) -> Packing:
        """A packing for these keys besides its own, with as much room again on the side that grew."""
        if self.bits == 0:
            span = highest - lowest + 2
            bits = max((2 * span).bit_length(), 6)
            return Packing(lowest - ((1 << bits) - span) // 2, bits)
        low, high = min(self.base, lowest), max(self.base + (1 << self.bits) - 2, highest)
        if low == self.base and high == self.base + (1 << self.bits) - 2:
            return self
        bits = (high - low + 2).bit_length()
        spare = (1 << bits) - (high - low + 2)
        return Packing(low - spare if low < self.base else low, bits)

    @property
    def is_wide(self) -> bool:
        """Whether offsets need Python integers, as they do for keys all over the 64 bits."""
        return self.bits > _WORD

    def offsets(self, keys: Integers) -> Exact:
        """Keys that can be held, as offsets."""
        return keys.astype(object) - self.base if self.is_wide else keys - self.base

    def keys(self, offsets: Exact) -> Integers:
        """The inverse of `offsets`."""
        found: Integers = (offsets + self.base).astype(np.int64)
        return found

    def places(self, bounds: Exact, *, inclusive: bool) -> Exact:
        """Bounds of any size as offsets: entries below one are those whose offset is less."""
        if bounds.dtype == object or self.is_wide:
            last = (1 << self.bits) - 1
            moved = [min(max(int(b) - self.base + inclusive, 0), last) for b in bounds]
            return np.array(moved, object if self.is_wide else np.int64)
        # Clipped first, so that a bound far outside cannot wrap.
        top = self.base + (1 << self.bits) - 2
        inside = np.clip(bounds, max(self.base - 1, -(2**63)), min(top, 2**63 - 1))
        places: Integers = np.clip(inside - self.base + inclusive, 0, (1 << self.bits) - 1)
        return places


class Dense:
    """Sums in arrays of groups × offsets, with running totals."""

    def __init__(self, sums: int, groups: int, packing: Packing) -> None:
        self.groups = groups
        self._packing = packing
        self._cells: list[Exact] = [np.zeros((groups, 1 << packing.bits), np.int64) for _ in range(sums)]
        self._running: list[Exact] = [np.zeros((groups, (1 << packing.bits) + 1), np.int64) for _ in range(sums)]
        self._stale: list[slice | None] = [None] * sums  # groups whose running totals are not those of the cells
        self._magnitudes = [0] * sums  # at least the sum of all magnitudes

    def entries(self) -> int:
        """How many cells are not 0."""
        return int(np.count_nonzero(self._occupied()))

    def add(self, groups: Integers, keys: Integers, values: list[Exact]) -> None:
        """Add deltas; (group, key) may repeat."""
        places, touched = keys - self._packing.base, slice(0, 1)
        if self.groups > 1:
            places += groups << self._packing.bits
            touched = slice(int(groups.min()), int(groups.max()) + 1)
        for number, given in enumerate(values):
            (value,) = self._prepared(number, given)
            np.add.at(self._cells[number].reshape(-1), places, value)
            stale = self._stale[number]
            self._stale[number] = touched if stale is None else _both(stale, touched)

    def below(self, groups: Integers, bounds: Exact, *, inclusive: bool) -> list[Exact]:
        """See `OrderedIndex.below`."""
        places = self._packing.places(bounds, inclusive=inclusive)
        flat = groups * ((1 << self._packing.bits) + 1) + places
        return [self._upto(number).reshape(-1)[flat] for number in range(len(self._cells))]

    def between(self, groups: Integers, low: int, high: int) -> list[Exact]:
        """See `OrderedIndex.between`."""
        begin, end = self._place(low, inclusive=False), self._place(high, inclusive=True)
        # Once along the cells, and not along all of them for running totals that nobody else may ask for.
        return [cells[:, begin:end].sum(axis=1)[groups] for cells in self._cells]

    def totals(self, groups: Integers) -> list[Exact]:
        """See `OrderedIndex.totals`."""
        return [self._upto(number)[groups, -1] for number in range(len(self._cells))]

    def first_reaching(self, number: int, target: int) -> int | None:
        """See `OrderedIndex.first_reaching`."""
        running = self._upto(number)[0]
        place = int(running.searchsorted(target))
        return self._packing.base + max(place - 1, 0) if place < len(running) else None

    def total(self, numbers: Sequence[int]) -> list[int]:
        """See `OrderedIndex.total`."""
        return [int(self._upto(number)[0, -1]) for number in numbers]

    def prefix(self, bound: int, numbers: Sequence[int], *, inclusive: bool) -> list[int]:
        """See `OrderedIndex.prefix`."""
        place = self._place(bound, inclusive=inclusive)
        return [self._upto(number).item(0, place) for number in numbers]

    def span(self) -> tuple[int, int] | None:
        """See `OrderedIndex.span`."""
        if not self._packing.bits:
            return None
        return max(self._packing.base, -(2**63)), min(self._packing.base + (1 << self._packing.bits) - 2, 2**63 - 1)

    def has_negative(self, numbers: Sequence[int]) -> bool:
        """See `OrderedIndex.has_negative`."""
        return any(self._cells[number].min() < 0 for number in numbers)

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

    def _prepared(self, number: int, value: Exact) -> tuple[Exact, ...]:
        """A delta in the type of its column, which is widened first if a running total might not fit any more."""
        cells = self._cells[number]
        self._magnitudes[number] += largest(value) * value.size
        if cells.dtype != object and self._magnitudes[number] >= _ROOM:
            self._magnitudes[number] = int(np.abs(cells).astype(object).sum()) + largest(value) * value.size
            if self._magnitudes[number] >= _ROOM:
                self._cells[number] = cells = cells.astype(object)
                self._running[number] = self._running[number].astype(object)
        return fit(0 if cells.dtype != object else _ROOM, value)

    def _place(self, bound: int, *, inclusive: bool) -> int:
        return min(max(bound - self._packing.base + inclusive, 0), (1 << self._packing.bits) - 1)

    def _upto(self, number: int) -> Exact:
        """The running totals of one sum, after what they lack."""
        stale = self._stale[number]
        if stale is not None:
            np.cumsum(self._cells[number][stale], axis=1, out=self._running[number][stale, 1:])
            self._stale[number] = None
        return self._running[number]

    def _check(self) -> None:
        for number, cells in enumerate(self._cells):
            running = self._upto(number)
            assert (running[:, 0] == 0).all()
            assert (np.diff(running, axis=1) == cells).all()


def _both(left: slice, right: slice) -> slice:
    return slice(min(left.start, right.start), max(left.stop, right.stop))


class Run(msgspec.Struct, frozen=True):
    """Sorted entries with their running totals."""

    packed: Integers
    """Ascending, each once."""
    values: list[Exact]
    """Per sum, one value per entry."""
    running: list[Exact]
    """Per sum, the totals before each entry, and of all at the end."""

    @classmethod
    def of(cls, packed: Integers, values: list[Exact]) -> Run:
        """A run of these entries, which are in order and without repetition; those of zeros alone are left out."""
        kept = np.zeros(len(packed), np.bool_)
        for value in values:
            kept |= (value != 0).astype(np.bool_)
        if not kept.all():
            packed, values = packed[kept], [value[kept] for value in values]
        running = []
        for given in values:
            (value,) = fit(largest(given) * len(given), given)
            totals = np.zeros(len(value) + 1, value.dtype)
            np.cumsum(value, out=totals[1:])
            running.append(totals)
        return cls(packed, values, running)

    def merged(self, other: Run) -> Run:
        """One run of both."""
        return Run.of(*combined(
            np.concatenate([self.packed, other.packed]),
            [np.concatenate(pair) for pair in zip(self.values, other.values, strict=True)],
        ))  # fmt: skip


def combined(packed: Integers, values: list[Exact]) -> tuple[Integers, list[Exact]]:
    """Entries in order, those that are equal added up."""
    order = np.argsort(packed, kind="stable")  # two sorted halves are merged, which is linear
    packed = packed[order]
    first = np.ones(len(packed), np.bool_)
    first[1:] = packed[1:] != packed[:-1]
    if first.all():
        return packed, [value[order] for value in values]
    starts = np.flatnonzero(first)
    return packed[starts], [grouped(value[order], starts) for value in values]


class Spine:
    """Runs of falling size; what they say is added up."""

    def __init__(self, sums: int, packing: Packing) -> None:
        self._sums = sums
        self._packing = packing
        self._runs: list[Run] = []
        self.known_groups = 0

    def entries(self) -> int:
        """Entries in all runs."""
        return sum(len(run.packed) for run in self._runs)

    def add(self, groups: Integers, keys: Integers, values: list[Exact]) -> None:
        """Add deltas; (group, key) may repeat."""
        packed = self._pack(groups, self._packing.offsets(keys))
        if len(packed) > 1 and not (packed[1:] > packed[:-1]).all():
            packed, values = combined(packed, values)
        run = Run.of(packed, values)
        while self._runs and len(self._runs[-1].packed) <= max(_SMALL, _FACTOR * len(run.packed)):
            run = self._runs.pop().merged(run)
        if len(run.packed):
            self._runs.append(run)

    def below(self, groups: Integers, bounds: Exact, *, inclusive: bool) -> list[Exact]:
        """See `OrderedIndex.below`."""
        ends = self._pack(groups, self._packing.places(bounds, inclusive=inclusive))
        return self._between(self._pack(groups, np.zeros(len(groups), np.int64)), ends)

    def between(self, groups: Integers, low: int, high: int) -> list[Exact]:
        """See `OrderedIndex.between`."""
        low_place, high_place = (
            self._packing.places(of_integers([bound]), inclusive=inclusive)[0]
            for bound, inclusive in ((low, False), (high, True))
        )
        starts, ends = (np.full(len(groups), place) for place in (low_place, high_place))
        return self._between(self._pack(groups, starts), self._pack(groups, ends))

    def totals(self, groups: Integers) -> list[Exact]:
        """See `OrderedIndex.totals`."""
        nothing = np.zeros(len(groups), np.int64)
        return self._between(self._pack(groups, nothing), self._pack(groups + 1, nothing))

    def first_reaching(self, number: int, target: int) -> int | None:
        """See `OrderedIndex.first_reaching`."""
        if self.total([number])[0] < target:
            return None
        low, high = self._packing.base, self._packing.base + (1 << self._packing.bits) - 2
        while low < high:
            middle = (low + high) // 2
            if self.prefix(middle, [number], inclusive=True)[0] >= target:
                high = middle
            else:
                low = middle + 1
        return low

    def total(self, numbers: Sequence[int]) -> list[int]:
        """See `OrderedIndex.total`."""
        return [sum(int(run.running[number][-1]) for run in self._runs) for number in numbers]

    def prefix(self, bound: int, numbers: Sequence[int], *, inclusive: bool) -> list[int]:
        """See `OrderedIndex.prefix`."""
        place = min(max(bound - self._packing.base + inclusive, 0), (1 << self._packing.bits) - 1)
        ends = [run.packed.searchsorted(place) for run in self._runs]
        return [
            sum(int(run.running[number][end]) for run, end in zip(self._runs, ends, strict=True)) for number in numbers
        ]

    def span(self) -> tuple[int, int] | None:
        """See `OrderedIndex.span`."""
        if not self._packing.bits:
            return None
        return max(self._packing.base, -(2**63)), min(self._packing.base + (1 << self._packing.bits) - 2, 2**63 - 1)

    def members(self, groups: Integers) -> tuple[Integers, Integers]:
        """See `OrderedIndex.members`."""
        rows, keys, counts = [], [], []
        for run in self._runs:
            starts = np.searchsorted(run.packed, self._pack(groups, np.zeros(len(groups), np.int64)))
            ends = np.searchsorted(run.packed, self._pack(groups + 1, np.zeros(len(groups), np.int64)))
            length = np.where(groups >= 0, ends - starts, 0)
            row = np.repeat(np.arange(len(groups)), length)
            place = np.arange(len(row)) - np.repeat(np.cumsum(length) - length, length) + np.repeat(starts, length)
            rows.append(row)
            keys.append((run.packed[place] & ((1 << self._packing.bits) - 1)).astype(np.int64))
            counts.append(run.values[0][place])
        if not rows:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        row, key, count = np.concatenate(rows), np.concatenate(keys), np.concatenate(counts)
        if len(self._runs) > 1 and len(row):
            order = np.lexsort((key, row))
            row, key, count = row[order], key[order], count[order]
            starts = np.flatnonzero(np.r_[True, (row[1:] != row[:-1]) | (key[1:] != key[:-1])])
            row, key, count = row[starts], key[starts], grouped(count, starts)
        held = count > 0
        return row[held], self._packing.keys(key[held])

    def content(self) -> tuple[Integers, Integers, list[Exact]]:
        """See `OrderedIndex.entries`; merges all runs."""
        while len(self._runs) > 1:
            last = self._runs.pop()
            self._runs[-1] = self._runs[-1].merged(last)
        if not self._runs:
            return np.zeros(0, np.int64), np.zeros(0, np.int64), [np.zeros(0, np.int64)] * self._sums
        (run,) = self._runs
        mask = (1 << self._packing.bits) - 1
        groups = (run.packed >> self._packing.bits).astype(np.int64)
        return groups, self._packing.keys(run.packed & mask), run.values

    def keys_of_group(self, group: int) -> Integers:
        """See `OrderedIndex.keys_of_group`."""
        found = []
        for run in self._runs:
            ends = self._pack(np.array([group, group + 1]), np.zeros(2, np.int64))
            low, high = np.searchsorted(run.packed, ends)
            found.append(self._packing.keys(run.packed[low:high] & ((1 << self._packing.bits) - 1)))
        return found[0] if len(found) == 1 else np.unique(np.concatenate([np.zeros(0, np.int64), *found]))

    def _between(self, starts: Integers, ends: Integers) -> list[Exact]:
        totals: list[Exact] = [np.zeros(len(starts), np.int64)] * self._sums
        for run in self._runs:
            low, high = _search(run.packed, starts), np.searchsorted(run.packed, ends)
            for number, running in enumerate(run.running):
                part = running[high] - running[low]
                held, part = fit(largest(totals[number]) + largest(part), totals[number], part)
                totals[number] = held + part
        return totals

    def _pack(self, groups: Integers, places: Exact) -> Integers:
        if self._packing.is_wide or (len(groups) and int(groups.max()).bit_length() + self._packing.bits > _WORD):
            packed: Integers = (groups.astype(object) << self._packing.bits) | places.astype(object)
            return packed
        return (groups << self._packing.bits) | places

    def _check(self) -> None:
        for run in self._runs:
            assert (run.packed[1:] > run.packed[:-1]).all()
            for value, running in zip(run.values, run.running, strict=True):
                assert (np.diff(running) == value).all()


def _search(packed: Integers, needles: Integers) -> Integers:
    """Places of needles that repeat much, as the starts of groups do."""
    if len(needles) > 1 and (needles == needles[0]).all():
        return np.full(len(needles), np.searchsorted(packed, needles[0]))
    return np.searchsorted(packed, needles)

"""A layout of an ordered index for any keys: a spine of sorted runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from runtime.state.columnar.exactsums import Exact, fit, grouped, largest, of_integers, summed
from runtime.state.columnar.packing import WORD, Packing

__all__ = ["Run", "Spine"]

Integers = npt.NDArray[np.int64]

_SMALL: Final = 1 << 11
"""Runs up to this many entries are merged with any batch: a rewrite of them costs no more than looking into two."""
_FACTOR: Final = 4
_ROOM: Final = 2**62
_LOOSE: Final = 2**58
"""A bound that is added up is found anew from here on: what reads the index needs room for sums of several."""


class Run(msgspec.Struct, frozen=True):
    """Sorted entries with their running totals."""

    packed: Integers
    """Ascending, each once."""
    values: list[Exact]
    """Per sum, one value per entry."""
    running: list[Exact]
    """Per sum, the totals before each entry, and of all at the end."""
    bounds: list[int]
    """Per sum, at least the sum of all magnitudes."""

    @classmethod
    def of(cls, packed: Integers, values: list[Exact], bounds: Sequence[int] | None = None) -> Run:
        """A run of these entries, which are in order and without repetition; those of zeros alone are left out.

        ``bounds``: per sum, at least the sum of all magnitudes, if it is known.
        """
        kept = (values[0] != 0).astype(np.bool_)
        for value in values[1:]:
            kept |= (value != 0).astype(np.bool_)
        if not kept.all():
            chosen = kept.nonzero()[0]
            packed, values = packed.take(chosen), [value.take(chosen) for value in values]
        running, found = [], []
        for number, given in enumerate(values):
            bound = _LOOSE if bounds is None else bounds[number]
            found.append(bound if bound < _LOOSE else largest(given) * len(given))
            (value,) = fit(found[-1], given)
            totals = np.zeros(len(value) + 1, value.dtype)
            np.cumsum(value, out=totals[1:])
            running.append(totals)
        return cls(packed, values, running, found)

    def merged(self, other: Run) -> Run:
        """One run of both."""
        packed = np.concatenate([self.packed, other.packed])
        order = np.argsort(packed, kind="stable")  # two sorted halves are merged, which is linear
        packed = packed.take(order)
        values = [np.concatenate(pair).take(order) for pair in zip(self.values, other.values, strict=True)]
        bounds = [a + b for a, b in zip(self.bounds, other.bounds, strict=True)]
        twice = (packed[1:] == packed[:-1]).nonzero()[0]
        if len(twice):  # an entry stands in each run once at most
            values = [_folded(value, twice, bound) for value, bound in zip(values, bounds, strict=True)]
        return Run.of(packed, values, bounds)


def _folded(values: Exact, twice: Integers, bound: int) -> Exact:
    """Values whose successors, at these places plus one, are added to them and become 0."""
    (values,) = fit(bound if bound < _ROOM else 2 * largest(values), values)
    values[twice] += values[twice + 1]
    values[twice + 1] = 0
    return values


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

    def bounds(self) -> list[int]:
        """See `OrderedIndex.bounds`."""
        return [sum(run.bounds[number] for run in self._runs) for number in range(self._sums)]

    def add(self, groups: Integers, keys: Integers, values: list[Exact], bounds: Sequence[int] | None = None) -> None:
        """Add deltas; (group, key) may repeat. ``bounds``: of the magnitudes of each sum."""
        if bounds is not None:
            bounds = [bound * len(keys) for bound in bounds]
        packed = self._pack(groups, self._packing.offsets(keys))
        if len(packed) > 1 and not (packed[1:] > packed[:-1]).all():
            packed, values = combined(packed, values)
        run = Run.of(packed, values, bounds)
        while self._runs and len(self._runs[-1].packed) <= max(_SMALL, _FACTOR * len(run.packed)):
            run = self._runs.pop().merged(run)
        if len(run.packed):
            self._runs.append(run)

    def below(self, groups: Integers, bounds: Exact, *, inclusive: bool) -> list[Exact]:
        """See `OrderedIndex.below`."""
        firsts, lengths = _repeated(groups)
        starts = self._pack(groups[firsts], np.zeros(len(firsts), np.int64))
        return self._between(starts, self._pack(groups, self._packing.places(bounds, inclusive=inclusive)), lengths)

    def above(self, groups: Integers, bounds: Exact, *, inclusive: bool) -> list[Exact]:
        """See `OrderedIndex.above`."""
        firsts, lengths = _repeated(groups)
        ends = self._pack(groups[firsts] + 1, np.zeros(len(firsts), np.int64))
        starts = self._pack(groups, self._packing.places(bounds, inclusive=not inclusive))
        return [-value for value in self._between(ends, starts, lengths)]

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
        firsts, lengths = _repeated(groups)
        groups = groups[firsts]
        nothing = np.zeros(len(groups), np.int64)
        found = self._between(self._pack(groups, nothing), self._pack(groups + 1, nothing))
        return [value.repeat(lengths) for value in found]

    def first_reaching(self, number: int, target: int) -> int | None:
        """See `OrderedIndex.first_reaching`."""
        if self.total([number])[0] < target:
            return None
        low, high = self._packing.base, self._packing.base + (1 << self._packing.bits) - 2
        upto = self.prefix([number], inclusive=True, is_above=False)
        while low < high:
            middle = (low + high) // 2
            if upto(middle)[0] >= target:
                high = middle
            else:
                low = middle + 1
        return low

    def total(self, numbers: Sequence[int]) -> list[int]:
        """See `OrderedIndex.total`."""
        return [sum(int(run.running[number][-1]) for run in self._runs) for number in numbers]

    def prefix(self, numbers: Sequence[int], *, inclusive: bool, is_above: bool) -> Callable[[int], list[int]]:
        """See `OrderedIndex.prefix`."""
        last = (1 << self._packing.bits) - 1
        shift = inclusive - self._packing.base

        def read(bound: int) -> list[int]:
            place = min(max(bound + shift, 0), last)
            ends = [int(run.packed.searchsorted(place)) for run in self._runs]
            found = []
            for number in numbers:
                totals = [run.running[number] for run in self._runs]
                parts = [int(total[end]) for total, end in zip(totals, ends, strict=True)]
                found.append(sum(int(total[-1]) for total in totals) - sum(parts) if is_above else sum(parts))
            return found

        return read

    def span(self) -> tuple[int, int] | None:
        """See `OrderedIndex.span`."""
        if not self._packing.bits:
            return None
        return max(self._packing.base, -(2**63)), min(self._packing.base + (1 << self._packing.bits) - 2, 2**63 - 1)

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

    def _between(self, starts: Integers, ends: Integers, lengths: Integers | None = None) -> list[Exact]:
        """Per end the sums from its start; with ``lengths`` each start stands for so many ends."""
        totals: list[Exact] | None = None
        for run in self._runs:
            low, high = np.searchsorted(run.packed, starts), np.searchsorted(run.packed, ends)
            part = []
            for running in run.running:
                before = running.take(low)
                part.append(running.take(high) - (before if lengths is None else before.repeat(lengths)))
            totals = part if totals is None else [summed(a, b) for a, b in zip(totals, part, strict=True)]
        return [np.zeros(len(ends), np.int64)] * self._sums if totals is None else totals

    def _pack(self, groups: Integers, places: Exact) -> Integers:
        if self._packing.is_wide or (len(groups) and int(groups.max()).bit_length() + self._packing.bits > WORD):
            packed: Integers = (groups.astype(object) << self._packing.bits) | places.astype(object)
            return packed
        return (groups << self._packing.bits) | places

    def _check(self) -> None:
        for run in self._runs:
            assert (run.packed[1:] > run.packed[:-1]).all()
            for value, running in zip(run.values, run.running, strict=True):
                assert (np.diff(running) == value).all()


def _repeated(values: Integers) -> tuple[Integers, Integers]:
    """Where values differ from the ones before them, and how often each stands there."""
    begins = np.empty(len(values), np.bool_)
    begins[:1] = True
    np.not_equal(values[1:], values[:-1], out=begins[1:])
    firsts = begins.nonzero()[0]
    return firsts, np.concatenate([firsts[1:], [len(values)]]) - firsts if len(firsts) else firsts

"""The first and the last value of each group, while values come and go: sorted runs of entries, merged now and then.

What comes in a batch is a run of its own; a run that is not much smaller than the one before it is merged with it, so
that there are few runs and an entry is moved a logarithmic number of times. What goes is only marked, by its stamp: a
search passes over dead entries once, remembers where it ended, and a merge drops them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from runtime.state.columnar.arrangement import ranges
from runtime.views.flow.order import sort_order

__all__ = ["SortedRuns"]

Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

_SLACK: Final = 1024


class _Run:
    """Entries by group and order; a search that begins at a place goes on from where the last one ended."""

    def __init__(self, columns: Sequence[Integers]) -> None:
        self.columns = tuple(columns)  # group, order words…, slot, stamp
        self._forward: Integers | None = None
        self._backward: Integers | None = None

    def __len__(self) -> int:
        return len(self.columns[0])

    def first(self, groups: Integers, stamps: Integers) -> Integers:
        """The place of the first live entry of each group, -1 where there is none."""
        start = np.searchsorted(self.columns[0], groups)
        end = np.searchsorted(self.columns[0], groups, side="right")
        some = start < end
        begin = start if self._forward is None else self._forward[np.where(some, start, 0)]
        found, passed = self._search(np.where(some, begin, start), end, stamps, 1)
        if passed:
            if self._forward is None:
                self._forward = np.arange(len(self))
            self._forward[start[some]] = np.where(found < 0, end, found)[some]
        return found

    def last(self, groups: Integers, stamps: Integers) -> Integers:
        """The place of the last live entry of each group, -1 where there is none."""
        start = np.searchsorted(self.columns[0], groups) - 1
        end = np.searchsorted(self.columns[0], groups, side="right") - 1
        some = start < end
        begin = end if self._backward is None else self._backward[np.where(some, end, 0)]
        found, passed = self._search(np.where(some, begin, start), start, stamps, -1)
        if passed:
            if self._backward is None:
                self._backward = np.arange(len(self))
            self._backward[end[some]] = np.where(found < 0, start, found)[some]
        return found

    def _search(self, begin: Integers, end: Integers, stamps: Integers, step: int) -> tuple[Integers, bool]:
        """From each begin, in steps, before the end; windows double, so that what is looked at is what is passed."""
        found = np.full(len(begin), -1, np.int64)
        slots, held = self.columns[-2], self.columns[-1]
        pending = np.flatnonzero((end - begin) * step > 0)
        place, window, passed = begin[pending], 1, False
        while len(pending):
            length = np.minimum(window, (end[pending] - place) * step)
            offset = ranges(np.zeros(len(pending), np.int64), length)
            places = np.repeat(place, length) + step * offset
            live = np.flatnonzero(stamps[slots[places]] == held[places])
            bounds = np.cumsum(length)
            hit = np.searchsorted(live, bounds - length)
            candidate = live[np.minimum(hit, len(live) - 1)] if len(live) else np.zeros(len(pending), np.int64)
            is_hit = (hit < len(live)) & (candidate < bounds)
            found[pending[is_hit]] = places[candidate[is_hit]]
            passed = passed or not is_hit.all()
            place = place + step * length
            goes_on = ~is_hit & ((end[pending] - place) * step > 0)
            pending, place, window = pending[goes_on], place[goes_on], 2 * window
        return found, passed

    def live(self, stamps: Integers) -> Booleans:
        alive: Booleans = stamps[self.columns[-2]] == self.columns[-1]
        return alive


class SortedRuns:
    """Entries of (group, order words) under slots; a slot has one entry at a time. Not state: built from state."""

    def __init__(self, words: int) -> None:
        self._words = words
        self.clear()

    def clear(self) -> None:
        """Forget all entries."""
        self._runs: list[_Run] = []
        self._stamps = np.zeros(64, np.int64)  # slot → stamp of its entry, 0 where it has none
        self._next = 1
        self._live = 0

    def add(self, slots: Integers, groups: Integers, order: Sequence[Integers]) -> None:
        """Enter slots that have no entry; slots must not repeat."""
        if not len(slots):
            return
        highest = int(slots.max())
        if highest >= len(self._stamps):
            grown = np.zeros(max(highest + 1, 2 * len(self._stamps)), np.int64)
            grown[: len(self._stamps)] = self._stamps
            self._stamps = grown
        stamps = np.arange(self._next, self._next + len(slots))
        self._next += len(slots)
        self._stamps[slots] = stamps
        self._live += len(slots)
        self._runs.append(self._sorted([(groups, *order, slots, stamps)]))
        while len(self._runs) > 1 and 2 * len(self._runs[-1]) > len(self._runs[-2]):
            later, earlier = self._runs.pop(), self._runs.pop()
            self._keep(self._sorted([self._alive(earlier), self._alive(later)]))

    def discard(self, slots: Integers) -> None:
        """Take away the entries of these slots."""
        self._stamps[slots] = 0
        self._live -= len(slots)
        if sum(map(len, self._runs)) > 2 * self._live + _SLACK:
            runs, self._runs = self._runs, []
            self._keep(self._sorted([self._alive(run) for run in runs]))

    def first(self, groups: Integers) -> Integers:
        """The slot of the first entry of each group, -1 where there is none."""
        return self._extreme(groups, last=False)

    def last(self, groups: Integers) -> Integers:
        """The slot of the last entry of each group, -1 where there is none."""
        return self._extreme(groups, last=True)

    def _extreme(self, groups: Integers, *, last: bool) -> Integers:
        sorting = np.argsort(groups)  # searches in ascending order touch the same memory, and are several times faster
        groups = groups[sorting]
        best = np.full(len(groups), -1, np.int64)
        best_order = np.zeros((self._words, len(groups)), np.int64)
        for run in self._runs:
            places = run.last(groups, self._stamps) if last else run.first(groups, self._stamps)
            hit = np.flatnonzero(places >= 0)
            places = places[hit]
            order = np.stack([column[places] for column in run.columns[1:-2]])
            better = best[hit] < 0
            equal = ~better
            for mine, theirs in zip(order, best_order[:, hit], strict=True):
                better |= equal & ((mine > theirs) if last else (mine < theirs))
                equal &= mine == theirs
            chosen = hit[better]
            best[chosen] = run.columns[-2][places[better]]
            best_order[:, chosen] = order[:, better]
        found = np.empty_like(best)
        found[sorting] = best
        return found

    def _alive(self, run: _Run) -> tuple[Integers, ...]:
        live = run.live(self._stamps)
        return run.columns if live.all() else tuple(column[live] for column in run.columns)

    def _sorted(self, parts: Sequence[Sequence[Integers]]) -> _Run:
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        order = sort_order(columns[: 1 + self._words])
        return _Run([column[order] for column in columns])

    def _keep(self, run: _Run) -> None:
        if len(run):
            self._runs.append(run)

    def _check(self) -> None:
        """Assert every invariant; for tests."""
        live = sum(int(run.live(self._stamps).sum()) for run in self._runs)
        assert live == self._live == int((self._stamps != 0).sum())
        for run in self._runs:
            order = np.lexsort(run.columns[: 1 + self._words][::-1])
            rows = np.stack(run.columns[: 1 + self._words])
            assert (rows[:, order] == rows).all()

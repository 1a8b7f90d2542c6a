"""Which part of an ordered map its conditions select, and the result of a selected view, at run time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise, product
from typing import Any, NamedTuple

from runtime.views.tuplewise.blocked import BlockedSums
from runtime.views.tuplewise.stores import OrderedStore

__all__ = ["Change", "FactorState", "Probe", "Selection"]

Change = tuple[str, tuple[Any, ...], int]
Interval = tuple[Any, Any]
"""Keys from the first to below the second; None: no bound."""
Sums = dict[Any, tuple[int, ...]]
"""Group → weight and sums."""
Test = Callable[[Any], bool | None]


class Probe(NamedTuple):
    """A factor's conditions against the state of this moment."""

    conditions: tuple[Test, ...]
    """Of a value of the ordered key."""
    flips: tuple[Callable[[Any], bool], ...]
    """Per nested sum that may be NULL: whether that is otherwise from a value on; false before it and then true."""
    is_regular: bool
    """Whether no nested sum or weight is negative."""


class FactorState:
    """A factor and what was selected of it last."""

    __slots__ = ("_held", "_monotone", "_near", "_probe", "_width", "sums")

    def __init__(self, held: OrderedStore | Sums, width: int, probe: Callable[[], Probe], *, monotone: bool) -> None:
        self.sums: Sums = {}
        """What was selected last; no group without any."""
        self._held = held
        self._width = width
        self._probe = probe
        self._monotone = monotone
        self._near: dict[int, Any] = {}

    def select(self) -> bool:
        """Select anew; whether anything is different now."""
        probe = self._probe()
        if isinstance(self._held, OrderedStore):
            sums = self._sums(self._held, probe)
        else:
            sums = dict(self._held) if all(condition(None) for condition in probe.conditions) else {}
        if sums == self.sums:
            return False
        self.sums = sums
        return True

    def _sums(self, held: OrderedStore, probe: Probe) -> Sums:
        keys = held.all_keys
        is_simple = self._monotone and probe.is_regular
        intervals = self._search(keys, probe) if is_simple else _scan(keys, probe.conditions)
        columns = range(self._width)
        sums: Sums = {}
        for group, entries in held.groups.items():
            found = [0] * self._width
            for low, high in intervals:
                start = None if low is None else entries.below(low)
                end = entries.end if high is None else entries.below(high)
                if start == end:
                    continue
                for column in columns:
                    found[column] += entries.prefix(end, column) - (entries.prefix(start, column) if start else 0)
            if any(found):
                sums[group] = tuple(found)
        if held.nulls and all(condition(None) for condition in probe.conditions):
            for group, entry in held.nulls.items():
                sums[group] = tuple(map(int.__add__, sums.get(group, (0,) * self._width), entry))
        return sums

    def _search(self, keys: BlockedSums, probe: Probe) -> list[Interval]:
        """The selected intervals by bisection: between flips every condition changes its truth at most once."""
        if not keys:
            return []
        bounds = {self._first(place, keys, flip) for place, flip in enumerate(probe.flips)} - {None}
        intervals: list[Interval] = []
        edges = [None, *sorted(bounds), None]
        for part, edge in enumerate(pairwise(edges)):
            intervals += self._between(keys, probe, edge, part)
        return _merged(intervals)

    def _between(self, keys: BlockedSums, probe: Probe, edge: Interval, part: int) -> list[Interval]:
        """The interval within another, in which nothing flips, for which all conditions are true; or none."""
        low, high = edge
        least = keys.least if low is None else low
        greatest = keys.greatest if high is None else keys.key_before(keys.below(high))
        if greatest is None or greatest < least:
            return []
        for place, condition in enumerate(probe.conditions):
            at_end = condition(greatest) is True
            at_start = at_end if least == greatest else condition(least) is True
            if at_start == at_end:
                if at_end:
                    continue
                return []
            test = _Change(condition, at_end, least, greatest)
            bound = self._first(len(probe.flips) + part * len(probe.conditions) + place, keys, test)
            if at_end:
                low = bound if low is None else max(low, bound)
            else:
                high = bound if high is None else min(high, bound)
        return [(low, high)]

    def _first(self, place: int, keys: BlockedSums, test: Callable[[Any], bool]) -> Any:
        """The first key for which a test is true; its place says where the answer was last."""
        bound = keys.first(test, self._near.get(place))
        if bound is not None:
            self._near[place] = bound
        return bound


class _Change:
    """Whether a condition's truth is what it is at the end of an interval, false before it and true after it."""

    __slots__ = ("_at_end", "_condition", "_greatest", "_least")

    def __init__(self, condition: Test, at_end: bool, least: Any, greatest: Any) -> None:
        self._condition = condition
        self._at_end = at_end
        self._least = least
        self._greatest = greatest

    def __call__(self, key: Any) -> bool:
        if key <= self._least:
            return False
        return key >= self._greatest or (self._condition(key) is True) == self._at_end


def _scan(keys: BlockedSums, conditions: Sequence[Test]) -> list[Interval]:
    intervals: list[Interval] = []
    start: Any = None
    is_open = False
    for key in keys:
        if all(condition(key) for condition in conditions) == is_open:
            continue
        if is_open:
            intervals.append((start, key))
        start, is_open = key, not is_open
    if is_open:
        intervals.append((start, None))
    return intervals


def _merged(intervals: Sequence[Interval]) -> list[Interval]:
    """Intervals that touch as one; those without keys left out."""
    merged: list[Interval] = []
    for low, high in intervals:
        if low is not None and high is not None and low >= high:
            continue
        if merged and merged[-1][1] is not None and merged[-1][1] == low:
            merged[-1] = merged[-1][0], high
        else:
            merged.append((low, high))
    return merged


class Selection:
    """A selected view: its factors and its last rows."""

    def __init__(
        self, view: str, factors: Sequence[FactorState], row: Callable[..., Any], empty: tuple[Any, ...] | None
    ) -> None:
        self._view = view
        self._factors = factors
        self._row = row
        self._empty = empty
        self.rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        """Combination of groups → row."""
        self.refresh(range(len(factors)), [])

    def refresh(self, places: Sequence[int], out: list[Change]) -> None:
        """Select those factors anew, and report what has changed in the result."""
        is_other = [self._factors[place].select() for place in places]
        if not any(is_other) and self.rows:
            return
        row = self._row
        rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        for combination in product(*(factor.sums.items() for factor in self._factors)):
            found = row(combination)
            if found is not None:
                rows[tuple([group for group, _ in combination])] = found
        if not rows and self._empty is not None and not self._has_weight():
            rows[()] = self._empty
        view, old = self._view, self.rows
        for key, gone in old.items():
            if rows.get(key) != gone:
                out.append((view, gone, -1))
        for key, come in rows.items():
            if old.get(key) != come:
                out.append((view, come, 1))
        self.rows = rows

    def _has_weight(self) -> bool:
        """Whether the only group has rows, which then HAVING has left out."""
        weight = 1
        for factor in self._factors:
            weight *= factor.sums.get((), (0,))[0]
        return weight > 0

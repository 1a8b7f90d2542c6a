"""A factor of a selection: which values of its ordered key its conditions select, and the sums over them.

A condition compares a value of the ordered key, or an aggregate over one side of it, with scalars. Where no nested sum
is negative such a condition changes its truth once along the key, and the selected part is found by bisection; where
one is, every value of the key is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from runtime.compiler.program import Call, Col, Expr, Factor, Nested, Program
from runtime.state.columnar.exactsums import Exact, summed, total_of
from runtime.views.deltas import aggregated
from runtime.views.indexes import IndexSpec, Ranges, Totals, Whole
from runtime.views.scalars import Scalar, scalar
from runtime.views.stores import IndexSet

__all__ = ["FactorReader", "Indexes"]

Integers = npt.NDArray[np.int64]
Indexes = Callable[[int], IndexSet]


class _NestedReader:
    """One nested aggregate, ready to be read at a value of the key."""

    def __init__(
        self, nested: Nested, index: Ranges, names: Sequence[str], used: set[str], nothing: int | None
    ) -> None:
        """``names``: the map's sums; ``used``: columns that conditions read."""
        self._table = index.table
        self._weight = f"{nested.name}.weight"
        sums = [(number, f"{nested.name}.{name}") for number, name in enumerate(names, 1)]
        self._names = [name for _, name in sums if name in used]
        self._numbers = (0, *(number for number, name in sums if name in used))
        self._value = scalar(nested.value)
        self.is_key = isinstance(nested.value, Col)
        """Whether it is read at the key itself."""
        self._compare = nested.compare
        self._is_above = nested.compare in ("gt", "ge")
        self._is_inclusive = nested.compare in ("le", "gt")
        self._nothing = dict.fromkeys(self._names, nothing)
        self._sums: Callable[[int], list[int]] = lambda _: [0]

    def begin(self) -> bool:
        """Prepare for reading the index as it is now; gives whether what is read moves one way along the key."""
        self._sums = self._table.prefix(self._numbers, inclusive=self._is_inclusive, is_above=self._is_above)
        return not self._table.has_negative(self._numbers)

    def turn(self, low: int, high: int) -> int | None:
        """The least key after ``low`` from which on its weight is 0, or not 0, as it was not before."""
        if self._is_above:
            total = self._table.total((0,))[0]
            found = self._table.first_reaching(0, total) if total else None
            past = self._compare == "ge"
        else:
            found = self._table.first_reaching(0, 1)
            past = self._compare == "lt"
        turn = None if found is None else found + past
        return turn if turn is not None and low < turn <= high else None

    def bind(self, row: dict[str, Any]) -> bool:
        """Bind the weight and the sums at the key that the row holds; gives whether there is anything."""
        sums = self._sums(self._value(row))
        row[self._weight] = sums[0]
        if not sums[0]:
            row.update(self._nothing)
            return False
        row.update(zip(self._names, sums[1:], strict=True))
        return True


class FactorReader:
    """One factor: which values of its key are selected, and each group's sums over them."""

    def __init__(self, factor: Factor, program: Program, indexes: Indexes, nothing: int | None) -> None:
        """``indexes`` gives the set of indexes over a base map; ``nothing``: what the sum of no rows is."""
        map_ = program.maps[factor.map]
        self.groups = tuple(key for key in map_.keys if key.name != factor.ordered)
        self.sums = tuple(f"{factor.alias}.{name}" for name in ("weight", *(s.name for s in map_.sums)))
        self._index = indexes(factor.map).index(_spec([key.name for key in self.groups], factor.ordered))
        self._key = f"{factor.alias}.{factor.ordered}"
        self._is_monotone = factor.monotone
        self._conditions = [scalar(condition) for condition in factor.conditions]
        self._near: dict[Scalar, int] = {}  # where a condition turned at the last version
        used = {name for expr in (*factor.conditions, *(n.value for n in factor.nested)) for name in _names(expr)}
        self._nested = [self._reader(nested, program, indexes, used, nothing) for nested in factor.nested]

    @staticmethod
    def _reader(
        nested: Nested, program: Program, indexes: Indexes, used: set[str], nothing: int | None
    ) -> _NestedReader:
        index = indexes(nested.map).index(_spec((), nested.ordered))
        assert isinstance(index, Ranges)
        return _NestedReader(nested, index, [s.name for s in program.maps[nested.map].sums], used, nothing)

    def read(self, scalars: Mapping[str, Any]) -> tuple[Integers, list[Exact]]:
        """Words (not nullable) of groups, and the weight and sums of what is selected of each."""
        index = self._index
        if isinstance(index, Totals):
            slots = index.table.live_slots()
            return index.table.words(slots), index.table.values(slots)
        assert isinstance(index, Ranges)
        groups = index.table.all_groups()
        intervals = self._selected(scalars)
        if intervals is None:
            return self._scanned(index, dict(scalars))
        total: list[Exact] = [np.zeros(len(groups), np.int64)] * len(self.sums)
        for place, (low, high) in enumerate(intervals):
            part = index.table.between(groups, low, high)
            total = part if not place else [summed(a, b) for a, b in zip(total, part, strict=True)]
        return index.table.group_words(groups), total

    def read_alone(self, scalars: Mapping[str, Any]) -> Sequence[int]:
        """The same of a factor without groups: the weight and sums, as numbers."""
        index = self._index
        if isinstance(index, Whole):
            return index.table.values
        assert isinstance(index, Ranges)
        intervals = self._selected(scalars)
        if intervals is None:
            _, sums = self._scanned(index, dict(scalars))
            return [total_of(value) for value in sums]
        total = [0] * len(self.sums)
        for low, high in intervals:
            part = index.table.between(_ONE_GROUP, low, high)
            total = [held + int(value[0]) for held, value in zip(total, part, strict=True)]
        return total

    def _selected(self, scalars: Mapping[str, Any]) -> list[tuple[int, int]] | None:
        """The intervals of the key that are selected; None where they are not to be found by bisection."""
        assert isinstance(self._index, Ranges)
        span = self._index.table.span()
        if span is None:
            return []
        is_searchable = [reader.begin() for reader in self._nested]
        if not self._is_monotone or not all(is_searchable):
            return None
        return self._intervals(dict(scalars), *span)

    def _bind(self, row: dict[str, Any], value: int) -> None:
        row[self._key] = value
        for reader in self._nested:
            reader.bind(row)

    def _exists(self, row: dict[str, Any], value: int, reader: _NestedReader) -> bool:
        row[self._key] = value
        return reader.bind(row)

    def _intervals(self, row: dict[str, Any], low: int, high: int) -> list[tuple[int, int]]:
        """The selected intervals: in each zone, where the same nested aggregates exist, they turn once."""
        starts = {low}
        for reader in self._nested:
            turn = (
                reader.turn(low, high)
                if reader.is_key
                else _turning(low, high, lambda value, reader=reader: self._exists(row, value, reader))[1]  # type: ignore[misc]
            )
            if turn is not None:
                starts.add(turn)
        zones = sorted(starts)
        found: list[tuple[int, int]] = []
        for begin, last in zip(zones, [*(zone - 1 for zone in zones[1:]), high], strict=True):
            part: tuple[int, int] | None = (begin, last)
            for condition in self._conditions:
                part = None if part is None else self._narrowed(row, condition, *part)
            if part is not None:
                found.append(part)
        return found

    def _narrowed(self, row: dict[str, Any], condition: Scalar, low: int, high: int) -> tuple[int, int] | None:
        def holds(value: int) -> bool:
            self._bind(row, value)
            return condition(row) is True

        first, turn = _turning(low, high, holds, near=self._near.get(condition))
        if turn is None:
            return (low, high) if first else None
        self._near[condition] = turn
        return (low, turn - 1) if first else (turn, high)

    def _scanned(self, index: Ranges, row: dict[str, Any]) -> tuple[Integers, list[Exact]]:
        groups, keys, sums = index.table.entries()
        chosen = []
        for value in np.unique(keys).tolist():
            self._bind(row, value)
            if all(condition(row) is True for condition in self._conditions):
                chosen.append(value)
        kept = np.isin(keys, np.array(chosen, np.int64))
        return aggregated(index.table.group_words(groups[kept]), [value[kept] for value in sums])


_ONE_GROUP = np.zeros(1, np.int64)


def _spec(on: Sequence[str], ordered: str | None) -> IndexSpec:
    """One index for factors and nested aggregates over the same key."""
    return IndexSpec(tuple(on), ordered, watches_signs=ordered is not None and not on)


def _names(expr: Expr) -> Iterator[str]:
    if isinstance(expr, Col):
        yield expr.name
    elif isinstance(expr, Call):
        for argument in expr.args:
            yield from _names(argument)


def _turning(low: int, high: int, holds: Callable[[int], bool], near: int | None = None) -> tuple[bool, int | None]:
    """Whether it holds at ``low``, and the least value from which on, up to ``high``, it does otherwise.

    The search goes out from ``near`` in steps that double: few are needed where it has moved little, two where it has
    not moved.
    """
    step = 1
    if near is None or not low < near <= high:
        first = holds(low)
        if holds(high) == first:
            return first, None
    elif (there := holds(near)) != holds(near - 1):
        return not there, near
    elif (first := holds(low)) == there:
        low = near
        while low + step < high and holds(low + step) == first:
            low, step = low + step, 2 * step
        if low + step < high:
            high = low + step
        elif holds(high) == first:
            return first, None
    else:
        high = near - 1
        while high - step > low and holds(high - step) != first:
            high, step = high - step, 2 * step
        low = max(low, high - step)
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle) == first:
            low = middle
        else:
            high = middle
    return first, high

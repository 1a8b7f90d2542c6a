"""Sums over what conditions on aggregates select, read from ordered indexes at each version.

A condition compares a value of the ordered key, or an aggregate over one side of it, with scalars. Where no nested sum
is negative such a condition changes its truth once along the key, and the selected part is found by bisection; where
one is, every value of the key is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.compiler.program import Col, Factor, Nested, Program, Selected, Term, View
from runtime.state import StringPool
from runtime.state.exactsums import Exact, fit, largest, narrowed, of_integers, product
from runtime.views.frames import aggregated
from runtime.views.results import GroupResult
from runtime.views.scalars import Scalar, scalar
from runtime.views.stores import IndexSet, IndexSpec, Ranges, Saved, Totals

__all__ = ["SelectedState"]

Integers = npt.NDArray[np.int64]
Indexes = Callable[[int], IndexSet]


def _spec(on: Sequence[str], ordered: str | None) -> IndexSpec:
    """One index for factors and nested aggregates over the same key."""
    return IndexSpec(tuple(on), ordered, watches_signs=ordered is not None and not on)


class _NestedReader(msgspec.Struct, frozen=True):
    """One nested aggregate, ready to be read at a value of the key."""

    name: str
    names: tuple[str, ...]
    index: Ranges
    value: Scalar
    is_key: bool
    """Whether it is read at the key itself."""
    compare: str
    nothing: int | None

    def turn(self, low: int, high: int) -> int | None:
        """The least key after ``low`` from which on its weight is 0, or not 0, as it was not before."""
        table = self.index.table
        if self.compare in ("gt", "ge"):
            total = table.total()[0]
            found = table.first_reaching(0, total) if total else None
            past = self.compare == "ge"
        else:
            found = table.first_reaching(0, 1)
            past = self.compare == "lt"
        turn = None if found is None else found + past
        return turn if turn is not None and low < turn <= high else None

    def bind(self, row: dict[str, Any]) -> bool:
        """Bind the weight and the sums at the key that the row holds; gives whether there is anything."""
        table, value = self.index.table, self.value(row)
        sums = table.prefix(value, inclusive=self.compare in ("le", "gt"))
        if self.compare in ("gt", "ge"):
            sums = [total - part for total, part in zip(table.total(), sums, strict=True)]
        row[f"{self.name}.weight"] = sums[0]
        for name, total in zip(self.names, sums[1:], strict=True):
            row[f"{self.name}.{name}"] = total if sums[0] else self.nothing
        return sums[0] != 0


class _FactorReader:
    """One factor: which values of its key are selected, and each group's sums over them."""

    def __init__(self, factor: Factor, program: Program, indexes: Indexes, nothing: int | None) -> None:
        map_ = program.maps[factor.map]
        self.groups = tuple(key for key in map_.keys if key.name != factor.ordered)
        self.sums = tuple(f"{factor.alias}.{name}" for name in ("weight", *(s.name for s in map_.sums)))
        self._index = indexes(factor.map).index(_spec([key.name for key in self.groups], factor.ordered))
        self._key = f"{factor.alias}.{factor.ordered}"
        self._is_monotone = factor.monotone
        self._conditions = [scalar(condition) for condition in factor.conditions]
        self._near: dict[tuple[Scalar, bool], int] = {}  # where a condition turned at the last version
        self._nested = [self._reader(nested, program, indexes, nothing) for nested in factor.nested]

    @staticmethod
    def _reader(nested: Nested, program: Program, indexes: Indexes, nothing: int | None) -> _NestedReader:
        index = indexes(nested.map).index(_spec((), nested.ordered))
        assert isinstance(index, Ranges)
        names = tuple(s.name for s in program.maps[nested.map].sums)
        is_key = isinstance(nested.value, Col)
        return _NestedReader(nested.name, names, index, scalar(nested.value), is_key, nested.compare, nothing)

    def read(self, scalars: Mapping[str, Any]) -> tuple[Integers, list[Exact]]:
        """Words (not nullable) of groups, and the weight and sums of what is selected of each."""
        if isinstance(self._index, Totals):
            slots = self._index.table.live_slots()
            return self._index.table.words(slots), self._index.table.values(slots)
        assert isinstance(self._index, Ranges)
        span = self._index.table.span()
        row = dict(scalars)
        if span is None:
            return self._summed(self._index, [])
        if self._is_monotone and not any(reader.index.table.has_negative() for reader in self._nested):
            return self._summed(self._index, self._intervals(row, *span))
        return self._scanned(self._index, row)

    def _bind(self, row: dict[str, Any], value: int) -> list[bool]:
        row[self._key] = value
        return [reader.bind(row) for reader in self._nested]

    def _intervals(self, row: dict[str, Any], low: int, high: int) -> list[tuple[int, int]]:
        """The selected intervals: in each zone, where the same nested aggregates exist, they turn once."""
        starts = {low}
        for place, reader in enumerate(self._nested):
            turn = (
                reader.turn(low, high)
                if reader.is_key
                else _turning(low, high, lambda value, place=place: self._bind(row, value)[place])  # type: ignore[misc]
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

        first = holds(low)
        turn = _turning(low, high, holds, near=self._near.get((condition, first)))
        if turn is None:
            return (low, high) if first else None
        self._near[condition, first] = turn
        return (low, turn - 1) if first else (turn, high)

    def _summed(self, index: Ranges, intervals: Sequence[tuple[int, int]]) -> tuple[Integers, list[Exact]]:
        groups = index.table.all_groups()
        if not self.groups and len(groups):
            return np.zeros((1, 0), np.int64), [of_integers([total]) for total in self._alone(index, intervals)]
        total: list[Exact] = [np.zeros(len(groups), np.int64)] * len(self.sums)
        for low, high in intervals:
            for bound, inclusive, sign in ((high, True, 1), (low, False, -1)):
                bounds = np.full(len(groups), bound, np.int64)
                part = index.table.below(groups, bounds, inclusive=inclusive)
                total = [_plus(a, b, sign) for a, b in zip(total, part, strict=True)]
        return index.table.group_words(groups), total

    @staticmethod
    def _alone(index: Ranges, intervals: Sequence[tuple[int, int]]) -> list[int]:
        """The sums of the intervals where there is one group: numbers, which cost less than arrays of one."""
        total = [0] * len(index.table.total())
        for low, high in intervals:
            upto, before = index.table.prefix(high, inclusive=True), index.table.prefix(low, inclusive=False)
            total = [held + a - b for held, a, b in zip(total, upto, before, strict=True)]
        return total

    def _scanned(self, index: Ranges, row: dict[str, Any]) -> tuple[Integers, list[Exact]]:
        groups, keys, sums = index.table.entries()
        chosen = []
        for value in np.unique(keys).tolist():
            self._bind(row, value)
            if all(condition(row) is True for condition in self._conditions):
                chosen.append(value)
        kept = np.isin(keys, np.array(chosen, np.int64))
        return aggregated(index.table.group_words(groups[kept]), [value[kept] for value in sums])


class SelectedState:
    """The result of one view, found anew from the indexes at each version."""

    def __init__(self, view: View, body: Selected, program: Program, indexes: Indexes, pool: StringPool) -> None:
        """``indexes`` gives the set of indexes over a base map, which other views may read too."""
        nothing = 0 if program.mode == "dbtoaster" else None
        self._factors = [_FactorReader(factor, program, indexes, nothing) for factor in body.factors]
        self._nothing = nothing
        self._scalars = {number: indexes(number).index(IndexSpec(())) for number in body.scalars}
        self._scalar_sums = {number: [s.name for s in program.maps[number].sums] for number in body.scalars}
        nested = {nested.map for factor in body.factors for nested in factor.nested}
        self.maps = frozenset({factor.map for factor in body.factors} | nested | set(body.scalars))
        self._sums = body.sums
        keys = [
            (f"{factor.alias}.{key.name}", key.type)
            for factor, reader in zip(body.factors, self._factors, strict=True)
            for key in reader.groups
        ]
        assert {name for name, _ in keys} == set(body.keys), f"expected keys {keys}, was {body.keys}"
        self._widths = [[2 if key.type == "int128" else 1 for key in reader.groups] for reader in self._factors]
        names = [name for name, _ in body.sums]
        self._result = GroupResult(view, body, keys, names, pool)

    def changes(self, *, begun: bool) -> pa.Table | None:
        """What the present state of the indexes changes in the view."""
        words, sums = self._evaluated()
        old_words, old_sums = self._result.standing()
        if len(old_words):
            words = np.concatenate([words, old_words])
            sums = [_joined(new, old) for new, old in zip(sums, old_sums, strict=True)]
            words, sums = aggregated(words, sums)
        return self._result.add(words, sums, begun=begun)

    def resume(self) -> None:
        """All runs are applied."""

    def tables(self) -> dict[str, Saved]:
        """State of its own, by name."""
        return {"result": self._result.table}

    def _evaluated(self) -> tuple[Integers, list[Exact]]:
        scalars: dict[str, Any] = {}
        for number, index in self._scalars.items():
            assert isinstance(index, Totals)
            slots = index.table.lookup(np.zeros((1, 0), np.int64))
            weight, *totals = (int(value[0]) for value in index.table.values(slots))
            scalars[f"m{number}.weight"] = weight
            for name, total in zip(self._scalar_sums[number], totals, strict=True):
                scalars[f"m{number}.{name}"] = total if weight else self._nothing
        words, named = np.zeros((1, 0), np.int64), dict[str, Exact]()
        for reader, widths in zip(self._factors, self._widths, strict=True):
            groups, sums = reader.read(scalars)
            held = np.asarray(sums[0] > 0, np.bool_)
            if not widths and len(held) == 1 and held[0] and len(words) == 1:
                named |= dict(zip(reader.sums, sums, strict=True))
                continue
            groups, many = _nullable(groups[held], widths), len(words)
            count = len(groups)
            words = np.concatenate([np.repeat(words, count, axis=0), np.tile(groups, (many, 1))], axis=1)
            named = {name: np.repeat(value, count) for name, value in named.items()}
            named |= {name: np.tile(value[held], many) for name, value in zip(reader.sums, sums, strict=True)}
        weights = [reader.sums[0] for reader in self._factors]
        terms = [(Term(1, tuple(weights)),), *(terms for _, terms in self._sums)]
        return words, [_total(named, parts, len(words)) for parts in terms]


def _turning(low: int, high: int, holds: Callable[[int], bool], near: int | None = None) -> int | None:
    """The least value at which it holds otherwise than at ``low``, if it does so from there to ``high``.

    The search goes out from ``near`` in steps that double: few are needed where it has moved little.
    """
    first = holds(low)
    if holds(high) == first:
        return None
    if near is not None and low < near <= high:
        step = 1
        if holds(near) == first:
            low = near
            while near + step < high and holds(near + step) == first:
                low, step = near + step, 2 * step
            high = min(high, near + step)
        else:
            high = near
            while near - step > low and holds(near - step) != first:
                high, step = near - step, 2 * step
            low = max(low, near - step)
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle) == first:
            low = middle
        else:
            high = middle
    return high


def _plus(left: Exact, right: Exact, sign: int) -> Exact:
    left, right = fit(largest(left) + largest(right), left, right)
    return left + right if sign == 1 else left - right


def _joined(new: Exact, old: Exact) -> Exact:
    (old,) = fit(largest(old), old)
    return np.concatenate([new, -old])


def _nullable(words: Integers, widths: Sequence[int]) -> Integers:
    """Words of keys that are not NULL, as those of nullable columns."""
    result = np.zeros((len(words), sum(widths) + len(widths)), np.int64)
    source = target = 0
    for width in widths:
        result[:, target + 1 : target + 1 + width] = words[:, source : source + width]
        source, target = source + width, target + 1 + width
    return result


def _total(named: Mapping[str, Exact], terms: Sequence[Term], rows: int) -> Exact:
    total: Exact = np.zeros(rows, np.int64)
    for term in terms:
        value: Exact = np.full(rows, term.factor, np.int64 if abs(term.factor) < 2**62 else object)
        for name in term.columns:
            value = product(value, named[name])
        total = _plus(total, value, 1)
    return narrowed(total)

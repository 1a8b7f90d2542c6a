"""Simple interpreter of joined and selected views: dictionaries and loops, one delta after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

from runtime.plan import (
    Auxiliary,
    Expr,
    Factor,
    Joined,
    Lookup,
    Map,
    Nested,
    Program,
    Range,
    Selected,
    Statement,
    Term,
    View,
)
from tests.generators.programs import Row, evaluate, normal

Table = dict[Row, list[int]]
"""Key → weight and sums; keys whose values are all 0 are removed."""
Bound = dict[str, Any]


class FactoredState:
    """Maps of a view; takes deltas and returns rows."""

    def __init__(self, program: Program, view: View) -> None:
        assert isinstance(view.body, (Joined, Selected))
        self.body = view.body
        self.zero = program.mode == "dbtoaster"
        self.maps = program.maps
        self.columns = {relation.name: [column.name for column in relation.columns] for relation in program.relations}
        self.bases: dict[int, Table] = {part.id: {} for part in program.maps}
        self.auxiliaries: dict[str, Table] = {}
        if isinstance(view.body, Joined):
            self.auxiliaries = {part.name: {} for part in view.body.auxiliaries}

    def step(self, deltas: Mapping[str, Iterable[tuple[Row, int]]]) -> None:
        """Apply one version: rows of each relation with their weights."""
        changes = {part.id: self._preaggregated(part, deltas.get(part.relation, ())) for part in self.maps}
        if isinstance(self.body, Selected):
            for number, delta in changes.items():
                merge(self.bases[number], delta)
            return
        applied: set[int] = set()
        for occurrence in self.body.occurrences:
            delta = changes[occurrence.map]
            added = [(auxiliary.name, self._statement(statement, occurrence.map, delta))
                     for auxiliary in self.body.auxiliaries for statement in auxiliary.statements
                     if statement.occurrence == occurrence.alias]  # fmt: skip
            for name, more in added:
                merge(self.auxiliaries[name], more)
            if occurrence.map not in applied:  # the second of two occurrences reads the first one's new state
                merge(self.bases[occurrence.map], delta)
                applied.add(occurrence.map)

    def rows(self) -> Counter[Row]:
        """Return the present rows of the view."""
        groups = self._joined() if isinstance(self.body, Joined) else list(self._selected(self.body))
        result: Counter[Row] = Counter()
        for group in groups:
            if self.body.having is None or evaluate(self.body.having, group) is True:
                result[normal(evaluate(output, group) for output in self.body.outputs)] += 1
        if not groups and self.body.empty is not None:
            result[normal(self.body.empty)] += 1
        return result

    def _preaggregated(self, part: Map, rows: Iterable[tuple[Row, int]]) -> Table:
        delta: Table = {}
        for values, weight in rows:
            row = dict(zip(self.columns[part.relation], values, strict=True))
            if part.where is None or evaluate(part.where, row) is True:
                key = tuple(evaluate(one.expr, row) for one in part.keys)
                sums = [evaluate(one.expr, row) for one in part.sums]
                assert None not in sums
                merge(delta, {key: [weight, *(weight * one for one in sums)]})
        return delta

    # -- joins

    def _statement(self, statement: Statement, number: int, delta: Table) -> Table:
        added: Table = {}
        for key, values in delta.items():
            rows = [self._bound(statement.occurrence, number, key, values)]
            for lookup in statement.lookups:
                rows = [{**row, **more} for row in rows for more in self._looked_up(lookup, row)]
            for row in rows:
                if statement.where is None or evaluate(statement.where, row) is True:
                    terms = [(statement.weight,), *statement.sums]
                    value = [sum(term_value(term, row) for term in part) for part in terms]
                    merge(added, {tuple(row[name] for name in statement.keys): value})
        return added

    def _bound(self, name: str, number: int, key: Row, values: list[int]) -> Bound:
        names = [one.name for one in self.maps[number].keys]
        sums = ["weight", *(one.name for one in self.maps[number].sums)]
        return {f"{name}.{one}": value for one, value in zip([*names, *sums], [*key, *values], strict=True)}

    def _looked_up(self, lookup: Lookup, row: Bound) -> list[Bound]:
        if lookup.auxiliary:
            auxiliary = self._auxiliary(lookup.name)
            table, names, sums = self.auxiliaries[lookup.name], [name for name, _ in auxiliary.keys], auxiliary.sums
        else:
            part = self.maps[lookup.source]
            table, names, sums = self.bases[part.id], [key.name for key in part.keys], tuple(s.name for s in part.sums)
        wanted = dict(lookup.on)
        if lookup.ordered is not None:
            assert set(names) == {*wanted, lookup.ordered}
            assert not lookup.binds
        elif lookup.binds:
            assert {*lookup.binds} == set(names) - wanted.keys()
        found: Table = {}
        for key, values in table.items():
            of = dict(zip(names, key, strict=True))
            if all(row[column] is not None and of[name] == row[column] for name, column in wanted.items()):
                times = 1 if lookup.ordered is None else count(lookup.ranges, of[lookup.ordered], row)
                if times:
                    merge(found, {tuple(of[name] for name in lookup.binds): [times * value for value in values]})
        made = [*lookup.binds, "weight", *sums]
        return [{f"{lookup.name}.{one}": value for one, value in zip(made, [*key, *values], strict=True)}
                for key, values in found.items()]  # fmt: skip

    def _auxiliary(self, name: str) -> Auxiliary:
        assert isinstance(self.body, Joined)
        return next(part for part in self.body.auxiliaries if part.name == name)

    def _joined(self) -> list[Bound]:
        assert isinstance(self.body, Joined)
        result = self.body.auxiliaries[-1]
        names = [*(name for name, _ in result.keys), "weight", *result.sums]
        return [dict(zip(names, [*key, *values], strict=True))
                for key, values in self.auxiliaries[result.name].items() if values[0] > 0]  # fmt: skip

    # -- selections

    def _selected(self, body: Selected) -> Iterable[Bound]:
        scalars: Bound = {}
        for number in body.scalars:
            part = self.maps[number]
            assert not part.keys
            values = self.bases[number].get((), [0] * (1 + len(part.sums)))
            scalars |= self._aggregate(f"m{number}", part, values)
        found: dict[Row, list[int]] = {}
        for rows in product(*(self._chosen(factor, scalars) for factor in body.factors)):
            row = {name: value for one in rows for name, value in one.items()}
            weight = Term(1, tuple(f"{factor.alias}.weight" for factor in body.factors))
            terms = [(weight,), *(terms for _, terms in body.sums)]
            value = [sum(term_value(term, row) for term in part) for part in terms]
            merge(found, {tuple(row[key] for key in body.keys): value})
        names = [*body.keys, "weight", *(name for name, _ in body.sums)]
        return [dict(zip(names, [*key, *values], strict=True)) for key, values in found.items() if values[0] > 0]

    def _chosen(self, factor: Factor, scalars: Bound) -> list[Bound]:
        rows = [self._bound(factor.alias, factor.map, key, values) for key, values in self.bases[factor.map].items()]
        if factor.ordered is None:
            assert not factor.conditions
            return rows
        key = f"{factor.alias}.{factor.ordered}"
        truths: dict[int, list[bool]] = {}
        for value in sorted({row[key] for row in rows}):
            bound = {key: value, **scalars}
            for nested in factor.nested:
                bound |= self._nested(nested, bound)
            truths[value] = [evaluate(condition, bound) is True for condition in factor.conditions]
        if factor.monotone and all(value >= 0 for nested in factor.nested for values in self.bases[nested.map].values()
                                   for value in values):  # fmt: skip
            for one in zip(*truths.values(), strict=True):
                self.check_interval(one)
        return [row for row in rows if all(truths[row[key]])]

    @staticmethod
    def check_interval(truths: tuple[bool, ...]) -> None:
        """Assert the property of `Factor.monotone` if nothing is negative: true in at most one interval of the key."""
        assert sum(one != other for one, other in zip((False, *truths), (*truths, False), strict=True)) <= 2

    def _nested(self, nested: Nested, bound: Bound) -> Bound:
        part = self.maps[nested.map]
        assert [key.name for key in part.keys] == [nested.ordered]
        limit = evaluate(nested.value, bound)
        total = [0] * (1 + len(part.sums))
        for (key,), values in self.bases[nested.map].items():
            if compare(nested.compare, key, limit):
                total = [one + other for one, other in zip(total, values, strict=True)]
        return self._aggregate(nested.name, part, total)

    def _aggregate(self, name: str, part: Map, values: list[int]) -> Bound:
        nothing = values[0] == 0 and not self.zero
        sums = {f"{name}.{one.name}": None if nothing else value
                for one, value in zip(part.sums, values[1:], strict=True)}  # fmt: skip
        return {f"{name}.weight": values[0], **sums}


def merge(table: Table, delta: Mapping[Row, list[int]]) -> None:
    """Add a delta to a table, and remove keys whose values are all 0."""
    for key, values in delta.items():
        old = table.pop(key, [0] * len(values))
        new = [one + other for one, other in zip(old, values, strict=True)]
        if any(new):
            table[key] = new


def term_value(term: Term, row: Bound) -> int:
    """Return ``factor × Π columns``."""
    value = term.factor
    for name in term.columns:
        value *= row[name]
    return value


def count(ranges: Iterable[Range], key: int | None, row: Bound) -> int:
    """Return the number of times that the ranges count a key."""
    return sum(part.sign for part in ranges if key is not None
               and within("gt" if part.low_strict else "ge", key, part.low, row)
               and within("lt" if part.high_strict else "le", key, part.high, row))  # fmt: skip


def within(op: str, key: int, bound: Expr | None, row: Bound) -> bool:
    """Return True if the key is on the right side of a bound, or if there is no bound."""
    return bound is None or compare(op, key, evaluate(bound, row))


def compare(op: str, left: int | None, right: int | None) -> bool:
    """Compare two integers; return False for NULL."""
    if left is None or right is None:
        return False
    return {"lt": left < right, "le": left <= right, "gt": left > right, "ge": left >= right}[op]

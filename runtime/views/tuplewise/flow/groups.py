"""Aggregates by key, as a generated loop.

A group is a list: its last row (None: it has none), its number of rows, and for each aggregated column the number and
the sum of what is not NULL and, where they are asked for, its values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from runtime.compiler.program import Aggregate, GroupNode
from runtime.views.tuplewise.errors import UnsupportedError
from runtime.views.tuplewise.flow.operator import Changes, Field, Operator, place_of
from runtime.views.tuplewise.flow.values import Integers, Sorted
from runtime.views.tuplewise.source import Source, tuple_of

__all__ = ["Group"]

_VALUES: Final = frozenset({"min", "max", "count_distinct", "sum_distinct"})
_ROW, _NUMBER = 0, 1


class _Column:
    """Where a group keeps what is known of one column."""

    def __init__(self, place: int, field: Field, kinds: set[str], at: int) -> None:
        self.place, self.field = place, field
        self.count = at
        self.sum = at + 1 if "sum" in kinds else 0
        self.values = at + 1 + bool(self.sum) if kinds & _VALUES else 0
        self.end = at + 1 + bool(self.sum) + bool(self.values)
        if self.values and field.type == "float64":
            raise UnsupportedError("the values of a float64")

    @property
    def first(self) -> list[str]:
        """What its places hold of no rows."""
        made = "Integers()" if self.field.type in ("int64", "int128") else "Sorted()"
        return ["0", *["0"][: bool(self.sum)], *[made][: bool(self.values)]]


class Group(Operator):
    """A row per group whose number of rows is positive; without keys, one row always."""

    def __init__(self, node: GroupNode, fields: Sequence[Field], *, zero: bool) -> None:
        self._keys = [place_of(fields, name) for name in node.keys]
        self._zero = zero
        self._columns: dict[str, _Column] = {}
        at = _NUMBER + 1
        for name in dict.fromkeys(a.column for a in node.aggregates if a.column is not None):
            place = place_of(fields, name)
            kinds: set[str] = {a.kind for a in node.aggregates if a.column == name}
            column = self._columns[name] = _Column(place, fields[place], kinds, at)
            at = column.end
        counts = ("count_rows", "count", "count_distinct")
        self.fields = (
            *(fields[place] for place in self._keys),
            *(Field(a.name, a.type, a.kind not in counts) for a in node.aggregates),
        )
        self._groups: dict[Any, list[Any]] = {}
        self._aggregates = node.aggregates
        self._source = Source()
        namespace = self._source.namespace
        namespace |= {"groups": self._groups, "Integers": Integers, "Sorted": Sorted}
        name = self._put_step(len(fields))
        self.step = self._source.compile()[name]

    def start(self) -> Changes:
        """Without keys, the row of nothing."""
        if self._keys:
            return []
        group: list[Any] = [None, 0, *(0 for c in self._columns.values() for _ in range(c.count, c.end))]
        for column in self._columns.values():
            if column.values:
                group[column.values] = Integers() if column.field.type in ("int64", "int128") else Sorted()
        self._groups[()] = group
        return self.step([((None,) * self._width, 0)])

    def _put_step(self, width: int) -> str:
        source = self._source
        self._width = width
        names = [source.name("c") for _ in range(width)]
        key = tuple_of([names[place] for place in self._keys]) if self._keys else "()"
        first = ["None", "0", *(part for column in self._columns.values() for part in column.first)]
        step = source.name("step")
        with source.block(f"def {step}(changes):"):
            source.put("touched = {}")
            with source.block("for row, weight in changes:"):
                source.put(f"{', '.join(names)}{',' if width == 1 else ''} = row" if names else "pass")
                source.put(f"key = {key}")
                source.put("group = groups.get(key)")
                with source.block("if group is None:"):
                    source.put(f"group = groups[key] = [{', '.join(first)}]")
                source.put("touched[key] = group")
                source.put(f"group[{_NUMBER}] += weight")
                for column in self._columns.values():
                    self._put_column(column, names[column.place])
            source.put("out = []")
            with source.block("for key, group in touched.items():"):
                self._put_row()
            source.put("return out")
        return step

    def _put_column(self, column: _Column, value: str) -> None:
        source = self._source
        with source.branches() as inner:
            if column.field.nullable or not self._keys:  # the row of nothing is a row of NULLs
                inner.open(f"if {value} is not None:")
            source.put(f"group[{column.count}] += weight")
            if column.sum:
                source.put(f"group[{column.sum}] += weight * {value}")
            if column.values:
                source.put(f"group[{column.values}].add({value}, weight)")

    def _put_row(self) -> None:
        source = self._source
        keys = [f"key[{n}]" for n in range(len(self._keys))] if len(self._keys) != 1 else ["key"]
        row = ", ".join([*keys, *map(self._aggregate, self._aggregates)])
        new = f"({row},)" if row else "()"
        source.put("old = group[0]")
        source.put(f"new = {new} if group[{_NUMBER}] > 0 else None" if self._keys else f"new = {new}")
        with source.block("if new != old:"):
            with source.block("if old is not None:"):
                source.put("out.append((old, -1))")
            with source.block("if new is not None:"):
                source.put("out.append((new, 1))")
            source.put(f"group[{_ROW}] = new")
        if self._keys:
            rest = [f"group[{n}]" for c in self._columns.values() for n in range(c.count, c.end)]
            with source.block(f"if not ({' or '.join([f'group[{_NUMBER}]', *rest])}):"):
                source.put("del groups[key]")

    def _aggregate(self, aggregate: Aggregate) -> str:
        kind = aggregate.kind
        if aggregate.column is None:
            return f"group[{_NUMBER}]"
        column = self._columns[aggregate.column]
        values = f"group[{column.values}]"
        if kind == "count":
            return f"group[{column.count}]"
        if kind == "count_distinct":
            return f"{values}.present"
        if kind in ("min", "max"):
            return f"{values}.{'first' if kind == 'min' else 'last'}()"
        nothing = "0" if self._zero else "None"
        if kind == "sum":
            return f"(group[{column.sum}] if group[{column.count}] > 0 else {nothing})"
        return f"({values}.total if {values}.present > 0 else {nothing})"

    def entries(self) -> int:
        columns = [c.values for c in self._columns.values() if c.values]
        values = sum(len(group[place]) for group in self._groups.values() for place in columns)
        return (len(self._groups) if self._keys else 0) + values

    def _check(self) -> None:
        for group in self._groups.values():
            for column in self._columns.values():
                if column.values:
                    group[column.values]._check()
            assert not self._keys or (group[_ROW] is not None) is (group[_NUMBER] > 0)

"""Aggregates by key.

A group's line in the table holds everything that its row is made of: the number of rows, and per aggregated column the
count and the sum of what is not NULL, the number and the sum of distinct values, the first and the last value. All but
the last two are added to; those are looked up where a value came or went.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from runtime.compiler.program import Aggregate, ColumnType, GroupNode
from runtime.state import KeyedTable, StringPool
from runtime.state.columnar.arrangement import CountedTable, groups_of
from runtime.views.flow.batch import Batch, Field, RowCodec, Vector
from runtime.views.flow.measure import Grouping, Measure, sum_words
from runtime.views.flow.operators import Context, Operator, place_of

__all__ = ["Group"]

Integers = npt.NDArray[np.int64]


class Group(Operator):
    """A row per group whose number of rows is positive; without keys, one row always."""

    def __init__(self, node: GroupNode, fields: Sequence[Field], context: Context) -> None:
        self._node = node
        self._pool = context.pool
        self._zero = context.program.mode == "dbtoaster"
        self._keys = [place_of(fields, name) for name in node.keys]
        self.fields = (*(fields[p] for p in self._keys), *((a.name, a.type) for a in node.aggregates))
        self._codec = RowCodec([fields[p][1] for p in self._keys], context.pool)
        self._measures: dict[str, Measure] = {}
        lines = 1  # the first one is the number of rows
        for column in dict.fromkeys(a.column for a in node.aggregates):
            if column is not None:
                place = place_of(fields, column)
                kinds = {a.kind for a in node.aggregates if a.column == column}
                measure = Measure(
                    place, fields[place], kinds, first_line=lines, group_width=self._codec.width, context=context
                )
                self._measures[column] = measure
                lines = measure.end
        self._groups = CountedTable(self._codec.width, [f"line{number}" for number in range(lines)])
        hidden = {m.lines["entries"][0] for m in self._measures.values() if "entries" in m.lines}
        if all(a.kind != "count_rows" for a in node.aggregates):
            hidden.add(0)
        self._shown = [line for line in range(lines) if line not in hidden]

    def tables(self) -> dict[str, KeyedTable]:
        tables: dict[str, KeyedTable] = {"groups": self._groups}
        for measure in self._measures.values():
            if measure.values is not None:
                tables[f"values{measure.place}"] = measure.values.table
        return tables

    def step(self, changes: Sequence[Batch | None], *, first: bool) -> Batch | None:
        batch = changes[0]
        keyless = not self._keys
        if batch is None or not len(batch):
            return self._emitted(*self._nothing(), first=True) if first and keyless else None
        rows = self._codec.pack([batch.vectors[place] for place in self._keys], len(batch))
        order, start = groups_of(rows)
        groups = rows[order[start]]
        slots, old = self._groups.enter(groups)
        new = old.copy()
        new[0] += np.add.reduceat(batch.weight[order], start)
        by = Grouping(order, start, groups, slots, self._groups.lookup)
        for measure in self._measures.values():
            measure.add(new, batch.vectors[measure.place], batch.weight, by)
        self._groups.write(groups, slots, new)
        return self._emitted(groups, old, new, first=first)

    def _nothing(self) -> tuple[Integers, Integers, Integers]:
        lines = np.zeros((len(self._groups.value_names), 1), np.int64)
        return np.zeros((1, 0), np.int64), lines, lines

    def _emitted(self, groups: Integers, old: Integers, new: Integers, *, first: bool) -> Batch | None:
        if self._keys:
            was, is_ = old[0] > 0, new[0] > 0
        else:
            was, is_ = np.full(1, not first), np.ones(1, np.bool_)
        same = was & is_ & (old[self._shown] == new[self._shown]).all(axis=0)
        gone, come = np.flatnonzero(was & ~same), np.flatnonzero(is_ & ~same)
        if not len(gone) and not len(come):
            return None
        both = np.concatenate([gone, come])
        lines = np.concatenate([old[:, gone], new[:, come]], axis=1)
        vectors = [*self._codec.unpack(groups[both]), *(self._vector(a, lines) for a in self._node.aggregates)]
        return Batch(vectors, np.repeat(np.array([-1, 1]), [len(gone), len(come)]))

    def _vector(self, aggregate: Aggregate, lines: Integers) -> Vector:
        """An aggregate's values in these lines of groups."""
        if aggregate.column is None:
            return Vector("int64", self._pool, None, None, (lines[0],)).as_type(aggregate.type)
        measure = self._measures[aggregate.column]
        begin, number = measure.lines[aggregate.kind]
        words = tuple(lines[begin : begin + number])
        if aggregate.kind in ("count", "count_distinct"):
            return Vector("int64", self._pool, None, None, words).as_type(aggregate.type)
        counted = "count" if aggregate.kind == "sum" else "count_distinct"
        nulls = lines[measure.lines[counted][0]] <= 0
        if aggregate.kind in ("sum", "sum_distinct"):
            words = sum_words(*words)
        is_extreme = aggregate.kind in ("min", "max")
        type_: ColumnType = measure.type if is_extreme else "int128"
        zero = self._zero and not is_extreme
        return _nullable(type_, words, nulls, self._pool, zero=zero).as_type(aggregate.type)


def _nullable(
    type_: ColumnType, words: tuple[Integers, ...], nulls: npt.NDArray[np.bool_], pool: StringPool, *, zero: bool
) -> Vector:
    """Values of which some are NULL, or 0 where 0 stands for NULL and the type has one."""
    if not nulls.any():
        return Vector(type_, pool, None, None, words)
    words = tuple(np.where(nulls, -1 if type_ == "string" else 0, word) for word in words)
    numeric = type_ in ("int64", "int128", "float64")
    return Vector(type_, pool, None, None if zero and numeric else nulls, words)

"""The result of a view that is kept as sums per group: from changed groups to rows that go and rows that come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compiler.program import Column, ColumnType, Joined, Selected, View
from runtime.state import ARROW_TYPES, KeyColumn, StringPool, SumTable, decode_words, width_of
from runtime.state.exactsums import Exact, arrow_of
from runtime.views.evaluate import evaluate, mask, wide_array
from runtime.views.linear import as_column, change_schema, consolidate
from runtime.views.scalars import scalar

__all__ = ["GroupResult"]

Integers = npt.NDArray[np.int64]

_FEW: Final = 48
"""Up to so many groups are quicker one by one than as columns."""


class GroupResult:
    """Groups with weight and sums, and the view's rows over them; NULL is a key like any other."""

    def __init__(
        self,
        view: View,
        body: Joined | Selected,
        keys: Sequence[tuple[str, ColumnType]],
        sums: Sequence[str],
        pool: StringPool,
    ) -> None:
        self._columns = view.columns
        self._schema = change_schema(view.columns)
        self._keys = tuple(KeyColumn(name, kind, nullable=True) for name, kind in keys)
        self._sums = ("weight", *sums)
        self._outputs, self._having, self._empty = body.outputs, body.having, body.empty
        self._scalars = [scalar(output) for output in body.outputs]
        self._condition = None if body.having is None else scalar(body.having)
        self._pool = pool
        self.table = SumTable(width_of(self._keys), len(self._sums))

    def add(self, words: Integers, deltas: list[Exact], *, begun: bool) -> pa.Table | None:
        """Add deltas to groups that do not repeat (words as of nullable columns); gives what changes in the view.

        While ``begun`` is False nothing stands in the view yet, not even the row of an empty group.
        """
        was_empty = self._empty is not None and not self._present()
        before, after, _ = self.table.add(words, deltas)
        same = np.logical_and.reduce([(a == b).astype(np.bool_) for a, b in zip(before, after, strict=True)])
        if same.all():
            changes = None
        else:
            moved = np.flatnonzero(~same)
            words = words[moved]
            before, after = [value[moved] for value in before], [value[moved] for value in after]
            changes = self._few(words, before, after) if len(moved) <= _FEW else self._many(words, before, after)
        sign = 0
        if self._empty is not None:
            sign = int(not self._present()) - int(was_empty and begun)
        if sign:
            row = self._table([self._empty or ()], [sign])
            changes = row if changes is None else consolidate(pa.concat_tables([changes, row]), self._schema)
        return changes

    @property
    def nothing(self) -> tuple[Integers, list[Exact]]:
        """Words and sums of no groups."""
        return np.zeros((0, width_of(self._keys)), np.int64), [np.zeros(0, np.int64)] * len(self._sums)

    def standing(self) -> tuple[Integers, list[Exact]]:
        """Every group held and its weight and sums."""
        slots = self.table.live_slots()
        return self.table.words(slots), self.table.values(slots)

    def _present(self) -> bool:
        slots = self.table.live_slots()
        return bool(len(slots)) and bool((self.table.values(slots)[0] > 0).any())

    def _few(self, words: Integers, before: list[Exact], after: list[Exact]) -> pa.Table:
        keys = [array.to_pylist() for array in self._decoded(words)]
        rows: list[tuple[Any, ...]] = []
        weights: list[int] = []
        old_lists, new_lists = [v.tolist() for v in before], [v.tolist() for v in after]
        for place in range(len(words)):
            named: dict[str, Any] = {column.name: keys[i][place] for i, column in enumerate(self._keys)}
            old = self._row(named, [values[place] for values in old_lists])
            new = self._row(named, [values[place] for values in new_lists])
            if old == new:
                continue
            if old is not None:
                rows.append(old)
                weights.append(-1)
            if new is not None:
                rows.append(new)
                weights.append(1)
        return consolidate(self._table(rows, weights), self._schema) if len(words) > 1 else self._table(rows, weights)

    def _row(self, keys: Mapping[str, Any], sums: Sequence[int]) -> tuple[Any, ...] | None:
        if sums[0] <= 0:
            return None
        row = {**keys, **dict(zip(self._sums, sums, strict=True))}
        if self._condition is not None and self._condition(row) is not True:
            return None
        return tuple(output(row) for output in self._scalars)

    def _table(self, rows: Sequence[Sequence[Any]], weights: Sequence[int]) -> pa.Table:
        arrays = []
        for place, column in enumerate(self._columns):
            values = [row[place] for row in rows]
            if column.type == "int128":
                arrays.append(wide_array(values))
            else:
                arrays.append(as_column(_narrow(values, column), column))
        return pa.Table.from_arrays([*arrays, pa.array(weights, pa.int64())], schema=self._schema)

    def _many(self, words: Integers, before: list[Exact], after: list[Exact]) -> pa.Table:
        tables = []
        for sums, sign in ((before, -1), (after, 1)):
            present = (sums[0] > 0).astype(np.bool_)
            rows = int(present.sum())
            named = dict(zip((c.name for c in self._keys), self._decoded(words[present]), strict=True))
            named |= {name: arrow_of(value[present]) for name, value in zip(self._sums, sums, strict=True)}
            chosen = mask(self._having, named, rows)
            if chosen is not None:
                named = {name: array.filter(chosen) for name, array in named.items()}
                rows = int(pc.sum(chosen).as_py() or 0)
            arrays = [
                as_column(evaluate(output, named, rows), column)
                for output, column in zip(self._outputs, self._columns, strict=True)
            ]
            tables.append(pa.Table.from_arrays([*arrays, pa.array(np.full(rows, sign))], schema=self._schema))
        return consolidate(pa.concat_tables(tables), self._schema)

    def _decoded(self, words: Integers) -> list[pa.Array]:
        return decode_words(self._keys, words, self._pool)


def _narrow(values: Sequence[Any], column: Column) -> pa.Array:
    """Python values as an Arrow array that can be checked against the column's type."""
    if column.type == "int64" and any(isinstance(v, int) and not -(2**63) <= v < 2**63 for v in values):
        return wide_array(list(values))
    if column.type == "float64":
        return pa.array([None if v is None else float(v) for v in values], pa.float64())
    return pa.array(values, ARROW_TYPES[column.type])

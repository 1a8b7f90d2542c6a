"""Versions of few rows: the tuple-wise kernel beside the shard, which takes the same rows an epoch at a time.

What is committed is always the shard's. The kernel only says earlier what the shard will say: for a hundred rows in
less than a millisecond, where the shard takes ten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any, Final

import msgspec
import pyarrow as pa

from runtime.compiler import Program
from runtime.compiler.program import Column, Flow, Joined, Linear, Selected
from runtime.state import ARROW_TYPES
from runtime.views.evaluate import wide_array
from runtime.views.linear import change_schema
from runtime.views.tuplewise import TuplewiseProgram, UnsupportedError

__all__ = ["QuickViews", "Quickness", "rows_worth"]

_Row = tuple[Any, ...]
_COSTS: Final[dict[type, tuple[int, int]]] = {
    Linear: (2_500, 2_000_000),
    Flow: (2_000, 4_000_000),
    Joined: (8_000, 500_000),
    Selected: (8_000, 500_000),
}
"""Body of a view → nanoseconds that the kernel takes for a row, and the shard for a step of few rows, whatever their
number. As measured on one machine; what counts is about where the two are equal."""


class Quickness(msgspec.Struct, frozen=True):
    """When rows are taken one by one."""

    most_rows: int = 4_000
    """Rows of one version, where `rows_worth` does not say fewer; 0: never."""
    most_held_rows: int = 200_000
    """Rows of all relations: what the kernel keeps are Python's objects, some hundred bytes a row and view."""
    calm_epochs: int = 10
    """So many epochs of few rows, and the kernel is begun again after there were many."""
    most_epochs: int = 200
    """Of the log that are read for that, on the worker that makes versions."""
    crowded_epochs: int = 3_000
    """So many epochs pass before it is read again, where it held too many rows."""


def rows_worth(program: Program) -> int:
    """Rows of one version up to which the kernel is quicker than the shard, about; 0 if it does not keep all views."""
    costs = [_COSTS.get(type(view.body), (1, 0)) for view in program.views]
    return min((step for _, step in costs), default=0) and sum(step for _, step in costs) // sum(
        row for row, _ in costs
    )


class QuickViews:
    """The views of a program at the same version as the shard with the rows that it is behind."""

    def __init__(self, program: Program, held: Mapping[str, pa.Table]) -> None:
        """``held``: relation → its rows (those columns that views read) and ``weight``.

        Raises `UnsupportedError` if there is a view without code for single rows.
        """
        self._kernel = TuplewiseProgram(program)
        for reason in self._kernel.unsupported.values():
            raise UnsupportedError(reason)
        self._columns = {relation.name: [column.name for column in relation.columns] for relation in program.relations}
        # Views are told of in the shard's order, so that strategies see the same whichever of the two it was.
        ordered = sorted(program.views, key=lambda view: isinstance(view.body, Joined))
        self._views = {view.name: (view.columns, change_schema(view.columns)) for view in ordered}
        for relation, table in held.items():
            rows = table.to_batches()
            self._kernel.step([change for batch in rows for change in self._changes(relation, batch)])

    def step(self, tables: Mapping[str, Sequence[pa.RecordBatch]]) -> dict[str, pa.Table]:
        """Take deltas as one version; view → what it changed in it, views that did not change left out."""
        deltas = [
            change
            for relation, batches in tables.items()
            for batch in batches
            for change in self._changes(relation, batch)
        ]
        found: dict[str, list[tuple[_Row, int]]] = {}
        for view, row, number in self._kernel.step(deltas):
            found.setdefault(view, []).append((row, number))
        return {view: self._table(view, found[view]) for view in self._views if view in found}

    def _changes(self, relation: str, batch: pa.RecordBatch) -> list[tuple[str, _Row, int]]:
        """Rows in the order of the relation's columns; those that no view reads may be missing, and are None then."""
        *names, _ = batch.schema.names
        given = {name: batch.column(place) for place, name in enumerate(names)}
        columns = [
            given[name].to_pylist() if name in given else repeat(None, batch.num_rows)
            for name in self._columns[relation]
        ]
        weights = batch.column(len(names)).to_pylist()
        return list(zip(repeat(relation), zip(*columns, strict=True), weights, strict=False))

    def _table(self, view: str, changes: Sequence[tuple[_Row, int]]) -> pa.Table:
        columns, schema = self._views[view]
        values = zip(*(row for row, _ in changes), strict=True)
        arrays = [_array(list(each), column) for each, column in zip(values, columns, strict=True)]
        arrays.append(pa.array([number for _, number in changes], pa.int64()))
        return pa.Table.from_arrays(arrays, schema=schema)


def _array(values: list[Any], column: Column) -> pa.Array:
    return wide_array(values) if column.type == "int128" else pa.array(values, ARROW_TYPES[column.type])

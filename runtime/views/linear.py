"""Changes of a linear view from the changes of its maps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compiler.program import Branch, Column
from runtime.state import ARROW_TYPES
from runtime.views.evaluate import evaluate, wide_array
from runtime.views.maps import MapChange, MapState
from runtime.views.preaggregate import WEIGHT

__all__ = ["as_column", "branch_changes", "change_schema", "consolidate", "empty_row"]

Integers = npt.NDArray[np.int64]


def change_schema(columns: Sequence[Column]) -> pa.Schema:
    """A view's columns and ``weight``."""
    fields = [
        pa.field(c.name, ARROW_TYPES[c.type], metadata={"scale": str(c.scale)} if c.scale else None) for c in columns
    ]
    return pa.schema([*fields, pa.field(WEIGHT, pa.int64())])


def as_column(array: pa.Array, column: Column) -> pa.Array:
    """Values in the type of a view's column."""
    wanted = ARROW_TYPES[column.type]
    if array.type.equals(wanted):
        return array
    if pa.types.is_decimal(wanted) and pa.types.is_integer(array.type):
        return array.cast(pa.int64()).cast(wanted)
    return array.cast(wanted)


def consolidate(changes: pa.Table, schema: pa.Schema) -> pa.Table:
    """Equal rows as one with the sum of their weights; rows whose weights cancel are gone."""
    names = [name for name in schema.names if name != WEIGHT]
    summed = changes.group_by(names, use_threads=False).aggregate([(WEIGHT, "sum")])
    summed = summed.select([*names, f"{WEIGHT}_sum"]).rename_columns(schema.names)
    return summed.filter(pc.not_equal(summed[WEIGHT], 0)).cast(schema)


def branch_changes(branch: Branch, columns: Sequence[Column], state: MapState, change: MapChange) -> list[pa.Table]:
    """What a map's change takes from the view (-) and adds to it (+)."""
    schema = change_schema(columns)
    tables = []
    for values, sign in ((change.old, -1), (change.new, 1)):
        present = values[0] > 0
        rows = int(present.sum())
        if not rows:
            continue
        named = state.columns(change.keys[present], values[:, present])
        arrays = [as_column(evaluate(e, named, rows), c) for e, c in zip(branch.outputs, columns, strict=True)]
        weight = sign * values[0, present] if branch.bag else np.full(rows, sign, np.int64)
        tables.append(pa.Table.from_arrays([*arrays, pa.array(weight)], schema=schema))
    return tables


def empty_row(branch: Branch, columns: Sequence[Column], sign: int) -> pa.Table:
    """The row that stands while no row is in the only group."""
    schema = change_schema(columns)
    arrays = []
    for value, column in zip(branch.empty or (), columns, strict=True):
        if column.type == "int128":
            arrays.append(wide_array([value if isinstance(value, int) else None]))
        else:
            arrays.append(pa.array([value], ARROW_TYPES[column.type]))
    return pa.Table.from_arrays([*arrays, pa.array([sign])], schema=schema)



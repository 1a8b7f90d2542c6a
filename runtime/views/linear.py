"""Changes of a linear view from the changes of its maps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compiler.program import Branch, Column
from runtime.state import ARROW_TYPES
from runtime.views.errors import ViewOverflowError
from runtime.views.evaluate import evaluate, mask, wide_array
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
    """Values in the type of a view's column; raises `ViewOverflowError` where one does not fit."""
    wanted = ARROW_TYPES[column.type]
    if array.type.equals(wanted):
        return array
    try:
        if pa.types.is_decimal(wanted) and pa.types.is_integer(array.type):
            return array.cast(pa.int64()).cast(wanted)
        return array.cast(wanted)
    except pa.ArrowException as error:
        raise ViewOverflowError(f"expected {column.type} in column {column.name}, was {error}") from None


def consolidate(changes: pa.Table, schema: pa.Schema) -> pa.Table:
    """Equal rows as one with the sum of their weights; rows whose weights cancel are gone."""
    names = [str(place) for place in range(len(schema))]  # a column of the view may be called weight too
    summed = changes.rename_columns(names).group_by(names[:-1], use_threads=False).aggregate([(names[-1], "sum")])
    summed = summed.select([*names[:-1], f"{names[-1]}_sum"])
    summed = summed.filter(pc.not_equal(summed.column(len(names) - 1), 0))
    return summed.rename_columns(schema.names).cast(schema)


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
        table = pa.Table.from_arrays([*arrays, pa.array(weight)], schema=schema)
        chosen = mask(branch.having, named, rows)
        tables.append(table if chosen is None else table.filter(chosen))
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

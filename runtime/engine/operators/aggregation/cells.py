"""Aggregates as cells: columns with a value per group, made from rows or from other cells of the same groups.

SUM is a total and the number of values in it, AVG likewise, COUNT a number, MIN, MAX, FIRST and LAST one of the values.
Cells are ordinary Arrow columns, so that incomplete groups are ordinary batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runtime.engine.operators.aggregation.exactsums import arrow_of, exact_of, fit, largest
from runtime.engine.operators.columns import inward, outward, take
from runtime.engine.operators.keys import group_codes, order_codes
from runtime.engine.operators.operator import OperatorError, PlanError
from runtime.state.errors import StateOverflowError

__all__ = ["Aggregate", "Cells"]

Integers = npt.NDArray[np.int64]
Kind = Literal["count_rows", "count", "count_distinct", "sum", "avg", "min", "max", "first", "last"]

_WIDE: Final = pa.decimal128(38, 0)


class Aggregate(msgspec.Struct, frozen=True):
    """One aggregate of every group."""

    name: str
    """Name of the aggregate's column in the output."""
    kind: Kind
    """Kind of the aggregate. SUM, AVG, MIN and MAX are NULL if all values are NULL; FIRST and LAST take the value of
    the first and last row, NULL or not."""
    column: str = ""
    """Column to aggregate; not needed for ``count_rows``."""


class Cells:
    """Cells of some aggregates over rows of one schema, with the conversions between rows, cells and results."""

    def __init__(self, schema: pa.Schema, keys: Sequence[str], aggregates: Sequence[Aggregate]) -> None:
        self.keys = tuple(keys)
        self.aggregates = tuple(aggregates)
        self._input = schema
        fields = [schema.field(key) for key in keys]
        outputs = list(fields)
        for number, part in enumerate(aggregates):
            fields += _cell_fields(number, part, schema)
            outputs.append(_output_field(part, schema, grouped=bool(keys)))
        self.schema = pa.schema(fields)
        """Schema of keys and cells."""
        self.output = pa.schema(outputs)
        """Schema of keys and results."""

    def of_rows(self, batch: pa.RecordBatch, codes: Integers, first: Integers) -> pa.RecordBatch:
        """Return the cells of a batch's groups; ``codes`` is each row's group, ``first`` each group's first row."""
        arrays = take([batch.column(key) for key in self.keys], first)
        for part in self.aggregates:
            column = batch.column(part.column) if part.column else None
            arrays += _of_rows(part, column, codes, len(first))
        return self._cells(arrays)

    def grouped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the cells of a batch's rows, with one row per group."""
        return self.of_rows(batch, *group_codes([batch.column(key) for key in self.keys], batch.num_rows))

    def merged(self, cells: pa.RecordBatch) -> pa.RecordBatch:
        """Return the cells merged to one row per group, where earlier rows count as the first."""
        codes, first = group_codes([cells.column(key) for key in self.keys], cells.num_rows)
        if len(first) == cells.num_rows:
            return cells
        arrays = take([cells.column(key) for key in self.keys], first)
        place = len(self.keys)
        for part in self.aggregates:
            for operation in _CELLS[part.kind]:
                arrays.append(_combined(operation, cells.column(place), codes, len(first)))
                place += 1
        return self._cells(arrays)

    def results(self, cells: pa.RecordBatch) -> pa.RecordBatch:
        """Return the results of the groups from their cells."""
        arrays = list(cells.columns[: len(self.keys)])
        place = len(self.keys)
        for part, field in zip(self.aggregates, list(self.output)[len(self.keys) :], strict=True):
            width = len(_CELLS[part.kind])
            arrays.append(_result(part, cells.columns[place : place + width], field, self._scale(part)))
            place += width
        return pa.RecordBatch.from_arrays(arrays, schema=self.output)

    def _scale(self, part: Aggregate) -> int:
        """Return the number of digits after the point in the values that are aggregated."""
        kind = self._input.field(part.column).type if part.column else None
        return kind.scale if kind is not None and pa.types.is_decimal(kind) else 0

    def _cells(self, arrays: list[pa.Array]) -> pa.RecordBatch:
        typed = [outward(array, field.type) for array, field in zip(arrays, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(typed, schema=self.schema)


_CELLS: Final[dict[str, tuple[str, ...]]] = {
    "count_rows": ("add",),
    "count": ("add",),
    "count_distinct": ("add",),
    "sum": ("add", "add"),
    "avg": ("add", "add"),
    "min": ("min",),
    "max": ("max",),
    "first": ("first",),
    "last": ("last",),
}
"""Merge of two cells of a group into one, by name, for each cell of an aggregate."""


def _cell_fields(number: int, part: Aggregate, schema: pa.Schema) -> list[pa.Field]:
    if part.kind in ("count_rows", "count", "count_distinct"):
        return [pa.field(f"cell_{number}_count", pa.int64(), nullable=False)]
    kind = schema.field(part.column).type
    if part.kind in ("sum", "avg"):
        if not (pa.types.is_int64(kind) or pa.types.is_decimal(kind) or pa.types.is_float64(kind)):
            raise PlanError(f"expected numbers in {part.kind.upper()}({part.column}), was {kind}")
        total = pa.float64() if pa.types.is_float64(kind) else _WIDE
        return [pa.field(f"cell_{number}_total", total, nullable=False),
                pa.field(f"cell_{number}_count", pa.int64(), nullable=False)]  # fmt: skip
    if pa.types.is_list(kind) and part.kind in ("min", "max"):
        raise PlanError(f"expected values with an order in {part.kind.upper()}({part.column}), was {kind}")
    return [pa.field(f"cell_{number}_value", kind, nullable=True)]


def _output_field(part: Aggregate, schema: pa.Schema, *, grouped: bool) -> pa.Field:
    if part.kind in ("count_rows", "count", "count_distinct"):
        return pa.field(part.name, pa.int64(), nullable=False)
    field = schema.field(part.column)
    nullable = field.nullable or not grouped
    if part.kind == "avg":
        return pa.field(part.name, pa.float64(), nullable)
    if part.kind == "sum" and not pa.types.is_float64(field.type):
        scale = field.type.scale if pa.types.is_decimal(field.type) else 0
        return pa.field(part.name, pa.decimal128(38, scale), nullable)
    return pa.field(part.name, field.type, nullable)


def _of_rows(part: Aggregate, column: pa.Array | None, codes: Integers, groups: int) -> list[pa.Array]:
    if part.kind == "count_rows":
        return [pa.array(np.bincount(codes, minlength=groups))]
    assert column is not None
    column = inward(column)
    if part.kind in ("min", "max", "first", "last"):
        return [_picked(part.kind, column, codes, groups)]
    if column.null_count:
        valid = column.is_valid()
        codes = codes[valid.to_numpy(zero_copy_only=False)]
        column = column.filter(valid)
    counts = pa.array(np.bincount(codes, minlength=groups))
    return [counts] if part.kind == "count" else [_added(column, codes, groups), counts]


def _combined(operation: str, column: pa.Array, codes: Integers, groups: int) -> pa.Array:
    if operation == "add":
        return _added(inward(column), codes, groups)
    return _picked(operation, inward(column), codes, groups)


def _added(column: pa.Array, codes: Integers, groups: int) -> pa.Array:
    """Return the exact sums of integers, int64 unless a sum could pass 64 bits; float sums in the order of the rows."""
    if pa.types.is_float64(column.type):
        totals = np.zeros(groups, np.float64)
        with np.errstate(invalid="ignore"):  # the sum of an infinity and its opposite is NaN
            np.add.at(totals, codes, column.to_numpy(zero_copy_only=False))
        return pa.array(totals)
    values = exact_of(column)
    (values,) = fit(largest(values) * len(values), values)
    sums = np.zeros(groups, np.int64) if values.dtype != object else np.full(groups, 0, object)
    np.add.at(sums, codes, values)
    try:
        return arrow_of(sums)
    except StateOverflowError as error:
        raise OperatorError(f"expected sums that an aggregation can hold, was {error}") from None


def _picked(kind: str, column: pa.Array, codes: Integers, groups: int) -> pa.Array:
    """Return one value of each group, NULL for a group without one; FIRST and LAST take a row's value, NULL or not."""
    rows = len(column)
    places = np.full(groups, -1, np.int64)
    if kind == "first":
        places[codes[::-1]] = np.arange(rows - 1, -1, -1)
    elif kind == "last":
        places[codes] = np.arange(rows)
    elif rows:
        valid = None if not column.null_count else np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        if valid is not None:
            column, codes = column.take(pa.array(valid)), codes[valid]
        (order,) = order_codes([[column]])
        best = np.full(groups, np.iinfo(np.int64).max if kind == "min" else np.iinfo(np.int64).min)
        (np.minimum if kind == "min" else np.maximum).at(best, codes, order)
        hits = np.flatnonzero(order == best[codes])[::-1]
        places[codes[hits]] = hits  # the first of equal values
    return take([column], places)[0]


def _result(part: Aggregate, cells: Sequence[pa.Array], field: pa.Field, scale: int) -> pa.Array:
    if part.kind not in ("sum", "avg"):
        return cells[0]
    total, count = cells
    empty = pc.equal(count, 0)
    if part.kind == "sum":
        return outward(pc.if_else(empty, pa.scalar(None, total.type), total), field.type)
    averages = _quotients(inward(total), count, 10**scale)
    return pc.if_else(empty, pa.scalar(None, pa.float64()), averages)


def _quotients(total: pa.Array, count: pa.Array, unit: int) -> pa.Array:
    """Return the averages: exact integers are divided once, and only then rounded.

    ``unit`` is the total of one value of 1.
    """
    counts = count.to_numpy(zero_copy_only=False)
    is_wide = pa.types.is_decimal(total.type)
    totals = np.array(total.to_pylist(), object) if is_wide else total.to_numpy(zero_copy_only=False)
    is_exact = totals.dtype != np.float64
    if is_wide or (is_exact and max(largest(totals), largest(counts) * unit) > 2**53):
        pairs = zip(totals.tolist(), counts.tolist(), strict=True)
        return pa.array([int(t) / (n * unit) if n else None for t, n in pairs], pa.float64())
    return pa.array(totals / (np.maximum(counts, 1) * unit))

"""Columns of operators: their Arrow types, the corresponding SQL types, and exact integers of any size.

The columns of a plan have one of these types: bool, int64, float64, string, date32, timestamp without a zone, list,
struct, and decimal128(38, scale) for numbers that may pass 64 bits or have decimals. Inside operators such a decimal is
represented by its unscaled integer: int64 if all integers of a batch fit, which is the usual case, otherwise
decimal128(38, 0). The values of a decimal128(38, 0) are read as Python integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.compiler.types import BOOL, FLOAT, INT, STRING, Type
from runtime.engine.errors import PlanError
from runtime.engine.operators.operator import OperatorError
from runtime.state import WIDE, decimals_of_words, unscaled_as, words_of_decimals

__all__ = [
    "MOST_DAYS",
    "MOST_SPAN",
    "as_schema",
    "canonical",
    "checked_ticks",
    "concat",
    "field_of",
    "inward",
    "matched",
    "outward",
    "stacked",
    "take",
    "ticks_of",
    "time_array",
    "type_of",
    "unscaled",
]

Integers = npt.NDArray[np.int64]


def canonical(schema: pa.Schema) -> pa.Schema:
    """Return the schema with types that operators support; raise `PlanError` for a column that has no such type."""
    return pa.schema([pa.field(f.name, _canonical_type(f.name, f.type), f.nullable) for f in schema])


def _canonical_type(name: str, kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_dictionary(kind):
        return _canonical_type(name, kind.value_type)
    if types.is_integer(kind) and not types.is_uint64(kind):
        return pa.int64()
    if types.is_uint64(kind):
        return WIDE
    if types.is_floating(kind):
        return pa.float64()
    if types.is_string(kind) or types.is_large_string(kind):
        return pa.string()
    if types.is_decimal128(kind) and 0 <= kind.scale < 38:
        return pa.decimal128(38, kind.scale)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return pa.list_(_canonical_type(name, kind.value_type))
    if types.is_struct(kind):
        return pa.struct([pa.field(f.name, _canonical_type(f"{name}.{f.name}", f.type), f.nullable) for f in kind])
    if types.is_boolean(kind) or types.is_date32(kind) or (types.is_timestamp(kind) and kind.tz is None):
        return kind
    raise PlanError(f"expected a type that operators support in column {name}, was {kind}")


def type_of(field: pa.Field) -> Type:
    """Return the SQL type of a column; lists are of kind ``other``."""
    kind, types = field.type, pa.types
    if types.is_decimal(kind):
        return Type("int", kind.scale, True, field.nullable)
    if types.is_timestamp(kind):
        return Type("timestamp", nullable=field.nullable)
    if types.is_date32(kind):
        return Type("date", nullable=field.nullable)
    for check, known in ((types.is_int64, INT), (types.is_float64, FLOAT), (types.is_string, STRING),
                         (types.is_boolean, BOOL)):  # fmt: skip
        if check(kind):
            return known.with_null(field.nullable)
    return Type("other", nullable=field.nullable, sql=str(kind))


def field_of(name: str, kind: Type, like: pa.DataType | None = None) -> pa.Field:
    """Return the column of an expression of this type; ``like`` is the Arrow type if the expression is a column.

    Raise `PlanError` for a type that operators do not support.
    """
    if like is not None:
        return pa.field(name, like, kind.nullable)
    if kind.kind in ("int", "null"):
        plain = pa.int64() if not (kind.wide or kind.scale) else pa.decimal128(38, kind.scale)
        return pa.field(name, plain, kind.nullable)
    known = {"float64": pa.float64(), "string": pa.string(), "bool": pa.bool_(), "date": pa.date32(),
             "timestamp": pa.timestamp("us")}  # fmt: skip
    if kind.kind not in known:
        raise PlanError(f"expected a column of a type that operators support as {name}, was {kind}")
    return pa.field(name, known[kind.kind], kind.nullable)


def inward(array: pa.Array) -> pa.Array:
    """Return a column as operators compute with it: a decimal becomes its unscaled integers, int64 if all fit."""
    if not pa.types.is_decimal(array.type):
        return array
    words = words_of_decimals(array)
    fits = words[:, 1] == words[:, 0] >> 63
    valid = None if array.null_count == 0 else array.is_valid()
    if valid is not None:
        fits = fits | ~valid.to_numpy(zero_copy_only=False)
    if bool(fits.all()):
        low = np.ascontiguousarray(words[:, 0])
        return pa.array(low) if valid is None else pa.array(low, mask=~valid.to_numpy(zero_copy_only=False))
    return unscaled_as(array)


def outward(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column with this Arrow type, the inverse of `inward`.

    Raise `OperatorError` if an integer does not fit.
    """
    if array.type.equals(kind):
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), kind)
    if pa.types.is_decimal(kind):
        return unscaled_as(array if pa.types.is_decimal(array.type) else _widened(array), kind)
    if pa.types.is_decimal(array.type) and pa.types.is_int64(kind):
        array = inward(array)
        if pa.types.is_decimal(array.type):
            far = max((abs(int(v)) for v in array.to_pylist() if v is not None), default=0)
            raise OperatorError(f"expected an integer of at most 64 bits, was one of the magnitude {far}")
        return array
    return array.cast(kind)


def as_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch from outside converted to the order and types of this schema.

    Raise `OperatorError` if that is impossible.
    """
    if batch.schema.equals(schema):
        return batch
    missing = [name for name in schema.names if name not in batch.schema.names]
    if missing:
        raise OperatorError(f"expected the columns {', '.join(schema.names)}, was a batch without {missing[0]}")
    return pa.RecordBatch.from_arrays([_cast(batch.column(f.name), f) for f in schema], schema=schema)


def _cast(array: pa.Array, field: pa.Field) -> pa.Array:
    if array.null_count and not field.nullable:
        raise OperatorError(f"expected no NULL in column {field.name}, was {array.null_count} of {len(array)}")
    try:
        return array if array.type.equals(field.type) else array.cast(field.type)
    except pa.ArrowException as error:
        raise OperatorError(f"expected {field.type} in column {field.name}, was {array.type}: {error}") from None


def concat(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Return all rows of these batches as one batch."""
    if len(batches) == 1:
        return batches[0]
    if not batches:
        return _empty(schema)
    arrays = [pa.concat_arrays([b.column(i) for b in batches]) for i in range(len(schema))]
    return _batch(arrays, schema, sum(b.num_rows for b in batches))


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def _batch(arrays: Sequence[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    assert arrays or not rows
    return pa.RecordBatch.from_arrays(list(arrays), schema=schema)


def take(columns: Iterable[pa.Array], rows: Integers) -> list[pa.Array]:
    """Return these rows of columns; the row index -1 gives NULL."""
    missing = rows < 0
    places = pa.array(rows, mask=missing) if bool(missing.any()) else pa.array(rows)
    return [column.take(places) for column in columns]


def stacked(first: pa.Array, second: pa.Array) -> pa.Array:
    """Return one column with the rows of both; integers of different widths are converted to the wider type."""
    if not first.type.equals(second.type):
        first, second = (each.cast(WIDE) for each in (first, second))
    return pa.concat_arrays([first, second])


def matched(left: pa.Schema, right: pa.Schema, *, left_optional: bool, right_optional: bool) -> pa.Schema:
    """Return the columns of a join's output; raise `PlanError` if both sides have a column of the same name."""
    shared = set(left.names) & set(right.names)
    if shared:
        raise PlanError(f"expected different names on the sides of a join, was {', '.join(sorted(shared))} on both")
    fields = [f.with_nullable(f.nullable or left_optional) for f in left]
    return pa.schema(fields + [f.with_nullable(f.nullable or right_optional) for f in right])


def ticks_of(column: pa.Array) -> Integers:
    """Return a time column as integers of its unit; the value of a NULL is undefined."""
    plain = column.view(pa.int32()).cast(pa.int64()) if pa.types.is_date32(column.type) else column.view(pa.int64())
    if plain.null_count:
        plain = plain.fill_null(0)
    ticks: Integers = plain.to_numpy(zero_copy_only=False)
    return ticks


MOST_SPAN: Final = 1 << 62
"""Bound of the magnitude of times, and of lengths of time, with which operators compute; see `checked_ticks`."""
MOST_DAYS: Final = 1 << 30
"""The corresponding bound for dates, which are numbers of days in 32 bits."""


def checked_ticks(column: pa.Array) -> Integers:
    """Return `ticks_of` a column without NULLs, all within the bound.

    So the sum or difference of such a time and a length of time fits the type of the column. Raise `OperatorError` for
    a time beyond the bound.
    """
    ticks = ticks_of(column)
    most = MOST_DAYS if pa.types.is_date32(column.type) else MOST_SPAN
    if len(ticks) and (ticks.min() < -most or ticks.max() > most):
        wrong = int(ticks.min() if ticks.min() < -most else ticks.max())
        raise OperatorError(f"expected times from -{most} to {most} of {column.type} in a window, was {wrong}")
    return ticks


def time_array(ticks: Integers, kind: pa.DataType) -> pa.Array:
    """Return a column of this type from integers; the inverse of `ticks_of`."""
    if pa.types.is_date32(kind):
        return pa.array(ticks.astype(np.int32)).view(kind)
    return pa.array(np.ascontiguousarray(ticks)).view(kind)


def unscaled(array: pa.Array) -> pa.Array:
    """Return a decimal column as its unscaled integers, decimal128(38, 0); any other column unchanged."""
    return unscaled_as(array) if pa.types.is_decimal(array.type) else array


def _widened(array: pa.Array) -> pa.Array:
    whole = array.fill_null(0) if array.null_count else array
    low = (whole if pa.types.is_int64(whole.type) else whole.cast(pa.int64())).to_numpy(zero_copy_only=False)
    words = np.empty((len(low), 2), np.int64)
    words[:, 0] = low
    np.right_shift(low, 63, out=words[:, 1])
    valid = None if array.null_count == 0 else array.is_valid().buffers()[1]
    if valid is not None and array.is_valid().offset:
        valid = pa.concat_arrays([array.is_valid()]).buffers()[1]
    return decimals_of_words(words, valid)

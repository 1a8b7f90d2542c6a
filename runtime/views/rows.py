"""Rows of a view as Arrow tables and as tuples, converted from the batches that its graph has filled."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.epochs.consolidating import consolidate
from runtime.plan import Column, Map
from runtime.state import ARROW_TYPES
from runtime.views.emission.values import Field, places_of
from runtime.views.feeds import ColumnBatch
from runtime.views.strings import Strings

__all__ = [
    "WEIGHT",
    "arrow_of",
    "change_schema",
    "changes_as_tuples",
    "changes_of",
    "payload_schema",
    "record_arrays",
]

Words = npt.NDArray[np.int64]

WEIGHT: Final = "weight"
"""Name of the last column of changes."""
_SET: Final = b"\1"
"""Byte that a word of the value 1 contains, and a word of the value 0 does not."""
_FEW_ROWS: Final = 512
"""Greatest number of rows that are added up as words, because Arrow's aggregation is not faster for so few."""
_buffer, _from_buffers = pa.py_buffer, pa.Array.from_buffers
_INT64: Final = pa.int64()
_COPIED: Final = {kind: ARROW_TYPES[kind] for kind in ("int64", "int128", "float64", "timestamp")}
"""Types whose words are the values of an Arrow array, byte for byte."""


def change_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return the schema of a view's changes: its columns and ``weight``."""
    fields = [
        pa.field(c.name, ARROW_TYPES[c.type], metadata={"scale": str(c.scale)} if c.scale else None) for c in columns
    ]
    return pa.schema([*fields, pa.field(WEIGHT, pa.int64())])


def payload_schema(map_: Map, wide: Collection[str] = ()) -> pa.Schema:
    """Return the schema of a map's payload: one row per key that changed, with its keys, ``weight``, and its sums.

    A sum is one column: int64, or decimal128(38, 0) if ``wide`` has its name, because one of its values in the payload
    is beyond 64 bits.
    """
    keys = [(key.name, ARROW_TYPES[key.type]) for key in map_.keys]
    sums = [(s.name, ARROW_TYPES["int128" if s.name in wide else "int64"]) for s in map_.sums]
    return pa.schema([*keys, (WEIGHT, pa.int64()), *sums])


def arrow_of(field: Field, words: Words, flags: Words | None, strings: Strings) -> pa.Array:
    """Return a column's words as an Arrow array; they are copied."""
    count = len(words) // field.value_words
    valid = None if flags is None or not flags.any() else flags == 0
    kind = _COPIED.get(field.type)
    if kind is None:
        return _converted(field, words, valid, strings)
    return _from_buffers(kind, count, [None if valid is None else _bits(valid), _buffer(words.tobytes())])


def _bits(valid: npt.NDArray[np.bool_]) -> pa.Buffer:
    """Return Arrow's validity bitmap."""
    return _buffer(np.packbits(valid, bitorder="little").tobytes())


def record_arrays(fields: Sequence[Field], records: Words, strings: Strings) -> list[pa.Array]:
    """Return the fields at the beginning of records as Arrow arrays; they are copied."""
    arrays = []
    for field, place in zip(fields, places_of(fields), strict=True):
        flags = np.ascontiguousarray(records[:, place]) if field.nullable else None
        begin = place + field.nullable
        words = np.ascontiguousarray(records[:, begin : begin + field.value_words]).reshape(-1)
        arrays.append(arrow_of(field, words, flags, strings))
    return arrays


def _converted(field: Field, words: Words, valid: npt.NDArray[np.bool_] | None, strings: Strings) -> pa.Array:
    """Return the Arrow array of a column whose values have another representation in Arrow than in cells."""
    if field.type == "string":
        return strings.decode(words, valid)
    mask = None if valid is None else ~valid
    if field.type == "bool":
        return pa.array(words != 0, mask=mask)
    return pa.array(words.astype(np.int32), mask=mask).cast(pa.date32())


def _arrays(fields: Sequence[Field], views: Sequence[memoryview], count: int, strings: Strings) -> list[pa.Array]:
    """Return the columns and then the weights of a batch as Arrow arrays, copied; fast for few rows."""
    arrays, place = [], 2
    for field in fields:
        valid = None
        if field.nullable and _SET in views[place + 1][:count].tobytes():
            valid = np.asarray(views[place + 1])[:count] == 0
        kind = _COPIED.get(field.type)
        if kind is None:
            arrays.append(_converted(field, np.asarray(views[place])[:count], valid, strings))
        else:
            mask = None if valid is None else _bits(valid)
            words = views[place][: count * field.value_words].tobytes()
            arrays.append(_from_buffers(kind, count, [mask, _buffer(words)]))
        place += 1 + field.nullable
    arrays.append(_from_buffers(_INT64, count, [None, _buffer(views[1][:count].tobytes())]))
    return arrays


def changes_of(
    batches: Sequence[ColumnBatch], schema: pa.Schema, strings: Strings, *, is_distinct: bool
) -> pa.Table | None:
    """Return the consolidated rows of a view's batches as one table of this schema; None if there are none."""
    filled = [batch for batch in batches if batch.views[0][0]]
    if not filled:
        return None
    fields, count = filled[0].fields, sum([batch.views[0][0] for batch in filled])
    if not is_distinct and count <= _FEW_ROWS:
        views, count = _added_up(filled, count)
        if not count:
            return None
        return pa.Table.from_arrays(_arrays(fields, views, count, strings), schema=schema)
    tables = [
        pa.Table.from_arrays(_arrays(fields, batch.views, batch.views[0][0], strings), schema=schema)
        for batch in filled
    ]
    table = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
    if not is_distinct and table.num_rows > 1:
        table = consolidate(table, schema)
    return table if table.num_rows else None


def _added_up(batches: Sequence[ColumnBatch], count: int) -> tuple[Sequence[memoryview], int]:
    """Add up the equal rows of batches of few rows, as `consolidate` does; return arrays and the number of rows.

    Equal rows have equal words: the words of a NULL are 0, strings are interned, and there is one NaN and one zero.
    """
    views = [batch.views for batch in batches]
    words = [_words_of(views, 1, 1)]
    columns = []
    for place, width in enumerate(batches[0].widths, 2):
        words.append(values := _words_of(views, place, width))
        columns += [values] if width == 1 else [values[word::width] for word in range(width)]
    totals: dict[tuple[int, ...], int] = {}
    first: list[int] = []
    weights = words[0]
    for number, row in enumerate(zip(*columns, strict=True) if columns else [()] * count):
        if row in totals:
            totals[row] += weights[number]
        else:
            totals[row] = weights[number]
            first.append(number)
    summed = list(totals.values())
    if len(summed) < count or not all(summed):
        rows = [number for number, weight in zip(first, summed, strict=True) if weight]
        words[0] = [weight for weight in summed if weight]
        for place, width in enumerate(batches[0].widths, 1):
            values = words[place]
            words[place] = (
                [values[row] for row in rows]
                if width == 1
                else [word for row in rows for word in values[row * width : (row + 1) * width]]
            )
    elif len(batches) == 1:
        return views[0], count
    return [views[0][0], *(memoryview(array("q", each)) for each in words)], len(words[0])


def _words_of(batches: Sequence[Sequence[memoryview]], place: int, width: int) -> list[int]:
    """Return the words of a column of some batches, one after the other."""
    if len(batches) == 1:
        return batches[0][place][: batches[0][0][0] * width].tolist()
    return [word for views in batches for word in views[place][: views[0][0] * width].tolist()]


def changes_as_tuples(
    view: str, batches: Sequence[ColumnBatch], strings: Strings, *, is_distinct: bool
) -> list[tuple[str, tuple[Any, ...], int]]:
    """Return the consolidated rows of a view's batches as (its name, tuple of Python values, weight); for few rows."""
    changes: list[tuple[str, tuple[Any, ...], int]] = []
    for batch in batches:
        if batch.views[0][0]:
            changes += batch.reader(view, batch.views, strings.text)
    if is_distinct or len(changes) < 2:
        return changes
    numbers: dict[tuple[Any, ...], int] = {}
    for _, row, number in changes:
        numbers[row] = numbers.get(row, 0) + number
    return [(view, row, number) for row, number in numbers.items() if number]

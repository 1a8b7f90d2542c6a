"""The adaptor of plain CSV streams and tables: every tuple is an inserted row, or a deleted one if a flag says so."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from runtime.compiler.program import Column, Relation
from runtime.formats import CsvFormat, Field, Schema
from runtime.relations.adaptor import Adaptor, Offsets, Prepared
from runtime.relations.errors import AdaptorError
from runtime.state import ARROW_TYPES

__all__ = ["RowAdaptor"]

_FLAG = "_insert"


class RowAdaptor(Adaptor):
    """Tuples of a relation's columns; with ``deletions`` the first field is 1 for an insertion, 0 for a deletion."""

    def __init__(self, relation: Relation, delimiter: bytes, *, deletions: bool) -> None:
        fields = [Field(c.name, _field_type(c), c.nullable) for c in relation.columns]
        self._deletions = deletions
        self._relation = relation
        # An empty line is an empty tuple, so that a single field needs letters for NULL.
        nulls = ("NULL", "") if len(fields) == 1 and not deletions else ("",)
        self._schema = Schema(
            (Field(_FLAG, "int64"), *fields) if deletions else tuple(fields),
            CsvFormat(field_delimiter=delimiter),
            null_values=nulls,
        )

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def relations(self) -> tuple[Relation, ...]:
        return (self._relation,)

    def prepare(self, rows: pa.RecordBatch, row_ends: Offsets) -> Prepared:
        return Prepared(rows, row_ends, np.ones(rows.num_rows, np.bool_))

    def apply(self, prepared: Prepared) -> Mapping[str, pa.RecordBatch]:
        rows = prepared.rows
        if not rows.num_rows:
            return {}
        if self._deletions:
            flag = rows.column(_FLAG).to_numpy()
            odd = flag[(flag != 0) & (flag != 1)]
            if len(odd):
                raise AdaptorError(f"expected 1 or 0 in front of the rows of {self._relation.name}, was {odd[0]}")
            weight = pa.array(2 * flag - 1)
        else:
            weight = pa.array(np.ones(rows.num_rows, np.int64))
        names = [c.name for c in self._relation.columns]
        arrays = [_scaled(rows.column(c.name), c) for c in self._relation.columns]
        return {self._relation.name: pa.RecordBatch.from_arrays([*arrays, weight], names=[*names, "weight"])}


def _field_type(column: Column) -> str:
    """How the column stands in the text: an integer with a scale is written as a decimal."""
    if column.type == "timestamp":
        return "timestamp(us)"
    if column.type in ("int64", "int128") and (column.scale or column.type == "int128"):
        return f"decimal({18 if column.type == 'int64' else 38},{column.scale})"
    return column.type


def _scaled(array: pa.Array, column: Column) -> pa.Array:
    """Values in the relation's type; a decimal's digits become the scaled integer."""
    if not pa.types.is_decimal(array.type):
        return array
    digits = pa.Array.from_buffers(pa.decimal128(38, 0), len(array), array.buffers(), offset=array.offset)
    return digits.cast(ARROW_TYPES[column.type])

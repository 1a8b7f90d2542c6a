"""Adaptors of plain streams and tables: every tuple is an inserted row, or a deleted row if its flag says so.

The rows of `RecentRows` expire by their number, and by the time in one of their columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from runtime.formats import CsvFormat, Field, Pushdown, Schema
from runtime.formats.format import Format
from runtime.plan import Column, Relation
from runtime.relations.adaptor import Adaptor, AdaptorError, Offsets, Prepared
from runtime.relations.retention import Retained, Retention
from runtime.state import ARROW_TYPES, KeyColumn, ObjectSpace, unscaled_as

__all__ = ["RecentRows", "RowAdaptor", "row_schema"]

FLAG: Final = "_insert"
"""Name of a field before the columns if rows may be deleted: 1 for an insertion, 0 for a deletion."""
ORDER: Final = "_order"
"""Name of a field before `FLAG` in DBToaster's files: the number of the event among the events of all files."""


class RowAdaptor(Adaptor):
    """Adaptor of tuples whose fields have the names of a relation's columns; with ``deletions`` there is also a `FLAG`.

    ``columns`` has the names of the columns that are read (None: all). Other columns are not parsed, and are missing in
    the deltas.
    """

    def __init__(
        self, relation: Relation, schema: Schema, *, deletions: bool = False, columns: frozenset[str] | None = None
    ) -> None:
        self._relation = relation
        self._schema = schema
        self._deletions = deletions
        wanted = [c for c in relation.columns if columns is None or c.name in columns]
        self._columns = tuple(wanted or relation.columns[:1])  # rows without a column could not be counted

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def relations(self) -> tuple[Relation, ...]:
        return (self._relation,)

    @property
    def pushdown(self) -> Pushdown:
        """Columns that the formatter must parse."""
        names = [c.name for c in self._columns]
        return Pushdown(columns=(FLAG, *names) if self._deletions else tuple(names))

    def prepare(self, rows: pa.RecordBatch, row_ends: Offsets) -> Prepared:
        return Prepared(rows, row_ends, np.ones(rows.num_rows, np.bool_))

    def apply(self, prepared: Prepared) -> Mapping[str, pa.RecordBatch]:
        rows = prepared.rows
        if not rows.num_rows:
            return {}
        if self._deletions:
            flag = rows.column(FLAG).to_numpy()
            if len(odd := np.flatnonzero((flag != 0) & (flag != 1))):
                row = int(odd[0])
                raise AdaptorError(
                    f"expected 1 or 0 before the rows of {self._relation.name}, was {flag[row]} in the row that "
                    f"ends before byte {prepared.row_ends[row]}"
                )
            weight = pa.array(2 * flag - 1)
        else:
            weight = pa.array(np.ones(rows.num_rows, np.int64))
        arrays = [_of_type(rows.column(c.name), c) for c in self._columns]
        names = [c.name for c in self._columns]
        return {self._relation.name: pa.RecordBatch.from_arrays([*arrays, weight], names=[*names, "weight"])}


def row_schema(
    relation: Relation,
    format_: Format = CsvFormat(),  # noqa: B008 (frozen)
    *,
    deletions: bool = False,
    numbered: bool = False,
    types: Mapping[str, str] | None = None,
    paths: Mapping[str, str] | None = None,
    **settings: Any,
) -> Schema:
    """Return the schema of a relation's rows; ``types`` and ``paths`` have other types and paths for some columns.

    With ``deletions`` the first field is a `FLAG`. With ``deletions`` and ``numbered`` an `ORDER` precedes the `FLAG`.
    """
    types, paths = types or {}, paths or {}
    fields = [
        Field(c.name, types.get(c.name) or field_type(c), c.nullable, paths.get(c.name, "")) for c in relation.columns
    ]
    if "null_values" not in settings and len(fields) == 1 and not deletions:
        settings["null_values"] = ("NULL", "")  # an empty line is not a tuple, so a single field needs text for NULL
    leading = tuple(Field(name, "int64") for name in ((ORDER, FLAG) if numbered else (FLAG,)) if deletions)
    return Schema((*leading, *fields), format=format_, **settings)


def field_type(column: Column) -> str:
    """Return the type of the column's field in the input: an integer with a scale is written as a decimal."""
    if column.type == "timestamp":
        return "timestamp(us)"
    if column.type in ("int64", "int128") and (column.scale or column.type == "int128"):
        return f"decimal({18 if column.type == 'int64' else 38},{column.scale})"
    return column.type


def _of_type(array: pa.Array, column: Column) -> pa.Array:
    """Return values in the relation's type; a decimal's digits become the scaled integer."""
    if pa.types.is_decimal(array.type):
        array = unscaled_as(array)
    wanted = ARROW_TYPES[column.type]
    return array if array.type == wanted else array.cast(wanted)


class RecentRows(Adaptor):
    """Adaptor of tuples with the columns of a relation whose rows expire; the object space has the retained rows.

    ``time`` names the integer column that has the time of a row; `Retention.time_ns` is in the unit of this column. If
    ``time`` is empty, rows expire only by their number.
    """

    def __init__(
        self,
        space: ObjectSpace,
        name: str,
        relation: Relation,
        schema: Schema,
        retention: Retention,
        *,
        time: str = "",
    ) -> None:
        self._rows = RowAdaptor(relation, schema)
        self._relation = relation
        columns = [KeyColumn(c.name, c.type, c.nullable) for c in relation.columns]
        self._retained = Retained(space, name, columns, retention, time=time)
        self._time = time

    @property
    def schema(self) -> Schema:
        return self._rows.schema

    @property
    def relations(self) -> tuple[Relation, ...]:
        return (self._relation,)

    @property
    def pushdown(self) -> Pushdown:
        """Columns that the formatter must parse."""
        return self._rows.pushdown

    def prepare(self, rows: pa.RecordBatch, row_ends: Offsets) -> Prepared:
        return self._rows.prepare(rows, row_ends)

    def apply(self, prepared: Prepared) -> Mapping[str, pa.RecordBatch]:
        deltas = self._rows.apply(prepared)
        for batch in deltas.values():
            if self._time and batch.column(self._time).null_count:
                raise AdaptorError(f"expected a time in {self._time} of every row of {self._relation.name}, was NULL")
            self._retained.add(batch)
        return deltas

    def at_barrier(self) -> Mapping[str, pa.RecordBatch]:
        expired = self._retained.expire()
        return {} if expired is None else {self._relation.name: expired}

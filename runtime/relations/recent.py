"""The adaptor of plain rows that are retained by number, and by a time of their own."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from runtime.formats import Pushdown, Schema
from runtime.plan import Relation
from runtime.relations.adaptor import Adaptor, Offsets, Prepared
from runtime.relations.errors import AdaptorError
from runtime.relations.retention import Retained, Retention
from runtime.relations.table import RowAdaptor
from runtime.state import KeyColumn, ObjectSpace

__all__ = ["RecentRows"]


class RecentRows(Adaptor):
    """Rows of a `RowAdaptor` without deletions that leave again; they are in the object space as long as they stay.

    ``time`` names the integer column that `Retention.time_ns` counts by, in its own unit; without one, rows stay as
    long as they are among the last.
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
        """Columns that the formatter has to parse."""
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

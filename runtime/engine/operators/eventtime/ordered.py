"""Union and order: rows of several inputs in order of time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.engine.operators.columns import as_schema, concat, ticks_of
from runtime.engine.operators.operator import MOST_ROWS, Batches, Operator, pieces

__all__ = ["InOrder", "Union"]


class InOrder(Operator):
    """Operator that yields its rows unchanged; the sequencer before every such operator sorts them by time."""

    def __init__(self, schema: pa.Schema, *, most_rows: int = MOST_ROWS) -> None:
        super().__init__(schema)
        self.most_rows = most_rows

    def add_input(self, batch: pa.RecordBatch, port: int = 0) -> Batches:
        return pieces(batch, self.most_rows)


class Union(Operator):
    """Operator that yields the rows of all inputs in order of time, of equal times those of a lower port first.

    Equal rows are all kept.
    """

    def __init__(self, schema: pa.Schema, times: Sequence[str], *, most_rows: int = MOST_ROWS) -> None:
        """Create a union; ``times`` has the time column of each input."""
        super().__init__(schema)
        self.ports = len(times)
        self.most_rows = most_rows
        self._place = schema.names.index(times[0])
        self._rows: list[list[pa.RecordBatch]] = [[] for _ in times]

    def add_input(self, batch: pa.RecordBatch, port: int = 0) -> Batches:
        if batch.num_rows:
            renamed = pa.RecordBatch.from_arrays(batch.columns, names=self.schema.names)
            self._rows[port].append(as_schema(renamed, self.schema))
        return iter(())

    def advance(self, bound: int) -> Batches:
        rows = concat([batch for arrived in self._rows for batch in arrived], self.schema)
        self._rows = [[] for _ in self._rows]
        times = ticks_of(rows.column(self._place))
        if bool((times[1:] < times[:-1]).any()):
            rows = rows.take(pa.array(np.argsort(times, kind="stable")))
        return pieces(rows, self.most_rows)

    def held_rows(self) -> int:
        return sum(int(batch.num_rows) for rows in self._rows for batch in rows)

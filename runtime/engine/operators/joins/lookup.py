"""Lookup join: every row with the rows of a table that have its key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
import pyarrow as pa

from runtime.engine.operators.columns import matched, take
from runtime.engine.operators.joins.tableindex import TableIndex
from runtime.engine.operators.operator import MOST_ROWS, Batches, Operator, PlanError, pieces

__all__ = ["LOOKUP_KINDS", "LookupJoin", "LookupKind"]

LookupKind = Literal["inner", "left", "semi", "anti"]
LOOKUP_KINDS: Final = ("inner", "left", "semi", "anti")


class LookupJoin(Operator):
    """Joins the rows of port 0 with their matches in the table that port 1 keeps up to date by deltas.

    A row is joined with the table as it is when the row is added. The plan adds rows at a barrier, after all deltas
    before it, so that they are joined with the table as of that barrier. Output is in the order of the rows; the
    matches of one row are ordered by the table's columns. A NULL in the key matches nothing.
    """

    ports = 2
    keeps = "the rows of the table"
    holds_state = True

    def __init__(
        self, schema: pa.Schema, index: TableIndex, keys: Sequence[str], kind: LookupKind, *, most_rows: int = MOST_ROWS
    ) -> None:
        if kind not in LOOKUP_KINDS:
            raise PlanError(f"expected a look-up of {', '.join(LOOKUP_KINDS)}, was {kind}")
        both = matched(schema, index.schema, left_optional=False, right_optional=kind == "left")
        super().__init__(schema if kind in ("semi", "anti") else both)
        self.most_rows = most_rows
        self._index = index
        self._keys = tuple(keys)
        self._kind = kind

    def add_input(self, batch: pa.RecordBatch, port: int = 0) -> Batches:
        if port == 1:
            self._index.update(batch)
            return
        if not batch.num_rows:
            return
        table, starts, counts = self._index.look_up([batch.column(key) for key in self._keys])
        if self._kind in ("semi", "anti"):
            chosen = (counts > 0) == (self._kind == "semi")
            yield from pieces(batch.filter(pa.array(chosen)), self.most_rows)
            return
        is_alone = counts == 0
        widths = np.where(is_alone, 1, counts) if self._kind == "left" else counts
        ends = np.cumsum(widths)
        for begin in range(0, int(ends[-1]), self.most_rows):
            places = np.arange(begin, min(begin + self.most_rows, int(ends[-1])))
            owners = np.searchsorted(ends, places, side="right")
            rows = starts[owners] + places - (ends - widths)[owners]
            rows = np.where(is_alone[owners], -1, rows)
            arrays = take(batch.columns, owners) + take(table.columns, rows)
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def held_rows(self) -> int:
        return len(self._index)

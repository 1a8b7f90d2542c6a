"""Operators that count all their input rows: limit and row number. Their counters continue across barriers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.engine.operators.operator import MOST_ROWS, Batches, Operator, pieces
from runtime.state import ObjectSpace

__all__ = ["Counter", "Limit", "RowNumber"]


class Counter:
    """Number in the object space, owned by one operator.

    The number is written when the operator advances, so that a checkpoint has the number as of its barrier; the
    committer reads the space after the barrier.
    """

    def __init__(self, name: str, space: ObjectSpace) -> None:
        self._table = space.table(name, 1, ["count"])
        self._key = np.zeros((1, 1), np.int64)
        slot = self._table.lookup(self._key)
        self._kept = self.value = int(self._table.get(slot)[0, 0]) if slot[0] >= 0 else 0

    def keep(self) -> None:
        """Write the number if it has changed since it was last written."""
        if self.value != self._kept:
            self._table.put(self._key, np.array([[self.value]], np.int64))
            self._kept = self.value


class Limit(Operator):
    """Operator that yields the first ``count`` rows after the first ``offset``, counted over all epochs."""

    keeps = "the number of rows seen"

    def __init__(
        self,
        schema: pa.Schema,
        count: int,
        offset: int = 0,
        *,
        name: str,
        space: ObjectSpace,
        most_rows: int = MOST_ROWS,
    ) -> None:
        super().__init__(schema)
        if count < 0 or offset < 0:
            raise ValueError(f"expected a limit and an offset from 0, were {count} and {offset}")
        self.most_rows = most_rows
        self._offset = offset
        self._end = offset + count
        self._seen = Counter(name, space)

    def add_input(self, batch: pa.RecordBatch, port: int = 0) -> Batches:
        seen = self._seen.value
        self._seen.value = min(seen + batch.num_rows, self._end)
        begin = max(self._offset - seen, 0)
        return pieces(batch.slice(begin, max(self._end - seen - begin, 0)), self.most_rows)

    def advance(self, bound: int) -> Batches:
        self._seen.keep()
        return iter(())


class RowNumber(Operator):
    """Operator that appends the number of each row, from 1, counted over all epochs, as last column."""

    keeps = "the number of rows numbered"

    def __init__(
        self,
        schema: pa.Schema,
        *,
        name: str,
        space: ObjectSpace,
        most_rows: int = MOST_ROWS,
    ) -> None:
        super().__init__(schema)
        self.most_rows = most_rows
        self._numbered = Counter(name, space)

    def add_input(self, batch: pa.RecordBatch, port: int = 0) -> Batches:
        first = self._numbered.value + 1
        self._numbered.value += batch.num_rows
        numbers = pa.array(np.arange(first, first + batch.num_rows, dtype=np.int64))
        return pieces(pa.RecordBatch.from_arrays([*batch.columns, numbers], schema=self.schema), self.most_rows)

    def advance(self, bound: int) -> Batches:
        self._numbered.keep()
        return iter(())

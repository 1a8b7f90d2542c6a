"""An index in the object space: rows by a unique key, looked up and changed a batch at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.engine.operators.aggregation.keptcells import KeyedRows
from runtime.engine.operators.columns import as_schema, canonical
from runtime.engine.operators.errors import OperatorError
from runtime.engine.operators.joins.lookup import Found, Pending, UpdatableIndex
from runtime.engine.operators.keys import group_codes
from runtime.state import ObjectSpace

__all__ = ["TableIndex"]

Integers = npt.NDArray[np.int64]


class _Answer:
    """An answer that is there at once."""

    def __init__(self, found: Found) -> None:
        self._found = found

    def done(self) -> bool:
        return True

    def result(self) -> Found:
        return self._found


class TableIndex(UpdatableIndex):
    """Rows by key; its changes are part of the next checkpoint of its object space.

    Owned by one operator, or by the caller while none is running.
    """

    def __init__(
        self, schema: pa.Schema, keys: Sequence[str], *, name: str = "index", space: ObjectSpace | None = None
    ) -> None:
        schema = canonical(schema)
        rest = [field for field in schema if field.name not in keys]
        self.keys = tuple(keys)
        self.schema = pa.schema([schema.field(key).with_nullable(False) for key in keys] + rest)
        self._rows = KeyedRows(self.schema, len(self.keys), name, space)

    def __len__(self) -> int:
        return len(self._rows)

    def look_up(self, keys: Sequence[pa.Array]) -> Pending:
        _, slots = self._rows.find(keys)
        rows = np.flatnonzero(slots >= 0)
        matches = pa.RecordBatch.from_arrays(self._rows.rows(slots[rows]), schema=self.schema)
        return _Answer(Found(rows, matches))

    def put(self, batch: pa.RecordBatch) -> None:
        """Set the rows of these keys; of several rows of one key the last stays."""
        batch = as_schema(batch, self.schema)
        if batch.num_rows:
            self._rows.put(batch.take(pa.array(self._last_of_each(batch))))

    def update(self, batch: pa.RecordBatch) -> None:
        weights = batch.column("weight").to_numpy(zero_copy_only=False)
        if bool((np.abs(weights) != 1).any()):
            raise OperatorError("expected a weight of 1 or -1 in every change of an index, was another")
        plain = as_schema(batch.drop_columns(["weight"]), self.schema)
        if not plain.num_rows:
            return
        last = self._last_of_each(plain)  # what comes after it does not matter
        puts, gone = last[weights[last] > 0], last[weights[last] < 0]
        words, slots = self._rows.find(plain.take(pa.array(gone)).columns[: len(self.keys)])
        self._rows.delete(words[slots >= 0])
        self._rows.put(plain.take(pa.array(puts)))

    def _last_of_each(self, batch: pa.RecordBatch) -> Integers:
        codes, first = group_codes(batch.columns[: len(self.keys)], batch.num_rows)
        last = np.zeros(len(first), np.int64)
        last[codes] = np.arange(batch.num_rows)
        return last

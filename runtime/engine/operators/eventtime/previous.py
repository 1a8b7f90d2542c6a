"""Previous rows: values of the row before of the same key, as LAG returns them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.engine.operators.columns import concat, take
from runtime.engine.operators.keyedrows import KeyedRows
from runtime.engine.operators.keys import group_codes
from runtime.engine.operators.operator import MOST_ROWS, Batches, Operator, pieces
from runtime.state import ObjectSpace

__all__ = ["Previous"]


class Previous(Operator):
    """Operator that appends the values that some columns had in the previous row of the same key, as last columns.

    The values are NULL for the first row of a key. The last values of every key are in the object space; a key is never
    forgotten.
    """

    keeps = "the last values of each key"
    holds_state = True

    def __init__(
        self,
        schema: pa.Schema,
        keys: Sequence[str],
        columns: Sequence[tuple[str, str]],
        *,
        name: str,
        space: ObjectSpace,
        most_rows: int = MOST_ROWS,
    ) -> None:
        """Create the operator; ``columns`` pairs each column with the name of its previous value."""
        made = [pa.field(new, schema.field(old).type, nullable=True) for old, new in columns]
        super().__init__(pa.schema([*schema, *made]))
        self.most_rows = most_rows
        self._keys = tuple(keys)
        self._columns = tuple(old for old, _ in columns)
        kept = [schema.field(key) for key in keys]
        self._last = KeyedRows(pa.schema([*kept, *made]), len(kept), name, space)

    def add_input(self, batch: pa.RecordBatch, port: int = 0) -> Batches:
        if not batch.num_rows:
            return iter(())
        keys = [batch.column(key) for key in self._keys]
        codes, first = group_codes(keys, batch.num_rows)
        order = np.argsort(codes, kind="stable")
        sorted_codes = codes[order]
        heads = np.flatnonzero(np.append(True, sorted_codes[1:] != sorted_codes[:-1]))
        distinct = take(keys, first)
        slots = self._last.find(distinct, len(first))
        known = slots >= 0
        values = pa.RecordBatch.from_arrays([batch.column(name) for name in self._columns], schema=self._values)
        carried = pa.RecordBatch.from_arrays(self._last.rows(slots[known], len(self._keys)), schema=self._values)
        places = np.empty(batch.num_rows, np.int64)
        places[order[1:]] = order[:-1]
        old = np.full(len(first), -1)
        old[known] = batch.num_rows + np.arange(int(known.sum()))
        places[order[heads]] = old
        previous = take(concat([values, carried], self._values).columns, places)
        tails = order[np.append(heads[1:], len(order)) - 1]
        last = take(values.columns, tails)
        self._last.put(pa.RecordBatch.from_arrays([*distinct, *last], schema=self._last.schema))
        made = pa.RecordBatch.from_arrays([*batch.columns, *previous], schema=self.schema)
        return pieces(made, self.most_rows)

    @property
    def _values(self) -> pa.Schema:
        return pa.schema(list(self._last.schema)[len(self._keys) :])

    def held_rows(self) -> int:
        return len(self._last)

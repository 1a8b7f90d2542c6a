"""Deduplication: the first row of each key, which is remembered until event time has passed the key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.engine.operators.columns import take
from runtime.engine.operators.keyedrows import KeyedRows
from runtime.engine.operators.keys import group_codes
from runtime.engine.operators.operator import ENDED, MOST_ROWS, Batches, Operator, pieces
from runtime.state import ObjectSpace

__all__ = ["Deduplicate"]


class Deduplicate(Operator):
    """Operator that yields the first row of each key; NULL is equal to NULL.

    One of the keys is a time: a key is forgotten once event time is ``span`` past it, when no further row can have the
    key. Other keys are in the object space. The end of the input forgets none of them, because rows may be appended to
    it.
    """

    keeps = "each key until event time has passed it"
    holds_state = True

    def __init__(
        self,
        schema: pa.Schema,
        keys: Sequence[str],
        time: str,
        span: int,
        *,
        name: str,
        space: ObjectSpace,
        most_rows: int = MOST_ROWS,
    ) -> None:
        super().__init__(schema)
        self.most_rows = most_rows
        self._keys = (time, *(key for key in keys if key != time))  # the time becomes the first word
        self._span = span
        kept = pa.schema([schema.field(key).with_nullable(schema.field(key).nullable and key != time)
                          for key in self._keys])  # fmt: skip
        self._seen = KeyedRows(kept, len(kept), name, space)

    def add_input(self, batch: pa.RecordBatch, port: int = 0) -> Batches:
        if not batch.num_rows:
            return iter(())
        columns = [batch.column(key) for key in self._keys]
        _, first = group_codes(columns, batch.num_rows)
        keys = take(columns, first)
        slots = self._seen.find(keys, len(first))
        fresh = np.flatnonzero(slots < 0)
        self._seen.put(pa.RecordBatch.from_arrays(take(keys, fresh), schema=self._seen.schema))
        rows = np.sort(first[fresh])
        chosen = batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))
        return pieces(chosen, self.most_rows)

    def advance(self, bound: int) -> Batches:
        slots = self._seen.live_slots()
        if len(slots) and bound != ENDED:
            times = self._seen.first_words(slots)
            self._seen.delete_at(slots[times <= bound - self._span])
        return iter(())

    def held_rows(self) -> int:
        return len(self._seen)

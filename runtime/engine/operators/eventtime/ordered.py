"""Operators that take rows in order of time: the order itself, unions, the previous row of a key (LAG), and the first
row of each key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.engine.operators.columns import as_schema, concat, take, ticks_of
from runtime.engine.operators.keyedrows import KeyedRows
from runtime.engine.operators.keys import group_codes
from runtime.engine.operators.operator import ENDED, MOST_ROWS, Batches, Operator, pieces
from runtime.state import ObjectSpace

__all__ = ["Deduplicate", "InOrder", "Previous", "Union"]


class InOrder(Operator):
    """Operator that yields its rows unchanged; the sequencer before every such operator sorts them by time."""

    def __init__(self, schema: pa.Schema, *, most_rows: int = MOST_ROWS) -> None:
        super().__init__(schema)
        self.most_rows = most_rows

    def add_input(self, batch: pa.RecordBatch, port: int = 0) -> Batches:
        return pieces(batch, self.most_rows)


class Union(Operator):
    """Operator that yields all rows of all inputs in order of time, and rows of equal times in the order of the ports.

    Equal rows are not merged.
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


class Previous(Operator):
    """Operator that appends the values that some columns had in the previous row of the same key, as last columns.

    The values are NULL for the first row of a key. The last values of every key are in the object space, and are never
    deleted.
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


class Deduplicate(Operator):
    """Operator that yields the first row of each key; NULL is equal to NULL.

    The keys that had a row are in the object space. One of the key columns is a time: a key is deleted once event time
    is ``span`` past the key's time, because no further row can then have the key. The end of the input deletes no key,
    because rows may be appended to the input.
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

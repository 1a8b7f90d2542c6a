"""Cells that outlive barriers: a keyed table of the object space."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.engine.operators.aggregation.cells import Cells
from runtime.engine.operators.columns import concat, outward, unscaled
from runtime.engine.operators.errors import PlanError
from runtime.state import ARROW_TYPES, KeyColumn, MemoryStore, ObjectSpace, decode_words, encode_words, width_of

__all__ = ["KeptCells", "KeyedRows"]

Words = npt.NDArray[np.int64]


class KeyedRows:
    """Rows by a unique key in the object space: a table of words, and a pool for their strings.

    Owned by one operator; the space is read by whoever commits it, at a barrier.
    """

    def __init__(self, schema: pa.Schema, keys: int, name: str, space: ObjectSpace | None) -> None:
        space = ObjectSpace(MemoryStore()) if space is None else space
        self.schema = schema
        """Its first columns are the key."""
        self._columns = [_state_column(field) for field in schema]
        self._keys = keys
        width = width_of(self._columns[keys:])
        self._pool = space.pool(f"{name}/strings")
        self._table = space.table(name, width_of(self._columns[:keys]), [f"w{number}" for number in range(width)])

    def __len__(self) -> int:
        return len(self._table)

    def live_slots(self) -> Words:
        """The slots of all rows."""
        return self._table.live_slots()

    def find(self, keys: Sequence[pa.Array]) -> tuple[Words, Words]:
        """The words of keys and the slot of each, -1 where there is none."""
        words = self._words(self._columns[: self._keys], keys, len(keys[0]) if keys else 1)
        return words, self._table.lookup(words)

    def rows(self, slots: Words, first: int = 0) -> list[pa.Array]:
        """The columns from the ``first`` on of live slots."""
        arrays: list[pa.Array] = []
        if first < self._keys:
            arrays += decode_words(self._columns[: self._keys], self._table.keys_of(slots), self._pool)
        words = np.ascontiguousarray(self._table.get(slots).T)
        arrays += decode_words(self._columns[self._keys :], words, self._pool)
        chosen = arrays if first < self._keys else [None] * self._keys + arrays
        fields = list(self.schema)
        return [outward(chosen[i], fields[i].type) for i in range(first, len(fields))]

    def put(self, batch: pa.RecordBatch) -> None:
        """Set the rows of these keys, which must not repeat."""
        keys = self._words(self._columns[: self._keys], batch.columns[: self._keys], batch.num_rows)
        values = self._words(self._columns[self._keys :], batch.columns[self._keys :], batch.num_rows)
        self._table.put(keys, np.ascontiguousarray(values.T))

    def _words(self, columns: Sequence[KeyColumn], arrays: Sequence[pa.Array], rows: int) -> Words:
        if not columns:
            return np.zeros((rows, 0), np.int64)
        return encode_words(columns, [unscaled(array) for array in arrays], self._pool)

    def delete(self, words: Words) -> None:
        """Take away these keys, which must be held and not repeat."""
        self._table.delete(words)


class KeptCells:
    """The cells of all groups that were ever seen."""

    def __init__(self, cells: Cells, name: str, space: ObjectSpace | None) -> None:
        self._cells = cells
        self._rows = KeyedRows(cells.schema, len(cells.keys), name, space)

    def merged(self, fresh: pa.RecordBatch) -> pa.RecordBatch:
        """The groups of these cells with all that was kept of them; they are kept from now on."""
        count = len(self._cells.keys)
        _, slots = self._rows.find(fresh.columns[:count])
        known = slots[slots >= 0]
        if len(known):
            old = pa.RecordBatch.from_arrays(self._rows.rows(known), schema=self._cells.schema)
            places = np.concatenate([np.flatnonzero(slots >= 0), np.arange(fresh.num_rows)])
            both = concat([old, fresh], self._cells.schema)
            order = np.argsort(places, kind="stable")  # so that groups keep the order of the fresh ones
            fresh = self._cells.merged(both.take(pa.array(order)))
        self._rows.put(fresh)
        return fresh


def _state_column(field: pa.Field) -> KeyColumn:
    """How the state keeps a column; raises `PlanError` for one that it cannot."""
    if pa.types.is_decimal(field.type):
        return KeyColumn(field.name, "int128", field.nullable)
    if pa.types.is_timestamp(field.type):
        return KeyColumn(field.name, "int64", field.nullable)  # whatever its unit
    for name, kind in ARROW_TYPES.items():
        if field.type.equals(kind):
            return KeyColumn(field.name, name, field.nullable)
    raise PlanError(f"expected a type that can be kept in column {field.name}, was {field.type}")

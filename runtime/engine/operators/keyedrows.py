"""Rows by a unique key in the object space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.engine.errors import PlanError
from runtime.engine.operators.columns import outward, unscaled
from runtime.state import ARROW_TYPES, KeyColumn, ObjectSpace, decode_words, encode_words, width_of

__all__ = ["KeyedRows"]

Words = npt.NDArray[np.int64]

_SPARE_STRINGS: Final = 4096
"""The pool is rebuilt if it has more strings than this number plus twice as many as live rows can contain."""


class KeyedRows:
    """Rows by a unique key in the object space: a table of words, and a pool for their strings.

    Slots are valid until the next `put` or `delete_at`. The object is owned by one operator; the committer reads the
    space at a barrier.
    """

    def __init__(self, schema: pa.Schema, keys: int, name: str, space: ObjectSpace) -> None:
        self.schema = schema
        """Schema of the rows; its first columns are the key."""
        self._columns = [_state_column(field) for field in schema]
        self._keys = keys
        self._strings_of_row = sum(column.type == "string" for column in self._columns)
        self._name, self._space = name, space
        self._open()

    def _open(self) -> None:
        keys, values = (width_of(columns) for columns in (self._columns[: self._keys], self._columns[self._keys :]))
        self._pool = self._space.pool(f"{self._name}/strings")
        self._table = self._space.table(self._name, keys, [f"w{number}" for number in range(values)])

    def __len__(self) -> int:
        return len(self._table)

    def live_slots(self) -> Words:
        """Return the slots of all rows."""
        return self._table.live_slots()

    def find(self, keys: Sequence[pa.Array], rows: int) -> Words:
        """Return the slot of each of the ``rows`` keys, -1 for a key without a row."""
        return self._table.lookup(self._words(self._columns[: self._keys], keys, rows, adds=False))

    def integers(self, name: str, slots: Words) -> Words:
        """Return the values of a one-word column, such as a time, for live slots.

        The value of a NULL is undefined.
        """
        place = self.schema.get_field_index(name)
        is_key = place < self._keys
        words = self._table.keys_of(slots).T if is_key else self._table.get(slots)
        before = self._columns[:place] if is_key else self._columns[self._keys : place]
        chosen: Words = words[width_of(before) + self._columns[place].nullable]
        return chosen

    def first_words(self, slots: Words) -> Words:
        """Return the first word of the keys of live slots: if the first key column is a time without NULL, the time."""
        words: Words = self._table.keys_of(slots)[:, 0]
        return words

    def values(self, slots: Words) -> Words:
        """Return the words of the columns that are not keys, for live slots; shape (words, slots)."""
        return self._table.get(slots)

    def delete_at(self, slots: Words) -> None:
        """Delete the rows of live slots."""
        if len(slots):
            self._table.delete_at(slots)
            self._forget_strings()

    def rows(self, slots: Words, first: int = 0) -> list[pa.Array]:
        """Return the columns of live slots, from column ``first`` on."""
        arrays: list[pa.Array] = []
        if first < self._keys:
            arrays += decode_words(self._columns[: self._keys], self._table.keys_of(slots), self._pool)
        words = np.ascontiguousarray(self._table.get(slots).T)
        arrays += decode_words(self._columns[self._keys :], words, self._pool)
        chosen = arrays if first < self._keys else [None] * self._keys + arrays
        fields = list(self.schema)
        return [outward(chosen[i], fields[i].type) for i in range(first, len(fields))]

    def put(self, batch: pa.RecordBatch) -> None:
        """Insert the rows of a batch, or replace those with the same key; keys must be unique within the batch."""
        keys = self._words(self._columns[: self._keys], batch.columns[: self._keys], batch.num_rows)
        values = self._words(self._columns[self._keys :], batch.columns[self._keys :], batch.num_rows)
        self._table.put(keys, np.ascontiguousarray(values.T))
        self._forget_strings()

    def _forget_strings(self) -> None:
        """Rebuild the table and its pool if most of the strings belong to deleted rows."""
        if len(self._pool) <= 2 * len(self) * self._strings_of_row + _SPARE_STRINGS:
            return
        live = pa.RecordBatch.from_arrays(self.rows(self.live_slots()), schema=self.schema)
        for name in (self._name, f"{self._name}/strings"):
            self._space.delete(name)
        self._open()
        self.put(live)

    def _words(
        self, columns: Sequence[KeyColumn], arrays: Sequence[pa.Array], rows: int, *, adds: bool = True
    ) -> Words:
        if not columns:
            return np.zeros((rows, 0), np.int64)
        return encode_words(columns, [unscaled(array) for array in arrays], self._pool, adds=adds)


def _state_column(field: pa.Field) -> KeyColumn:
    """Return the layout of a column in the state; raise `PlanError` for a column that cannot be stored."""
    if pa.types.is_decimal(field.type):
        return KeyColumn(field.name, "int128", field.nullable)
    if pa.types.is_timestamp(field.type):
        return KeyColumn(field.name, "int64", field.nullable)  # for any unit
    for name, kind in ARROW_TYPES.items():
        if field.type.equals(kind):
            return KeyColumn(field.name, name, field.nullable)
    raise PlanError(f"expected a type that can be kept in column {field.name}, was {field.type}")

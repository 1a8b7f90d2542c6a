"""Retention of a relation that only grows: rows leave it again by age and number, as ordinary deltas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.state import ARROW_TYPES, KeyColumn, ObjectSpace, decode_words, encode_words, width_of

__all__ = ["Retained", "Retention"]

Integers = npt.NDArray[np.int64]
_MINUTE_NS: Final = 60 * 1_000_000_000


class Retention(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long rows stay."""

    rows: int = 20_000
    """At most so many."""
    time_ns: int = 5 * _MINUTE_NS
    """None older than this, by the relation's own time against the newest row's."""


class Retained:
    """The rows that are still in a relation, by an ascending number; what expires comes out as deltas.

    Keeps the rows in a keyed table of the object space. Not thread-safe: one owner at a time.
    """

    def __init__(
        self, space: ObjectSpace, name: str, columns: Sequence[KeyColumn], limits: Retention, *, number: str, time: str
    ) -> None:
        self._columns = tuple(columns)
        self._names = [c.name for c in columns]
        self._number, self._time, self._limits = number, time, limits
        self._pool = space.pool(f"{name}/strings")
        width = width_of(self._columns)
        self._table = space.table(f"{name}/rows", 1, [f"w{i}" for i in range(width)] + ["time"])
        slots = self._table.live_slots()
        numbers = self._table.keys_of(slots)[:, 0]
        order = np.argsort(numbers)
        self._numbers: Integers = numbers[order]
        self._times: Integers = self._table.get(slots)[-1][order]

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows that were inserted; numbers ascend from call to call."""
        words = encode_words(self._columns, [rows.column(n) for n in self._names], self._pool)
        numbers = rows.column(self._number).to_numpy()
        times = rows.column(self._time).to_numpy()
        self._table.put(numbers[:, None], np.concatenate([words.T, times[None, :]]))
        self._numbers = np.concatenate([self._numbers, numbers])
        self._times = np.concatenate([self._times, times])

    def expire(self) -> pa.RecordBatch | None:
        """The rows whose time is over, with weight -1; None for none."""
        if not len(self._numbers):
            return None
        too_many = max(0, len(self._numbers) - self._limits.rows)
        oldest = int(self._times.max()) - self._limits.time_ns
        fresh = np.flatnonzero(self._times[too_many:] >= oldest)
        gone = too_many + (int(fresh[0]) if len(fresh) else len(self._times) - too_many)
        if not gone:
            return None
        keys = self._numbers[:gone][:, None]
        words = self._table.get(self._table.lookup(keys))[:-1].T
        self._table.delete(keys)
        self._numbers, self._times = self._numbers[gone:], self._times[gone:]
        arrays = decode_words(self._columns, np.ascontiguousarray(words), self._pool)
        schema = pa.schema([*((c.name, ARROW_TYPES[c.type]) for c in self._columns), ("weight", pa.int64())])
        return pa.RecordBatch.from_arrays([*arrays, pa.array(np.full(gone, -1, np.int64))], schema=schema)

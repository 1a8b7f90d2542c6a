"""Retention of a relation that only grows: rows leave it again by age and number, as ordinary deltas."""

from __future__ import annotations

from collections import deque
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

    The rows are held as they came. A keyed table of the object space has what stayed at the last `expire`, which has to
    come before a checkpoint: rows that come and go between two cost nothing there. Not thread-safe: one owner at a
    time.
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
        self._schema = pa.schema([*((c.name, ARROW_TYPES[c.type]) for c in self._columns), ("weight", pa.int64())])
        self._held: deque[pa.RecordBatch] = deque()  # what the table has, in order
        self._added: list[pa.RecordBatch] = []  # what came since the last `expire`
        self._count = 0  # rows of both
        self._times: Integers = np.zeros(0, np.int64)  # of the rows that the table has
        self._restore()

    def _restore(self) -> None:
        slots = self._table.live_slots()
        if not len(slots):
            return
        slots = slots[np.argsort(self._table.keys_of(slots)[:, 0])]
        values = self._table.get(slots)
        arrays = decode_words(self._columns, np.ascontiguousarray(values[:-1].T), self._pool)
        self._held.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema.remove(len(arrays))))
        self._times, self._count = values[-1], len(slots)

    def __len__(self) -> int:
        return self._count

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows that were inserted; numbers ascend from call to call."""
        self._added.append(rows)
        self._count += rows.num_rows

    def expire(self) -> pa.RecordBatch | None:
        """The rows whose time is over, with weight -1; None for none."""
        if not self._count:
            return None
        stored, added = len(self._times), deque[pa.RecordBatch]()
        times = self._times
        if self._added:
            added.append(pa.concat_batches(self._added).select(self._names))
            times = np.concatenate([times, added[0].column(self._time).to_numpy()])
        too_many = max(0, self._count - self._limits.rows)
        fresh = times[too_many:] >= int(times.max()) - self._limits.time_ns
        gone = too_many + (int(fresh.argmax()) if fresh.any() else len(fresh))
        expired = self._take(self._held, min(gone, stored))
        if expired:
            numbers = np.concatenate([rows.column(self._number).to_numpy() for rows in expired])
            self._table.delete(numbers[:, None])
        expired += self._take(added, max(0, gone - stored))
        if added:
            self._store(added[0], times[max(gone, stored) :])
        self._held += added
        self._added, self._times, self._count = [], times[gone:], len(times) - gone
        return self._with_weight(expired) if gone else None

    def clear(self) -> pa.RecordBatch | None:
        """Forget all rows; gives them with weight -1, None for none. What expires then is nothing."""
        rows = [*self._held, *[each.select(self._names) for each in self._added]]
        self._table.delete_at(self._table.live_slots())
        self._held.clear()
        self._added, self._times, self._count = [], np.zeros(0, np.int64), 0
        return self._with_weight(rows) if rows else None

    @staticmethod
    def _take(batches: deque[pa.RecordBatch], count: int) -> list[pa.RecordBatch]:
        """Take the first rows away."""
        taken: list[pa.RecordBatch] = []
        while count > 0:
            rows = batches.popleft()
            if rows.num_rows > count:
                batches.appendleft(rows.slice(count))
                rows = rows.slice(0, count)
            taken.append(rows)
            count -= rows.num_rows
        return taken

    def _store(self, rows: pa.RecordBatch, times: Integers) -> None:
        """Put rows that stay into the table."""
        words = encode_words(self._columns, rows.columns, self._pool)
        self._table.put(rows.column(self._number).to_numpy()[:, None], np.concatenate([words.T, times[None, :]]))

    def _with_weight(self, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        rows = pa.concat_batches(batches)
        weight = pa.array(np.full(rows.num_rows, -1, np.int64))
        return pa.RecordBatch.from_arrays([*rows.columns, weight], schema=self._schema)

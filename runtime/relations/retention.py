"""Retention of the rows of a relation: rows expire by age and number, and their removals are ordinary deltas."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.state import (
    ARROW_TYPES,
    CorruptStateError,
    KeyColumn,
    ObjectSpace,
    Run,
    decode_run,
    decode_words,
    encode_run,
    width_of,
)

__all__ = ["Retained", "Retention"]

Integers = npt.NDArray[np.int64]
_MINUTE_NS: Final = 60 * 1_000_000_000
_KEPT: Final = b"kept"
"""Metadata of a run: number of rows of earlier runs that are still retained."""
_JOINED: Final = 32
"""Number of added batches that are joined to one batch, so that only few batches remain at the end of an epoch."""
_CHUNK_ROWS: Final = 1 << 14
"""Greatest number of time values in a chunk of `_Times`."""


class Retention(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of the number and age of rows."""

    rows: int = 20_000
    """Greatest number of rows."""
    time_ns: int = 5 * _MINUTE_NS
    """Greatest age of a row in nanoseconds: the latest time in the relation minus the time of the row."""


class Retained:
    """Rows that are still in a relation, in the order of arrival; expired rows are returned as deltas.

    A run of the object space has the rows that arrived since the previous run. `expire` must be called before a
    checkpoint, so that rows that arrive and expire between two checkpoints are never written. Not thread-safe: one
    owner at a time.
    """

    def __init__(
        self, space: ObjectSpace, name: str, columns: Sequence[KeyColumn], limits: Retention, *, time: str = ""
    ) -> None:
        """Restore the rows of this name.

        ``time`` names the column for `Retention.time_ns`; if it is empty, rows expire only by their number. Raise
        `CorruptStateError` if runs are missing.
        """
        self._schema = pa.schema([(c.name, ARROW_TYPES[c.type]) for c in columns])
        self._name, self._time, self._limits = name, time, limits
        self._batches: deque[pa.RecordBatch] = deque()  # rows as of the last `expire`, in order
        self._fresh = 0  # number of rows at the end of `_batches` that are in no run
        self._added: list[pa.RecordBatch] = []  # batches since the last `expire`
        self._joined = 0  # number of joined batches at the beginning of `_added`
        self._count = 0  # number of rows in `_batches` and `_added`
        self._held_bytes = 0
        self._times = _Times()  # times of the stored rows, if their age is limited
        self._runs: deque[int] = deque()  # row count of each run that may contain retained rows, oldest first
        self._stored = 0  # row count in the last run
        self.dirty = False
        """True if rows changed since the last `save`."""
        self.wants_base = False
        """True if a run was lost; the next run must then have all rows."""
        space.queue(f"{name}/held", self)
        if self._count != self._stored:
            raise CorruptStateError(f"expected {self._stored} rows in the runs of {name}, was {self._count}")
        self._take_over(space, columns)

    def __len__(self) -> int:
        return self._count

    def add(self, rows: pa.RecordBatch) -> None:
        """Add inserted rows; further columns are ignored."""
        self._added.append(rows.select(self._schema.names))
        self._count += rows.num_rows
        if len(self._added) - self._joined >= _JOINED:
            self._added[self._joined :] = [pa.concat_batches(self._added[self._joined :])]
            self._joined += 1

    def expire(self) -> pa.RecordBatch | None:
        """Return the expired rows with weight -1; None if there are none."""
        if not self._count:
            return None
        if self._added:
            added, self._added, self._joined = pa.concat_batches(self._added), [], 0
            self._hold(added)
            self._fresh += added.num_rows
            self.dirty = True
        gone = max(0, self._count - self._limits.rows)
        if self._time:
            gone = self._times.first_within(self._limits.time_ns, gone)
        return self._with_weight(self._drop(gone)) if gone else None

    def rows(self) -> list[pa.RecordBatch]:
        """Return the rows as of the last `expire`, in the order of arrival."""
        return list(self._batches)

    def clear(self) -> pa.RecordBatch | None:
        """Drop all rows, expired or not; return them with weight -1, or None if there are none."""
        rows = [*self._drop(self._count - sum([each.num_rows for each in self._added])), *self._added]
        self._added, self._joined, self._count, self._fresh = [], 0, 0, 0
        return self._with_weight(rows) if rows else None

    # Implementation of `QueueHolder`

    @property
    def held_bytes(self) -> int:
        """Size of the rows as of the last `expire`, uncompressed, in bytes."""
        return self._held_bytes

    @property
    def runs_in_use(self) -> int:
        """Number of the newest runs that contain retained rows, including the newest run."""
        later = sum(self._runs)  # number of rows in the runs after the oldest one
        while len(self._runs) > 1 and (later := later - self._runs[0]) >= self._count:
            self._runs.popleft()
        return len(self._runs)

    def save(self) -> Run:
        """Return the retained rows since the last save, and the number of earlier rows that are still retained."""
        rows: deque[pa.RecordBatch] = deque()
        missing = self._fresh
        for batch in reversed(self._batches):
            if not missing:
                break
            rows.appendleft(batch.slice(max(0, batch.num_rows - missing)))
            missing -= rows[0].num_rows
        return self._run(self._count - self._fresh, list(rows))

    def save_all(self) -> Run:
        """Return all rows."""
        self.wants_base = False
        self._runs.clear()
        return self._run(0, list(self._batches))

    def on_saved(self) -> None:
        """Do nothing: the last save is durable."""

    def on_failed(self) -> None:
        """Require a new base, because the last save is lost."""
        self.dirty = self.wants_base = True

    def apply_run(self, data: bytes) -> None:
        """Apply a run; raise `CorruptStateError` if it is damaged or has other columns."""
        rows = decode_run(data, self._name)
        kept = int((rows.schema.metadata or {}).get(_KEPT, -1))
        rows = rows.replace_schema_metadata()
        if kept < 0 or rows.schema != self._schema:
            raise CorruptStateError(
                f"expected a run with columns {self._schema.names} after rows of {self._name}, "
                f"was one with {rows.schema.names} after {kept}"
            )
        self._drop(max(0, self._count - kept))  # the count is below ``kept`` if fully expired runs were deleted
        self._hold(rows)
        self._count += rows.num_rows
        self._runs.append(rows.num_rows)
        self._stored = kept + rows.num_rows
        self.dirty, self._fresh = False, 0

    def _run(self, kept: int, rows: Sequence[pa.RecordBatch]) -> Run:
        self.dirty, self._fresh = False, 0
        self._runs.append(sum([each.num_rows for each in rows]))
        schema = self._schema.with_metadata({_KEPT: str(kept).encode()})
        return Run(sum([each.nbytes for each in rows]), partial(_encoded, rows, schema))

    def _hold(self, rows: pa.RecordBatch) -> None:
        """Append rows to the batches and times; the caller updates the count."""
        if rows.num_rows:
            self._batches.append(rows)
            self._held_bytes += rows.nbytes
            if self._time:
                self._times.add(rows.column(self._time).to_numpy())

    def _drop(self, count: int) -> list[pa.RecordBatch]:
        """Remove and return the first ``count`` stored rows."""
        if count:
            self._count -= count
            if self._time:
                self._times.drop(count)
            self._fresh = min(self._fresh, self._count)
            self.dirty = True
        taken: list[pa.RecordBatch] = []
        while count > 0:
            rows = self._batches.popleft()
            self._held_bytes -= rows.nbytes
            if rows.num_rows > count:
                self._batches.appendleft(rows.slice(count))
                self._held_bytes += self._batches[0].nbytes
                rows = rows.slice(0, count)
            taken.append(rows)
            count -= rows.num_rows
        return taken

    def _with_weight(self, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        rows = pa.concat_batches(batches)
        weight = pa.array(np.full(rows.num_rows, -1, np.int64))
        return pa.RecordBatch.from_arrays([*rows.columns, weight], names=[*self._schema.names, "weight"])

    def _take_over(self, space: ObjectSpace, columns: Sequence[KeyColumn]) -> None:
        """Move rows from the keyed table of version 0.1, whose key was an ascending number, into the first run."""
        rows, strings = f"{self._name}/rows", f"{self._name}/strings"
        if rows not in space:
            return
        _, width, values = space.kind(rows).split(":")
        table, pool = space.table(rows, int(width), values.split(",")), space.pool(strings)
        slots = table.live_slots()
        if len(slots):
            words = np.ascontiguousarray(table.get(slots[np.argsort(table.keys_of(slots)[:, 0])])[:-1].T)
            # Some relations also had the number as their first column.
            arrays = decode_words(columns, words[:, words.shape[1] - width_of(columns) :], pool)
            batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
            self._count = self._fresh = batch.num_rows
            self._hold(batch)
            self.dirty = True
        space.delete(rows)
        space.delete(strings)


class _Times:
    """Times of rows in order, in chunks; the greatest time of each chunk is known, so that few chunks are read."""

    def __init__(self) -> None:
        self._chunks: deque[Integers] = deque()
        self._latest: deque[int] = deque()  # the greatest time of each chunk

    def add(self, times: Integers) -> None:
        """Append times."""
        if self._chunks and len(self._chunks[-1]) < _CHUNK_ROWS:
            times = np.concatenate([self._chunks.pop(), times])
            self._latest.pop()
        for start in range(0, len(times), _CHUNK_ROWS):
            chunk = times[start : start + _CHUNK_ROWS]
            self._chunks.append(chunk)
            self._latest.append(int(chunk.max()))

    def drop(self, count: int) -> None:
        """Remove the first ``count`` times."""
        while count > 0:
            chunk = self._chunks.popleft()
            self._latest.popleft()
            if len(chunk) > count:
                self._chunks.appendleft(chunk[count:])
                self._latest.appendleft(int(chunk[count:].max()))
            count -= len(chunk)

    def first_within(self, age: int, start: int) -> int:
        """Return the first place, from ``start`` on, with a time at most ``age`` before the greatest of all times.

        If there is no such place, return the number of times.
        """
        oldest = max(self._latest, default=0) - age
        begin = 0
        for chunk, latest in zip(self._chunks, self._latest, strict=True):
            skipped = max(0, start - begin)
            if skipped < len(chunk) and latest >= oldest:
                stays = chunk[skipped:] >= oldest
                if stays.any():
                    return begin + skipped + int(stays.argmax())
            begin += len(chunk)
        return begin


def _encoded(rows: Sequence[pa.RecordBatch], schema: pa.Schema) -> bytes:
    columns = pa.concat_batches(rows).columns if rows else [pa.array([], each.type) for each in schema]
    return encode_run(pa.RecordBatch.from_arrays(columns, schema=schema))

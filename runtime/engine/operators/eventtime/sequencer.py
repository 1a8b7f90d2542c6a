"""Sequencer, which holds rows until event time has passed them, and returns them in order of time, then arrival."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.engine.errors import PlanError
from runtime.engine.operators.columns import concat, ticks_of
from runtime.engine.operators.keys import order_codes
from runtime.engine.operators.operator import ENDED, pieces
from runtime.state import KindError, ObjectSpace, Run, decode_run, encode_run

__all__ = ["Sequencer"]

Integers = npt.NDArray[np.int64]

_PASSED: Final = b"passed"
"""Metadata of a run: all rows of earlier runs before this time have been yielded."""
_LEAST: Final = -(2**63)
"""Time before all others."""
_PART_ROWS: Final = 1 << 14
"""Greatest number of rows of a part that was joined from several parts, or cut from stored rows."""


class _Part(NamedTuple):
    """Rows that arrived one after another, with the range of their times."""

    rows: pa.RecordBatch
    """The rows, in the order in which they arrived."""
    times: Integers
    """Time of each row, in ticks of its column."""
    first: int
    """The least of the times."""
    last: int
    """The greatest of the times."""

    def chosen(self, rows: npt.NDArray[np.bool_]) -> _Part:
        """Return a part that has only the flagged rows."""
        return _part(self.rows.filter(pa.array(rows)), self.times[rows])


def _part(rows: pa.RecordBatch, times: Integers) -> _Part:
    """Return rows, at least one, as a part."""
    return _Part(rows, times, int(times.min()), int(times.max()))


class Sequencer:
    """Rows of one input that wait for the watermark, in the order in which they arrived.

    The rows are in parts of some ten thousand rows. `release` reads only the parts that the bound divides, so that the
    cost depends on the rows that arrive and are released, not on the rows that wait.

    A run of the object space has the rows that arrived since the previous run and still wait, and a time: all rows of
    earlier runs before this time have been returned. Rows that arrive and are returned between two checkpoints are not
    stored. The end of the input is not stored as a time, because rows may be appended to the input after a restart.
    Instead, the run after the end is a base. Not thread-safe: owned by the query's thread.
    """

    def __init__(
        self, schema: pa.Schema, time: str, name: str, space: ObjectSpace, *, keys: Sequence[str] = ()
    ) -> None:
        """Restore the rows that wait from the object space.

        Rows of equal times are ordered by the columns ``keys``, and then by arrival. Raise `PlanError` for a nested
        column.
        """
        for field in schema:
            if pa.types.is_nested(field.type):
                raise PlanError(f"expected a column that can be kept, was {field.name}, a {field.type}: UNNEST it "
                                f"first, or leave it out")  # fmt: skip
        self._schema = schema
        self._name = name
        self._time = time
        self._keys = tuple(keys)
        self._none = concat([], schema)
        self._stored: list[_Part] = []  # rows that are in a saved run
        self._fresh: list[_Part] = []  # rows after the stored ones, in no run yet
        self._arrived: list[pa.RecordBatch] = []  # rows after the fresh ones, since the last release or save
        self._rows = 0  # number of all rows that wait
        self._passed = _LEAST
        self._has_gone = False  # True if rows of stored runs were yielded since the last save
        self._runs: deque[int] = deque()  # the latest time in each run that may contain waiting rows
        self.wants_base = False
        """True if a run was lost, so that the next run must hold everything."""
        space.queue(f"{name}/waiting", self)
        if self._passed == ENDED:  # as earlier releases wrote it
            self._passed, self._has_gone = _LEAST, True
            self.drop()
        else:
            self._before(self._stored, self._passed)

    @property
    def rows(self) -> int:
        """Number of rows that wait."""
        return self._rows

    def push(self, batch: pa.RecordBatch) -> None:
        """Add rows in the order of their arrival."""
        if batch.num_rows:
            self._arrived.append(batch)
            self._rows += batch.num_rows

    def drop(self) -> None:
        """Forget all rows that wait."""
        self._has_gone = self._has_gone or bool(self._stored)
        self.wants_base = self.wants_base or self._has_gone
        self._stored, self._fresh, self._arrived, self._rows = [], [], [], 0

    def release(self, bound: int, *, inclusive: bool) -> pa.RecordBatch:
        """Remove the rows before the bound, and those at the bound if ``inclusive``; return them in their order."""
        if not self._rows:
            return self._none
        self._settle()
        if bound == ENDED:
            ready = [*self._stored, *self._fresh]
            self.drop()
            return self._in_order(_joined(ready, self._schema))
        end = bound + inclusive
        self._passed = max(self._passed, end)
        stored = self._before(self._stored, end)
        self._has_gone = self._has_gone or bool(stored)
        ready = [*stored, *self._before(self._fresh, end)]
        return self._in_order(_joined(ready, self._schema)) if ready else self._none

    def _before(self, parts: list[_Part], end: int) -> list[_Part]:
        """Remove the rows before ``end`` from these parts, and return them."""
        ready: list[_Part] = []
        waiting: list[_Part] = []
        for part in parts:
            if part.last < end:
                ready.append(part)
            elif part.first >= end:
                waiting.append(part)
            else:
                is_ready = part.times < end
                ready.append(part.chosen(is_ready))
                waiting.append(part.chosen(~is_ready))
        if ready:
            parts[:] = waiting
            self._rows -= sum(len(part.times) for part in ready)
        return ready

    def _in_order(self, part: _Part) -> pa.RecordBatch:
        rows, codes = part.rows, part.times
        if self._keys:
            (codes,) = order_codes([[rows.column(name) for name in (self._time, *self._keys)]])
        if bool((codes[1:] < codes[:-1]).any()):
            return rows.take(pa.array(np.argsort(codes, kind="stable")))
        return rows

    def _settle(self) -> None:
        """Append the rows that have arrived to the other rows that wait."""
        arrived, self._arrived = self._arrived, []
        if arrived:
            self._append(self._fresh, concat(arrived, self._schema))

    def _store(self, rows: pa.RecordBatch) -> None:
        for batch in pieces(rows, _PART_ROWS):
            self._append(self._stored, batch)

    def _append(self, parts: list[_Part], rows: pa.RecordBatch) -> None:
        """Append rows as a part; join it with preceding parts of at most twice its size, so that few remain."""
        part = _part(rows, ticks_of(rows.column(self._time)))
        while parts and len(parts[-1].times) <= min(2 * len(part.times), _PART_ROWS - len(part.times)):
            part = _joined([parts.pop(), part], self._schema)
        parts.append(part)

    # Methods of `QueueHolder`

    @property
    def dirty(self) -> bool:
        """True if anything changed since the last `save`."""
        return self.wants_base or self._has_gone or bool(self._fresh or self._arrived)

    @property
    def held_bytes(self) -> int:
        """Number of bytes of the rows that wait, without those that have arrived since the last release or save."""
        return sum(part.rows.nbytes for parts in (self._stored, self._fresh) for part in parts)

    @property
    def runs_in_use(self) -> int:
        """Number of newest runs that are needed for the rows that wait, the newest run included."""
        while len(self._runs) > 1 and self._runs[0] < self._passed:
            self._runs.popleft()
        return len(self._runs)

    def save(self) -> Run:
        """Return a run of the rows that arrived since the last save and still wait."""
        self._settle()
        fresh, self._fresh = self._fresh, []
        for part in fresh:
            self._store(part.rows)
        return self._run(fresh)

    def save_all(self) -> Run:
        """Return a run of all rows that wait."""
        self.save()
        self.wants_base = False
        self._runs.clear()
        return self._run(self._stored)

    def on_saved(self) -> None:
        """Note that the last save is durable."""

    def on_failed(self) -> None:
        """Note that the last save is lost, so that the next run must hold everything."""
        self.wants_base = True

    def apply_run(self, data: bytes) -> None:
        """Apply a saved run.

        Raise `CorruptStateError` if it is damaged, or `KindError` if its rows have other columns.
        """
        rows = decode_run(data, self._name)
        passed = (rows.schema.metadata or {}).get(_PASSED)
        rows = rows.replace_schema_metadata()
        if passed is None or not rows.schema.equals(self._schema):
            raise KindError(f"expected a run of rows with columns {self._schema.names} that wait in {self._name}, was "
                            f"one with {rows.schema.names}")  # fmt: skip
        times = ticks_of(rows.column(self._time))
        self._store(rows)
        self._rows += rows.num_rows
        self._passed = int(passed)
        self._runs.append(int(times.max()) if len(times) else _LEAST)

    def _run(self, parts: Sequence[_Part]) -> Run:
        self._has_gone = False
        self._runs.append(max((part.last for part in parts), default=_LEAST))
        schema = self._schema.with_metadata({_PASSED: str(self._passed).encode()})
        batches = [part.rows for part in parts]
        return Run(sum(batch.nbytes for batch in batches), partial(_encoded, batches, schema))


def _joined(parts: Sequence[_Part], schema: pa.Schema) -> _Part:
    """Return parts as one."""
    if len(parts) == 1:
        return parts[0]
    times = np.concatenate([part.times for part in parts])
    return _Part(
        concat([part.rows for part in parts], schema),
        times,
        min(part.first for part in parts),
        max(part.last for part in parts),
    )


def _encoded(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> bytes:
    return encode_run(pa.RecordBatch.from_arrays(concat(batches, schema).columns, schema=schema))

"""Sequencer: rows held until event time has passed them, and given out in order of time, then arrival."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.engine.operators.columns import concat, ticks_of
from runtime.engine.operators.errors import PlanError
from runtime.engine.operators.keys import order_codes
from runtime.engine.operators.operator import ENDED
from runtime.state import KindError, ObjectSpace, Run, decode_run, encode_run

__all__ = ["Sequencer"]

Integers = npt.NDArray[np.int64]

_PASSED: Final = b"passed"
"""Metadata of a run: rows of earlier runs below this time have been given out."""
_LEAST: Final = -(2**63)


class Sequencer:
    """Rows of one input that wait for the watermark, in the order in which they arrived.

    A run of the object space holds the rows that arrived since the run before it and still wait, and the time below
    which rows of earlier runs have gone; rows that arrive and leave between two checkpoints cost nothing there. The end
    of the input is no such time, as rows may be appended to it after a restart: the next run then stands alone. Not
    thread-safe: owned by the query's thread.
    """

    def __init__(
        self, schema: pa.Schema, time: str, name: str, space: ObjectSpace, *, keys: Sequence[str] = ()
    ) -> None:
        """``keys``: columns by which rows of equal times are ordered before their arrival."""
        for field in schema:
            if pa.types.is_nested(field.type):
                raise PlanError(f"expected a column that can be kept, was {field.name}, a {field.type}: UNNEST it "
                                f"first, or leave it out")  # fmt: skip
        self._schema = schema
        self._name = name
        self._time = time
        self._keys = tuple(keys)
        self._rows = concat([], schema)  # as of the last release
        self._times: Integers = np.zeros(0, np.int64)  # of these
        self._fresh = 0  # so many of them, the last, are in no run
        self._arrived: list[pa.RecordBatch] = []  # since then
        self._arrived_rows = 0
        self._passed = _LEAST
        self._unsaved_gone = False  # whether rows of stored runs were given out since the last save
        self._runs: deque[int] = deque()  # the latest time in each run that may contain waiting rows
        self.dirty = False
        """True if anything changed since the last `save`."""
        self.wants_base = False
        """True if a run was lost, so that the next one must hold everything."""
        space.queue(f"{name}/waiting", self)
        if self._passed == ENDED:  # as former releases wrote it
            self._passed, self.dirty, self.wants_base = _LEAST, True, True
            self._keep(np.zeros(self._rows.num_rows, np.bool_))
        elif self._rows.num_rows:
            self._keep(self._times >= self._passed)
            self.dirty = self._unsaved_gone = False

    @property
    def rows(self) -> int:
        """Rows that wait."""
        return int(self._rows.num_rows) + self._arrived_rows

    def push(self, batch: pa.RecordBatch) -> None:
        """Add rows as they arrive."""
        if batch.num_rows:
            self._arrived.append(batch)
            self._arrived_rows += batch.num_rows

    def drop(self) -> None:
        """Forget all rows that wait."""
        if self._rows.num_rows or self._arrived:
            self._settle()
            self._keep(np.zeros(self._rows.num_rows, np.bool_))
            self.wants_base = self.wants_base or self._unsaved_gone

    def release(self, bound: int, *, inclusive: bool) -> pa.RecordBatch:
        """Return the rows earlier than the bound (``inclusive``: or at it) that were not given out, in their order."""
        self._settle()
        if not self._rows.num_rows:
            return self._rows
        if bound == ENDED:
            rows, times = self._rows, self._times
            self.drop()
            return self._in_order(rows, times)
        end = bound + inclusive
        is_ready = self._times < end
        self._passed = max(self._passed, end)
        if not is_ready.any():
            return self._rows.slice(0, 0)
        if is_ready.all():
            rows, times = self._rows, self._times
            self._keep(~is_ready)
        else:
            rows, times = self._rows.filter(pa.array(is_ready)), self._times[is_ready]
            self._keep(~is_ready)
        return self._in_order(rows, times)

    def _in_order(self, rows: pa.RecordBatch, times: Integers) -> pa.RecordBatch:
        codes = times
        if self._keys:
            (codes,) = order_codes([[rows.column(name) for name in (self._time, *self._keys)]])
        if bool((codes[1:] < codes[:-1]).any()):
            return rows.take(pa.array(np.argsort(codes, kind="stable")))
        return rows

    def _settle(self) -> None:
        """Put the rows that arrived behind those that were held."""
        if not self._arrived:
            return
        rows = [*([self._rows] if self._rows.num_rows else []), *self._arrived]
        self._rows = concat(rows, self._schema)
        self._fresh += self._arrived_rows
        fresh = self._rows.column(self._time).slice(len(self._times))
        self._times = np.concatenate([self._times, ticks_of(fresh)])
        self._arrived, self._arrived_rows = [], 0
        self.dirty = True

    def _keep(self, waits: npt.NDArray[np.bool_]) -> None:
        """Keep these of the rows alone."""
        count = len(waits)
        gone_stored = bool((~waits[: count - self._fresh]).any())
        self._fresh = int(waits[count - self._fresh :].sum()) if self._fresh else 0
        self._rows = self._rows.filter(pa.array(waits)) if waits.any() else self._rows.slice(0, 0)
        self._times = self._times[waits]
        self.dirty = bool(self._unsaved_gone or gone_stored or self._fresh)
        self._unsaved_gone = self._unsaved_gone or gone_stored

    # As `QueueHolder`

    @property
    def held_bytes(self) -> int:
        """Bytes of the rows that wait."""
        return int(self._rows.nbytes)

    @property
    def runs_in_use(self) -> int:
        """Number of the newest runs that have rows that wait, the newest run included."""
        while len(self._runs) > 1 and self._runs[0] < self._passed:
            self._runs.popleft()
        return len(self._runs)

    def save(self) -> Run:
        """Return the rows that arrived since the last save and wait."""
        return self._run(
            self._rows.slice(self._rows.num_rows - self._fresh), self._times[len(self._times) - self._fresh :]
        )

    def save_all(self) -> Run:
        """Return all rows that wait."""
        self.wants_base = False
        self._runs.clear()
        return self._run(self._rows, self._times)

    def on_saved(self) -> None:
        """The last save is durable."""

    def on_failed(self) -> None:
        """The last save is lost."""
        self.dirty = self.wants_base = True

    def apply_run(self, data: bytes) -> None:
        """Take over a run; raise `CorruptStateError`, or `KindError` for rows with other columns."""
        rows = decode_run(data, self._name)
        passed = (rows.schema.metadata or {}).get(_PASSED)
        rows = rows.replace_schema_metadata()
        if passed is None or not rows.schema.equals(self._schema):
            raise KindError(f"expected a run of rows with columns {self._schema.names} that wait in {self._name}, was "
                            f"one with {rows.schema.names}")  # fmt: skip
        self._rows = concat([self._rows, rows], self._schema)
        times = ticks_of(rows.column(self._time))
        self._times = np.concatenate([self._times, times])
        self._passed = int(passed)
        self._runs.append(int(times.max()) if len(times) else _LEAST)
        self.dirty, self._fresh = False, 0

    def _run(self, rows: pa.RecordBatch, times: Integers) -> Run:
        self.dirty = self._unsaved_gone = False
        self._fresh = 0
        self._runs.append(int(times.max()) if len(times) else _LEAST)
        schema = self._schema.with_metadata({_PASSED: str(self._passed).encode()})
        return Run(int(rows.nbytes), partial(_encoded, rows, schema))


def _encoded(rows: pa.RecordBatch, schema: pa.Schema) -> bytes:
    return encode_run(pa.RecordBatch.from_arrays(rows.columns, schema=schema))

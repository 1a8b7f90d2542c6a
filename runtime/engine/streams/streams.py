"""Derived streams of a program: their queries, the rows that they retain, and their changes in each epoch.

Rows that arrive too late for a stream become dead letters.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from twisted.logger import Logger

from runtime.compiler import NamedSelect, SqlError
from runtime.engine.errors import PlanError
from runtime.engine.operators.columns import outward
from runtime.engine.operators.operator import ENDED, OperatorError, OtherPlanError
from runtime.engine.operators.plans.derived import DerivedQuery
from runtime.engine.streams.declaring import lateness_ticks, query_inputs, unit_ns
from runtime.epochs import EpochLogReader, SnapshotDirectory, rows_at
from runtime.formats import DeadLetter
from runtime.plan import Column, DerivedInput, DerivedStream, Program, stream_views
from runtime.relations import Retained, Retention
from runtime.state import (
    ARROW_TYPES,
    KeyColumn,
    KindError,
    ObjectSpace,
    PersistedValue,
    Schema,
    SchemaVersionError,
)

__all__ = ["ClosedStreams", "DerivedStreams", "StreamFigures"]

_NAME: Final = "streams"
_MOST_PENDING_ROWS: Final = 1 << 14
"""Number of rows that are gathered before the queries are called; a call costs as much as a hundred rows."""
_LOWEST: Final = -(1 << 62)
"""Greatest number that, as the watermark of a stream, counts as unknown."""
_WARNING_SHARE: Final = 0.8
"""Share of `most_held` from which a warning is logged."""


_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 (SQL's TIMESTAMP has no zone)
_MOMENTS: Final = {
    pa.date32(): ((date.min - _EPOCH.date()).days, (date.max - _EPOCH.date()).days),
    pa.timestamp("us"): tuple(
        (moment - _EPOCH) // timedelta(microseconds=1)
        for moment in (datetime.min, datetime.max)  # noqa: DTZ901 (as above)
    ),
}
"""First and last value of the years 1 to 9999, as integers, by type."""


class StreamFigures(msgspec.Struct, frozen=True):
    """Figures of a derived stream, as of the end of an epoch."""

    rows: int = 0
    """Number of rows of the stream."""
    waiting_rows: int = msgspec.field(default=0, name="held")
    """Number of input rows, and of groups of open windows, that wait for event time."""
    state_rows: int = msgspec.field(default=0, name="state")
    """Number of rows of tables that the stream looks up, and of keys whose last row it keeps."""
    late: int = 0
    """Number of rows that arrived too late since the stream was created."""
    watermark: int | None = None
    """Time in nanoseconds before which the stream has no further row; None before the first watermark."""
    failed: str = ""
    """Reason for the failure of the stream; empty if it has not failed."""


class ClosedStreams(msgspec.Struct, frozen=True, eq=False):
    """Changes of streams in an epoch."""

    relations: Mapping[str, pa.RecordBatch]
    """Changed rows of each stream, with their weights; unchanged streams are left out."""
    letters: tuple[DeadLetter, ...] = ()
    """Descriptions of late rows; not every late row has one."""
    late: int = 0
    """Number of late rows."""
    failed: Mapping[str, str] = {}
    """Reason for the failure of each stream that failed in this epoch."""


class _Kept(msgspec.Struct, frozen=True):
    """Saved state other than the state of the queries and the rows of the streams."""

    watermarks: dict[str, int] = {}
    """Watermarks of the relations that streams read, as of the last epoch."""
    late: dict[str, int] = {}
    """Number of rows that were late for each stream."""
    failed: dict[str, str] = {}
    """Reason for the failure of each failed stream."""


class _Running:
    """Running stream; if it has failed it has no query.

    A SELECT or a state that this release cannot read fails the stream alone. Damaged state is an error, because it can
    be restored (docs/runs.md).
    """

    def __init__(self, stream: DerivedStream, space: ObjectSpace, failure: str) -> None:
        self.stream = stream
        self.failure = failure
        self.query: DerivedQuery | None = None
        self.is_nearly_full = False
        columns = [KeyColumn(column.name, column.type, nullable=True) for column in stream.columns]
        kinds = {column.name: column.type for column in stream.columns}
        limits = Retention(stream.retain_rows, stream.retain_ns)
        time = stream.time if kinds.get(stream.time) == "int64" else ""
        self.retained = Retained(space, _space_of(stream.name), columns, limits, time=time)
        self.schema = pa.schema([(column.name, ARROW_TYPES[column.type]) for column in stream.columns])
        if not failure:
            try:
                self.query = DerivedQuery(
                    NamedSelect(stream.name, stream.sql),
                    query_inputs(stream.inputs),
                    space,
                    f"{_space_of(stream.name)}/query",
                    lateness_ticks(stream.inputs, stream.lateness_ns),
                )
            except OtherPlanError as error:
                self.failure = str(error)
            except (SqlError, PlanError, KindError, SchemaVersionError) as error:
                self.failure = (
                    f"expected a SELECT and a state that this release can continue, was: {error}; drop the stream and "
                    "create it again"
                )
        self.columns = {each.relation.name: each.relation.columns for each in stream.inputs}
        self.units = {each.relation.name: unit_ns(each) for each in stream.inputs if each.time}
        self.tables = frozenset(each.relation.name for each in stream.inputs if each.is_table)

    def watermark(self) -> int | None:
        """Return the time in nanoseconds before which the stream has no further row.

        It is None before the first watermark, and 2^63 - 1 if the stream has no further row at all.
        """
        if self.query is None or (ticks := self.query.watermark()) <= _LOWEST:
            return None
        unit = unit_ns(DerivedInput(self.stream.relation, self.stream.time))
        return ENDED if ticks >= ENDED // unit else ticks * unit

    def add(self, relation: str, rows: pa.RecordBatch) -> None:
        """Add rows of an input with their weights; deletions are ignored, except those of tables."""
        if self.query is None or not rows.num_rows:
            return
        if relation in self.tables:
            decimals = _as_decimals(rows, self.columns[relation])
            self.query.add(relation, decimals.append_column("weight", rows.column("weight")))
            return
        weights = rows.column("weight").to_numpy()
        if not (weights > 0).all():
            rows = rows.filter(pa.array(weights > 0))
        if rows.num_rows:
            self.query.add(relation, _as_decimals(rows, self.columns[relation]))

    def close(self, watermarks: Mapping[str, int], ended: Collection[str]) -> pa.RecordBatch | None:
        """Return the rows that are complete by these watermarks, with their weights; None if there are none."""
        assert self.query is not None
        reads = {name: watermarks[name] // unit for name, unit in self.units.items() if name in watermarks}
        batches = [batch for batch in self.query.close(reads, ended) if batch.num_rows]
        for place, batch in enumerate(batches):
            if not batch.schema.equals(self.schema):
                batches[place] = pa.RecordBatch.from_arrays(
                    [outward(column, field.type) for column, field in zip(batch.columns, self.schema, strict=True)],
                    schema=self.schema,
                )
            _check_moments(batches[place])
        return _with_weights(batches, self.schema)

    def keep(self, rows: pa.RecordBatch | None) -> pa.RecordBatch | None:
        """Add rows to the stream; return them with the rows that expire, or None if there are neither."""
        if rows is not None:
            self.retained.add(rows)
        expired = self.retained.expire()
        batches = [each for each in (rows, expired) if each is not None]
        return pa.concat_batches(batches) if batches else None


def _check_moments(rows: pa.RecordBatch) -> None:
    """Raise `OperatorError` for a date or timestamp that Python, and most formats, cannot represent."""
    for column, field in zip(rows.columns, rows.schema, strict=True):
        if (limits := _MOMENTS.get(field.type)) is not None and column.null_count < len(column):
            bounds = pc.min_max(column)
            if bounds["min"].value < limits[0] or bounds["max"].value > limits[1]:
                raise OperatorError(
                    f"expected dates and timestamps of the years 1 to 9999, was another one in {field.name}"
                )


def _as_decimals(rows: pa.RecordBatch, columns: Sequence[Column]) -> pa.RecordBatch:
    """Return these columns of rows, with scaled integers as decimals."""
    arrays = [rows.column(column.name) for column in columns]
    for place, column in enumerate(columns):
        if column.scale:
            arrays[place] = outward(arrays[place], pa.decimal128(38, column.scale))
    return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])


class DerivedStreams:
    """Derived streams of a catalogue. One owner at a time: the worker that runs the pipeline.

    A stream whose query raises fails, and with it the streams that read it; others continue. The rows of a failed
    stream remain until the stream is dropped; the saved state of its query is deleted. `reads`, `times` and `figures`
    are replaced as a whole, and any thread may read them.
    """

    _log = Logger()

    def __init__(
        self,
        space: ObjectSpace,
        log: EpochLogReader,
        program: Program,
        snapshots: SnapshotDirectory | None = None,
    ) -> None:
        """Restore the streams of the newest program as of the newest epoch of the space.

        New streams read the rows of tables from ``log`` and ``snapshots``.
        """
        self._space, self._log_reader, self._snapshots = space, log, snapshots
        self._saved: PersistedValue[_Kept] | None = None
        self._state = _Kept()
        if _NAME in space or program.streams:
            self._saved = space.get_or_create(PersistedValue, _NAME, Schema(_Kept), initial=_Kept())
            self._state = self._saved.value
        failed = self._state.failed
        self._running = {s.name: _Running(s, space, failed.get(s.name, "")) for s in program.streams}
        self._fresh_failures: dict[str, str] = {}
        for name, running in self._running.items():
            if running.failure and name not in failed:
                self._fail(running, running.failure)
        self._open_deltas: dict[str, list[pa.RecordBatch]] = {}
        self._pending: dict[str, list[pa.RecordBatch]] = {}
        self._pending_rows = 0
        self.program = program
        """Program of the newest epoch."""
        self._set_inputs()

    def _set_inputs(self) -> None:
        """Set the attributes that depend on the inputs of the running streams."""
        inputs = [each for running in self._running.values() for each in running.stream.inputs]
        own = [each for each in inputs if each.relation.name not in self._running]
        self.reads: frozenset[str] = frozenset(each.relation.name for each in own)
        """Names of the relations that streams read and that are not streams themselves."""
        self.times: Mapping[str, str] = {each.relation.name: each.time for each in own if each.time}
        """Time column of each relation that has one."""
        self.figures: Mapping[str, StreamFigures] = self._figures()
        """Figures of each stream, as of the last epoch."""

    def __len__(self) -> int:
        return len(self._running)

    def views(self) -> Program:
        """Return the streams as views; see `stream_views`."""
        return stream_views(self.program)

    def rows(self) -> dict[str, pa.Table]:
        """Return the rows of each stream with their weights, as of the last epoch."""
        tables = {}
        for name, running in self._running.items():
            rows = _with_weights(running.retained.rows(), running.schema)
            if rows is not None:
                tables[name] = pa.Table.from_batches([rows])
        return tables

    def failed(self) -> dict[str, str]:
        """Return the reason for the failure of each failed stream."""
        return {name: running.failure for name, running in self._running.items() if running.failure}

    def take(self, relations: Mapping[str, pa.RecordBatch]) -> None:
        """Add the changes of some messages."""
        for name, rows in relations.items():
            if name not in self.times:  # it may be a table that a new stream will read
                self._open_deltas.setdefault(name, []).append(rows)
            if name in self.reads:
                self._pending.setdefault(name, []).append(rows)
                self._pending_rows += rows.num_rows
        if self._pending_rows >= _MOST_PENDING_ROWS:
            self._give_pending()

    def _give_pending(self) -> None:
        """Pass the pending rows to the queries; rows of a relation keep their order."""
        pending, self._pending, self._pending_rows = self._pending, {}, 0
        for name, batches in pending.items():
            self._give(name, batches[0] if len(batches) == 1 else pa.concat_batches(batches))

    def _give(self, name: str, rows: pa.RecordBatch) -> None:
        for running in self._running.values():
            if name in running.columns:
                self._guarded(running, lambda running=running: running.add(name, rows))  # type: ignore[misc]

    def close(self, watermarks: Mapping[str, int], ended: Collection[str] = ()) -> ClosedStreams:
        """Close an epoch at these watermarks of relations that are not streams; return the changes of the streams.

        ``ended`` are relations for which no further row is expected; rows of other relations do not wait for rows of
        these. The end is not saved, because a restart may find rows that were appended to a file.
        """
        self._give_pending()
        if not self._running:
            return ClosedStreams({})
        known = self._state.watermarks
        marks = {name: known[name] for name in self.times if known.get(name, ENDED) != ENDED}
        for name, mark in watermarks.items():
            marks[name] = max(mark, marks.get(name, mark))
        base, late, over = dict(marks), dict(self._state.late), set(ended)
        relations: dict[str, pa.RecordBatch] = {}
        letters: list[DeadLetter] = []
        count = 0
        for name, running in self._running.items():
            self._check_inputs(running)
            rows: list[pa.RecordBatch | None] = []
            self._guarded(running, lambda: rows.append(running.close(marks, over)))  # noqa: B023
            if running.query is not None:
                if (reached := running.watermark()) == ENDED:
                    over.add(name)
                elif reached is not None:
                    marks[name] = reached
                if running.query.late:
                    late[name] = late.get(name, 0) + running.query.late
                    count += running.query.late
                    set_aside = running.query.take_late()
                    self._guarded(running, lambda: letters.extend(late_letters(name, set_aside)))  # noqa: B023
            complete = rows[0] if rows and running.query is not None else None
            if complete is not None:
                self._give(name, complete)
            changed = running.keep(complete)
            if changed is not None:
                relations[name] = changed
        failures, self._fresh_failures = self._fresh_failures, {}
        self._keep(_Kept(base, late, self.failed()))
        self.figures = self._figures({**marks, **dict.fromkeys(over, ENDED)})
        return ClosedStreams(relations, tuple(letters), count, failures)

    def change_over(self, program: Program, epoch: int) -> dict[str, pa.RecordBatch]:
        """Change to the streams of another program at the end of this epoch, which is not in the log yet.

        Returns the rows of dropped streams, as deletions.
        """
        self._give_pending()
        new = {stream.name: stream for stream in program.streams}
        leaving: dict[str, pa.RecordBatch] = {}
        for name in [name for name, running in self._running.items() if new.get(name) != running.stream]:
            running = self._running.pop(name)
            rows = running.retained.clear()
            if rows is not None:
                leaving[name] = rows
            self._forget(name)
        state = self._state
        self.program = program
        for name, stream in new.items():
            if name not in self._running:
                self._running[name] = self._create(stream, epoch)
        self._running = {name: self._running[name] for name in new}
        late = {name: count for name, count in state.late.items() if name in new}
        self._set_inputs()
        if self._running or self._saved is not None:
            marks = {name: mark for name, mark in state.watermarks.items() if name in self.times}
            self._keep(_Kept(marks, late, self.failed()))
        return leaving

    def end_epoch(self) -> None:
        """Open the next epoch."""
        self._open_deltas = {}
        for running in self._running.values():
            if running.query is not None:
                self._warn_if_nearly_full(running, running.query)

    def _create(self, stream: DerivedStream, epoch: int) -> _Running:
        """Create a stream and add the rows that its tables have at the end of the epoch."""
        running = _Running(stream, self._space, "")
        for name in sorted(running.tables):
            self._guarded(running, lambda name=name: self._fill(running, name, epoch))  # type: ignore[misc]
        return running

    def _fill(self, running: _Running, table: str, epoch: int) -> None:
        snapshot = self._snapshots.newest(epoch - 1) if self._snapshots is not None else None
        rows = rows_at(self._log_reader, snapshot, table, epoch - 1)
        for batch in rows.to_batches() if rows is not None else []:
            running.add(table, batch)
        for batch in self._open_deltas.get(table, []):
            running.add(table, batch)

    def _check_inputs(self, running: _Running) -> None:
        failed = [name for name in running.stream.reads if name in self._running and self._running[name].failure]
        if failed and not running.failure:
            self._fail(running, f"stream {failed[0]}, which it reads, has failed")

    def _guarded(self, running: _Running, call: Callable[[], None]) -> None:
        """Make a call of a stream's query; an error fails that stream alone."""
        if running.query is None:
            return
        try:
            call()
        except Exception as error:  # noqa: BLE001 (whatever a query raises, the feed continues)
            self._fail(running, f"{type(error).__name__}: {error}")

    def _warn_if_nearly_full(self, running: _Running, query: DerivedQuery) -> None:
        """Log a warning if the stream holds so many rows that it may fail soon.

        It is logged once, and again only after the number of rows has fallen below half of the share.
        """
        share = query.held_rows() / query.most_held
        if share < _WARNING_SHARE:
            running.is_nearly_full = running.is_nearly_full and share >= _WARNING_SHARE / 2
            return
        if not running.is_nearly_full:
            running.is_nearly_full = True
            self._log.warn("stream {name} holds {held} rows, {state} of them as state: it ends with more than {most}, "
                           "see docs/streams.md", name=running.stream.name, held=query.held_rows(),
                           state=query.state_rows(), most=query.most_held)  # fmt: skip

    def _fail(self, running: _Running, reason: str) -> None:
        name = running.stream.name
        running.failure, running.query = reason, None
        self._fresh_failures[name] = reason
        self._log.error("stream {name} has failed, the feed continues without it: {reason}", name=name, reason=reason)

    def _keep(self, state: _Kept) -> None:
        """Save this state with the epoch that closes, and delete the saved state of failed queries."""
        for name in state.failed:
            if name not in self._state.failed:
                self._delete(f"{_space_of(name)}/query/")
        if self._saved is None:
            self._saved = self._space.get_or_create(PersistedValue, _NAME, Schema(_Kept), initial=_Kept())
        if state != self._state:
            self._saved.value = self._state = state

    def _forget(self, name: str) -> None:
        self._delete(f"{_space_of(name)}/")

    def _delete(self, prefix: str) -> None:
        for name in [name for name in self._space if name.startswith(prefix)]:
            self._space.delete(name)

    def _figures(self, marks: Mapping[str, int] = {}) -> dict[str, StreamFigures]:
        figures = {}
        for name, running in self._running.items():
            rows, state_rows = 0, 0
            if running.query is not None:
                rows, state_rows = running.query.held_rows(), running.query.state_rows()
            figures[name] = StreamFigures(
                rows=len(running.retained),
                waiting_rows=rows - state_rows,
                state_rows=state_rows,
                late=self._state.late.get(name, 0),
                watermark=marks.get(name),
                failed=running.failure,
            )
        return figures


def _space_of(name: str) -> str:
    """Return the prefix of the names of a stream's objects in the space."""
    return f"stream/{name}"


def _with_weights(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch | None:
    """Return the rows, each with the weight 1; None if there are none."""
    if not batches:
        return None
    rows = pa.concat_batches(batches)
    weight = pa.array(np.ones(rows.num_rows, np.int64))
    return pa.RecordBatch.from_arrays([*rows.columns, weight], names=[*schema.names, "weight"])


_MOST_LETTERS: Final = 1_000
"""Greatest number of letters of one stream in an epoch."""
_LETTER_BYTES: Final = 1_024
"""Greatest size in bytes of the data of a letter."""
_NO_ORIGIN: Final = -1
"""Origin number of a row of a stream, which has no place in an origin."""


def late_letters(stream: str, late: list[tuple[str, pa.RecordBatch]]) -> tuple[DeadLetter, ...]:
    """Return letters for the first of these late rows; ``late`` has pairs of relation and rows.

    Arrow formats the times, because Python has none outside of the years 1 to 9999.
    """
    letters: list[DeadLetter] = []
    for relation, rows in late:
        described = rows.slice(0, _MOST_LETTERS - len(letters))
        columns = [each.cast(pa.string()) if pa.types.is_temporal(each.type) else each for each in described.columns]
        for row in pa.RecordBatch.from_arrays(columns, names=described.schema.names).to_pylist():
            letters.append(
                DeadLetter(
                    origin_id=_NO_ORIGIN,
                    sequence_number=0,
                    byte_offset=0,
                    row=len(letters),
                    field="",
                    expected=f"a row of {relation} that is not behind its watermark",
                    reason=f"late for stream {stream}",
                    data=msgspec.json.encode(row)[:_LETTER_BYTES],
                )
            )
    return tuple(letters)

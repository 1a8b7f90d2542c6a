"""Pipeline of the express lane's views in an ingest: it publishes each step's version, and emits each epoch's changes.

New views are filled from a relation snapshot, the segments since then, and the deltas of the open epoch. A separate
thread can read most of these rows before the barrier at which the views begin. At this barrier only the few epochs
since then are added, so that filling a view hardly delays the feed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, cast

import msgspec
import pyarrow as pa

from runtime.engine.barriers import Barrier
from runtime.engine.express.state import ExpressState
from runtime.engine.ingest.deltas import Deltas, Sections
from runtime.engine.plan import Context, Pipeline
from runtime.epochs import Cut, EpochLogError, EpochLogReader, SnapshotDirectory, add_up, rows_at
from runtime.epochs.consolidating import consolidate
from runtime.epochs.snapshots import chosen_columns
from runtime.plan import Program, decode_program, lane_program, new_views
from runtime.views.materialised import PendingChanges, overdue
from runtime.views.routing import columns_to_fill
from runtime.views.rows import change_schema
from runtime.views.shard import Step

__all__ = [
    "ANEW",
    "ExpressViews",
    "Filling",
    "Update",
]


class Filled(msgspec.Struct, frozen=True, eq=False):
    """Rows of relations as of an epoch, in the columns that the new views read."""

    epoch: int
    """The last epoch whose rows are included."""
    columns: Mapping[str, Collection[str]]
    """Columns of each relation that are read."""
    tables: Mapping[str, pa.Table | None]
    """Rows of each relation in these columns (at least one) and ``weight``; None if the relation never had a row."""


class Filling:
    """Reader of an epoch log that fills new views. It has no state, so that any thread may call `read`."""

    def __init__(self, log: EpochLogReader, snapshots: SnapshotDirectory | None = None) -> None:
        self._log = log
        self._snapshots = snapshots

    def read(self, old: Program, new: Program, epoch: int, before: Filled | None = None) -> Filled:
        """Return the tables, at an epoch, for the views of ``new`` that ``old`` lacks; reuse ``before`` if possible."""
        try:
            return self._read(old, new, epoch, before)
        except EpochLogError:
            # The log may have retired its first epochs meanwhile; a newer snapshot then replaces them.
            return self._read(old, new, epoch, None)

    def _read(self, old: Program, new: Program, epoch: int, before: Filled | None) -> Filled:
        columns = columns_to_fill(new, new_views(old, new))
        tables: dict[str, pa.Table | None] = {}
        if before is not None and before.columns == columns and before.epoch <= epoch:
            for name, wanted in columns.items():
                rows = add_up(self._log, name, before.epoch, epoch, columns=wanted)
                tables[name] = _together(before.tables[name], rows)
            return Filled(epoch, columns, tables)
        snapshot = self._snapshots.newest(epoch) if self._snapshots is not None else None
        for name, wanted in columns.items():
            tables[name] = rows_at(self._log, snapshot, name, epoch, columns=wanted)
        return Filled(epoch, columns, tables)


def with_open_epoch(filled: Filled, deltas: Mapping[str, Sequence[pa.RecordBatch]]) -> dict[str, pa.Table]:
    """Return the rows of each relation after the deltas of the open epoch; empty relations are left out."""
    tables: dict[str, pa.Table] = {}
    for name, wanted in filled.columns.items():
        base, batches = filled.tables[name], deltas.get(name, ())
        rows = chosen_columns(pa.Table.from_batches(batches), wanted) if batches else None
        whole = _together(base, rows)
        if whole is not None and whole.num_rows:
            tables[name] = whole.combine_chunks()
    return tables


def _together(base: pa.Table | None, rows: pa.Table | None) -> pa.Table | None:
    if base is None or rows is None:
        return rows if base is None else base
    return consolidate(pa.concat_tables([base, rows]))


_MOST_DELTAS: Final = 1024
"""Greatest number of `Deltas` that a call takes."""
ANEW: Final = "anew/"
"""Prefix of an attribute of an epoch; a view's name follows it. The attribute states that the view existed before, and
that its section contains all rows of the view instead of changes."""


class Update(msgspec.Struct, frozen=True, eq=False):
    """Version of the express lane: changes of its views by some messages."""

    step: int
    """Number of the step, ascending from 1 within one run of a process."""
    epoch: int
    """The newest epoch that the version covers completely."""
    cuts: Mapping[str, Cut]
    """Last message of each origin that the version covers."""
    changes: Mapping[str, pa.Table]
    """Rows of each view that were removed (negative weight) or added (positive weight); other views are left out."""
    failed: Mapping[str, str]
    """Reason for the failure of each view that failed in this version."""
    program: Program | None = None
    """Program of the lane from this version on; None if it is that of the previous version."""
    closes: bool = False
    """True if the views are now as of the end of ``epoch``; later changes belong to the next epoch."""
    applied_s: float = 0.0
    """Time at which the last of the messages was applied, in seconds of the ingest's clock; 0 without messages."""
    stepped_s: float = 0.0
    """Time at which the views had processed the messages, in seconds of the ingest's clock."""


class ExpressViews(Pipeline):
    """Pipeline of the program's views, with their changes in the open epoch.

    A call processes all pending deltas in one step; deltas that arrive while a step runs become the next step. So the
    size of a step follows the load: a single message at low load, thousands at high load.

    Not thread-safe: owned by the worker that makes the call, except `prepare`, which any thread may call.
    """

    most_inputs = _MOST_DELTAS

    def __init__(
        self,
        state: ExpressState,
        filling: Filling,
        epoch: int,
        cuts: Mapping[str, Cut],
        publish: Callable[[Update], None] = lambda _: None,
        *,
        now_s: Callable[[], float] = time.monotonic,
        is_compared: bool = False,
        has_streams: bool = False,
    ) -> None:
        """Start as of the end of ``epoch``, whose cuts are ``cuts``; ``now_s`` is the ingest's clock.

        ``publish`` is called on a worker with every version, in order; it must not block.

        ``is_compared`` is True if epochs get checksums of the views, for comparison with another lane that has the same
        views.
        ``has_streams`` is True if derived streams add rows to an epoch after the deltas that close it; then only the
        barrier ends the epoch.
        """
        self._publish = publish
        self._has_streams = has_streams
        self._closes = -1
        self._prepared: Filled | None = None
        self._now_s = now_s
        self._state = state
        self._filling = filling
        self._epoch = epoch
        self._cuts = dict(cuts)
        self._step = 0
        self._changes: dict[str, PendingChanges] = {}
        self._failed: dict[str, str] = {}
        self._open: dict[str, list[pa.RecordBatch]] = {}
        self._anew: tuple[str, ...] = ()
        self._is_compared = is_compared

    def begin(self, program: Program, *, is_anew: bool = False) -> None:
        """Replace all views by those of a program, filled from the log up to the newest epoch.

        The change is saved with the open epoch.
        """
        filled = self._filling.read(Program((), (), ()), program, self._epoch)
        self._state.begin(program)
        self._fill(filled, tuple(view.name for view in program.views))
        self._anew = tuple(view.name for view in program.views) if is_anew else ()

    @property
    def state(self) -> ExpressState:
        """State that is saved with each epoch."""
        return self._state

    def rows(self) -> dict[str, pa.Table]:
        """Return every view's latest rows and weights, including the open epoch; failed views are left out."""
        tables: dict[str, pa.Table] = {}
        for name, result in self._state.results.views.items():
            if name not in self._state.failed:
                rows = result.rows()
                if name in self._changes:
                    rows = consolidate(pa.concat_tables([rows, self._changes[name].rows()]))
                tables[name] = rows
        return tables

    def prepare(self, filled: Filled) -> None:
        """Set the tables that fill the new views of the next control record."""
        self._prepared = filled

    def execute(self, inputs: Sequence[object], context: Context) -> None:
        """Process all deltas in one step, and publish the changes."""
        del context
        deltas = cast("Sequence[Deltas]", inputs)
        tables: dict[str, list[pa.RecordBatch]] = {}
        applied_s, closing = 0.0, -1
        for each in deltas:
            for name, batch in each.relations.items():
                tables.setdefault(name, []).append(batch)
            self._cuts.update(each.cuts)
            applied_s = max(applied_s, each.applied_s)  # 0 in the deltas of derived streams
            closing = max(closing, each.closes)
        for name, batches in tables.items():
            self._open.setdefault(name, []).extend(batches)
        self._closes = max(self._closes, closing)
        closes = closing >= 0 and not self._has_streams
        if closes:
            self._epoch = max(self._epoch, closing)
        if not self._state.program.views:
            if closes:
                self._publish(self._stepped(Step({}, {}), applied_s, closes=True))
            return
        step = self._state.shard.step_tables(tables) if tables else Step({}, {})
        self._state.stepped()
        self._publish(self._stepped(step, applied_s, closes=closes))

    def start_drain(self, barrier: Barrier, context: Context) -> None:
        """Change the program if the barrier has a control record; emit the changes of the epoch that closes."""
        if self._closes < 0:
            return  # an empty epoch is not closed
        if self._has_streams:
            self._epoch = self._closes
            self._publish(self._stepped(Step({}, {}), closes=True))
        self._closes = -1
        if isinstance(barrier.payload, bytes):
            program = decode_program(barrier.payload)
            prepared, self._prepared = self._prepared, None
            self._publish(self._change_over(program, prepared))
            self._has_streams = bool(program.streams)
        context.emit(self.close())

    def _change_over(self, record: Program, prepared: Filled | None) -> Update:
        """Change to the views that a new catalogue has for this lane, as of the end of the epoch that closes."""
        old, new = self._state.program, lane_program(record, "express")
        names = new_views(old, new)
        gone = {view.name for view in old.views} - {view.name for view in new.views}
        for name in gone:
            self._changes.pop(name, None)
            self._failed.pop(name, None)
        if new != old:
            filled = self._filling.read(old, new, self._epoch - 1, prepared)
            self._state.migrate(new)
            self._fill(filled, names)
        self._step += 1
        changes = {name: self._changes[name].rows() for name in names if name in self._changes}
        failed = {name: why for name, why in self._failed.items() if name in names}
        return Update(self._step, self._epoch, dict(self._cuts), changes, failed, program=new, closes=True)

    def _fill(self, filled: Filled, names: Sequence[str]) -> None:
        tables = with_open_epoch(filled, self._open)
        program = self._state.program
        by_view = {
            name: {relation: tables[relation] for relation in columns_to_fill(program, [name]) if relation in tables}
            for name in names
        }
        self._stepped(self._state.shard.fill(by_view))

    def _stepped(self, step: Step, applied_s: float = 0.0, *, closes: bool = False) -> Update:
        self._step += 1
        self._failed |= step.failed
        for name, table in step.changes.items():
            if (changes := self._changes.get(name)) is None:
                changes = self._changes[name] = PendingChanges(change_schema(self._state.results.views[name].columns))
            changes.add(table)
        for pending in overdue([self._changes[name] for name in step.changes], len(self._changes)):
            pending.join()
        return Update(
            self._step,
            self._epoch,
            dict(self._cuts),
            step.changes,
            step.failed,
            closes=closes,
            applied_s=applied_s,
            stepped_s=self._now_s(),
        )

    def close(self) -> Sections:
        """Close the epoch and return each view's changes in it; the state to save is then the state at its end."""
        # Rows that a view published before it failed are part of no result; the Spark lane drops them, too.
        changes = {name: changed for name, changed in self._changes.items() if name not in self._state.failed}
        closed = self._state.close(changes, is_dirty=bool(self._open))

        def batches() -> dict[str, tuple[pa.RecordBatch, ...]]:
            return {f"view/{name}": tuple(rows.combine_chunks().to_batches()) for name, rows in closed.rows().items()}

        attributes = {f"failed/{name}": reason for name, reason in self._failed.items()}
        attributes |= {f"{ANEW}{name}": "" for name in self._anew}
        self._changes, self._failed, self._open, self._anew = {}, {}, {}, ()
        failed = frozenset(self._state.failed)

        def checksums() -> dict[str, int]:
            return {name: each for name, each in closed.checksums().items() if name not in failed}

        return Sections(self._epoch, batches, checksums if self._is_compared else None, attributes)

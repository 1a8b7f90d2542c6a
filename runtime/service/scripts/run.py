"""Run of a script: the streams are read to their end through engine, epochs and Spark, and results are yielded."""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from runtime.compiler import NamedSelect, StreamDeclaration, StreamSelect
from runtime.engine import EngineError
from runtime.engine.express import ExpressViews
from runtime.engine.ingest import (
    CommitterThread,
    EpochWriter,
    Ingest,
    IngestConfig,
    IngestListener,
    Origin,
    OriginCounters,
    first_letter,
)
from runtime.engine.streams import DerivedStreams, StreamsPipeline
from runtime.epochs import EpochLogReader, Footer, ResultLog
from runtime.epochs.snapshots import VIEW_SECTION
from runtime.native.cache import default_kernels
from runtime.plan import (
    EPOCH_TIME,
    Column,
    Program,
    View,
    columns_of,
    encode_program,
    lane_program,
    stream_views,
    with_record,
)
from runtime.service.catalogue import begun_program
from runtime.service.errors import ServiceError
from runtime.service.lanes.agreement import LaneAgreement
from runtime.service.lanes.express import ExpressLane
from runtime.service.results.materialised import json_rows
from runtime.service.rundir.directory import left_as_found
from runtime.service.scripts.origins import script_inputs, script_origins, script_times
from runtime.spark.config import SparkConfig, SparkLaneError
from runtime.spark.kernels import request_kernels
from runtime.spark.requirements import missing_requirement
from runtime.views.materialised import MaterialisedView

if TYPE_CHECKING:
    from runtime.spark.lane import Published, SparkLane

__all__ = ["Counts", "Result", "ScriptRun", "columns_read"]

_LANE_FAILED: Final = "express/failed/express"
"""Attribute of the epoch in which the express lane has failed."""
_PATIENCE_SECONDS: Final = 600.0
"""Longest wait in seconds for a version of Spark."""


class Result(msgspec.Struct, frozen=True):
    """Full result of a view at a version."""

    query: str
    """Name of the view."""
    columns: tuple[Column, ...]
    """Columns of the rows."""
    rows: list[list[Any]]
    """Rows as JSON values, sorted."""
    epoch: int
    """Epoch of the version."""
    view_class: str
    """Class of the view: linear or reevaluated; ``stream`` for a derived stream, whose retained rows are the result."""


class Counts(msgspec.Struct, frozen=True):
    """Counts of a run."""

    messages: int
    """Number of well-formed messages of all origins."""
    dead_letters: int
    """Number of malformed messages."""
    nulled: int
    """Number of malformed values that became NULL."""
    epochs: int
    """Number of sealed epochs."""
    counters: dict[str, int]
    """Counters of the adaptors."""
    origins: dict[str, OriginCounters]
    """File → counters of its tuples."""
    late: dict[str, int] = {}
    """Derived stream → number of rows that arrived too late, and became dead letters."""


class _Listener(IngestListener):
    """Listener for the end of the input."""

    def __init__(self) -> None:
        self.outcome: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        """Queue that gets None at the end of the input, or the reason why it could not be read."""

    def on_finished(self) -> None:
        self.outcome.put(None)

    def on_failed(self, reason: str) -> None:
        self.outcome.put(reason)


def columns_read(program: Program, streams: Sequence[StreamDeclaration]) -> dict[str, frozenset[str]]:
    """Return the columns that the program reads, by relation.

    These are the columns that maps read, all columns of the relations that derived streams read and, if the program
    reads the time of epochs, the columns that determine this time.
    """
    read: dict[str, set[str]] = {stream.name: set() for stream in streams}
    for map_ in program.maps:
        read.setdefault(map_.relation, set()).update(columns_of(map_))
    for stream in program.streams:
        for each in stream.inputs:
            read.setdefault(each.relation.name, set()).update(column.name for column in each.relation.columns)
    for name, column in times_read(program, streams).items():
        read[name].add(column)
    return {name: frozenset(columns) for name, columns in read.items()}


def times_read(program: Program, streams: Sequence[StreamDeclaration]) -> dict[str, str]:
    """Return the result of `script_times` if the program reads the time of epochs, else an empty mapping."""
    reads = any(map_.relation == EPOCH_TIME.name for map_ in program.maps)
    return script_times(streams) if reads else {}


class ScriptRun:
    """Run of a script in a directory of its own."""

    def __init__(
        self,
        directory: Path,
        selects: Sequence[NamedSelect],
        streams: Sequence[StreamDeclaration],
        *,
        mode: Literal["sql", "dbtoaster"],
        ingest: IngestConfig,
        spark: SparkConfig,
        derived: Sequence[StreamSelect] = (),
        runs_spark: bool | None = None,
    ) -> None:
        """Compile the script.

        If ``runs_spark`` is True, Spark runs and maintains all views; if it is False, Spark does not run; if it is
        None, Spark runs if there are views of its lane. Raises `ServiceError` if there are such views and Spark is not
        to run, and the errors of `begun_program`.
        """
        self._directory = directory
        self._streams = streams
        self._ingest_config = ingest
        self._spark_config = spark
        program = begun_program(selects, [s.relation() for s in streams], derived, script_inputs(streams), mode)
        alone = [view.name for view in program.views if view.lane == "spark"]
        if runs_spark is False and alone:
            raise ServiceError(f"expected views of the express lane for --no-spark, was {alone[0]!r} among them")
        self._runs_spark = bool(alone) if runs_spark is None else runs_spark
        self.program: Program = with_record(program, on_spark=self._runs_spark)
        """Program of the script."""
        self.counts = Counts(0, 0, 0, 0, {}, {})
        """Counts of the run, once `results` has read the input."""
        self._failures: dict[str, str] = {}

    def results(self, *, every_epoch: bool = False, on_starting: Callable[[], None] = lambda: None) -> Iterator[Result]:
        """Run the script, and yield each view's result at the end, or at every published version.

        ``on_starting`` is called when the input has been read and Spark starts, which takes long. If Spark runs,
        Spark's results are yielded, and are compared with those of the express lane at every version. A failed view has
        no further results.

        Raises `SparkLaneError` if Spark cannot run, and `EngineError` if the input cannot be applied. Raises
        `ServiceError` for an origin whose tuples are all malformed, and at the end if views have failed or their lanes
        differ. Each message is one line.
        """
        if self._runs_spark and (missing := missing_requirement(os.environ)):
            raise SparkLaneError(f"{missing}; --lane express runs without Spark")
        last = self._ingest()
        yield from self._log_results(stream_views(self.program), "", last, every_epoch=every_epoch)
        express = self._log_results(lane_program(self.program, "express"), VIEW_SECTION, last, every_epoch=every_epoch)
        if self._runs_spark:
            for _ in express:  # exhausted in order to record failed views
                pass
            kept = {view.name: view for view in self.program.views}
            yield from self._spark_results(kept, last, every_epoch, on_starting)
        else:
            yield from express
        if self._failures:
            raise ServiceError("; ".join(self._failures.values()))

    def _without_failed(
        self, views: Mapping[str, MaterialisedView], failed: Mapping[str, str], epoch: int
    ) -> dict[str, MaterialisedView]:
        """Return the views that have not failed, and record why the others have."""
        for name, reason in failed.items():
            if name in views:
                self._failures[name] = f"view {name} failed at epoch {epoch}: {reason}"
        return {name: view for name, view in views.items() if name not in failed}

    def _log_results(self, program: Program, section: str, last: int, *, every_epoch: bool) -> Iterator[Result]:
        """Yield results of derived streams, or of the express lane's views, from sections with this prefix."""
        views = {view.name: MaterialisedView(view.columns, kernels=default_kernels()) for view in program.views}
        log = EpochLogReader(self._directory / "epochs")
        for epoch in range(last + 1) if views else ():
            segment = log.read(epoch)
            attributes = segment.footer.attributes
            failed = {name: attributes[f"failed/{name}"] for name in views if f"failed/{name}" in attributes}
            if section == VIEW_SECTION and (reason := attributes.get(_LANE_FAILED)) is not None:
                failed |= dict.fromkeys(views, f"the express lane has failed: {reason}")
            views = self._without_failed(views, failed, epoch)
            for name, view in views.items():
                view.apply(segment.rows(f"{section}{name}"))
            if epoch and (every_epoch or epoch == last):
                yield from (self._result(name, view, epoch) for name, view in views.items())

    def _spark_results(
        self, kept: Mapping[str, View], last: int, every_epoch: bool, on_starting: Callable[[], None]
    ) -> Iterator[Result]:
        from runtime.spark.lane import SparkLane
        from runtime.spark.session import start_session, stop_session

        views = {name: MaterialisedView(view.columns, kernels=default_kernels()) for name, view in kept.items()}
        versions: queue.SimpleQueue[Published] = queue.SimpleQueue()
        request_kernels(self.program, self._spark_config.shards)
        session = start_session(self._spark_config, self._directory / "spark", on_starting=on_starting)
        results = ResultLog(self._directory / "results")
        lane = SparkLane(
            session,
            self._spark_config,
            self._directory / "epochs",
            self._directory / "checkpoint",
            results=results,
            on_published=versions.put,
        )
        agreement = LaneAgreement(results, EpochLogReader(self._directory / "epochs"))
        try:
            agreement.begin()
            lane.start()
            version = 0
            while views and version < last:
                published = self._next(versions, lane)
                version = published.to_epoch
                agreement.published(published)
                views = self._without_failed(views, published.failed, version)
                for name, view in views.items():
                    view.apply(published.changes.get(name))
                if every_epoch or version == last:
                    yield from (self._result(name, view, version) for name, view in views.items())
        finally:
            lane.stop()
            stop_session(session)
        for name, each in agreement.differing().items():
            self._failures[name] = f"view {name}: the lanes differ from epoch {each.since} on; Spark's answer is shown"

    def _ingest(self) -> int:
        """Read all input; return the last epoch."""
        footers: list[Footer] = []
        with left_as_found(self._directory):
            writer, origins, pipeline = self._begin(footers)
        try:
            listener = _Listener()
            derived = DerivedStreams(writer.space, writer.log, self.program) if self.program.streams else None
            ingest = Ingest(
                self._ingest_config,
                writer,
                origins,
                listener,
                views={"express": pipeline},
                streams=None if derived is None else StreamsPipeline(derived, lambda update: None),
                times=times_read(self.program, self._streams),
            )
            ingest.start()
            try:
                reason = listener.outcome.get()
            finally:
                ingest.stop()
            if reason is not None:
                raise EngineError(reason)
            counters: dict[str, int] = {}
            for origin in origins.values():
                for name, value in origin.adaptor.counters().items():
                    counters[name] = counters.get(name, 0) + value
            counts = ingest.counters()
            self._expect_rows(origins, counts)
            self.counts = Counts(
                messages=sum(f.messages for f in footers),
                dead_letters=writer.dead_letters,
                nulled=sum(origin.nulled for origin in counts.values()),
                epochs=writer.epoch,
                counters=counters,
                origins=counts,
                late={name: line.late for name, line in derived.figures.items() if line.late} if derived else {},
            )
            return writer.epoch
        finally:
            writer.close()

    def _expect_rows(self, origins: Mapping[int, Origin], counters: Mapping[str, OriginCounters]) -> None:
        """Raise `ServiceError` for an origin whose tuples are all malformed: results would be misleading."""
        for origin_id, origin in origins.items():
            counts = counters[origin.name]
            if not counts.tuples or counts.bad < counts.tuples:
                continue
            first = first_letter(self._directory / "dead-letters.jsonl", origin_id)
            raise ServiceError(
                f"expected rows in {origin.name.partition('|')[0]}, was none: all {counts.tuples} tuples are malformed"
                + ("" if first is None else f"; the first one: {first}")
                + self._hint(origin.name)
            )

    def _hint(self, name: str) -> str:
        """Return a hint if the malformed tuples of a stream with deletions may be DBToaster's; empty otherwise."""
        stream = next((each for each in self._streams if each.name == name.rpartition("|")[2]), None)
        if stream is None or self.program.mode == "dbtoaster" or "deletions" not in stream.options:
            return ""
        return "; DBToaster's files have the order of a row before its 1 or 0: read them with --mode dbtoaster"

    def _begin(self, footers: list[Footer]) -> tuple[EpochWriter, dict[int, Origin], ExpressViews]:
        """Seal the epoch of the program; return the writer, the origins, and the pipeline of the express lane.

        Raises `ServiceError` for a stream whose options do not fit.
        """
        writer = EpochWriter(self._directory, time.time_ns, footers.append, committer=CommitterThread())
        try:
            express = ExpressLane(writer, self._directory, lambda update: None, default_kernels())
            writer.add_sections(express.first(self.program))
            writer.seal({}, control=encode_program(self.program))
            columns, numbered = columns_read(self.program, self._streams), self.program.mode == "dbtoaster"
            origins = script_origins(self._streams, writer, columns, numbered=numbered)
            return writer, origins, express.begin(is_compared=self._runs_spark)
        except BaseException:
            writer.close()
            raise

    @staticmethod
    def _next(versions: queue.SimpleQueue[Published], lane: SparkLane) -> Published:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            try:
                return versions.get(timeout=0.2)
            except queue.Empty:
                lane.raise_if_failed()
        raise SparkLaneError(f"expected a version within {_PATIENCE_SECONDS:.0f} s, was none")

    def _result(self, name: str, view: MaterialisedView, version: int) -> Result:
        views = (*stream_views(self.program).views, *self.program.views)
        described = next(v for v in views if v.name == name)
        return Result(name, view.columns, json_rows(view.columns, view.shown()), version, described.view_class)

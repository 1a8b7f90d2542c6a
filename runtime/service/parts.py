"""Parts of a live runtime, and the factory that builds them.

```
RunDirectory (lock, writer, catalogue of the last epoch)
   ├─▶ Hub ◀─ ResultLog, epoch log            results for subscribers
   ├─▶ ExpressLane, StreamLane ─ pipelines ─┐
   ├─▶ Inputs, ReaderService ─── origins ───┴─▶ Ingest
   └─▶ SparkHost, Upkeep, Catalogue, Asker    next to the ingest
```

Building opens files and recovers state; nothing is read or served before `runtime.service.live` starts the parts.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from twisted.internet.defer import Deferred

from runtime.compiler import MARKET_RELATIONS, NamedSelect, StreamSelect
from runtime.engine.express import Update
from runtime.engine.ingest import EpochWriter, Ingest, IngestListener
from runtime.engine.statistics import Statistics
from runtime.epochs import EpochLogReader, Footer, ResultLog
from runtime.native.cache import default_kernels
from runtime.plan import Lane, Program, decode_program
from runtime.service.asking import Asker
from runtime.service.catalogue import Catalogue
from runtime.service.config import LiveConfig
from runtime.service.errors import ServiceError
from runtime.service.health.lag import Lags
from runtime.service.health.metrics import EngineMetrics, Noted
from runtime.service.inputs.inputs import Inputs
from runtime.service.inputs.upstreams import missing_of
from runtime.service.lanes.agreement import LaneAgreement
from runtime.service.lanes.express import ExpressLane, StreamLane
from runtime.service.lanes.spark import SparkHost
from runtime.service.listening import ServicePort
from runtime.service.readers import ReaderService
from runtime.service.results import full_results
from runtime.service.results.cursors import Cursors
from runtime.service.results.hub import Hub
from runtime.service.rundir.directory import RunDirectory, left_as_found
from runtime.service.rundir.upkeep import Upkeep
from runtime.service.subscriptions import Epochs, History
from runtime.spark.beginning import passed_epoch
from runtime.upstreams import Consumers

if TYPE_CHECKING:
    from runtime.spark.lane import Published

__all__ = ["LiveParts", "PartEvents", "build_parts"]

InThread = Callable[[Callable[[], Any]], Deferred[Any]]
"""Function that runs a call on the reactor's pool of threads."""


class PartEvents(IngestListener, ABC):
    """Handler of the events of the parts.

    The methods must not block. Workers, the committer and Spark's threads call them; a method that the reactor's thread
    calls states so.
    """

    @property
    @abstractmethod
    def epoch(self) -> int:
        """The newest sealed epoch; may be read on any thread."""

    @abstractmethod
    def on_epoch(self, footer: Footer) -> None:
        """Handle a durable epoch; also called for epochs that are sealed while the run directory is opened."""

    @abstractmethod
    def on_update(self, update: Update) -> None:
        """Handle a new version of the express lane."""

    @abstractmethod
    def on_streams(self, update: Update) -> None:
        """Handle the version of the derived streams at the end of an epoch."""

    @abstractmethod
    def on_published(self, published: Published) -> None:
        """Handle a version that Spark has published."""

    @abstractmethod
    def on_lane_ended(self, reason: str | None) -> None:
        """Handle the end of Spark; ``reason`` is None for a requested stop."""

    @abstractmethod
    def on_full(self, is_full: bool) -> None:
        """Handle a run directory that has reached its size limit, or has room again; on the reactor's thread."""

    @abstractmethod
    def fail(self, reason: str) -> None:
        """End the runtime, which cannot continue; on the reactor's thread."""


class LiveParts(msgspec.Struct, frozen=True, eq=False):
    """Parts of one live runtime.

    They belong to the reactor's thread unless their own documentation names another owner.
    """

    port: ServicePort
    """Port of results and control."""
    pg_port: ServicePort | None
    """Port for PostgreSQL clients."""
    directory: RunDirectory
    """Lock, claim and catalogue of the run directory."""
    writer: EpochWriter
    """Writer of epochs; belongs to the ingest while the ingest runs."""
    hub: Hub
    """Results of all views."""
    cursors: Cursors
    """Results kept at one version for paging."""
    express: ExpressLane
    """Express lane, which runs in this process."""
    streams: StreamLane
    """Lane of the derived streams."""
    spark: SparkHost
    """Host of the Spark lane."""
    agreement: LaneAgreement
    """Comparison of both lanes at every version of Spark."""
    upkeep: Upkeep
    """Upkeep of the run directory: snapshots, retention and the size limit."""
    consumers: Consumers
    """Runtimes that read this runtime."""
    inputs: Inputs
    """Feed of the exchange and upstream runtimes."""
    readers: ReaderService
    """Readers that are added while the runtime runs."""
    ingest: Ingest
    """Ingest of all origins into epochs."""
    catalogue: Catalogue
    """Catalogue of views and derived streams."""
    asker: Asker
    """Answerer of ad-hoc questions."""
    engine_metrics: EngineMetrics
    """Metrics of the ingest's engine."""

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """Lanes that run."""
        return self.directory.lanes

    @property
    def runs_spark(self) -> bool:
        """True if the Spark lane runs."""
        return self.directory.runs_spark


def build_parts(
    reactor: Any,
    config: LiveConfig,
    selects: Sequence[NamedSelect],
    streams: Sequence[StreamSelect],
    events: PartEvents,
    *,
    lags: Lags,
    noted: Noted,
    in_thread: InThread,
) -> LiveParts:
    """Open the run directory and build everything that works on it.

    Raises `ServiceError` or `SparkLaneError` if that fails; a directory that was empty is then left empty.
    ``in_thread`` runs a call on the reactor's pool of threads.
    """
    with left_as_found(config.directory):
        port, pg_port = _ports(reactor, config)
        directory = _directory(config, selects, streams, events, noted)
    results, history, hub = _results(config, directory, in_thread)
    express_pipeline = directory.express.begin(hub, is_compared=directory.runs_spark)
    stream_lane = StreamLane(directory.writer, config.directory, events.on_streams)
    stream_lane.begin(hub)
    inputs = Inputs(reactor, config, directory.writer, lags, now_ns=time.time_ns, in_thread=in_thread)
    if inputs.feed is not None:
        inputs.feed.on_refused = events.fail
    readers = ReaderService(reactor, config, directory.writer, inputs, in_thread)
    statistics = Statistics()
    ingest = Ingest(
        config.ingest,
        directory.writer,
        {**inputs.origins(), **readers.origins()},
        events,
        upstreams=inputs.upstreams.followers,
        views={"express": express_pipeline},
        streams=stream_lane.pipeline,
        statistics=statistics,
    )
    spark = SparkHost(config.spark, config.directory, results, events.on_published, events.on_lane_ended)
    catalogue = _catalogue(config, directory, ingest=ingest, spark=spark, reactor=reactor, in_thread=in_thread)
    consumers = Consumers(config.directory)
    return LiveParts(
        port=port,
        pg_port=pg_port,
        directory=directory,
        writer=directory.writer,
        hub=hub,
        cursors=Cursors(config.cursors, reactor.seconds),
        express=directory.express,
        streams=stream_lane,
        spark=spark,
        agreement=LaneAgreement(results, EpochLogReader(config.directory / "epochs")),
        upkeep=_upkeep(config, directory, results, consumers=consumers, events=events, reactor=reactor),
        consumers=consumers,
        inputs=inputs,
        readers=readers,
        ingest=ingest,
        catalogue=catalogue,
        asker=Asker(
            reactor,
            hub,
            config.directory,
            history,
            relations=lambda: catalogue.relations,
            sealed=lambda: events.epoch,
            in_thread=in_thread,
            limits=config.asking,
        ),
        engine_metrics=EngineMetrics(
            statistics, lambda: ingest.barrier_durations, lambda: ingest.commit_durations, lags.stages
        ),
    )


def _ports(reactor: Any, config: LiveConfig) -> tuple[ServicePort, ServicePort | None]:
    """Return the port of results, and the port for PostgreSQL clients if it is configured.

    Raises `ServiceError` if a port for PostgreSQL clients is configured while questions are switched off.
    """
    results = ServicePort(reactor, config, config.http_port)
    if config.pg_port is None:
        return results, None
    if not config.asking.at_once:
        raise ServiceError("expected questions (--questions of 1 or more) for clients of PostgreSQL, was none")
    return results, ServicePort(reactor, config, config.pg_port)


def _directory(
    config: LiveConfig,
    selects: Sequence[NamedSelect],
    streams: Sequence[StreamSelect],
    events: PartEvents,
    noted: Noted,
) -> RunDirectory:
    """Return the run directory, open."""
    return RunDirectory(
        config,
        selects,
        streams,
        disk=noted.disk,
        now_ns=time.time_ns,
        on_epoch=events.on_epoch,
        on_update=events.on_update,
    )


def _results(config: LiveConfig, directory: RunDirectory, in_thread: InThread) -> tuple[ResultLog, History, Hub]:
    """Return the log of Spark's results, the reader of past epochs, and the hub with the newest results on Spark."""
    results = ResultLog(config.directory / "results", fence=directory.claim.check)
    log = EpochLogReader(config.directory / "epochs")
    history = History(log.directory, results)
    epochs = Epochs(log.identity(), history, in_thread)
    hub = Hub(directory.program, time.time_ns, config.hub, epochs, default_kernels())
    full_results.restore(hub, results)
    return results, history, hub


def _upkeep(
    config: LiveConfig,
    directory: RunDirectory,
    results: ResultLog,
    *,
    consumers: Consumers,
    events: PartEvents,
    reactor: Any,
) -> Upkeep:
    """Return the upkeep, which retires epochs that all consumers have passed.

    The consumers are the runtimes that read this runtime and, if Spark runs, Spark's result log and checkpoint.
    """
    passed: list[Callable[[], int]] = [lambda: consumers.passed(directory.writer.epoch)]
    if directory.runs_spark:
        passed += [results.latest, lambda: passed_epoch(config.directory / "checkpoint")]
    return Upkeep(
        config.upkeep,
        config.directory,
        directory.writer.epoch,
        results,
        passed=passed,
        put_full=lambda: full_results.put_full(results, directory.program),
        on_full=lambda is_full: reactor.callFromThread(events.on_full, is_full),
        fence=directory.claim.check,
    )


def _catalogue(
    config: LiveConfig,
    directory: RunDirectory,
    *,
    ingest: Ingest,
    spark: SparkHost,
    reactor: Any,
    in_thread: InThread,
) -> Catalogue:
    """Return the catalogue of the newest epoch.

    Before a change of the catalogue is sealed, the express lane and Spark, if it runs, prepare for the new views.
    """

    def prepare(old: Program, new: Program) -> None:
        directory.express.prepare(old, new)
        if directory.runs_spark:
            spark.prepare(new)

    return Catalogue(
        reactor,
        decode_program(directory.writer.control),
        MARKET_RELATIONS,
        seal=ingest.seal_control,
        in_thread=in_thread,
        most_views=config.most_views,
        lanes=directory.lanes,
        prepare=prepare,
        missing=missing_of(config.upstreams),
    )

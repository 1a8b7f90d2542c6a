"""A live runtime: one feed, one catalogue of views, for as long as it is wanted.

Start: the catalogue is compiled and the state recovered; then the results are served and the feed is opened at once.
Spark joins in the background. Until it has published every epoch that was sealed before the start, nothing is sent of
views of the Spark lane: a subscriber never sees a version older than one that it has seen before. A runtime whose Spark
does not start ends with the reason, since nothing would keep the version of record.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import msgspec
from prometheus_client.metrics_core import Metric
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.task import LoopingCall
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure

from deltabook.wire.results import encode_rows
from runtime.compiler import MARKET_RELATIONS, NamedSelect, StreamSelect
from runtime.engine.express import Update
from runtime.engine.ingest import Ingest, IngestListener
from runtime.engine.statistics import Statistics
from runtime.epochs import EpochLogReader, FencedError, Footer, ResultLog
from runtime.native.cache import default_kernels
from runtime.plan import Lane, Program, decode_program
from runtime.service.asking import Asker
from runtime.service.catalogue.catalogue import Catalogue
from runtime.service.catalogue.control import Control
from runtime.service.config import LiveConfig
from runtime.service.errors import ServiceError
from runtime.service.health.figures import RuntimeFigures, RuntimeParts
from runtime.service.health.lag import Freshness, Lags
from runtime.service.health.metrics import EngineMetrics, Noted, RuntimeMetrics, origin_metrics, view_metrics
from runtime.service.health.metrics.parts import consumer_metrics, postgres_metrics, upstream_metrics
from runtime.service.health.watch import SignOfLife, Watch
from runtime.service.http import ServiceParts, results_site
from runtime.service.inputs.feed import FEED, FEED_ID
from runtime.service.inputs.inputs import Inputs
from runtime.service.inputs.upstreams import missing_of
from runtime.service.lanes.agreement import LaneAgreement
from runtime.service.lanes.epoch_pace import EpochPace
from runtime.service.lanes.spark import SparkHost
from runtime.service.lanes.streams import StreamLane
from runtime.service.listening import ServicePort
from runtime.service.postgres import PostgresFactory, PostgresParts
from runtime.service.readers import ReaderService
from runtime.service.results import full_results
from runtime.service.results.cursors import Cursors
from runtime.service.results.hub import Hub
from runtime.service.rundir.clean_stop import CleanStop, StopParts
from runtime.service.rundir.directory import RunDirectory
from runtime.service.rundir.lock import left_as_found
from runtime.service.rundir.upkeep import Upkeep
from runtime.service.subscriptions import Epochs, History
from runtime.spark.beginning import passed_epoch
from runtime.upstreams import Beat, Consumers

if TYPE_CHECKING:
    from runtime.spark.lane import Published

__all__ = ["LiveRuntime"]

_SPARK: Final[tuple[Lane, ...]] = ("spark",)
_HEARTBEAT_SECONDS: Final = 1.0
_STALE_SECONDS: Final = 10.0


class LiveRuntime(IngestListener):
    """Owns all parts of a running runtime. Everything but `on_…` runs on the reactor's thread.

    ``on_failure`` is called once, with one line, when it cannot go on; `stop` must still be called.
    """

    pg_port: int | None = None
    """Port of PostgreSQL's clients, once it is open; None where there is none."""

    def __init__(
        self,
        reactor: Any,
        config: LiveConfig,
        selects: Sequence[NamedSelect],
        on_failure: Callable[[str], None],
        streams: Sequence[StreamSelect] = (),
    ) -> None:
        self._reactor = reactor
        self._config = config
        self._on_failure = on_failure
        self._log = Logger()
        self._freshness, self._lags = Freshness(_STALE_SECONDS), Lags(_STALE_SECONDS)
        self._noted = Noted(config.directory, config.upkeep.limit_megabytes * 1_000_000, time.time_ns)
        self._upkeep: Upkeep | None = None
        with left_as_found(config.directory):
            self._port, self._pg_port = _ports(reactor, config)
            self._begun = RunDirectory(
                config,
                selects,
                streams,
                disk=self._noted.disk,
                now_ns=time.time_ns,
                on_epoch=self._on_epoch,
                on_update=self._on_update,
            )
        self._writer, self._express, begun_with = self._begun.writer, self._begun.express, self._begun.program
        self._runs_spark, self._lanes = self._begun.runs_spark, self._begun.lanes
        fence = self._begun.claim.check
        self._results = ResultLog(config.directory / "results", fence=fence)
        self._consumers = Consumers(config.directory)
        log = EpochLogReader(config.directory / "epochs")
        history = History(log.directory, self._results)
        epochs = Epochs(log.identity(), history, log.read, self._in_thread)
        self.hub = Hub(begun_with, time.time_ns, config.hub, epochs, default_kernels())
        full_results.restore(self.hub, self._results)
        self._cursors = Cursors(config.cursors, reactor.seconds)
        pipeline = self._express.begin(self.hub, is_compared=self._runs_spark)
        self._streams = StreamLane(self._writer, config.directory, self._on_streams)
        self._streams.begin(self.hub)
        self.agreement = LaneAgreement(self._results, log)
        """What comparing the two lanes has found."""
        checkpoint = config.directory / "checkpoint"
        self._upkeep = Upkeep(
            config.upkeep,
            config.directory,
            self._writer.epoch,
            self._results,
            passed=[
                *([self._results.latest, lambda: passed_epoch(checkpoint)] if self._runs_spark else []),
                lambda: self._consumers.passed(self._writer.epoch),
            ],
            put_full=lambda: full_results.put_full(self._results, begun_with),
            on_full=lambda is_full: reactor.callFromThread(self._full, is_full),
            fence=fence,
        )
        self._inputs = Inputs(reactor, config, self._writer, self._lags, now_ns=time.time_ns, in_thread=self._in_thread)
        if self._inputs.feed is not None:
            self._inputs.feed.on_refused = self._fail
        self.readers = ReaderService(reactor, config, self._writer, self._inputs, self._in_thread)
        statistics = Statistics()
        self._ingest = Ingest(
            config.ingest,
            self._writer,
            {**self._inputs.origins(), **self.readers.origins()},
            self,
            upstreams=self._inputs.upstreams.followers,
            views={"express": pipeline},
            streams=self._streams.pipeline,
            statistics=statistics,
        )
        self._spark = SparkHost(config.spark, config.directory, self._results, self._on_published, self._on_lane_ended)
        self._observe(statistics)
        self.catalogue = Catalogue(
            reactor,
            decode_program(self._writer.control),
            MARKET_RELATIONS,
            seal=self._ingest.seal_control,
            in_thread=self._in_thread,
            most_views=config.most_views,
            lanes=self._lanes,
            prepare=self._prepare,
            missing=missing_of(config.upstreams),
        )
        self._asker = Asker(
            reactor,
            self.hub,
            config.directory,
            history,
            relations=lambda: self.catalogue.relations,
            sealed=lambda: self._sealed,
            in_thread=self._in_thread,
            limits=config.asking,
        )
        self._watch = Watch(
            config,
            self.hub,
            self._inputs,
            self._freshness,
            lanes=(*self._lanes, "stream"),
            sealed=lambda: self._sealed,
            is_spark_starting=lambda: self._runs_spark and not self._spark.is_up,
        )
        self._sign = SignOfLife(config.directory, self._in_thread)
        self._pace = EpochPace(config.epoch_ms / 1000)
        self._barriers = LoopingCall(self._request_barrier)
        self._barriers.clock = reactor
        self._beats = LoopingCall(self.beat)
        self._beats.clock = reactor
        self._sealed = self._writer.epoch
        self._stopping = self._ingesting = False
        self._clean_stop: CleanStop | None = None
        self._spark_start: Deferred[None] = succeed(None)  # fires when Spark is up, or its start has ended otherwise

    def _observe(self, statistics: Statistics) -> None:
        """Make what reports the runtime's figures and metrics."""
        assert self._upkeep is not None
        engine = EngineMetrics(
            statistics,
            lambda: self._ingest.barrier_durations,
            lambda: self._ingest.commit_durations,
            self._lags.stages,
        )
        self._figures = RuntimeFigures(
            RuntimeParts(
                writer=self._writer,
                hub=self.hub,
                inputs=self._inputs,
                ingest=self._ingest,
                upkeep=self._upkeep,
                lags=self._lags,
                freshness=self._freshness,
                engine=engine,
                lanes=self._lanes,
                agreement=self.agreement,
                term=self._begun.claim.term,
                streams=self._streams.figures,
                spark=self._spark,
                sealed=lambda: self._sealed,
                now_s=self._reactor.seconds,
            )
        )
        self.figures, self.status = self._figures.line, self._figures.status
        self._metrics = RuntimeMetrics(engine, self.figures, run_id=self._config.run_id)
        for told in (
            self._noted.metrics,
            self._told_of_origins,
            lambda: view_metrics(self.hub, self._lanes, self.agreement.differing()),
            lambda: upstream_metrics(self._inputs.upstreams.status()),
            lambda: consumer_metrics(self._consumers.list()),
        ):
            self._metrics.add(told)

    def start(self) -> Deferred[int]:
        """Fire with the port of the results service once results are served; Spark joins later."""
        started: Deferred[int] = maybeDeferred(self._serve)
        return started.addCallback(self._begin_spark) if self._runs_spark else started

    def _begin_spark(self, port: int) -> int:
        self._log.info(
            "Spark is starting on {master}, usually 20 s; all other views are served until then",
            master=self._config.spark.master,
        )
        self._spark.prepare(self.catalogue.program)
        epoch = self._sealed
        self._spark_start = self._in_thread(lambda: self._start_spark(epoch))
        self._spark_start.addCallbacks(self._spark_joined, self._spark_failed)
        return port

    def _start_spark(self, epoch: int) -> None:
        self.agreement.begin()
        self._spark.start(epoch)

    def _spark_joined(self, _: object) -> None:
        self._watch.beat(self._reactor.seconds())

    def _spark_failed(self, failure: Failure) -> None:
        if self._stopping:
            return  # it was given up
        reason = " ".join(str(failure.value).split()) or type(failure.value).__name__
        self._fail(f"Spark did not start: {reason}")

    def _prepare(self, old: Program, new: Program) -> None:
        self._express.prepare(old, new)
        if self._runs_spark:
            self._spark.prepare(new)

    def stop(self, *, is_clean: bool = True) -> Deferred[None]:
        """Fires once everything has ended.

        If it ``is_clean``, everything accepted is sealed first and Spark publishes it, see `CleanStop`; `hurry` ends
        that. Else what no epoch holds comes again after a restart.
        """
        self._stopping = True
        if self._barriers.running:
            self._barriers.stop()
        if not (is_clean and self._ingesting and self._config.stop_s):
            return self._end()
        self._clean_stop = CleanStop(self._reactor, _Draining(self), self._config.stop_s, self._in_thread)
        ended: Deferred[None] = self._clean_stop.run()
        return ended.addCallback(lambda _: self._end())

    def hurry(self) -> None:
        """Wait for nothing more that `stop` waits for."""
        if self._clean_stop is not None:
            self._clean_stop.hurry()

    def _end(self) -> Deferred[None]:
        if self._beats.running:
            self._beats.stop()
        self._port.close()
        if self._pg_port is not None:
            self._pg_port.close()
        self._asker.stop()
        self._in_thread(self._spark.give_up)
        stopped: Deferred[None] = Deferred()

        def ended(result: object) -> None:
            if isinstance(result, Failure):
                self._log.failure("stopping", failure=result)
            stopped.callback(None)

        self._spark_start.addBoth(lambda _: self._in_thread(self._stop_parts).addBoth(ended))
        return stopped

    @property
    def epoch(self) -> int:
        """The newest epoch that is sealed; may be asked on any thread."""
        return self._sealed

    def _told_of_origins(self) -> Iterator[Metric]:
        cuts = self._writer.recovered.cuts if self._writer.recovered else {}
        return origin_metrics(self._ingest.counters(), self.readers.gates(), cuts, self.readers.losses)

    # From workers and Spark's threads

    def on_failed(self, reason: str) -> None:
        """See `IngestListener`."""
        self._reactor.callFromThread(self._fail, reason)

    def on_failed_view(self, name: str, reason: str) -> None:
        """See `IngestListener`."""
        self._express.failed()
        self._reactor.callFromThread(self.hub.fail_lane, "express", f"lane {name} has failed: {reason}")
        self._log.error("lane {name} has failed, the feed goes on without it: {reason}", name=name, reason=reason)

    def on_lost(self, origin_id: int, reason: str) -> None:
        """See `IngestListener`."""
        if origin_id == FEED_ID:
            self._reactor.callFromThread(self._lags.lost)
        self._reactor.callFromThread(self.readers.lost, origin_id, reason)

    def on_failed_origin(self, origin_id: int, reason: str) -> None:
        """See `IngestListener`."""
        self._reactor.callFromThread(self.readers.failed, origin_id, reason)

    def _on_epoch(self, footer: Footer) -> None:
        self._sealed = footer.to_epoch
        self._freshness.sealed(footer.to_epoch, self._reactor.seconds())
        self._noted.sealed(footer)
        if self._upkeep is not None:
            self._spark.sealed(footer.to_epoch, is_awaited=bool(footer.control))
            self._inputs.upstreams.sealed(footer)
            self._upkeep.sealed(footer)
            self._reactor.callFromThread(self.hub.commit, footer)

    def _on_published(self, published: Published) -> None:
        self.agreement.published(published)
        self._noted.published(published.to_epoch - published.from_epoch, published.seconds)
        self._reactor.callFromThread(self._published, published)

    def _on_update(self, update: Update) -> None:
        # Encoded here: each call of Arrow gives up the interpreter lock, which the reactor gets back from a worker that
        # is busy with the next step only when that is made to give it up.
        followed = self.hub.followed
        bodies = {name: encode_rows(rows) for name, rows in update.changes.items() if name in followed}
        self._reactor.callFromThread(self._updated, update, bodies)

    def _on_streams(self, update: Update) -> None:
        self._reactor.callFromThread(self._streamed, update)

    def _on_lane_ended(self, reason: str | None) -> None:
        if reason is not None:
            self._reactor.callFromThread(self._fail, reason)

    # On the reactor's thread

    def _serve(self) -> int:
        control, config = Control(self.hub, self.catalogue), self._config
        self.readers.begin(self._ingest, self.catalogue)
        parts = ServiceParts(
            hub=self.hub,
            status=self.status,
            cursors=self._cursors,
            control=control,
            metrics=self._metrics,
            readers=self.readers,
            explain_stream=self._streams.explain,
            agreement=self.agreement,
            asker=self._asker if config.asking.at_once else None,
        )
        postgres = self._serve_postgres()
        parts = msgspec.structs.replace(parts, postgres=postgres.figures if postgres is not None else None)
        if self._runs_spark:
            self.hub.hold(_SPARK)
        port = self._port.open(results_site(parts, self._reactor, config.security.access(), config.limits))
        lanes: tuple[Lane, ...] = (*self._lanes, "stream")
        for lane in lanes:
            self.catalogue.published(self.hub.epoch(lane), lane)
        self._beats.start(_HEARTBEAT_SECONDS, now=False)
        self._barriers.start(self._config.epoch_ms / 1000, now=False)
        self._ingesting = True
        self._ingest.start()
        return port

    def _serve_postgres(self) -> PostgresFactory | None:
        """Serve clients of PostgreSQL, if a port is given for them."""
        config, port = self._config, self._pg_port
        if port is None:
            return None
        parts = PostgresParts(
            hub=self.hub, asker=self._asker, relations=lambda: self.catalogue.relations, in_thread=self._in_thread
        )
        security = config.security
        factory = PostgresFactory(
            parts,
            security.access(),
            config.limits,
            self._reactor,
            random=secrets.token_bytes,
            token=security.token(),
            tls=security.context_factory() if security.tls_cert else None,
        )
        self.pg_port = port.open(factory, begins_plain=True)
        self._metrics.add(lambda: postgres_metrics(factory.figures()))
        return factory

    def beat(self) -> None:
        """Say that the service lives, to those whose views are fresh; end if the directory is another's now."""
        try:
            self._begun.claim.check()
        except FencedError as error:
            self._fail(str(error))
            return  # nothing more is said in the name of a directory that is another's
        except OSError as error:  # a disk that does not answer for once must not end the beats
            self._log.warn("the claim on {directory} cannot be read: {reason}",
                           directory=self._config.directory, reason=str(error))  # fmt: skip
        if self._upkeep is not None:
            self._upkeep.tick()
        self._cursors.expire()
        inputs, term = self._inputs, self._begun.claim.term
        inputs.upstreams.beat()
        self._sign.beat(Beat(term, self._sealed, time.time_ns(), not inputs.disconnected, inputs.is_paused))
        self._watch.beat(self._reactor.seconds())
        self._spark.listened_to(self.hub.is_listened_to("spark"))

    def _request_barrier(self) -> None:
        published = self.hub.version if self._runs_spark else None
        spent_s = self._ingest.barrier_durations.total_s + self._ingest.commit_durations.total_s
        if self._pace.is_due(self._reactor.seconds(), self._sealed, published, spent_s):
            self._ingest.request_barrier()

    def _full(self, is_full: bool) -> None:
        self.readers.pause(is_full)
        self._watch.full(is_full, self._upkeep.used_bytes // 1_000_000 if self._upkeep else 0)

    def _published(self, published: Published) -> None:
        self.hub.publish(published.footer, published.changes, published.failed, published.program)
        self.catalogue.published(self.hub.version)
        if self._ingesting:
            self._request_barrier()  # Spark takes it next
        self._lags.published((time.time_ns() - published.footer.time_ns) / 1e6, self._reactor.seconds())
        for view, reason in published.failed.items():
            self._log.error("view {view} failed: {reason}", view=view, reason=reason)

    def _updated(self, update: Update, bodies: Mapping[str, bytes]) -> None:
        self.hub.publish_express(update, bodies)
        self.catalogue.published(update.epoch, "express")
        if FEED in update.cuts:
            offset = update.cuts[FEED].offset
            self._lags.stepped(offset, self._reactor.seconds(), update.applied_s, update.stepped_s)
        for view, reason in update.failed.items():
            self._log.error("view {view} failed: {reason}", view=view, reason=reason)

    def _streamed(self, update: Update) -> None:
        self.hub.publish_streams(update)
        self.catalogue.published(update.epoch, "stream")

    def _fail(self, reason: str) -> None:
        if not self._stopping:
            self._stopping = True
            self._on_failure(reason)
        elif self._clean_stop is not None:
            self._log.error("a clean stop ends early: {reason}", reason=reason)
            self._clean_stop.hurry()

    # On a thread of the pool

    def _in_thread(self, call: Callable[[], Any]) -> Deferred[Any]:
        return deferToThreadPool(self._reactor, self._reactor.getThreadPool(), call)

    def _stop_parts(self) -> None:
        with ExitStack() as parts:  # each is stopped, whatever the others raise
            parts.callback(self._begun.close)
            if self._upkeep is not None:
                parts.callback(self._upkeep.stop)
            parts.callback(self._spark.stop)
            if self._ingesting:
                parts.callback(self._ingest.stop)


def _ports(reactor: Any, config: LiveConfig) -> tuple[ServicePort, ServicePort | None]:
    """The port of results, and that of PostgreSQL's clients if there is one; raises `ServiceError`."""
    results = ServicePort(reactor, config, config.http_port)
    if config.pg_port is None:
        return results, None
    if not config.asking.at_once:
        raise ServiceError("expected questions (--questions of 1 or more) for clients of PostgreSQL, was none")
    return results, ServicePort(reactor, config, config.pg_port)


class _Draining(StopParts):
    """What a clean stop does with a runtime."""

    def __init__(self, runtime: LiveRuntime) -> None:
        self._runtime = runtime

    def shut_replayed(self) -> None:
        self._runtime._inputs.pause(True)
        self._runtime.readers.pause_replayed()

    def shut_all(self) -> None:
        self._runtime.readers.pause(True)

    def taken_bytes(self) -> int:
        return sum([gate.taken_bytes for gate in self._runtime.readers.unrepeatable()])

    def is_waiting(self) -> bool:
        return any(gate.is_waiting for gate in self._runtime.readers.unrepeatable())

    def is_applied(self) -> bool:
        return not self._runtime._ingest.backlog and not self._runtime._ingest.waiting_bytes

    def seal(self, on_sealed: Callable[[], None]) -> None:
        self._runtime._ingest.flush(on_sealed)

    def settle(self) -> int:
        return self._runtime._writer.settle()

    def finish_spark(self, epoch: int, timeout_s: float) -> None:
        if self._runtime._runs_spark:
            self._runtime._spark.finish(epoch, timeout_s)

"""Live runtime: the owner of all parts, which starts and stops them and passes events between them.

At the start the catalogue is compiled and the state recovered. Then the results are served and the feed is opened at
once, while Spark starts in the background. Subscribers get nothing of the views on Spark until Spark has published
every epoch that was sealed before the start. Otherwise a subscriber could get an older version than before the restart.
A runtime whose Spark does not start ends with the reason, since its results would have no version of record.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from prometheus_client.metrics_core import Metric
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.task import LoopingCall
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure

from deltabook.wire.results import encode_rows
from runtime.compiler import MARKET_RELATIONS, NamedSelect, StreamSelect
from runtime.engine.express import Update
from runtime.epochs import Footer
from runtime.plan import EPOCH_TIME, Lane
from runtime.service.catalogue import Control
from runtime.service.config import LiveConfig
from runtime.service.health.figures import RuntimeFigures
from runtime.service.health.lag import Freshness, Lags
from runtime.service.health.metrics import (
    Noted,
    RuntimeMetrics,
    consumer_metrics,
    origin_metrics,
    postgres_metrics,
    upstream_metrics,
    view_metrics,
)
from runtime.service.health.watch import SignOfLife, Watch
from runtime.service.http import ServiceParts, results_site
from runtime.service.inputs.feed import FEED, FEED_ID
from runtime.service.lanes.epoch_pace import EpochPace
from runtime.service.lanes.handover import Handover
from runtime.service.parts import LiveParts, PartEvents, build_parts
from runtime.service.postgres import PostgresFactory, PostgresParts
from runtime.service.rundir.clean_stop import CleanStop, StopParts
from runtime.upstreams import Beat

if TYPE_CHECKING:
    from runtime.spark.lane import Published

__all__ = ["LiveRuntime"]

_SPARK: Final[tuple[Lane, ...]] = ("spark",)
_UNSHOWN: Final = frozenset(relation.name for relation in (*MARKET_RELATIONS, EPOCH_TIME))
"""Sections of epochs whose rows belong to no view."""
_HEARTBEAT_SECONDS: Final = 1.0
"""Interval in seconds of heartbeats and checks."""
_STALE_SECONDS: Final = 10.0
"""Time in seconds after which lags expire, and after which an epoch has waited too long for Spark."""


class LiveRuntime(PartEvents):
    """Owner of all parts of a running runtime. Belongs to the reactor's thread, except for methods below a comment that
    names other threads.

    ``on_failure`` is called once, with one line, when the runtime cannot continue; `stop` must still be called.
    """

    pg_port: int | None = None
    """Port for PostgreSQL clients, once it is open; None if there is none."""

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
        self._sealed = -1
        self._is_built = False
        self.parts: Final = build_parts(
            reactor, config, selects, streams, self, lags=self._lags, noted=self._noted, in_thread=self._in_thread
        )
        """All parts; the documentation of each part states the thread that it belongs to."""
        parts = self.parts
        self._is_built = True
        self._handover = Handover(reactor, parts.ingest.hold)
        parts.writer.on_rows = self._on_rows
        self._sealed = parts.writer.epoch
        self._figures = RuntimeFigures(
            parts, self._lags, self._freshness, sealed=lambda: self._sealed, now_s=reactor.seconds
        )
        self.figures, self.status = self._figures.line, self._figures.status
        self._metrics = RuntimeMetrics(parts.engine_metrics, self.figures, run_id=config.run_id)
        for metrics in (
            self._noted.metrics,
            self._origin_metrics,
            lambda: view_metrics(parts.hub, parts.lanes, parts.agreement.differing()),
            lambda: upstream_metrics(parts.inputs.upstreams.status()),
            lambda: consumer_metrics(*parts.consumers.readable()),
        ):
            self._metrics.add(metrics)
        self._watch = Watch(
            config,
            parts.hub,
            parts.inputs,
            self._freshness,
            lanes=(*parts.lanes, "stream"),
            sealed=lambda: self._sealed,
            is_spark_starting=lambda: parts.runs_spark and not parts.spark.is_up,
        )
        self._sign = SignOfLife(config.directory, self._in_thread, parts.directory.claim.check, self._fenced)
        self._pace = EpochPace(config.epoch_ms / 1000)
        self._barriers = LoopingCall(self._request_barrier)
        self._barriers.clock = reactor
        self._beats = LoopingCall(self.beat)
        self._beats.clock = reactor
        self._stopping = self._ingesting = self._is_fenced = False
        self._clean_stop: CleanStop | None = None
        # Fires when Spark is up, or its start has failed or was aborted.
        self._spark_start: Deferred[None] = succeed(None)

    def start(self) -> Deferred[int]:
        """Return a Deferred that fires with the port of the results service once it is open; Spark starts later."""
        started: Deferred[int] = maybeDeferred(self._serve)
        return started.addCallback(self._begin_spark) if self.parts.runs_spark else started

    def _begin_spark(self, port: int) -> int:
        self._log.info(
            "Spark is starting on {master}, usually 20 s; all other views are served until then",
            master=self._config.spark.master,
        )
        self.parts.spark.prepare(self.parts.catalogue.program)
        epoch = self._sealed
        self._spark_start = self._in_thread(lambda: self._start_spark(epoch))
        self._spark_start.addCallbacks(self._spark_joined, self._spark_failed)
        return port

    def _spark_joined(self, _: object) -> None:
        self._watch.beat(self._reactor.seconds())

    def _spark_failed(self, failure: Failure) -> None:
        if self._stopping:
            return  # the start was aborted
        reason = " ".join(str(failure.value).split()) or type(failure.value).__name__
        self.fail(f"Spark did not start: {reason}")

    def stop(self, *, is_clean: bool = True) -> Deferred[None]:
        """Stop all parts; the Deferred fires once everything has ended.

        With ``is_clean`` this first waits until everything accepted is sealed and published, see `CleanStop`; `hurry`
        ends the wait. Otherwise messages that are not in a sealed epoch are read again after a restart.
        """
        self._stopping = True
        if self._barriers.running:
            self._barriers.stop()
        if not (is_clean and self._ingesting and self._config.stop_s):
            return self._end()
        self._clean_stop = CleanStop(self._reactor, _Draining(self.parts), self._config.stop_s, self._in_thread)
        ended: Deferred[None] = self._clean_stop.run()
        return ended.addCallback(lambda _: self._end())

    def hurry(self) -> None:
        """End the wait of a clean stop."""
        if self._clean_stop is not None:
            self._clean_stop.hurry()

    def _end(self) -> Deferred[None]:
        if self._beats.running:
            self._beats.stop()
        self.parts.port.close()
        if self.parts.pg_port is not None:
            self.parts.pg_port.close()
        self.parts.asker.stop()
        self._in_thread(self.parts.spark.give_up)
        stopped: Deferred[None] = Deferred()

        def ended(result: object) -> None:
            if isinstance(result, Failure):
                self._log.failure("stopping", failure=result)
            stopped.callback(None)

        self._spark_start.addBoth(lambda _: self._in_thread(self._stop_parts).addBoth(ended))
        return stopped

    @property
    def epoch(self) -> int:
        """The newest sealed epoch; may be read on any thread."""
        return self._sealed

    def _origin_metrics(self) -> Iterator[Metric]:
        cuts = self.parts.writer.recovered.cuts if self.parts.writer.recovered else {}
        return origin_metrics(self.parts.ingest.counters(), self.parts.readers.gates(), cuts, self.parts.readers.losses)

    # Called by workers and Spark's threads

    def on_failed(self, reason: str) -> None:
        """See `IngestListener`."""
        self._reactor.callFromThread(self.fail, reason)

    def on_finished(self) -> None:
        """See `IngestListener`."""
        self._reactor.callFromThread(self._finished)

    def on_failed_view(self, name: str, reason: str) -> None:
        """See `IngestListener`."""
        self.parts.express.failed()
        self._reactor.callFromThread(self.parts.hub.fail_lane, "express", f"lane {name} has failed: {reason}")
        self._log.error("lane {name} has failed, the feed continues without it: {reason}", name=name, reason=reason)

    def on_lost(self, origin_id: int, reason: str) -> None:
        """See `IngestListener`."""
        if origin_id == FEED_ID:
            self._reactor.callFromThread(self._lags.lost)
        self._reactor.callFromThread(self.parts.readers.lost, origin_id, reason)

    def on_failed_origin(self, origin_id: int, reason: str) -> None:
        """See `IngestListener`."""
        self._reactor.callFromThread(self.parts.readers.failed, origin_id, reason)

    def on_epoch(self, footer: Footer) -> None:
        self._sealed = footer.to_epoch
        self._freshness.sealed(footer.to_epoch, self._reactor.seconds())
        self._noted.sealed(footer)
        if self._is_built:  # while the directory is opened, epochs are sealed before the other parts exist
            self.parts.spark.sealed(footer.to_epoch, is_awaited=bool(footer.control))
            self.parts.inputs.upstreams.sealed(footer)
            self.parts.upkeep.sealed(footer)

    def _on_rows(self, footer: Footer, rows: Mapping[str, Sequence[pa.RecordBatch]]) -> None:
        """Pass the rows of a durable epoch to the hub, so that the reactor's thread need not read them from disk."""
        shown = {name: batches for name, batches in rows.items() if name not in _UNSHOWN}
        count = sum([batch.num_rows for batches in shown.values() for batch in batches])
        self._handover.put(count, self.parts.hub.commit, footer, shown)

    def on_published(self, published: Published) -> None:
        # This call comes first, because a durable version is not published again if one of the following calls raises.
        self._reactor.callFromThread(self._published, published)
        self._noted.published(published.to_epoch - published.from_epoch, published.seconds)
        self.parts.agreement.published(published)

    def on_update(self, update: Update) -> None:
        # The rows are encoded on the worker, because each call of Arrow releases the interpreter lock. The reactor's
        # thread would wait for a switch interval after each call, while a worker is busy with the next step.
        followers = self.parts.hub.arrow_followers
        bodies = {name: encode_rows(rows) for name, rows in update.changes.items() if followers[name]}
        self._handover.put(_rows_of(update), self._updated, update, bodies)

    def on_streams(self, update: Update) -> None:
        self._handover.put(_rows_of(update), self._streamed, update)

    def on_lane_ended(self, reason: str | None) -> None:
        if reason is not None:
            self._reactor.callFromThread(self.fail, reason)

    # Called on the reactor's thread

    def _serve(self) -> int:
        control, config = Control(self.parts.hub, self.parts.catalogue), self._config
        self.parts.readers.begin(self.parts.ingest, self.parts.catalogue)
        postgres = self._serve_postgres()
        parts = ServiceParts(
            hub=self.parts.hub,
            status=self.status,
            cursors=self.parts.cursors,
            control=control,
            metrics=self._metrics,
            readers=self.parts.readers,
            explain_stream=self.parts.streams.explain,
            agreement=self.parts.agreement,
            asker=self.parts.asker if config.asking.at_once else None,
            postgres=postgres.figures if postgres is not None else None,
        )
        if self.parts.runs_spark:
            self.parts.hub.hold(_SPARK)
        port = self.parts.port.open(results_site(parts, self._reactor, config.security.access(), config.limits))
        lanes: tuple[Lane, ...] = (*self.parts.lanes, "stream")
        for lane in lanes:
            self.parts.catalogue.published(self.parts.hub.epoch(lane), lane)
        self._beats.start(_HEARTBEAT_SECONDS, now=False)
        self._barriers.start(self._config.epoch_ms / 1000, now=False)
        self._ingesting = True
        self.parts.ingest.start()
        return port

    def _serve_postgres(self) -> PostgresFactory | None:
        """Open the port for clients of PostgreSQL, if one is configured."""
        config, port = self._config, self.parts.pg_port
        if port is None:
            return None
        parts = PostgresParts(
            hub=self.parts.hub,
            asker=self.parts.asker,
            relations=lambda: self.parts.catalogue.relations,
            in_thread=self._in_thread,
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
        """Run the checks of every second and send heartbeats; fail if another process has taken the directory."""
        if self._is_fenced:
            return  # another process has the directory, so that no heartbeat is sent for it
        self.parts.upkeep.tick()
        self.parts.cursors.expire()
        inputs, term = self.parts.inputs, self.parts.directory.claim.term
        inputs.upstreams.beat()
        self._sign.beat(Beat(term, self._sealed, time.time_ns(), not inputs.disconnected, inputs.is_paused))
        self._watch.beat(self._reactor.seconds())
        self.parts.spark.listened_to(self.parts.hub.is_listened_to("spark"))

    def _fenced(self, reason: str) -> None:
        self._is_fenced = True
        self.fail(reason)

    def _request_barrier(self) -> None:
        published = self.parts.hub.version if self.parts.runs_spark else None
        spent_s = self.parts.ingest.barrier_durations.total_s + self.parts.ingest.commit_durations.total_s
        if self._pace.is_due(self._reactor.seconds(), self._sealed, published, spent_s):
            self.parts.ingest.request_barrier()

    def on_full(self, is_full: bool) -> None:
        if self._stopping:
            return  # a clean stop pauses inputs in its own order, and its seal must be the last
        self.parts.readers.pause(is_full)
        self._watch.full(is_full, self.parts.upkeep.used_bytes // 1_000_000)

    def _published(self, published: Published) -> None:
        self.parts.hub.publish(published.footer, published.changes, published.failed, published.program)
        self.parts.catalogue.published(self.parts.hub.version)
        if self._ingesting:
            self._request_barrier()  # Spark processes this epoch next
        self._lags.published((time.time_ns() - published.footer.time_ns) / 1e6, self._reactor.seconds())
        for view, reason in published.failed.items():
            self._log.error("view {view} failed: {reason}", view=view, reason=reason)

    def _updated(self, update: Update, bodies: Mapping[str, bytes]) -> None:
        self.parts.hub.publish_update(update, bodies)
        self.parts.catalogue.published(update.epoch, "express")
        if FEED in update.cuts:
            offset = update.cuts[FEED].offset
            self._lags.stepped(offset, self._reactor.seconds(), update.applied_s, update.stepped_s)
        for view, reason in update.failed.items():
            self._log.error("view {view} failed: {reason}", view=view, reason=reason)

    def _streamed(self, update: Update) -> None:
        self.parts.hub.publish_update(update, lane="stream")
        self.parts.catalogue.published(update.epoch, "stream")

    def _finished(self) -> None:
        self.parts.inputs.has_ended = True
        self._log.info(
            "the feed has ended, and all of it is sealed up to epoch {epoch}: results are still served, but views and "
            "readers cannot be changed before a restart",
            epoch=self._sealed,
        )

    def fail(self, reason: str) -> None:
        if not self._stopping:
            self._stopping = True
            self._on_failure(reason)
        elif self._clean_stop is not None:
            self._log.error("a clean stop ends early: {reason}", reason=reason)
            self._clean_stop.hurry()

    def _in_thread(self, call: Callable[[], Any]) -> Deferred[Any]:
        return deferToThreadPool(self._reactor, self._reactor.getThreadPool(), call)

    # Called on a thread of the pool

    def _start_spark(self, epoch: int) -> None:
        self.parts.agreement.begin()
        self.parts.spark.start(epoch)

    def _stop_parts(self) -> None:
        with ExitStack() as parts:  # stops each part even if others raise
            parts.callback(self.parts.directory.close)
            parts.callback(self.parts.upkeep.stop)
            parts.callback(self.parts.spark.stop)
            if self._ingesting:
                parts.callback(self.parts.ingest.stop)


def _rows_of(update: Update) -> int:
    return sum([changes.num_rows for changes in update.changes.values()])


class _Draining(StopParts):
    """Operations of a clean stop on the parts of a runtime."""

    def __init__(self, parts: LiveParts) -> None:
        self._parts = parts

    def shut_replayed(self) -> None:
        self._parts.inputs.pause(True)
        self._parts.readers.pause_replayed()

    def shut_all(self) -> None:
        self._parts.readers.pause(True)

    def taken_bytes(self) -> int:
        return sum([gate.taken_bytes for gate in self._parts.readers.unrepeatable()])

    def is_waiting(self) -> bool:
        return any(gate.is_waiting for gate in self._parts.readers.unrepeatable())

    def is_applied(self) -> bool:
        return not self._parts.ingest.backlog and not self._parts.ingest.waiting_bytes

    def seal(self, on_sealed: Callable[[], None]) -> None:
        self._parts.ingest.flush(on_sealed)

    def settle(self) -> int:
        return self._parts.writer.settle()

    def finish_spark(self, epoch: int, timeout_s: float) -> None:
        if self._parts.runs_spark:
            self._parts.spark.finish(epoch, timeout_s)

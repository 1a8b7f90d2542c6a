"""The runtime as one process of the simulation: the parts of a live runtime, on edges that the world controls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
from twisted.internet.defer import Deferred, maybeDeferred

from runtime.compiler import NamedSelect, Program, SqlError, decode_program
from runtime.engine.express import Update
from runtime.engine.ingest import EpochWriter, Ingest, IngestConfig, IngestListener, Origin
from runtime.epochs import Cut, Footer, ResultLog
from runtime.plan import with_record
from runtime.relations import Retention, RowAdaptor, row_schema
from runtime.service.catalogue import Catalogue, begin_catalogue
from runtime.service.errors import ServiceError
from runtime.service.inputs.protocols import FeedProtocol, begin_feed, make_adaptor
from runtime.service.lanes.agreement import LaneAgreement
from runtime.service.lanes.express import ExpressLane
from runtime.service.results import full_results
from runtime.service.results.hub import Hub
from runtime.service.rundir.upkeep import Upkeep, UpkeepConfig
from runtime.sources import Backoff, Position, Source, TextFeedSource
from runtime.spark.config import SparkConfig
from runtime.spark.lane import Published
from tests.simulation.breaking import BROKEN, BreakingView
from tests.simulation.files import SimulatedFile
from tests.simulation.machine import Machine
from tests.simulation.reactor import SimulatedReactor
from tests.simulation.spark import SimulatedSpark
from tests.simulation.views import BROKERS, RELATIONS

__all__ = ["RUN", "Process", "ProcessConfig"]

RUN: Final = Path("/simulated/run")
"""The run directory, on the simulated disk."""
_TABLE, _FEED = 0, 1
_MOST_VIEWS: Final = 4
_BEGIN_S: Final = 1_000_000.0
"""Wall clock at the beginning of the simulation, in seconds."""


class ProcessConfig(msgspec.Struct, frozen=True):
    """Configuration of a seed's process."""

    selects: tuple[NamedSelect, ...]
    """Views with which the run directory is begun."""
    table: bytes
    """Bytes of the file of brokers."""
    is_table_first: bool = True
    """True if the feed is opened once the table has been read."""
    feed: bytes | None = None
    """Feed as a file, which ends; None for the exchange's feed."""
    retention: Retention = Retention()
    """Retention of trades."""
    ingest: IngestConfig = IngestConfig()
    """Sizes of the ingest."""
    spark: SparkConfig = SparkConfig()
    """Shards and epochs in a batch."""
    upkeep: UpkeepConfig = UpkeepConfig()
    """Snapshots and retirement."""


class Process(IngestListener):
    """One process of the runtime. Any call may raise a crash; then the world drops the object."""

    def __init__(self, machine: Machine, config: ProcessConfig, now_s: float) -> None:
        self._machine = machine
        self._trace = machine.trace
        self.config = config
        self.reactor = SimulatedReactor(machine.network, now_s)
        self.failure: str | None = None
        """Reason why it cannot continue."""
        self.is_gone = False
        """True once it was killed: errors of objects that Python frees later do not count."""
        self.is_started = False
        self.is_degraded = False
        """True if a source has failed, and the others continue."""
        self.on_update: Callable[[Update], None] = lambda _: None
        """Called with every version of the express lane once the hub has it."""
        self.writer = EpochWriter(
            RUN,
            self._now_ns,
            self._on_epoch,
            store=machine.store(),
            disk=machine.disk,
            committer=machine.crews.committer,
        )
        try:
            self._begin(config)
        except BaseException:
            self.writer.close()
            raise

    def _begin(self, config: ProcessConfig) -> None:
        machine, writer = self._machine, self.writer
        self.express = ExpressLane(writer, RUN, self._on_update)
        begin_feed(writer, FeedProtocol(), str(RUN))
        begun_with = begin_catalogue(
            writer,
            config.selects,
            RELATIONS,
            mode="sql",
            most_views=_MOST_VIEWS,
            where=str(RUN),
            first=self.express.first,
            placed=lambda program: with_record(program, on_spark=True),
        )
        self.results = ResultLog(RUN / "results", machine.disk)
        self.hub = Hub(begun_with, self._now_ns)
        full_results.restore(self.hub, self.results)
        self.view = BreakingView(self.express.begin(self.hub, is_compared=True))
        self.agreement = LaneAgreement(self.results, writer.log)
        self.agreement.begin()
        self.upkeep = Upkeep(
            config.upkeep,
            RUN,
            writer.epoch,
            self.results,
            passed=[self.results.latest, machine.checkpoint.passed_epoch],
            put_full=lambda: full_results.put_full(self.results, begun_with),
            on_full=lambda is_full: self.reactor.callFromThread(self._full, is_full),
        )
        self.table = SimulatedFile(_TABLE, "brokers", config.table, machine.chance, machine.trace)
        self.files = [self.table]
        if config.feed is None:
            self.feed: Source = TextFeedSource(self.reactor, "exchange", 1, _FEED, backoff=Backoff(attempts=6))
        else:
            self.feed = SimulatedFile(_FEED, "feed", config.feed, machine.chance, machine.trace)
            self.files.append(self.feed)
        cuts = writer.recovered.cuts if writer.recovered else {}
        self.origins = {
            _TABLE: self._origin(_TABLE, "brokers", cuts),
            _FEED: self._origin(_FEED, "feed", cuts),
        }
        self.ingest = Ingest(
            config.ingest,
            writer,
            self.origins,
            self,
            views={"express": self.view},
            now_s=self.reactor.seconds,
            workers=machine.crews,
        )
        self.catalogue = Catalogue(
            self.reactor,
            decode_program(writer.control),
            RELATIONS,
            seal=self.ingest.seal_control,
            in_thread=self._in_thread,
            most_views=_MOST_VIEWS,
            prepare=self.express.prepare,
        )
        self.spark = SimulatedSpark(
            machine.checkpoint,
            config.spark,
            RUN,
            self.results,
            writer.log,
            faults=machine.faults,
            on_published=self._on_published,
        )

    def _origin(self, origin_id: int, name: str, cuts: dict[str, Cut]) -> Origin:
        cut = cuts.get(name, Cut("", 0, 0))
        start = Position(cut.session, cut.sequence + 1, cut.offset, cut.tuples)
        if origin_id == _TABLE:
            adaptor = RowAdaptor(BROKERS, row_schema(BROKERS))
            return Origin(origin_id, name, self.table, adaptor, start, first=self.config.is_table_first)
        feed = make_adaptor(FeedProtocol(), self.writer.space, name, self.config.retention, cut)
        return Origin(origin_id, name, self.feed, feed, start, defer=self.reactor.callFromThread)

    def start(self) -> None:
        """Open the sources."""
        self.is_started = True
        self.ingest.start()

    def check(self) -> None:
        """Assert the engine's invariants."""
        engine = self.ingest._engine
        if engine is not None:
            engine.check()

    def stop(self) -> None:
        """Stop in order; data that is in no epoch comes again."""
        if self.is_started:
            self.ingest.stop()
            self._check_ended()
        self.upkeep.stop()
        self.writer.close()

    def _check_ended(self) -> None:
        engine = self.ingest._engine
        assert engine is not None
        assert not engine.faults, "expected no task to raise"
        assert not engine._queries, "expected every query to have ended"
        assert not len(engine.queue), "expected no task to be left"
        assert not engine.admission.size, "expected nothing to be on its way"

    def change(self, selects: tuple[NamedSelect, ...] = (), drop: str = "") -> None:
        """Request the addition of views, or the removal of one."""
        change: Callable[[], Deferred[int]] = (
            (lambda: self.catalogue.drop(drop)) if drop else (lambda: self.catalogue.add(selects))
        )
        changed = maybeDeferred(change)
        changed.addCallbacks(
            lambda epoch: self._trace.say("the catalogue changes at epoch {}", epoch),
            lambda failure: self._refused(failure.value),
        )

    def _refused(self, error: BaseException) -> None:
        """Process a refused change: another change came first; for any other error the runtime must not continue."""
        if self.is_gone:
            return  # a change that was pending at the kill: its coroutine is closed when Python collects it
        if isinstance(error, SqlError | ServiceError):
            self._trace.say("the catalogue: {}", error)
        else:
            self._fail(f"the catalogue: {type(error).__name__}: {error}")

    # -- callbacks of the parts

    def on_finished(self) -> None:
        self._trace.say("everything is read")

    def on_failed(self, reason: str) -> None:
        self._fail(reason)

    def on_failed_origin(self, origin_id: int, reason: str) -> None:
        self._trace.say("origin {} fails: {}", origin_id, reason)
        self.is_degraded = True
        if self._machine.chance.random() < 0.5:
            self._fail(reason)

    def on_failed_view(self, name: str, reason: str) -> None:
        self._trace.say("view {} fails: {}", name, reason)
        self.express.failed()
        if BROKEN not in reason:
            self._fail(f"view {name}: {reason}")

    def on_lost(self, origin_id: int, reason: str) -> None:
        self._trace.say("origin {} lost: {}", origin_id, reason)

    def _fail(self, reason: str) -> None:
        self._trace.say("the runtime fails: {}", reason)
        self.failure = self.failure or reason

    def _full(self, is_full: bool) -> None:
        self._trace.say("the run directory {}", "is full" if is_full else "has room again")
        self._machine.faults.counts["limits reached"] += is_full
        if self.config.feed is None and is_full:
            self.origins[_FEED].inlet.shut()
        elif self.config.feed is None:
            self.origins[_FEED].inlet.let_in()

    def _on_epoch(self, footer: Footer) -> None:
        self._trace.say("epoch {}: {} messages{}", footer.to_epoch, footer.messages, " control" * bool(footer.control))
        if self.is_started:
            self.upkeep.sealed(footer)

    def _on_published(self, published: Published) -> None:
        compared = self.agreement.comparisons
        self.agreement.published(published)
        self._machine.faults.counts["lanes compared"] += self.agreement.comparisons - compared
        assert not self.agreement.differing(), f"expected lanes that agree, was {self.agreement.differing()}"
        self.reactor.callFromThread(self._published, published)

    def _published(self, published: Published) -> None:
        self._trace.say("version {} published", published.to_epoch)
        self.hub.publish(published.footer, published.changes, published.failed, published.program)

    def _on_update(self, update: Update) -> None:
        self.reactor.callFromThread(self._updated, update)

    def _updated(self, update: Update) -> None:
        self._trace.say("express: step {} behind epoch {}", update.step, update.epoch)
        self.hub.publish_update(update)
        self.on_update(update)

    def _now_ns(self) -> int:
        return int((_BEGIN_S + self.reactor.seconds() + self._machine.clock_s) * 1e9)

    def _in_thread(self, call: Callable[[], Program]) -> Deferred[Program]:
        done: Deferred[Program] = Deferred()
        self.reactor.callFromThread(lambda: maybeDeferred(call).chainDeferred(done))
        return done

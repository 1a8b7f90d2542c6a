"""The runtimes of the simulation: the parts that upstreams consist of, on edges that the world controls."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from twisted.internet.defer import Deferred, maybeDeferred

from deltabook.wire.directories import Claim
from runtime.compiler import MARKET_RELATIONS
from runtime.engine.ingest import EpochWriter, Ingest, IngestConfig, IngestListener, Origin
from runtime.epochs import Cut, DirectoryClaim, EpochLogError, RetentionConfig, SnapshotDirectory, retire
from runtime.relations import Retention
from runtime.service.catalogue import begin_catalogue
from runtime.service.inputs.protocols import FeedProtocol, make_adaptor
from runtime.service.inputs.upstreams import UpstreamConfig, Upstreams
from runtime.sources import Position
from runtime.upstreams import Consumers, Follower, Symbols, UpstreamSink
from tests.simulation.crews import Crews
from tests.simulation.faults import CrashError, Faults
from tests.simulation.trace import Trace
from tests.simulation.upstreams.feeds import SimulatedFeed
from tests.simulation.upstreams.sites import Site, Volume

__all__ = ["Runtime", "RuntimeShape"]


class RuntimeShape(msgspec.Struct, frozen=True):
    """Configuration of a seed's runtimes."""

    ingest: IngestConfig
    retention: Retention
    """Retention of trades."""
    kept: RetentionConfig
    """Retention of the log."""
    bases: int
    """Number of snapshots that retiring keeps."""
    symbols: Symbols


class SimulatedFollower(Follower):
    """Follower that looks on the world's request."""

    sink: UpstreamSink | None = None

    def open(self, sink: UpstreamSink) -> None:
        """See `Follower`."""
        self.sink = sink

    def close(self) -> None:
        """See `Follower`."""
        self.sink = None

    def move(self) -> bool:
        """Look once; return True if an epoch was read."""
        if self.sink is None:
            return False
        try:
            return self.poll(self.sink)
        except (EpochLogError, OSError) as error:
            sink, self.sink = self.sink, None
            sink.failed(str(error))
            return True


class Runtime(IngestListener):
    """One process of a runtime: with a feed, with upstreams, or with both. Any call may raise a crash."""

    def __init__(
        self,
        site: Site,
        sites: Mapping[str, Site],
        shape: RuntimeShape,
        trace: Trace,
        chance: random.Random,
        *,
        number: int,
        now_ns: Callable[[], int],
        arm: Callable[[Faults], None],
        data: Callable[[], bytes] | None = None,
        upstreams: tuple[str, ...] = (),
    ) -> None:
        """Start a process; ``arm`` may make it die or fail during the start; ``data`` returns its market's bytes."""
        self.site, self.number = site, number
        self._shape, self._trace, self._now_ns = shape, trace, now_ns
        self.faults = Faults(chance, trace)
        self.failure: str | None = None
        """Reason why it cannot continue."""
        self._calls: deque[Callable[[], Any]] = deque()
        self.crews = Crews(chance)
        self.disk = Volume(sites, self.faults)
        arm(self.faults)
        self.claim = DirectoryClaim(site.root, Claim(site.name, number), self.disk)
        store = site.store(self.faults)
        self.writer = EpochWriter(
            site.root,
            now_ns,
            self._sealed,
            store=store,
            disk=self.disk,
            claim=self.claim,
            committer=self.crews.committer,
        )
        self.upstreams: Upstreams | None = None
        try:
            begin_catalogue(self.writer, [], MARKET_RELATIONS, mode="sql", most_views=1, where=str(site.root))
            self.feed = SimulatedFeed(site.name, data, chance) if data else None
            configs = [UpstreamConfig(name, sites[name].root) for name in upstreams]
            self.upstreams = Upstreams(
                self,
                configs,
                site.root,
                self.writer,
                symbols=shape.symbols,
                now_ns=now_ns,
                in_thread=self._in_thread,
                disk=self.disk,
                follow=SimulatedFollower,
            )
            self.ingest = Ingest(
                shape.ingest,
                self.writer,
                {0: self._origin(self.feed)} if self.feed else {},
                self,
                upstreams=self.upstreams.followers,
                now_s=self.seconds,
                workers=self.crews,
            )
        except BaseException:
            self.writer.close()
            raise
        self.ingest.start()

    def _origin(self, feed: SimulatedFeed) -> Origin:
        cuts = self.writer.recovered.cuts if self.writer.recovered else {}
        cut = cuts.get("feed", Cut("", 0, 0))
        adaptor = make_adaptor(FeedProtocol(), self.writer.space, "feed", self._shape.retention, cut)
        return Origin(0, "feed", feed, adaptor, Position(cut.session, cut.sequence + 1, cut.offset, cut.tuples))

    def seconds(self) -> float:
        """Return the time as the reactor's clock."""
        return self._now_ns() / 1e9

    # -- actions of the world

    def calls(self) -> int:
        """Return the number of calls that wait for a thread."""
        return len(self._calls)

    def run_one(self) -> None:
        """Run the oldest waiting call."""
        self._calls.popleft()()

    def look(self) -> bool:
        """Let the followers look; return True if anything arrived."""
        followers = self.upstreams.followers if self.upstreams else ()
        moved = [follower.move() for follower in followers if isinstance(follower, SimulatedFollower)]
        return any(moved)

    def beat(self) -> None:
        """Process the passage of a second."""
        if self.upstreams is not None:
            self.upstreams.beat()

    def keep_small(self) -> None:
        """Take a snapshot, and retire data that is no longer needed."""
        self.claim.check()
        epoch, snapshots = self.writer.epoch, SnapshotDirectory(self.site.root / "snapshots", self.disk)
        if epoch > 0:
            snapshots.take(self.writer.log, epoch)
            passed = Consumers(self.site.root, self.disk).passed(epoch)
            retire(self.writer.log, snapshots, passed, self._shape.kept, self._shape.bases)

    def stop(self) -> None:
        """Stop in order."""
        self.ingest.stop()
        self.writer.close()

    # -- callbacks of the parts

    def on_failed(self, reason: str) -> None:
        self._trace.say("{} fails: {}", self.site.name, reason)
        self.failure = self.failure or reason

    def _sealed(self, footer: Any) -> None:
        self._trace.say("{} epoch {}: {} messages", self.site.name, footer.to_epoch, footer.messages)
        if self.upstreams is not None:
            self.upstreams.sealed(footer)

    def _in_thread(self, call: Callable[[], Any]) -> Deferred[Any]:
        done: Deferred[Any] = Deferred()

        def run() -> None:
            maybeDeferred(self._surviving, call).chainDeferred(done)
            if self.faults.is_dead:
                raise CrashError("a thread's call")

        self._calls.append(run)
        return done

    def _surviving(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except CrashError:
            return None  # raised again by the caller that runs it

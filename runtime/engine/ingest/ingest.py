"""Plan of an ingest, which turns raw buffers of any number of sources into epochs, and the interface of the ingest.

```
source ──offer──▶ Inlet ──▶ Formatting ──▶ Applying ──▶ streams ──▶ view ──▶ EpochSink
(reactor, file    one for    one for each   cut point ─────┴────────▲────────▲
 thread)          an origin  schema            └────────────────────┴────────┘
```

A source calls the inlet of its origin on the source's own thread; the engine's workers run the rest. The docstring of
each pipeline names the owner of its state. The ingest continues without a view whose pipeline raises (`GuardedView`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from deltabook.wire.durations import Durations
from runtime.engine.barriers import Barrier, BarrierFuture, BarrierOutcome
from runtime.engine.engine import EngineConfig, QueryEngine
from runtime.engine.errors import BarrierError
from runtime.engine.ingest.applying import Applying, ApplyingConfig, StreamsNode
from runtime.engine.ingest.deltas import Deltas, Sections
from runtime.engine.ingest.eventtimes import EpochTime
from runtime.engine.ingest.formatting import Formatting
from runtime.engine.ingest.origin import IN_ORDER_CAPACITY, Origin, OriginCounters
from runtime.engine.ingest.turnover import AtCut, OnSealed, OriginTable, Turnover
from runtime.engine.ingest.upstream import SharedOrigins, Upstream, UpstreamInlet
from runtime.engine.ingest.writer import EpochSink, EpochWriter
from runtime.engine.listeners import QueryStatus, StatisticsListener, StatusListener
from runtime.engine.plan import Context, Node, Pipeline, Plan
from runtime.engine.queue import TaskQueue
from runtime.engine.workers import Crew
from runtime.formats import InputFormatter, Pushdown, Schema
from runtime.upstreams import Follower

__all__ = ["Ingest", "IngestConfig", "IngestListener"]


class GuardedView(Pipeline):
    """Pipeline that passes every call on to a view's pipeline until a call raises, and drops all input from then on.

    The epoch in which the view fails has the attribute ``express/failed/NAME`` in its segment. The state is owned by
    the worker that makes the call; there is one call at a time.
    """

    def __init__(self, name: str, view: Pipeline, on_failed: Callable[[str, str], None]) -> None:
        """Wrap ``view``; ``on_failed`` is called with the view's name and the reason, once, on a worker."""
        self._name = name
        self._view = view
        self._on_failed = on_failed
        self._reason = ""
        self._is_published = False
        self._closes = -1
        self.most_inputs = view.most_inputs
        self.most_size = view.most_size

    def __str__(self) -> str:
        return str(self._view) if type(self._view).__str__ is not object.__str__ else type(self._view).__name__

    def start(self, context: Context) -> None:
        """See `Pipeline`."""
        self._guard(lambda: self._view.start(context))

    def execute(self, inputs: Sequence[object], context: Context) -> None:
        """See `Pipeline`."""
        for each in inputs:
            if isinstance(each, Deltas) and each.closes >= 0:
                self._closes = each.closes
        if self._reason:
            return
        deltas = [each for each in inputs if isinstance(each, Deltas)]
        if not deltas:
            return  # sections of derived streams are for the epoch sink alone
        try:
            self._view.execute(deltas, context)
        except Exception as error:  # noqa: BLE001 (whatever a view raises, the ingest continues)
            self._fail(error)

    def end_of_input(self, port: int, context: Context) -> None:
        """See `Pipeline`."""
        self._guard(lambda: self._view.end_of_input(port, context))

    def start_drain(self, barrier: Barrier, context: Context) -> None:
        """See `Pipeline`."""
        self._guard(lambda: self._view.start_drain(barrier, context))
        if self._reason and not self._is_published and self._closes >= 0:
            self._is_published = True
            context.emit(Sections(self._closes, attributes={f"express/failed/{self._name}": self._reason}))
        self._closes = -1

    def stop(self, context: Context) -> None:
        """See `Pipeline`."""
        self._guard(lambda: self._view.stop(context))

    def discard(self) -> None:
        """See `Pipeline`."""
        self._guard(self._view.discard)

    def _guard(self, call: Callable[[], None]) -> None:
        if self._reason:
            return
        try:
            call()
        except Exception as error:  # noqa: BLE001 (as in execute)
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._reason = f"{type(error).__name__}: {error}"
        self._on_failed(self._name, self._reason)


_MOST_IN_FLIGHT: Final = IN_ORDER_CAPACITY // 2
"""Greatest number of raw buffers of an origin in flight; each may complete two batches (a spanning tuple, a body)."""


class IngestConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sizes of the ingest."""

    workers: int = 2
    """Number of threads that format."""
    admitted_bytes: int = 32 << 20
    """Greatest number of bytes of raw buffers in flight, over all origins."""
    in_flight_bytes: int = 16 << 20
    """Greatest number of bytes of raw buffers of one origin in flight; compressed bytes count several times."""
    in_flight: int = 1024
    """Greatest number of raw buffers of one origin in flight: queued, being formatted or waiting for an earlier one; at
    most 32768."""
    admitted: int = 65_536
    """Greatest number of raw buffers of all origins in flight."""
    epoch_messages: int = 0
    """Number of messages after which an epoch is closed at the next place where it may be cut; 0 for no such limit."""
    epoch_most_messages: int = 1_000_000
    """The same limit if `epoch_messages` is 0: an epoch that is closed by time has at most about this many messages."""

    def __post_init__(self) -> None:
        if self.workers < 1 or not 1 <= self.in_flight <= _MOST_IN_FLIGHT:
            raise ValueError(
                f"expected workers of at least 1 and in_flight from 1 to {_MOST_IN_FLIGHT}, "
                f"was {self.workers} and {self.in_flight}"
            )


class IngestListener:
    """Listener of an ingest, called on a worker's thread; every method does nothing unless it is overridden."""

    def on_running(self) -> None:
        """Called when everything is started, and the origins that are read first are open."""

    def on_finished(self) -> None:
        """Called when every origin has ended and all input is in an epoch."""

    def on_failed(self, reason: str) -> None:
        """Called when the ingest cannot continue, or has not read all input; the last committed epoch is valid."""

    def on_failed_origin(self, origin_id: int, reason: str) -> None:
        """Called when an origin has failed; the ingest continues with the others, and fails once they have ended."""

    def on_failed_view(self, name: str, reason: str) -> None:
        """Called when a view's pipeline has raised; the ingest continues without the view."""

    def on_lost(self, origin_id: int, reason: str) -> None:
        """Called when an origin's connection broke; the origin reconnects once its earlier input is applied."""


INGEST: Final = "ingest"
"""Id of the query."""
_APPLY: Final = "apply"
"""Name of the node at which barriers begin, and to which origins are added while the query runs."""
_JOIN_SECONDS: Final = 10.0
"""Longest wait for the workers to end."""
MakeWorkers = Callable[[TaskQueue, int, Callable[[BaseException], None]], Crew]


class Ingest:
    """Plan that formats the input, puts it in order, applies it to relations and cuts it into epochs.

    Every method may be called from any thread; for `stop`, any thread except a worker. `_ended`, `_is_running` and
    `_early` are accessed with `_lock` held; `_engine` is set by `start`; all other attributes are never changed.
    """

    def __init__(
        self,
        config: IngestConfig,
        writer: EpochWriter,
        origins: Mapping[int, Origin],
        listener: IngestListener,
        *,
        upstreams: Sequence[Follower] = (),
        views: Mapping[str, Pipeline] | None = None,
        streams: StreamsNode | None = None,
        times: Mapping[str, str] | None = None,
        statistics: StatisticsListener | None = None,
        now_s: Callable[[], float] = time.monotonic,
        workers: MakeWorkers | None = None,
    ) -> None:
        """Build the plan.

        ``upstreams`` follow the logs of other runtimes from their `kept_position`; the ids of upstreams differ from
        those of origins. ``views`` are pipelines by name, which take `Deltas` and emit `Sections` at the barrier.
        ``streams`` is the node of the derived streams: it takes the relations that they read, and at a barrier it emits
        `Deltas`, which reach the views before the barrier. ``times`` has the time column of each relation whose rows
        advance the time of epochs, as messages of a market's feed do. ``statistics``, ``now_s`` and ``workers`` are for
        the `QueryEngine`.
        """
        self._writer = writer
        self._config = config
        self._listener = listener
        self._lock = threading.Lock()
        self._ended = False
        self._is_running = False
        self._early: list[tuple[object, OnSealed]] = []
        has_first = any(origin.first for origin in origins.values())
        shared = SharedOrigins(writer.space) if upstreams else None
        for origin in origins.values():
            origin.attach_inlet(listener.on_lost, is_held=has_first and not origin.first)
        self._table = OriginTable(origins, _upstreams(upstreams, writer, shared) if shared else {}, shared)
        self._applying = Applying(
            ApplyingConfig(
                most_messages=config.epoch_messages or config.epoch_most_messages,
                settle=writer.settle,
                on_failed_origin=listener.on_failed_origin,
                now_s=now_s,
            ),
            self._table,
            EpochTime(writer.space, times or {}),
            streams,
        )
        self._sink = EpochSink(writer)
        writer.on_failed = self.request_barrier
        self.plan = Plan(INGEST)
        self._build(views or {}, streams)
        sizes = EngineConfig(
            workers=config.workers,
            admitted=config.admitted,
            admitted_size=config.admitted_bytes,
            in_flight=config.in_flight,
            in_flight_size=config.in_flight_bytes,
        )
        self._make_engine = partial(QueryEngine, sizes, _Status(self), statistics, now_s=now_s, workers=workers)
        self._engine: QueryEngine | None = None

    def _build(self, views: Mapping[str, Pipeline], streams: StreamsNode | None) -> None:
        """Build the plan. Origins with the same schema and pushdown share a formatter.

        An origin with `Origin.is_own` has a formatter of its own, and so has one whose stream is compressed as a whole.
        """
        shared: dict[tuple[Schema, Pushdown, int], list[Origin]] = {}
        for number, origin in self._table.origins.items():
            alone = number if origin.is_compressed or origin.is_own else -1
            shared.setdefault((origin.adaptor.schema, origin.adaptor.pushdown, alone), []).append(origin)
        formatted = [
            self._add_formatter(self.plan, f"format {group[0].name if group[0].is_own else place}", group)
            for place, group in enumerate(shared.values())
        ]
        followed = [
            self.plan.add_source(f"upstream {upstream.name}", inlet)
            for upstream, inlet in self._table.upstreams.values()
        ]
        applied = self.plan.add(_APPLY, self._applying, [*formatted, *followed])
        inputs = [applied]
        if streams is not None:  # added before the others, so that it is the first successor of the applying step
            inputs.append(self.plan.add("streams", streams, [applied]))
        kept = [
            self.plan.add(f"view {name}", GuardedView(name, view, self._listener.on_failed_view), inputs)
            for name, view in views.items()
        ]
        self.plan.add("epochs", self._sink, [*inputs, *kept])

    def _add_formatter(self, plan: Plan, name: str, group: Sequence[Origin]) -> Node:
        first = group[0]
        formatter = InputFormatter(first.adaptor.schema, first.adaptor.pushdown)
        formatting = Formatting(formatter, self._config.workers, takes_turns=first.is_compressed)
        for origin in group:
            origin.attach(formatting)
        inputs = [plan.add_source(f"origin {origin.name}", origin.inlet) for origin in group]
        return plan.add(name, formatting, inputs)

    def start(self) -> None:
        """Start the engine, once; open every source at its cut in the last epoch, sources of tables before others."""
        self._engine = self._make_engine()
        self._engine.start(self.plan)

    def stop(self) -> None:
        """Close sources and end workers; input that is in no epoch is discarded, and read again after a restart.

        Must not be called on a worker, not even by a listener. Raises `EngineError` if a worker does not end.
        """
        self._terminate()
        if self._engine is not None:
            self._engine.shutdown(_JOIN_SECONDS)

    def request_barrier(self) -> None:
        """Close the epoch at the next place where it may be cut; an empty epoch stays open."""
        self._request(None)

    def flush(self, on_flushed: Callable[[], None]) -> None:
        """Close the epoch if it holds anything, as `request_barrier` does.

        ``on_flushed`` is called once, on any thread, when the epoch is closed or the query has ended. The epoch is
        durable after the writer's next `settle`.
        """
        future = self._request(None)
        if future is None:
            on_flushed()
        else:
            future.when_done(lambda _: on_flushed())

    def seal_control(self, record: bytes, on_sealed: OnSealed) -> None:
        """Close the epoch now, empty or not, with a control record in it.

        A record that is passed before the ingest runs is sealed once the ingest runs.
        """
        self._seal(record, on_sealed)

    def begin_origin(self, make: Callable[[], Origin], at_cut: AtCut, on_sealed: OnSealed) -> None:
        """Add an origin, which must have `Origin.is_own`, at the next place where the epoch may be cut.

        At the cut ``make`` creates the origin, which may have objects in the object space, and ``at_cut`` saves the
        state with which a restart recreates it. Both changes and the origin's first cut are in the epoch that closes
        there. When that epoch is durable, the origin's source is opened. If ``make`` raises, the ingest fails.
        """
        part = Plan(INGEST)

        def begins() -> Origin:
            origin = make()
            origin.attach_inlet(self._listener.on_lost)
            self._add_formatter(part, f"format {origin.name}", [origin])
            return origin

        def opened(epoch: int | None) -> None:
            if self._engine is not None and epoch is not None:
                self._engine.grow(INGEST, part, _APPLY)
            on_sealed(epoch)

        self._seal(Turnover(at_cut, begins), opened)

    def end_origin(self, name: str, at_cut: AtCut, on_sealed: OnSealed) -> None:
        """Remove an origin, which must have `Origin.is_own`, at the next cut.

        Input that is not applied by then is dropped.
        """
        self._seal(Turnover(at_cut, ends=name), on_sealed)

    def at_cut(self, at_cut: AtCut, on_sealed: OnSealed) -> None:
        """Close the epoch now, empty or not, with the changes that ``at_cut`` makes."""
        self._seal(Turnover(at_cut), on_sealed)

    def _seal(self, payload: object, on_sealed: OnSealed) -> None:
        with self._lock:
            if not (self._is_running or self._ended):
                self._early.append((payload, on_sealed))
                return

        def done(future: BarrierFuture) -> None:
            # A barrier also counts as reached if it never began because all pipelines had ended; it then seals nothing.
            barrier = future.barrier if future.outcome is BarrierOutcome.REACHED else None
            on_sealed(None if barrier is None else self._sink.numbered(barrier))

        future = self._request(payload)
        if future is None:
            on_sealed(None)
        else:
            future.when_done(done)

    def hold(self, is_held: bool) -> None:
        """Admit no input while ``is_held``, because consumers of the ingest's output are behind; otherwise resume."""
        if self._engine is not None:
            self._engine.hold(is_held)

    @property
    def holds_any(self) -> bool:
        """True if anything has been applied that is in no closed epoch yet."""
        return self._applying.holds_any

    @property
    def backlog(self) -> int:
        """Number of raw buffers and marks in flight; each counts until it and all derived items are executed."""
        return sum([origin.inlet.in_flight for origin in self._table.origins.values()])

    @property
    def waiting_bytes(self) -> int:
        """Number of bytes of raw buffers between sources and epochs."""
        return 0 if self._engine is None else self._engine.admission.size

    @property
    def barrier_durations(self) -> Durations:
        """Durations of barriers of the current query, from the request until the content of the epoch is detached."""
        counters = None if self._engine is None else self._engine.counters(INGEST)
        return Durations() if counters is None else counters.barrier_durations

    @property
    def commit_durations(self) -> Durations:
        """Durations of successful commits, each until its epoch is visible and the callbacks for it have returned."""
        return self._writer.commit_durations

    def counters(self) -> dict[str, OriginCounters]:
        """Return the counters of each origin's tuples, by name."""
        return {origin.name: origin.counters() for origin in self._table.origins.values()}

    def when_drained(self, origin_id: int, call: Callable[[], None]) -> None:
        """Call ``call`` once all input that the origin's source has delivered so far is executed."""
        self._table.origins[origin_id].inlet.when_drained(call)

    def _request(self, payload: object) -> BarrierFuture | None:
        if self._engine is None:
            return None
        try:
            return self._engine.request_barrier(INGEST, payload)
        except BarrierError:  # refused after the end of all input, at which the last epoch is sealed anyway
            return None

    # Called by the engine

    def on_status(self, status: QueryStatus, reason: str) -> None:
        """Handle a change of the query's status; called on a worker."""
        if status is QueryStatus.RUNNING:
            with self._lock:
                self._is_running = True
                early, self._early = self._early, []
            for payload, on_sealed in early:
                self._seal(payload, on_sealed)
            self._listener.on_running()
        elif status is QueryStatus.STOPPED and self._terminate():
            self._listener.on_finished()
        elif status is QueryStatus.FAILED and self._terminate():
            for node in self.plan.nodes:
                reason = reason.removeprefix(f"node {node.name}: ")
            self._listener.on_failed(reason)

    def _terminate(self) -> bool:
        """Note the end, and drop the requests that wait for the start; return True for the first call."""
        with self._lock:
            ended, self._ended = self._ended, True
            early, self._early = self._early, []
        for _, on_sealed in early:
            on_sealed(None)
        return not ended


def _upstreams(
    followers: Sequence[Follower], writer: EpochWriter, shared: SharedOrigins
) -> dict[int, tuple[Upstream, UpstreamInlet]]:
    known = [Upstream(follower, writer.space, shared) for follower in followers]
    return {upstream.origin_id: (upstream, UpstreamInlet(upstream)) for upstream in known}


class _Status(StatusListener):
    """Listener that passes the status of the one query on to the ingest."""

    def __init__(self, ingest: Ingest) -> None:
        self._ingest = ingest

    def on_status(self, query_id: str, status: QueryStatus, reason: str) -> None:
        """See `StatusListener`."""
        del query_id
        self._ingest.on_status(status, reason)

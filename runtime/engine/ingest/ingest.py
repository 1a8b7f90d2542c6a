"""The ingest: raw buffers in from any number of sources, epochs out; one plan of the query engine.

```
source ──offer──▶ Inlet ──▶ Formatting ──▶ Applying ──▶ view ──▶ EpochSink
(reactor, file    a source   a formatter,   cut point     └────────▲
 thread)          an origin  coalescing, ×n
```

Threads: sources call `offer`, `end_of_stream`, `failed` and `lost`; the engine's workers run the rest. What belongs to
whom is said by each pipeline.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from runtime.engine.barriers import BarrierDurations, BarrierFuture, BarrierOutcome
from runtime.engine.engine import EngineConfig, QueryEngine
from runtime.engine.errors import BarrierError
from runtime.engine.ingest.applying import Applying, ApplyingConfig
from runtime.engine.ingest.config import IngestConfig, IngestListener
from runtime.engine.ingest.formatting import Formatting
from runtime.engine.ingest.guard import GuardedView
from runtime.engine.ingest.inlet import Inlet
from runtime.engine.ingest.origin import Origin, OriginCounters
from runtime.engine.ingest.passing import MarkKind
from runtime.engine.ingest.sink import EpochSink
from runtime.engine.ingest.writer import EpochWriter
from runtime.engine.listeners import QueryStatus, StatisticsListener, StatusListener
from runtime.engine.plan import Node, Pipeline, Plan
from runtime.engine.queue import TaskQueue
from runtime.engine.workers import Crew
from runtime.formats import InputFormatter, Pushdown, RawBuffer, Schema
from runtime.sources import BufferSink

__all__ = ["INGEST", "Ingest"]

INGEST: Final = "ingest"
"""The id of the query."""
_JOIN_SECONDS: Final = 10.0
MakeWorkers = Callable[[TaskQueue, int, Callable[[BaseException], None]], Crew]


class Ingest(BufferSink):
    """Formats, orders, adapts and cuts; see the module. Every method may be called from any thread.

    `_ended`, `_is_running` and `_early` belong to who holds `_lock`, `_engine` is set by `start`; the rest is never
    changed.
    """

    def __init__(
        self,
        config: IngestConfig,
        writer: EpochWriter,
        origins: Mapping[int, Origin],
        listener: IngestListener,
        *,
        views: Mapping[str, Pipeline] | None = None,
        statistics: StatisticsListener | None = None,
        now_s: Callable[[], float] = time.monotonic,
        workers: MakeWorkers | None = None,
    ) -> None:
        """``views``, by name, take `Deltas` and give `Sections` on the barrier.

        ``statistics``, ``now_s`` and ``workers`` are for the `QueryEngine`.
        """
        self._writer = writer
        self._origins = dict(origins)
        self._listener = listener
        self._lock = threading.Lock()
        self._ended = False
        self._is_running = False
        self._early: list[tuple[bytes, Callable[[int], None]]] = []
        has_first = any(origin.first for origin in self._origins.values())
        self._inlets = {
            origin_id: Inlet(origin, self, is_held=has_first and not origin.first)
            for origin_id, origin in self._origins.items()
        }
        self._applying = Applying(
            ApplyingConfig(
                most_messages=config.epoch_messages or config.epoch_most_messages,
                newest_epoch=lambda: writer.epoch,
                on_failed_origin=listener.on_failed_origin,
            ),
            self._origins,
            self._inlets,
        )
        self._sink = EpochSink(writer)
        self.plan = Plan(INGEST)
        self._build(config.workers, views or {})
        sizes = EngineConfig(
            workers=config.workers,
            admitted=config.admitted,
            admitted_size=config.admitted_bytes,
            in_flight=config.in_flight,
            in_flight_size=config.in_flight_bytes,
        )
        self._make_engine = partial(QueryEngine, sizes, _Status(self), statistics, now_s=now_s, workers=workers)
        self._engine: QueryEngine | None = None

    def _build(self, workers: int, views: Mapping[str, Pipeline]) -> None:
        """Origins of the same schema, as those of a union, share a formatter; not streams compressed as a whole."""
        shared: dict[tuple[Schema, Pushdown, int], list[Origin]] = {}
        for origin in self._origins.values():
            alone = origin.origin_id if origin.is_compressed else -1
            shared.setdefault((origin.adaptor.schema, origin.pushdown, alone), []).append(origin)
        formatted: list[Node] = []
        for number, ((schema, pushdown, alone), group) in enumerate(shared.items()):
            formatting = Formatting(InputFormatter(schema, pushdown), workers, takes_turns=alone >= 0)
            for origin in group:
                origin.attach(formatting)
            inputs = [self.plan.add_source(f"origin {o.name}", self._inlets[o.origin_id]) for o in group]
            formatted.append(self.plan.add(f"format {number}", formatting, inputs))
        applied = self.plan.add("apply", self._applying, formatted)
        kept = [
            self.plan.add(f"view {name}", GuardedView(name, view, self._listener.on_failed_view), [applied])
            for name, view in views.items()
        ]
        self.plan.add("epochs", self._sink, [applied, *kept])

    def start(self) -> None:
        """Start the engine and open every source where its last epoch ended; tables before streams. Once."""
        self._engine = self._make_engine()
        self._engine.start(self.plan)

    def stop(self) -> None:
        """Close sources and workers; what no epoch holds is discarded and comes again after a restart.

        Not to be called by a worker, nor by a listener on one. Raises `EngineError` if a worker does not end.
        """
        self._terminate()
        if self._engine is not None:
            self._engine.shutdown(_JOIN_SECONDS)

    def request_barrier(self) -> None:
        """Close the epoch at the next place where it may be cut; nothing happens while it is empty."""
        self._request(None)

    def seal_control(self, record: bytes, on_sealed: Callable[[int], None]) -> None:
        """Close the epoch now, empty or not, with a control record in it.

        ``on_sealed`` hears its number on a worker's thread; it hears nothing if the ingest ends first. Before the
        ingest runs the record waits for that.
        """
        with self._lock:
            if not self._is_running:
                self._early.append((record, on_sealed))
                return
        self._seal(record, on_sealed)

    def _seal(self, record: bytes, on_sealed: Callable[[int], None]) -> None:
        def done(future: BarrierFuture) -> None:
            if future.outcome is BarrierOutcome.REACHED and future.barrier is not None:
                on_sealed(self._sink.controlled(future.barrier))

        future = self._request(record)
        if future is not None:
            future.when_done(done)

    @property
    def holds_any(self) -> bool:
        """Whether anything has been applied that no epoch holds yet."""
        return self._applying.holds_any

    @property
    def backlog(self) -> int:
        """Raw buffers that wait, are being formatted, or wait for an earlier one."""
        return sum([inlet.on_the_way for inlet in self._inlets.values()])

    @property
    def waiting_bytes(self) -> int:
        """Bytes of raw buffers between sources and epochs."""
        return 0 if self._engine is None else self._engine.admission.size

    @property
    def barrier_durations(self) -> BarrierDurations:
        """How long barriers took, from request to commit; those of the query that runs."""
        counters = None if self._engine is None else self._engine.counters(INGEST)
        return BarrierDurations() if counters is None else counters.barrier_durations

    def counters(self) -> dict[str, OriginCounters]:
        """What became of each origin's tuples so far, by name."""
        return {origin.name: origin.counters() for origin in self._origins.values()}

    def when_drained(self, origin_id: int, call: Callable[[], None]) -> None:
        """Call this once everything that the origin's source has offered is formatted and applied."""
        self._inlets[origin_id].when_drained(call)

    # From sources

    def offer(self, raw: RawBuffer) -> bool:
        """See `BufferSink`."""
        return self._inlets[raw.origin_id].offer(raw)

    def end_of_stream(self, origin_id: int) -> None:
        """See `BufferSink`."""
        self._inlets[origin_id].end(MarkKind.ENDED)

    def failed(self, origin_id: int, reason: str) -> None:
        """See `BufferSink`."""
        self._inlets[origin_id].end(MarkKind.FAILED, reason)

    def lost(self, origin_id: int, reason: str) -> None:
        """See `BufferSink`."""
        self._listener.on_lost(origin_id, reason)
        self._inlets[origin_id].end(MarkKind.LOST, reason)

    # From the engine

    def _request(self, payload: object) -> BarrierFuture | None:
        if self._engine is None:
            return None
        try:
            return self._engine.request_barrier(INGEST, payload)
        except BarrierError:  # behind the last input there is nothing that the end would not seal
            return None

    def heard(self, status: QueryStatus, reason: str) -> None:
        """The query has this status now."""
        if status is QueryStatus.RUNNING:
            with self._lock:
                self._is_running = True
                early, self._early = self._early, []
            for record, on_sealed in early:
                self._seal(record, on_sealed)
            self._listener.on_running()
        elif status is QueryStatus.STOPPED and self._terminate():
            self._listener.on_finished()
        elif status is QueryStatus.FAILED and self._terminate():
            for node in self.plan.nodes:
                reason = reason.removeprefix(f"node {node.name}: ")
            self._listener.on_failed(reason)

    def _terminate(self) -> bool:
        """Nobody hears of the end from now on; True for the one call that brought it about."""
        with self._lock:
            ended, self._ended = self._ended, True
            return not ended


class _Status(StatusListener):
    """Hands on what becomes of the one query."""

    def __init__(self, ingest: Ingest) -> None:
        self._ingest = ingest

    def on_status(self, query_id: str, status: QueryStatus, reason: str) -> None:
        """See `StatusListener`."""
        del query_id
        self._ingest.heard(status, reason)

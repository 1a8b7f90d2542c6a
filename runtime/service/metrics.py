"""What a runtime tells a monitor: Prometheus metrics made of the engine's events and of the runtime's own figures."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from runtime.engine.barriers import BarrierDurations
from runtime.engine.listeners import (
    Event,
    QueryFailed,
    QueryStarted,
    QueryStopped,
    StatisticsListener,
    TaskCompleted,
    TaskEmitted,
    TaskExpired,
)

__all__ = ["EngineFigures", "EngineMetrics", "Rate", "RuntimeMetrics"]

Figures = Mapping[str, int | float | str | None]

_GAUGES: Final = {
    "epoch": "The newest epoch that is sealed.",
    "published_epoch": "The newest epoch of which the Spark lane's results are published.",
    "lag_ms": "From an epoch's end to the publishing of its results, of the newest one, in milliseconds.",
    "backlog": "Raw buffers that are taken and not applied.",
    "waiting_bytes": "Bytes of raw buffers between sources and epochs.",
    "feed_sequence": "The feed's message up to which everything is applied.",
    "rows_per_s": "Messages a second, between two looks.",
    "views": "Views that are kept.",
    "failed_views": "Views that have failed.",
    "live_orders": "Orders that are live.",
}
_COUNTERS: Final = {
    "messages": "Well-formed messages in sealed epochs.",
    "dead_letters": "Malformed tuples in sealed epochs.",
    "view_updates": "Changes of views that were published.",
    "unknown_orders": "Messages about orders that are not live.",
    "nulled_values": "Malformed values that became NULL, since the start.",
}


class EngineFigures(msgspec.Struct, frozen=True):
    """What the engine has done since the runtime was started."""

    queries_running: int = 0
    """Queries that run now."""
    queries_failed: int = 0
    """Queries that have failed."""
    tasks: int = 0
    """Calls of pipelines that took inputs."""
    expired_inputs: int = 0
    """Inputs that were skipped since their query had ended."""
    busiest: str = ""
    """The pipeline whose calls took the most time; empty if there was none."""
    barriers: int = 0
    """Barriers that were reached."""
    barrier_p50_us: int = 0
    """Half of them took no longer than this, to a factor of 2."""
    barrier_p99_us: int = 0
    """All but a hundredth of them took no longer than this, to a factor of 2."""


class EngineMetrics(StatisticsListener):
    """Adds the engine's events up, by query and pipeline. Called by workers; what changes belongs to who holds `_lock`.

    ``barriers`` gives the durations of the barriers that were reached, which are no events.
    """

    def __init__(self, barriers: Callable[[], BarrierDurations] = BarrierDurations) -> None:
        self.barriers = barriers
        self._lock = threading.Lock()
        self._running: set[str] = set()
        self._failed = 0
        self._tasks: Counter[tuple[str, str]] = Counter()
        self._seconds: Counter[tuple[str, str]] = Counter()
        self._inputs: Counter[tuple[str, str]] = Counter()
        self._tuples: Counter[tuple[str, str]] = Counter()
        self._expired: Counter[tuple[str, str]] = Counter()

    def on_event(self, event: Event) -> None:
        """See `StatisticsListener`."""
        with self._lock:
            match event:
                case TaskCompleted():
                    key = event.query_id, event.node
                    self._tasks[key] += 1
                    self._seconds[key] += event.duration_s  # type: ignore[assignment]
                    self._inputs[key] += event.inputs
                case TaskEmitted():
                    self._tuples[event.query_id, event.node] += event.size
                case TaskExpired():
                    self._expired[event.query_id, event.node] += event.inputs
                case QueryStarted():
                    self._running.add(event.query_id)
                case QueryStopped():
                    self._running.discard(event.query_id)
                case QueryFailed():
                    self._running.discard(event.query_id)
                    self._failed += 1

    def figures(self) -> EngineFigures:
        """The moment's figures, for a status answer."""
        barriers = self.barriers()
        with self._lock:
            busiest = max(self._seconds.items(), key=lambda each: each[1], default=(("", ""), 0))[0]
            return EngineFigures(
                queries_running=len(self._running),
                queries_failed=self._failed,
                tasks=sum(self._tasks.values()),
                expired_inputs=sum(self._expired.values()),
                busiest=busiest[1],
                barriers=barriers.count,
                barrier_p50_us=barriers.quantile_us(0.5),
                barrier_p99_us=barriers.quantile_us(0.99),
            )

    def metrics(self) -> Iterator[Metric]:
        """The same for a monitor, by pipeline."""
        with self._lock:
            yield GaugeMetricFamily("deltabook_engine_queries_running", "Queries that run.", len(self._running))
            yield CounterMetricFamily("deltabook_engine_queries_failed", "Queries that have failed.", self._failed)
            yield _by_pipeline("deltabook_engine_tasks", "Calls of a pipeline that took inputs.", self._tasks)
            yield _by_pipeline("deltabook_engine_task_seconds", "Time that they took.", self._seconds)
            yield _by_pipeline("deltabook_engine_inputs", "Inputs that they took.", self._inputs)
            yield _by_pipeline("deltabook_engine_tuples", "Tuples that a pipeline has emitted.", self._tuples)
            yield _by_pipeline("deltabook_engine_expired_inputs", "Inputs that were skipped.", self._expired)
        yield _histogram(self.barriers())


def _by_pipeline(name: str, what: str, counts: Mapping[tuple[str, str], float]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, what, labels=("query", "pipeline"))
    for (query_id, node), count in sorted(counts.items()):
        family.add_metric((query_id, node), count)
    return family


def _histogram(durations: BarrierDurations) -> HistogramMetricFamily:
    """Buckets in seconds, as far as there is anything in them; the sum is not known and left out."""
    buckets: list[tuple[str, float]] = []
    last = max((bucket for bucket, count in enumerate(durations.counts) if count), default=0)
    seen = 0
    for bucket, count in enumerate(durations.counts[: last + 1]):
        seen += count
        buckets.append((str((1 << bucket) / 1e6), seen))
    buckets.append(("+Inf", durations.count))
    what = "From the request of a barrier to its completion."
    return HistogramMetricFamily("deltabook_engine_barrier_seconds", what, buckets=buckets, sum_value=None)


class RuntimeMetrics(Collector):
    """Everything that ``/metrics`` says; asked on the thread that answers."""

    def __init__(self, engine: EngineMetrics, figures: Callable[[], Figures]) -> None:
        """``figures``: those of status lines."""
        self.engine = engine
        """What the engine's part is made of."""
        self._figures = figures
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """See `prometheus_client.registry.Collector`."""
        yield from self.engine.metrics()
        figures = self._figures()
        for name, what in _GAUGES.items():
            value = figures.get(name)
            if isinstance(value, int | float):
                yield GaugeMetricFamily(f"deltabook_{name}", what, value)
        for name, what in _COUNTERS.items():
            value = figures.get(name)
            if isinstance(value, int | float):
                yield CounterMetricFamily(f"deltabook_{name}", what, value)

    def describe(self) -> Iterator[Metric]:
        """Nothing is known in advance, and nothing is asked before a monitor does."""
        return iter(())

    def answer(self, accepted: str) -> tuple[bytes, str]:
        """The text for a monitor that accepts these types, and its type."""
        encode, content_type = choose_encoder(accepted)
        return encode(self._registry), content_type


class Rate:
    """Messages a second between two looks; belongs to who looks."""

    def __init__(self) -> None:
        self._count, self._at = 0, 0.0
        self._last = 0.0

    def per_second(self, count: int, now: float) -> float:
        """The rate, where the count is this one at this second; that of before if the last look was just now."""
        elapsed = now - self._at
        if elapsed >= 0.5:
            self._last = (count - self._count) / elapsed if self._at else 0.0
            self._count, self._at = count, now
        return self._last

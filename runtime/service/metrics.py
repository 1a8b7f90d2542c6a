"""What a runtime tells a monitor: Prometheus metrics made of the engine's events and of the runtime's own figures."""

from __future__ import annotations

import time
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
from runtime.engine.statistics import Statistics

__all__ = ["EngineFigures", "EngineMetrics", "Rate", "RuntimeMetrics"]

Figures = Mapping[str, int | float | str | None]

_GAUGES: Final = {
    "epoch": "The newest epoch that is sealed.",
    "published_epoch": "The newest epoch of which the Spark lane's results are published.",
    "lag_ms": "From an epoch's end to the publishing of its results on Spark, of the newest one, in milliseconds.",
    "express_lag_ms": "From a message's arrival to the express lane's version with it, the newest, in milliseconds.",
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
    "upkeep_failures": "Times that the run directory was not kept small, or a damaged file was found, since the start.",
}

_OF_PIPELINES: Final = (
    ("tasks", "Calls of a pipeline that took inputs.", "tasks"),
    ("task_seconds", "Time that they took.", "busy_s"),
    ("inputs", "Inputs that they took.", "inputs"),
    ("tuples", "Tuples that a pipeline has emitted.", "emitted"),
)
"""Name, help and field of what is told of each pipeline."""


class EngineFigures(msgspec.Struct, frozen=True):
    """What the engine does, in ``/v1/status``."""

    queries_running: int = 0
    """Queries that run."""
    queries_failed: int = 0
    """Queries that have failed."""
    tasks: int = 0
    """Calls of pipelines that took inputs, so far."""
    tasks_per_s: float = 0.0
    """Of the last seconds."""
    tuples_per_s: float = 0.0
    """Tuples that pipelines have emitted, of the last seconds."""
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


class EngineMetrics:
    """The engine's part of what is told: figures made of its events, and its barriers. May be asked on any thread."""

    def __init__(
        self,
        statistics: Statistics,
        barriers: Callable[[], BarrierDurations] = BarrierDurations,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """``statistics`` is the engine's listener, ``now_s`` its clock; ``barriers``: how long its barriers took."""
        self._statistics = statistics
        self._barriers = barriers
        self._now_s = now_s

    def figures(self) -> EngineFigures:
        """The moment's figures."""
        figures, barriers = self._statistics.figures(self._now_s()), self._barriers()
        return EngineFigures(
            queries_running=figures.running,
            queries_failed=figures.failed,
            tasks=figures.tasks,
            tasks_per_s=round(figures.tasks_per_s, 1),
            tuples_per_s=round(figures.tuples_per_s, 1),
            expired_inputs=figures.expired,
            busiest="" if figures.busiest is None else figures.busiest.node,
            barriers=barriers.count,
            barrier_p50_us=barriers.quantile_us(0.5),
            barrier_p99_us=barriers.quantile_us(0.99),
        )

    def metrics(self) -> Iterator[Metric]:
        """The same for a monitor, with the pipelines of the queries that run."""
        figures = self._statistics.figures(self._now_s())
        for name, what, value in (
            ("queries_running", "Queries that run.", figures.running),
            ("tasks_per_second", "Calls of pipelines that took inputs, of the last seconds.", figures.tasks_per_s),
            ("tuples_per_second", "Tuples that pipelines emitted, of the last seconds.", figures.tuples_per_s),
        ):
            yield GaugeMetricFamily(f"deltabook_engine_{name}", what, value)
        for name, what, value in (
            ("queries_failed", "Queries that have failed.", figures.failed),
            ("expired_inputs", "Inputs that were skipped since their query had ended.", figures.expired),
        ):
            yield CounterMetricFamily(f"deltabook_engine_{name}", what, value)
        for name, what, of in _OF_PIPELINES:
            family = CounterMetricFamily(f"deltabook_engine_{name}", what, labels=("query", "pipeline"))
            for node in figures.nodes:
                family.add_metric((node.query_id, node.node), getattr(node, of))
            yield family
        yield _histogram(self._barriers())


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

"""Figures and metrics of the engine, from its events: for ``/v1/status`` and for a monitor."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
)

from deltabook.wire.durations import Durations
from deltabook.wire.metrics import histogram, histograms
from runtime.engine.statistics import Statistics

__all__ = ["EngineFigures", "EngineMetrics", "Rate"]

_OF_PIPELINES: Final = (
    ("tasks", "Calls of a pipeline that took inputs.", "tasks"),
    ("task_seconds", "Time that calls of a pipeline took.", "busy_s"),
    ("inputs", "Inputs that calls of a pipeline took.", "inputs"),
    ("tuples", "Tuples that a pipeline has emitted.", "emitted"),
)
"""Name, help and field of the metrics of each pipeline."""


class EngineFigures(msgspec.Struct, frozen=True):
    """Figures of the engine in ``/v1/status``."""

    queries_running: int = 0
    """Number of queries that run."""
    queries_failed: int = 0
    """Number of queries that have failed."""
    tasks: int = 0
    """Number of calls of pipelines that took inputs, so far."""
    tasks_per_s: float = 0.0
    """Number of these calls a second, over the last seconds."""
    tuples_per_s: float = 0.0
    """Number of tuples that pipelines emitted a second, over the last seconds."""
    expired_inputs: int = 0
    """Number of inputs that were skipped because their query had ended."""
    busiest: str = ""
    """Name of the pipeline whose calls took the most time; empty if there was none."""
    barriers: int = 0
    """Number of barriers that were reached."""
    barrier_p50_us: int = 0
    """Median duration of barriers in microseconds, to a factor of 2."""
    barrier_p99_us: int = 0
    """99th percentile of the durations of barriers in microseconds, to a factor of 2."""


class EngineMetrics:
    """Metrics of the engine: figures of its events, and its barriers. May be called on any thread."""

    def __init__(
        self,
        statistics: Statistics,
        barriers: Callable[[], Durations] = Durations,
        commits: Callable[[], Durations] = Durations,
        stages: Callable[[], Iterable[tuple[str, str, Durations]]] = tuple,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the metrics.

        ``statistics`` is the engine's listener, ``now_s`` the engine's clock; ``barriers`` and ``commits`` return their
        durations; ``stages`` returns name, description and durations of each stage of the express lane.
        """
        self._statistics = statistics
        self._barriers, self._commits, self._stages = barriers, commits, stages
        self._now_s = now_s

    def figures(self) -> EngineFigures:
        """Return the current figures."""
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
        """Yield the metrics, including those of the pipelines of running queries."""
        figures = self._statistics.figures(self._now_s())
        yield GaugeMetricFamily("deltabook_runtime_engine_queries_running", "Queries that run.", figures.running)
        for name, what, value in (
            ("queries_failed", "Queries that have failed.", figures.failed),
            ("expired_inputs", "Inputs that were skipped since their query had ended.", figures.expired),
        ):
            yield CounterMetricFamily(f"deltabook_runtime_engine_{name}", what, value)
        for name, what, of in _OF_PIPELINES:
            family = CounterMetricFamily(f"deltabook_runtime_engine_{name}", what, labels=("query", "pipeline"))
            for node in figures.nodes:
                family.add_metric((node.query_id, node.node), getattr(node, of))
            yield family
        yield histograms(
            "deltabook_runtime_engine_task_duration_seconds",
            "Duration of each call of a pipeline.",
            ("query", "pipeline"),
            [((node.query_id, node.node), node.durations) for node in figures.nodes],
        )
        for name, what, durations in (
            ("engine_barrier", "Time from the request of a barrier to its completion.", self._barriers()),
            ("engine_commit", "Time from the end of an epoch's barrier until the epoch is durable.", self._commits()),
            *self._stages(),
        ):
            yield histogram(f"deltabook_runtime_{name}_seconds", what, durations)


class Rate:
    """Events per second between two calls. Not thread-safe."""

    def __init__(self) -> None:
        self._count, self._at = 0, 0.0
        self._last = 0.0

    def per_second(self, count: int, now: float) -> float:
        """Return the rate since the last call, or the previous rate if that call was less than half a second ago."""
        elapsed = now - self._at
        if elapsed >= 0.5:
            self._last = (count - self._count) / elapsed if self._at else 0.0
            self._count, self._at = count, now
        return self._last

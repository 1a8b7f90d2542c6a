"""Metrics of a runtime for Prometheus, and the engine's figures for ``/v1/status``.

```
EngineMetrics   events of the engine, rate of rows      Noted          epochs, batches of Spark, waits for the disk
…_metrics       origins, upstreams, lanes, views, port  RuntimeMetrics status figures; collects everything
```

`Noted` and the engine's `Statistics` count events as they occur; all other values are read when a monitor scrapes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
)

from deltabook.wire.durations import Durations
from deltabook.wire.metrics import Exposition, counter, gauge, histogram, histograms, labelled, volume
from deltabook.wire.service import PostgresLine, UpstreamLine
from runtime.engine.ingest import Inlet, OriginCounters
from runtime.engine.statistics import NodeFigures, Statistics
from runtime.epochs import Cut, Footer, LocalDisk
from runtime.plan import Lane
from runtime.service.results.hub import Hub
from runtime.upstreams import Consumer

__all__ = [
    "EngineFigures",
    "EngineMetrics",
    "Noted",
    "Rate",
    "RuntimeMetrics",
    "consumer_metrics",
    "figure_metrics",
    "origin_metrics",
    "postgres_metrics",
    "upstream_metrics",
    "view_metrics",
]


_OF_PIPELINES: Final[tuple[tuple[str, str, Callable[[NodeFigures], float]], ...]] = (
    ("tasks", "Calls of a pipeline that took inputs.", lambda node: node.tasks),
    ("task_seconds", "Time that calls of a pipeline took.", lambda node: node.busy_s),
    ("inputs", "Inputs that calls of a pipeline took.", lambda node: node.inputs),
    ("tuples", "Tuples that a pipeline has emitted.", lambda node: node.emitted),
)
"""Name, help and value of the metrics of each pipeline."""


class EngineFigures(msgspec.Struct, frozen=True):
    """Figures of the engine in ``/v1/status``."""

    queries_running: int = 0
    """Number of queries that run."""
    queries_failed: int = 0
    """Number of queries that have failed."""
    tasks: int = 0
    """Number of calls of pipelines that took inputs, so far."""
    tasks_per_s: float = 0.0
    """Number of calls of pipelines that took inputs, per second, over the last seconds."""
    tuples_per_s: float = 0.0
    """Number of tuples that pipelines emitted per second, over the last seconds."""
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
    """Metrics of the engine: figures of its events, barriers and commits. May be called on any thread."""

    def __init__(
        self,
        statistics: Statistics,
        barriers: Callable[[], Durations] = Durations,
        commits: Callable[[], Durations] = Durations,
        stages: Callable[[], Iterable[tuple[str, str, Durations]]] = tuple,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the metrics.

        ``statistics`` is the engine's listener, ``now_s`` the engine's clock. ``barriers`` and ``commits`` return the
        durations of barriers and of commits; ``stages`` returns name, description and durations of each stage of the
        express lane.
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
        for name, what, value_of in _OF_PIPELINES:
            family = CounterMetricFamily(f"deltabook_runtime_engine_{name}", what, labels=("query", "pipeline"))
            for node in figures.nodes:
                family.add_metric((node.query_id, node.node), value_of(node))
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


_PREFIX: Final = "deltabook_runtime"


class _TimedDisk(LocalDisk):
    """Local disk that records the duration of each durable write."""

    def __init__(self, durations: Durations, now_s: Callable[[], float]) -> None:
        self._durations, self._now_s = durations, now_s

    def write(self, path: Path, pieces: Iterable[bytes | pa.Buffer]) -> None:
        begun_s = self._now_s()
        super().write(path, pieces)
        self._durations.add(self._now_s() - begun_s)

    def append(self, path: Path, data: bytes) -> None:
        begun_s = self._now_s()
        super().append(path, data)
        self._durations.add(self._now_s() - begun_s)

    def sync_directory(self, path: Path) -> None:
        begun_s = self._now_s()
        super().sync_directory(path)
        self._durations.add(self._now_s() - begun_s)


class Noted:
    """Counters of sealed epochs, batches of Spark and writes to the disk.

    Each counter is written by one thread (the thread that seals epochs, or Spark's) and read by the reactor's thread.
    """

    def __init__(
        self, directory: Path, limit_bytes: int, now_ns: Callable[[], int], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        """Start at 0; ``directory`` is the run directory, and ``limit_bytes`` the size at which inputs are paused."""
        self._directory, self._limit_bytes, self._now_ns = directory, limit_bytes, now_ns
        self._syncs, self._batches = Durations(), Durations()
        self._batch_epochs = 0
        self._sealed_ns = now_ns()
        self.disk = _TimedDisk(self._syncs, now_s)
        """Disk to which epochs are written."""

    def sealed(self, footer: Footer) -> None:
        """Record a new epoch."""
        self._sealed_ns = footer.time_ns

    def published(self, epochs: int, seconds: float) -> None:
        """Record a batch of Spark: the number of its epochs, and its duration from the first task until its results."""
        self._batch_epochs += epochs
        self._batches.add(seconds)

    def metrics(self) -> Iterator[Metric]:
        """Yield the metrics."""
        age_s = max(0.0, (self._now_ns() - self._sealed_ns) / 1e9)
        yield gauge(
            f"{_PREFIX}_epoch_age_seconds", "Time since the newest epoch was sealed, or since the start.", age_s
        )
        what = "Time that a write of an epoch took until it was durable: segments, dead letters, names."
        yield histogram(f"{_PREFIX}_fsync_seconds", what, self._syncs)
        what = "Time that a batch of the Spark lane took, from its first task until its results were durable."
        yield histogram(f"{_PREFIX}_spark_batch_seconds", what, self._batches)
        yield counter(f"{_PREFIX}_spark_batch_epochs", "Epochs in batches of the Spark lane.", self._batch_epochs)
        what = "Size of the run directory at which reading is paused."
        yield gauge(f"{_PREFIX}_disk_limit_bytes", what, self._limit_bytes)
        yield from volume(_PREFIX, self._directory)


_ORIGIN_COUNTERS: Final[tuple[tuple[str, str, Callable[[OriginCounters], float]], ...]] = (
    ("tuples", "Tuples in stream order, good and bad, since the start.", lambda each: each.tuples),
    ("malformed", "Malformed tuples in stream order, since the start.", lambda each: each.bad),
    ("nulled_values", "Malformed values that became NULL, since the start.", lambda each: each.nulled),
    ("filtered", "Tuples that a condition left out, since the start.", lambda each: each.filtered),
)
"""Name, help and value of the counters of an origin."""
_UpstreamValues = tuple[tuple[str, str, Callable[[UpstreamLine], float]], ...]
_UPSTREAM_GAUGES: Final[_UpstreamValues] = (
    ("epoch", "Epoch of the upstream up to which everything is committed here.", lambda line: line.epoch),
    ("newest_epoch", "The newest epoch of the upstream's log.", lambda line: line.newest),
    ("lag_epochs", "Epochs of the upstream's log that are not committed here yet.", lambda line: line.lag_epochs),
)
"""Name, help and value of the gauges of an upstream."""
_UPSTREAM_COUNTERS: Final[_UpstreamValues] = (
    ("epochs", "Epochs that were read from the upstream, since the start.", lambda line: line.epochs),
    ("messages", "Messages in the epochs that were read.", lambda line: line.messages),
    ("rows", "Rows in the epochs that were read.", lambda line: line.rows),
    ("bytes", "Bytes of the epochs that were read.", lambda line: line.bytes),
    ("busy_seconds", "Processor time of the thread that reads the upstream.", lambda line: line.busy_s),
)
"""Name, help and value of the counters of an upstream."""
MOST_VIEWS: Final = 200
"""Greatest number of views that have series of their own: these are the first views of the catalogue."""


def origin_metrics(
    counters: Mapping[str, OriginCounters],
    gates: Mapping[str, Inlet],
    cuts: Mapping[str, Cut],
    losses: Mapping[str, int],
) -> Iterator[Metric]:
    """Yield the series of each origin: the feed and the readers.

    ``cuts`` are the cuts of the newest epoch; ``losses`` are the numbers of lost connections, by origin.
    """
    own = ("origin",)
    for name, what, value_of in _ORIGIN_COUNTERS:
        values = [((origin,), float(value_of(each))) for origin, each in counters.items()]
        yield labelled(CounterMetricFamily, f"{_PREFIX}_origin_{name}", what, own, values)
    failed = [((origin,), float(bool(each.failure))) for origin, each in counters.items()]
    yield labelled(GaugeMetricFamily, f"{_PREFIX}_origin_failed", "1 for an origin that has failed.", own, failed)
    known = [((origin,), cut) for origin, cut in cuts.items() if origin in counters]
    what = "Number of the origin's last message in a sealed epoch; for an upstream, that of its last epoch."
    sequences = [(labels, float(cut.sequence)) for labels, cut in known]
    yield labelled(GaugeMetricFamily, f"{_PREFIX}_origin_sequence", what, own, sequences)
    what = "Offset in the origin's stream up to which epochs are sealed."
    offsets = [(labels, float(cut.offset)) for labels, cut in known]
    yield labelled(GaugeMetricFamily, f"{_PREFIX}_origin_offset_bytes", what, own, offsets)
    up = [((origin,), float(gate.is_connected)) for origin, gate in gates.items()]
    yield labelled(GaugeMetricFamily, f"{_PREFIX}_origin_connected", "1 while the origin is connected.", own, up)
    received = [((origin,), float(gate.taken_bytes)) for origin, gate in gates.items()]
    what = "Bytes of raw buffers taken from the origin, heartbeats included, since the start."
    yield labelled(CounterMetricFamily, f"{_PREFIX}_origin_received_bytes", what, own, received)
    broken = [((origin,), float(losses.get(origin, 0))) for origin in gates]
    what = "Times that the origin's connection broke and was opened again, since the start."
    yield labelled(CounterMetricFamily, f"{_PREFIX}_origin_reconnects", what, own, broken)


def upstream_metrics(upstreams: Mapping[str, UpstreamLine]) -> Iterator[Metric]:
    """Yield the series of each upstream runtime."""
    if not upstreams:
        return
    own = ("upstream",)

    def values(value_of: Callable[[UpstreamLine], float]) -> list[tuple[tuple[str], float]]:
        return [((upstream,), float(value_of(line))) for upstream, line in upstreams.items()]

    for name, what, value_of in _UPSTREAM_GAUGES:
        yield labelled(GaugeMetricFamily, f"{_PREFIX}_upstream_{name}", what, own, values(value_of))
    for name, what, value_of in _UPSTREAM_COUNTERS:
        yield labelled(CounterMetricFamily, f"{_PREFIX}_upstream_{name}", what, own, values(value_of))
    up = [((upstream,), float(line.state == "reading")) for upstream, line in upstreams.items()]
    what = "1 while the upstream runs and reads all of its own origins."
    yield labelled(GaugeMetricFamily, f"{_PREFIX}_upstream_up", what, own, up)
    lags = [((upstream,), line.lag_ms / 1000) for upstream, line in upstreams.items() if line.lag_ms is not None]
    what = "Time from an upstream's epoch to the epoch here that contains it; while it is pending, the time so far."
    yield labelled(GaugeMetricFamily, f"{_PREFIX}_upstream_lag_seconds", what, own, lags)


def consumer_metrics(consumers: Sequence[Consumer], damaged: int = 0) -> Iterator[Metric]:
    """Yield the series of each runtime that reads this runtime as an upstream.

    ``damaged`` is the number of unreadable files.
    """
    what = "Files of consumers that cannot be read; nothing is retired while there are any."
    yield gauge(f"{_PREFIX}_consumers_damaged", what, damaged)
    if consumers:
        epochs = [((consumer.identity,), float(consumer.epoch)) for consumer in consumers]
        what = "The epoch up to which a consumer has committed this log; later epochs are retained."
        yield labelled(GaugeMetricFamily, f"{_PREFIX}_consumer_epoch", what, ("consumer",), epochs)


def view_metrics(hub: Hub, lanes: Collection[Lane], differing: Collection[str] = ()) -> Iterator[Metric]:
    """Yield the series of lanes and views; ``differing`` are the views whose lanes have different rows."""
    epochs = [((lane,), float(hub.epoch(lane))) for lane in lanes]
    what = "The newest epoch that the views of a lane contain."
    yield labelled(GaugeMetricFamily, f"{_PREFIX}_lane_epoch", what, ("lane",), epochs)
    stale = [((lane,), float(lane in hub.held_lanes)) for lane in lanes]
    what = "1 while the views of a lane are stale and not published."
    yield labelled(GaugeMetricFamily, f"{_PREFIX}_lane_stale", what, ("lane",), stale)
    shown = [((view.name, view.lane), hub.result(view.name)) for view in islice(hub.views, MOST_VIEWS)]
    own = ("view", "lane")
    rows = [(labels, float(len(result))) for labels, result in shown]
    yield labelled(GaugeMetricFamily, f"{_PREFIX}_view_rows", "Distinct rows of a view.", own, rows)
    changes = [(labels, float(result.changes)) for labels, result in shown]
    what = "Rows of a view that were added and removed, since the start."
    yield labelled(CounterMetricFamily, f"{_PREFIX}_view_changes", what, own, changes)
    failed = [(labels, float(labels[0] in hub.failed)) for labels, _ in shown]
    yield labelled(GaugeMetricFamily, f"{_PREFIX}_view_failed", "1 for a view that has failed.", own, failed)
    compared = [((name,), float(name in differing)) for (name, _), _ in shown if hub.is_on_spark(name)]
    what = "1 for an express view whose rows differ from Spark's, which are the rows of record."
    yield labelled(GaugeMetricFamily, f"{_PREFIX}_view_lanes_differ", what, ("view",), compared)


def postgres_metrics(line: PostgresLine) -> Iterator[Metric]:
    """Yield the series of the port for PostgreSQL clients."""
    yield gauge(f"{_PREFIX}_postgres_connections", "Connections of clients of PostgreSQL.", line.connections)
    yield gauge(f"{_PREFIX}_postgres_subscribers", "Subscribers of changes among these connections.", line.subscribers)
    yield gauge(
        f"{_PREFIX}_postgres_answer_bytes",
        "Bytes of answers to clients of PostgreSQL, open cursors included.",
        line.held_bytes,
    )
    yield counter(f"{_PREFIX}_postgres_sessions", "Sessions that were admitted, since the start.", line.sessions)
    yield counter(f"{_PREFIX}_postgres_questions", "Questions that were asked, since the start.", line.questions)
    yield counter(f"{_PREFIX}_postgres_copied_rows", "Rows that COPY has sent, since the start.", line.copied_rows)
    refused = (
        (("connection",), float(line.refused_connections)),
        (("statement",), float(line.failed_statements)),
        (("cancelled",), float(line.cancelled_statements)),
    )
    what = "Connections that were refused, statements that failed, and statements that were cancelled, since the start."
    yield labelled(CounterMetricFamily, f"{_PREFIX}_postgres_refused", what, ("what",), refused)


Figures = Mapping[str, int | float | str | None]


class _FigureMetric(msgspec.Struct, frozen=True):
    """Metric of one status figure."""

    figure: str
    """Key of the value in `Figures`."""
    name: str
    """Name of the metric without the prefix; ``_total`` is appended to the name of a count."""
    what: str
    """Help text of the metric."""
    is_count: bool = False
    """True for a counter, False for a gauge."""


_FIGURES: Final = (
    _FigureMetric("epoch", "epoch", "The newest epoch that is sealed."),
    _FigureMetric("published_epoch", "published_epoch", "The newest epoch whose results every lane has published."),
    _FigureMetric("backlog", "backlog_buffers", "Raw buffers that were received and are not applied yet."),
    _FigureMetric("waiting_bytes", "waiting_bytes", "Bytes of raw buffers between sources and epochs."),
    _FigureMetric("views", "views", "Views that are kept."),
    _FigureMetric("failed_views", "failed_views", "Views that have failed."),
    _FigureMetric("live_orders", "live_orders", "Orders that are live."),
    _FigureMetric("disk_bytes", "disk_used_bytes", "Size of the run directory when it was last measured."),
    _FigureMetric("disconnected", "disconnected_origins", "Origins that are not connected: feeds and upstreams."),
    _FigureMetric("paused", "paused", "1 while nothing is read as the run directory has reached its limit."),
    _FigureMetric("messages", "messages", "Well-formed messages in sealed epochs.", is_count=True),
    _FigureMetric("dead_letters", "dead_letters", "Malformed tuples in sealed epochs.", is_count=True),
    _FigureMetric(
        "view_updates", "view_updates", "Changes of views that were published, since the start.", is_count=True
    ),
    _FigureMetric("unknown_orders", "unknown_orders", "Messages about orders that are not live.", is_count=True),
    _FigureMetric(
        "nulled_values", "nulled_values", "Malformed values of the feed that became NULL, since the start.", True
    ),
    _FigureMetric(
        "upkeep_failures",
        "upkeep_failures",
        "Times since the start that old files of the run directory were not removed, or a damaged file was found.",
        is_count=True,
    ),
    _FigureMetric(
        "spark_restarts",
        "spark_restarts",
        "Times that the Spark lane was started again after a failure, since the start.",
        is_count=True,
    ),
    _FigureMetric("lanes_differ", "lanes_differ", "Views of which Spark and the express lane have different rows."),
    _FigureMetric(
        "lane_comparisons",
        "lane_comparisons",
        "Comparisons of a view on Spark with the express lane's, at a version of Spark, since the start.",
        is_count=True,
    ),
    _FigureMetric(
        "lane_differences",
        "lane_differences",
        "Comparisons that found different rows, since the start.",
        is_count=True,
    ),
    _FigureMetric("term", "claim_term", "Term of the claim on the run directory: the number of starts."),
)
_LAGS: Final = (("spark", "lag_ms"), ("express", "express_lag_ms"))
"""Lanes, each with the key of its lag in `Figures`."""


def figure_metrics(figures: Figures) -> Iterator[Metric]:
    """Yield the status figures as metrics, lags in seconds; missing figures are left out."""
    for metric in _FIGURES:
        value = figures.get(metric.figure)
        if isinstance(value, int | float):
            yield (counter if metric.is_count else gauge)(f"{_PREFIX}_{metric.name}", metric.what, value)
    lags = [((lane,), value / 1000) for lane, name in _LAGS if isinstance(value := figures.get(name), int | float)]
    what = (
        "Lag of the newest version when it was published: on Spark from the epoch's end, in the express lane from a "
        "message's arrival. If the express lane has published nothing for ten seconds, its lag is absent. If Spark has "
        "published nothing for ten seconds, its lag is the time for which the oldest epoch has waited; it is absent if "
        "no epoch waits."
    )
    yield labelled(GaugeMetricFamily, f"{_PREFIX}_lag_seconds", what, ("lane",), lags)
    if (spark := figures.get("spark", "off")) != "off":
        yield gauge(
            f"{_PREFIX}_spark_up", "1 once Spark has joined after a start, 0 while it starts.", float(spark == "up")
        )
    if "upkeep_failed" in figures:
        failing = float(figures["upkeep_failed"] is not None)
        yield gauge(f"{_PREFIX}_upkeep_failing", "1 while old files cannot be removed, or a file is damaged.", failing)


class RuntimeMetrics:
    """Collector of all metrics of a runtime, which are collected at each scrape, on the thread that answers the
    scrape."""

    def __init__(self, engine: EngineMetrics, figures: Callable[[], Figures], *, run_id: str = "") -> None:
        """Create the collector; ``figures`` returns the figures of status lines."""
        self.engine = engine
        """Metrics of the engine."""
        self._figures = figures
        self._others: list[Callable[[], Iterator[Metric]]] = []
        self.answer = Exposition("runtime", run_id, self._collect).answer
        """Function that returns the exposition in the first content type that a monitor accepts, and that type."""

    def add(self, others: Callable[[], Iterator[Metric]]) -> None:
        """Add a part of the runtime; ``others`` yields its metrics, on the thread of the scrape."""
        self._others.append(others)

    def _collect(self) -> Iterator[Metric]:
        yield from self.engine.metrics()
        yield from figure_metrics(self._figures())
        for others in self._others:
            yield from others()

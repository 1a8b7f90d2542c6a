"""Exposition of a runtime's ``/metrics``: engine, status figures, and the parts added to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from deltabook.wire.metrics import Exposition, counter, gauge, labelled
from runtime.service.health.metrics.engine import EngineMetrics

__all__ = ["RuntimeMetrics", "figure_metrics"]

Figures = Mapping[str, int | float | str | None]
_PREFIX: Final = "deltabook_runtime"


class _FigureMetric(msgspec.Struct, frozen=True):
    figure: str
    """Key of the value in `Figures`."""
    name: str
    """Name of the metric without the prefix; ``_total`` is appended to the name of a count."""
    what: str
    is_count: bool = False


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
        "Times that the run directory was not kept small, or a damaged file was found, since the start.",
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


def figure_metrics(figures: Mapping[str, int | float | str | None]) -> Iterator[Metric]:
    """Yield status figures as metrics, in seconds rather than milliseconds; missing figures are left out."""
    for metric in _FIGURES:
        value = figures.get(metric.figure)
        if isinstance(value, int | float):
            yield (counter if metric.is_count else gauge)(f"{_PREFIX}_{metric.name}", metric.what, value)
    lags = [((lane,), value / 1000) for lane, name in _LAGS if isinstance(value := figures.get(name), int | float)]
    what = (
        "Age of the newest published version: on Spark from an epoch's end, in the express lane from a message's "
        "arrival. Absent while nothing is published."
    )
    yield labelled(GaugeMetricFamily, f"{_PREFIX}_lag_seconds", what, ("lane",), lags)
    if (spark := figures.get("spark", "off")) != "off":
        yield gauge(
            f"{_PREFIX}_spark_up", "1 once Spark has joined after a start, 0 while it starts.", float(spark == "up")
        )
    if "upkeep_failed" in figures:
        failing = float(figures["upkeep_failed"] is not None)
        yield gauge(f"{_PREFIX}_upkeep_failing", "1 while the run directory is not kept small or is damaged.", failing)


class RuntimeMetrics:
    """Collector of all metrics of a runtime; each scrape collects on the thread that answers it."""

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

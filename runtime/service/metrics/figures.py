"""The figures of status lines as metrics: seconds in place of milliseconds, and names as a monitor wants them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from deltabook.wire.metrics import counter, gauge, labelled

__all__ = ["figure_metrics"]

_PREFIX: Final = "deltabook_runtime"


class _Told(msgspec.Struct, frozen=True):
    figure: str
    """Its name among the figures."""
    name: str
    """Of the metric, behind the prefix; ``_total`` is put behind a count."""
    what: str
    is_count: bool = False


_TOLD: Final = (
    _Told("epoch", "epoch", "The newest epoch that is sealed."),
    _Told("published_epoch", "published_epoch", "The newest epoch whose results every lane has published."),
    _Told("backlog", "backlog_buffers", "Raw buffers that are taken and not applied."),
    _Told("waiting_bytes", "waiting_bytes", "Of raw buffers between sources and epochs."),
    _Told("views", "views", "Views that are kept."),
    _Told("failed_views", "failed_views", "Views that have failed."),
    _Told("live_orders", "live_orders", "Orders that are live."),
    _Told("disk_bytes", "disk_used_bytes", "Size of the run directory at the last look."),
    _Told("disconnected", "disconnected_origins", "Origins that are not heard: feeds and upstreams."),
    _Told("paused", "paused", "1 while nothing is read as the run directory has reached its limit."),
    _Told("messages", "messages", "Well-formed messages in sealed epochs.", is_count=True),
    _Told("dead_letters", "dead_letters", "Malformed tuples in sealed epochs.", is_count=True),
    _Told("view_updates", "view_updates", "Changes of views that were published, since the start.", is_count=True),
    _Told("unknown_orders", "unknown_orders", "Messages about orders that are not live.", is_count=True),
    _Told("nulled_values", "nulled_values", "Malformed values of the feed that became NULL, since the start.", True),
    _Told(
        "upkeep_failures",
        "upkeep_failures",
        "Times that the run directory was not kept small, or a damaged file was found, since the start.",
        is_count=True,
    ),
    _Told(
        "spark_restarts",
        "spark_restarts",
        "Times that the Spark lane was started again after a failure, since the start.",
        is_count=True,
    ),
    _Told("lanes_differ", "lanes_differ", "Views of which Spark and the express lane have different rows."),
    _Told(
        "lane_comparisons",
        "lane_comparisons",
        "Comparisons of a view on Spark with the express lane's, at a version of Spark, since the start.",
        is_count=True,
    ),
    _Told(
        "lane_differences",
        "lane_differences",
        "Those of them that found different rows, since the start.",
        is_count=True,
    ),
    _Told("term", "claim_term", "Term of the claim on the run directory: how often it was started on."),
)
_LAGS: Final = (("spark", "lag_ms"), ("express", "express_lag_ms"))


def figure_metrics(figures: Mapping[str, int | float | str | None]) -> Iterator[Metric]:
    """What is known of them; the others are left out."""
    for told in _TOLD:
        value = figures.get(told.figure)
        if isinstance(value, int | float):
            yield (counter if told.is_count else gauge)(f"{_PREFIX}_{told.name}", told.what, value)
    lags = [((lane,), value / 1000) for lane, name in _LAGS if isinstance(value := figures.get(name), int | float)]
    what = (
        "How old what is published is: on Spark from an epoch's end, in the express lane from a message's arrival. "
        "Of the newest version; nothing while nothing is published."
    )
    yield labelled(GaugeMetricFamily, f"{_PREFIX}_lag_seconds", what, ("lane",), lags)
    if (spark := figures.get("spark", "off")) != "off":
        yield gauge(
            f"{_PREFIX}_spark_up", "1 once Spark has joined after a start, 0 while it starts.", float(spark == "up")
        )
    if "upkeep_failed" in figures:
        failing = float(figures["upkeep_failed"] is not None)
        yield gauge(f"{_PREFIX}_upkeep_failing", "1 while the run directory is not kept small or is damaged.", failing)

"""What is told of lanes and views."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from deltabook.wire.metrics import labelled
from runtime.plan import Lane
from runtime.service.hub import Hub

__all__ = ["MOST_TOLD", "view_metrics"]

MOST_TOLD: Final = 200
"""Views that are told of one by one, the first of the catalogue."""
_PREFIX: Final = "deltabook_runtime"


def view_metrics(hub: Hub, lanes: Collection[Lane], differing: Collection[str] = ()) -> Iterator[Metric]:
    """Of the lanes that run, and of the views that are kept; ``differing``: those whose lanes have different rows."""
    epochs = [((lane,), float(hub.epoch(lane))) for lane in lanes]
    what = "The newest epoch that is inside of a lane's views."
    yield labelled(GaugeMetricFamily, f"{_PREFIX}_lane_epoch", what, ("lane",), epochs)
    held = [((lane,), float(lane in hub.held)) for lane in lanes]
    what = "1 while nobody is told of a lane's views, since they are not the market."
    yield labelled(GaugeMetricFamily, f"{_PREFIX}_lane_stale", what, ("lane",), held)
    told = [((view.name, view.lane), hub.result(view.name)) for view in islice(hub.views, MOST_TOLD)]
    own = ("view", "lane")
    rows = [(labels, float(len(result))) for labels, result in told]
    yield labelled(GaugeMetricFamily, f"{_PREFIX}_view_rows", "Different rows of a view.", own, rows)
    changes = [(labels, float(result.changes)) for labels, result in told]
    what = "Rows of a view that were added and removed, since the start."
    yield labelled(CounterMetricFamily, f"{_PREFIX}_view_changes", what, own, changes)
    failed = [(labels, float(labels[0] in hub.failed)) for labels, _ in told]
    yield labelled(GaugeMetricFamily, f"{_PREFIX}_view_failed", "1 for a view that has failed.", own, failed)
    compared = [((name,), float(name in differing)) for (name, _), _ in told if hub.is_on_spark(name)]
    what = "1 for an express view of which Spark, whose answer is the one of record, has other rows."
    yield labelled(GaugeMetricFamily, f"{_PREFIX}_view_lanes_differ", what, ("view",), compared)

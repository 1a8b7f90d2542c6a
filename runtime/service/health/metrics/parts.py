"""Metrics of a runtime's parts: origins, upstreams, lanes and views, and the port for PostgreSQL clients."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from deltabook.wire.metrics import counter, gauge, labelled
from deltabook.wire.service import PostgresLine, UpstreamLine
from runtime.engine.ingest import Inlet, OriginCounters
from runtime.epochs import Cut
from runtime.plan import Lane
from runtime.service.results.hub import Hub
from runtime.upstreams import Consumer

__all__ = ["MOST_VIEWS", "consumer_metrics", "origin_metrics", "postgres_metrics", "upstream_metrics", "view_metrics"]

_PREFIX: Final = "deltabook_runtime"
_ORIGIN_COUNTERS: Final = (
    ("tuples", "Tuples in stream order, good and bad, since the start.", "tuples"),
    ("malformed", "Malformed tuples in stream order, since the start.", "bad"),
    ("nulled_values", "Malformed values that became NULL, since the start.", "nulled"),
    ("filtered", "Tuples that a condition left out, since the start.", "filtered"),
)
"""Name, help and field of the counters of an origin."""
_UPSTREAM_GAUGES: Final = (
    ("epoch", "Epoch of the upstream up to which everything is committed here.", "epoch"),
    ("newest_epoch", "The newest epoch of the upstream's log.", "newest"),
    ("lag_epochs", "Epochs of the upstream's log that are not committed here yet.", "lag_epochs"),
)
_UPSTREAM_COUNTERS: Final = (
    ("epochs", "Epochs that were read from the upstream, since the start.", "epochs"),
    ("messages", "Messages in the epochs that were read.", "messages"),
    ("rows", "Rows in the epochs that were read.", "rows"),
    ("bytes", "Bytes of the epochs that were read.", "bytes"),
    ("busy_seconds", "Processor time of the thread that reads the upstream.", "busy_s"),
)
"""Name, help and field of the counters of an upstream."""
MOST_VIEWS: Final = 200
"""Greatest number of views that have series of their own: the first of the catalogue."""


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
    for name, what, field in _ORIGIN_COUNTERS:
        values = [((origin,), float(getattr(each, field))) for origin, each in counters.items()]
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

    def values(field: str) -> list[tuple[tuple[str], float]]:
        return [((upstream,), float(getattr(line, field))) for upstream, line in upstreams.items()]

    for name, what, field in _UPSTREAM_GAUGES:
        yield labelled(GaugeMetricFamily, f"{_PREFIX}_upstream_{name}", what, own, values(field))
    for name, what, field in _UPSTREAM_COUNTERS:
        yield labelled(CounterMetricFamily, f"{_PREFIX}_upstream_{name}", what, own, values(field))
    up = [((upstream,), float(line.state == "reading")) for upstream, line in upstreams.items()]
    what = "1 while the upstream runs and reads all of its own origins."
    yield labelled(GaugeMetricFamily, f"{_PREFIX}_upstream_up", what, own, up)
    lags = [((upstream,), line.lag_ms / 1000) for upstream, line in upstreams.items() if line.lag_ms is not None]
    what = "Time from an upstream's epoch to the epoch here that contains it; while it is pending, the time so far."
    yield labelled(GaugeMetricFamily, f"{_PREFIX}_upstream_lag_seconds", what, own, lags)


def consumer_metrics(consumers: Sequence[Consumer], damaged: int = 0) -> Iterator[Metric]:
    """Yield the series of each runtime that reads this one as an upstream.

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

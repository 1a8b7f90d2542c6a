"""What is told of each upstream, and of who reads this runtime as one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from deltabook.wire.metrics import labelled
from deltabook.wire.service import UpstreamLine
from runtime.upstreams import Consumer

__all__ = ["consumer_metrics", "upstream_metrics"]

_PREFIX: Final = "deltabook_runtime"
_GAUGES: Final = (
    ("epoch", "Its epoch up to which everything is in a committed epoch here.", "epoch"),
    ("newest_epoch", "The newest epoch of its log.", "newest"),
    ("lag_epochs", "Epochs in between.", "lag_epochs"),
)
_COUNTERS: Final = (
    ("epochs", "Epochs that have come in since the start.", "epochs"),
    ("messages", "Messages in them.", "messages"),
    ("rows", "Rows in them.", "rows"),
    ("bytes", "Bytes of these.", "bytes"),
    ("busy_seconds", "Processor time of the thread that reads them.", "busy_s"),
)
"""Name, help and field."""


def upstream_metrics(upstreams: Mapping[str, UpstreamLine]) -> Iterator[Metric]:
    """By the upstream's name."""
    if not upstreams:
        return
    own = ("upstream",)

    def values(field: str) -> list[tuple[tuple[str], float]]:
        return [((upstream,), float(getattr(line, field))) for upstream, line in upstreams.items()]

    for name, what, field in _GAUGES:
        yield labelled(GaugeMetricFamily, f"{_PREFIX}_upstream_{name}", what, own, values(field))
    for name, what, field in _COUNTERS:
        yield labelled(CounterMetricFamily, f"{_PREFIX}_upstream_{name}", what, own, values(field))
    up = [((upstream,), float(line.state == "reading")) for upstream, line in upstreams.items()]
    what = "1 while the upstream lives, hears all that it reads and lets it in."
    yield labelled(GaugeMetricFamily, f"{_PREFIX}_upstream_up", what, own, up)
    lags = [((upstream,), line.lag_ms / 1000) for upstream, line in upstreams.items() if line.lag_ms is not None]
    what = "From the sealing of an epoch there to that of the epoch here that holds it; of one that waits: so far."
    yield labelled(GaugeMetricFamily, f"{_PREFIX}_upstream_lag_seconds", what, own, lags)


def consumer_metrics(consumers: Sequence[Consumer]) -> Iterator[Metric]:
    """By the identity of the consumer's log."""
    if consumers:
        epochs = [((consumer.identity,), float(consumer.epoch)) for consumer in consumers]
        what = "The epoch up to which a consumer of this log has committed everything: what is behind it is kept."
        yield labelled(GaugeMetricFamily, f"{_PREFIX}_consumer_epoch", what, ("consumer",), epochs)

"""What is told of each origin: the feed, and readers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from deltabook.wire.metrics import labelled
from runtime.engine.ingest import OriginCounters
from runtime.epochs import Cut
from runtime.sources import Gate

__all__ = ["origin_metrics"]

_PREFIX: Final = "deltabook_runtime_origin"
_COUNTED: Final = (
    ("tuples", "Tuples in stream order, good and bad, since the start.", "tuples"),
    ("malformed", "Of them, malformed ones.", "bad"),
    ("nulled_values", "Malformed values that became NULL, since the start.", "nulled"),
    ("filtered", "Tuples that a condition left out, since the start.", "filtered"),
)
"""Name, help and field of the counters."""


def origin_metrics(
    counters: Mapping[str, OriginCounters],
    gates: Mapping[str, Gate],
    cuts: Mapping[str, Cut],
    losses: Mapping[str, int],
) -> Iterator[Metric]:
    """By the origin's name.

    ``cuts`` are those of the newest epoch; ``losses``: how often the connection of an origin broke.
    """
    own = ("origin",)
    for name, what, field in _COUNTED:
        values = [((origin,), float(getattr(each, field))) for origin, each in counters.items()]
        yield labelled(CounterMetricFamily, f"{_PREFIX}_{name}", what, own, values)
    failed = [((origin,), float(bool(each.failure))) for origin, each in counters.items()]
    yield labelled(GaugeMetricFamily, f"{_PREFIX}_failed", "1 for an origin that goes no further.", own, failed)
    known = [((origin,), cut) for origin, cut in cuts.items() if origin in counters]
    what = "Number of the origin's last message in a sealed epoch; of an upstream: its last epoch."
    sequences = [(labels, float(cut.sequence)) for labels, cut in known]
    yield labelled(GaugeMetricFamily, f"{_PREFIX}_sequence", what, own, sequences)
    what = "How far into the origin's stream sealed epochs go."
    offsets = [(labels, float(cut.offset)) for labels, cut in known]
    yield labelled(GaugeMetricFamily, f"{_PREFIX}_offset_bytes", what, own, offsets)
    up = [((origin,), float(gate.is_connected)) for origin, gate in gates.items()]
    yield labelled(GaugeMetricFamily, f"{_PREFIX}_connected", "1 while the origin's server is heard.", own, up)
    received = [((origin,), float(gate.taken_bytes)) for origin, gate in gates.items()]
    what = "Of raw buffers that were taken from the origin, heartbeats among them, since the start."
    yield labelled(CounterMetricFamily, f"{_PREFIX}_received_bytes", what, own, received)
    broken = [((origin,), float(losses.get(origin, 0))) for origin in gates]
    what = "Times that the origin's connection broke and was made again, since the start."
    yield labelled(CounterMetricFamily, f"{_PREFIX}_reconnects", what, own, broken)

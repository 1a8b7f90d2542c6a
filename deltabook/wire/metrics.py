"""Metrics that every process exports in the same way, beside those of its role: identity, clock and resources.

Names begin with ``deltabook_ROLE_`` and end with what is measured and its unit: ``_total`` is a count since the start
of the process or of its data, ``_seconds`` and ``_bytes`` are units, and a name without such an ending is a number of
things. Metrics that all roles share have no role in their names. The number of a label's values is small, and is
bounded by the code that sets them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from deltabook import __version__
from deltabook.wire.durations import Durations

__all__ = ["METRICS_PATH", "Exposition", "counter", "gauge", "histogram", "histograms", "labelled", "volume"]

METRICS_PATH: Final = "/metrics"
"""Path of the metrics on every port."""
_Family = TypeVar("_Family", GaugeMetricFamily, CounterMetricFamily)


class Exposition(Collector):
    """The answer to ``/metrics``, made on request, on the requesting thread."""

    def __init__(
        self, role: str, run_id: str, collect: Callable[[], Iterator[Metric]], now_s: Callable[[], float] = time.time
    ) -> None:
        """Prepare the answer; ``collect`` yields the metrics of the role, and ``now_s`` is the process's clock, which
        is exported so that a monitor can compare it with the monitor's clock.
        """
        self._labels = {"version": __version__, "run": run_id, "role": role}
        self._collect, self._now_s = collect, now_s
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def collect(self) -> Iterator[Metric]:
        """See `prometheus_client.registry.Collector`."""
        yield InfoMetricFamily("deltabook_build", "Version, run id and role of the process.", self._labels)
        yield gauge("deltabook_clock_seconds", "The clock of the process, since the UTC epoch.", self._now_s())
        yield from self._collect()

    def describe(self) -> Iterator[Metric]:
        """Return nothing: metrics are unknown in advance, and must not be collected before a monitor requests them."""
        return iter(())

    def answer(self, accepted: str) -> tuple[bytes, str]:
        """Return the text for a monitor that accepts these types, and the text's type."""
        encode, content_type = choose_encoder(accepted)
        return encode(self._registry), content_type


def gauge(name: str, what: str, value: float) -> GaugeMetricFamily:
    """Return a metric of one present value."""
    return GaugeMetricFamily(name, what, value)


def counter(name: str, what: str, value: float) -> CounterMetricFamily:
    """Return a metric of one count; ``_total`` is appended to its name."""
    return CounterMetricFamily(name, what, value)


def labelled(
    kind: type[_Family], name: str, what: str, labels: tuple[str, ...], values: Iterable[tuple[Sequence[str], float]]
) -> _Family:
    """Return a metric with a value for each combination of the labels' values, in their order."""
    family = kind(name, what, labels=labels)
    for key, value in values:
        family.add_metric(key, value)
    return family


def histogram(name: str, what: str, durations: Durations) -> HistogramMetricFamily:
    """Return a metric of durations."""
    return HistogramMetricFamily(name, what, buckets=list(durations.buckets()), sum_value=durations.total_s)


def histograms(
    name: str, what: str, labels: tuple[str, ...], durations: Iterable[tuple[Sequence[str], Durations]]
) -> HistogramMetricFamily:
    """Return a metric of durations for each combination of the labels' values, in their order."""
    family = HistogramMetricFamily(name, what, labels=labels)
    for key, each in durations:
        family.add_metric(key, list(each.buckets()), each.total_s)
    return family


def volume(prefix: str, directory: Path) -> Iterator[Metric]:
    """Yield the size and the free space of a directory's volume; nothing if the system does not report them."""
    try:
        figures = os.statvfs(directory)
    except OSError:
        return
    size, free = figures.f_blocks * figures.f_frsize, figures.f_bavail * figures.f_frsize
    yield gauge(f"{prefix}_volume_size_bytes", "Size of the volume that the directory is on.", size)
    yield gauge(f"{prefix}_volume_free_bytes", "Free bytes of the volume that the directory is on.", free)

"""Metrics that every process exports in the same way: its role, its clock and its resources, beside its own.

Names begin with ``deltabook_ROLE_`` and end with what is counted and its unit: ``_total`` counts up from the start of
the process or of what it works on, ``_seconds`` and ``_bytes`` are what they say, anything else is a number of things.
What all roles have alike has no role in its name. Labels have few values, and their number is bounded by the code that
makes them.
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

__all__ = ["METRICS_PATH", "Exposition", "counter", "gauge", "histogram", "labelled", "volume"]

METRICS_PATH: Final = "/metrics"
"""Where every port of ours answers a monitor."""
_Family = TypeVar("_Family", GaugeMetricFamily, CounterMetricFamily)


class Exposition(Collector):
    """The answer of ``/metrics``, made when it is asked for, on the thread that asks."""

    def __init__(
        self, role: str, run_id: str, collect: Callable[[], Iterator[Metric]], now_s: Callable[[], float] = time.time
    ) -> None:
        """``collect`` makes the role's own metrics; ``now_s`` is the clock that a monitor compares with its own."""
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
        """Nothing is known in advance, and nothing is asked before a monitor does."""
        return iter(())

    def answer(self, accepted: str) -> tuple[bytes, str]:
        """The text for a monitor that accepts these types, and its type."""
        encode, content_type = choose_encoder(accepted)
        return encode(self._registry), content_type


def gauge(name: str, what: str, value: float) -> GaugeMetricFamily:
    """One value of the moment."""
    return GaugeMetricFamily(name, what, value)


def counter(name: str, what: str, value: float) -> CounterMetricFamily:
    """One count; ``_total`` is put behind its name."""
    return CounterMetricFamily(name, what, value)


def labelled(
    kind: type[_Family], name: str, what: str, labels: tuple[str, ...], values: Iterable[tuple[Sequence[str], float]]
) -> _Family:
    """A value for each combination of the labels' values, in their order."""
    family = kind(name, what, labels=labels)
    for key, value in values:
        family.add_metric(key, value)
    return family


def histogram(name: str, what: str, durations: Durations) -> HistogramMetricFamily:
    """How long something took, each time."""
    return HistogramMetricFamily(name, what, buckets=list(durations.buckets()), sum_value=durations.total_s)


def histograms(
    name: str, what: str, labels: tuple[str, ...], durations: Iterable[tuple[Sequence[str], Durations]]
) -> HistogramMetricFamily:
    """The same for each combination of the labels' values, in their order."""
    family = HistogramMetricFamily(name, what, labels=labels)
    for key, each in durations:
        family.add_metric(key, list(each.buckets()), each.total_s)
    return family


def volume(prefix: str, directory: Path) -> Iterator[Metric]:
    """How large the volume of a directory is and what is left of it for us; nothing where it cannot be asked."""
    try:
        figures = os.statvfs(directory)
    except OSError:
        return
    size, free = figures.f_blocks * figures.f_frsize, figures.f_bavail * figures.f_frsize
    yield gauge(f"{prefix}_volume_size_bytes", "Size of the volume that the directory is on.", size)
    yield gauge(f"{prefix}_volume_free_bytes", "Free bytes of the volume that the directory is on.", free)

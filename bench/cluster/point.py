"""A point from start to end: bursts, then a steady rate, and their costs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from bench.cluster.feed_process import Played
from bench.cluster.meter import Part, processes
from bench.cluster.plan import Plan, Point
from bench.cluster.recording import Recording
from bench.cluster.system import System, started
from bench.cluster.versions import Version, lags_ms, percentile

__all__ = ["Measured", "Phase", "measure"]

_PATIENCE_S: Final = 150.0


class Phase(msgspec.Struct, frozen=True):
    """Figures from the sending of messages until all of them were published."""

    seconds: float
    """Wall-clock seconds."""
    messages: int
    """Number of feed messages in the published epochs."""
    deltas: int
    """Number of rows of the relations in these epochs."""
    epochs: int
    """Number of epochs."""
    batch_s: tuple[float, ...]
    """Seconds between consecutive versions."""
    cpu_s: dict[Part, float]
    """Processor seconds by role."""

    @property
    def batches(self) -> int:
        """Number of Spark's batches."""
        return max(1, len(self.batch_s))


class Measured(msgspec.Struct, frozen=True):
    """Figures of a point."""

    point: Point
    """Point that was measured."""
    start_s: float
    """Seconds from the start of the first process until the runtime serves."""
    rates: tuple[float, ...]
    """Messages per second of each burst, from the sending of the first byte to the version that has the last
    message."""
    p50_ms: tuple[float, ...]
    """Median age of a message in its first version, in milliseconds, for each window of the steady rate."""
    p99_ms: tuple[float, ...]
    """99th percentile of the age, in milliseconds, for each window."""
    burst: Phase
    """Figures of all bursts together."""
    steady: Phase
    """Figures of the steady rate."""
    rate: int
    """Messages per second of the steady rate."""
    late_ms: float
    """Largest delay of the sender behind ``rate``, in milliseconds."""
    cores: int
    """Number of cores of the machine."""
    load: float
    """Load of the machine before the point began."""

    @property
    def deltas_per_message(self) -> float:
        """Number of rows of the relations per message."""
        return self.burst.deltas / max(1, self.burst.messages)


def measure(point: Point, plan: Plan, recording: Recording, folder: Path, report: Callable[[str], None]) -> Measured:
    """Run a point in a new folder; raise `RuntimeError` if a process ends or nothing is published."""
    load, begun = os.getloadavg()[0], time.monotonic()
    with started(point, recording, folder, report) as system:
        start_s = time.monotonic() - begun
        report("the books are filled")
        system.play(plan.warm, 0, _PATIENCE_S)
        report(f"{plan.bursts} bursts of {plan.burst:,} messages")
        rates, burst = _bursts(system, plan)
        report(f"{plan.rate:,} messages a second for {plan.steady_s:.0f} s")
        steady, played, versions = _steady(system, plan)
        origins = [feed.origin for feed in system.feeds]
    windows = [_window(versions, origins, played, number, plan.windows) for number in range(plan.windows)]
    return Measured(
        point=point,
        start_s=start_s,
        rates=tuple(rates),
        p50_ms=tuple(p50 for p50, _ in windows),
        p99_ms=tuple(p99 for _, p99 in windows),
        burst=burst,
        steady=steady,
        rate=plan.rate,
        late_ms=max(each.late_ms for each in played),
        cores=os.cpu_count() or 1,
        load=load,
    )


def _bursts(system: System, plan: Plan) -> tuple[list[float], Phase]:
    rates = []
    phase = _PhaseClock(system)
    for _ in range(plan.bursts):
        played, published_ns = system.play(plan.burst, 0, _PATIENCE_S)
        begun_ns = min(each.stamps[0][1] for each in played)
        rates.append(plan.burst / (published_ns - begun_ns) * 1e9)
    return rates, phase.finish()


def _steady(system: System, plan: Plan) -> tuple[Phase, list[Played], list[Version]]:
    phase = _PhaseClock(system)
    played, _ = system.play(round(plan.rate * plan.steady_s), plan.rate, _PATIENCE_S)
    return phase.finish(), played, system.versions.all


class _PhaseClock:
    """State at the beginning of a phase."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._versions = len(system.versions.all)
        self._before = processes()
        self._begun = time.monotonic()

    def finish(self) -> Phase:
        """Return the phase from its beginning until now."""
        seconds, cpu = time.monotonic() - self._begun, self._system.spent_s(self._before)
        versions = self._system.versions.all[self._versions - 1 :]
        epochs, messages, deltas = self._system.versions.between(versions[0].to_epoch, versions[-1].to_epoch)
        times = [version.published_ns / 1e9 for version in versions]
        between = tuple(float(step) for step in np.diff(times))
        return Phase(seconds, messages, deltas, epochs, between, cpu)


def _window(
    versions: Sequence[Version], origins: Sequence[str], played: Sequence[Played], number: int, windows: int
) -> tuple[float, float]:
    """Return the median and the 99th percentile of the freshness in one window, over all feeds."""
    lags, counts = [], []
    for origin, each in zip(origins, played, strict=True):
        begin, end = (len(each.stamps) * place // windows for place in (number, number + 1))
        found, weight = lags_ms(versions, origin, each.stamps[begin:end])
        lags.append(found)
        counts.append(weight)
    values, weights = np.concatenate(lags), np.concatenate(counts)
    return percentile(values, weights, 50), percentile(values, weights, 99)

"""Fit of the model's costs to measured points, and errors of the model.

The processor time of each part is modelled as a sum of numbers of messages, batches and tasks, each multiplied by a
cost. The costs are the least-squares fit over all phases, without negative costs. Phases with few large batches
(bursts) and phases with many small batches (the steady rate) separate the cost of a message from that of a batch;
points with more shards separate the cost of a task.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from bench.cluster.meter import Part
from bench.cluster.model import Costs, Layout, batch_s, burst, steady
from bench.cluster.point import Measured, Phase

__all__ = ["Error", "calibrate", "errors", "layout_of", "non_negative"]

Floats = npt.NDArray[np.float64]
_LEAST: Final = 1e-3
_LARGE_MESSAGES: Final = 10_000


class Error(msgspec.Struct, frozen=True):
    """A figure of a point, as measured and as modelled."""

    name: str
    """Name of the point."""
    what: str
    """Kind of the figure: ``rate``, ``p50_ms`` or ``p99_ms``."""
    measured: float
    """Median of the measured values."""
    modelled: float
    """Value of the model calibrated on all points."""
    without: float
    """Value of the model calibrated on all other points; nan if too few are left."""

    @property
    def percent(self) -> float:
        """Error of the model in percent."""
        return 100 * (self.modelled / self.measured - 1)

    @property
    def percent_without(self) -> float:
        """Error in percent of a model that was not calibrated on this point."""
        return 100 * (self.without / self.measured - 1)


def layout_of(measured: Measured, symbols: int) -> Layout:
    """Return the point as a layout of the model: all processes on one machine."""
    point = measured.point
    return Layout(point.workers, 1, point.shards, point.runtimes, symbols, measured.cores)


def non_negative(rows: Floats, wanted: Floats) -> Floats:
    """Return the coefficients, none negative, that minimise the sum of the squared errors relative to the wanted
    values.

    Every set of columns of ``rows`` is tried, so there must be few columns.
    """
    weight = 1 / np.maximum(np.abs(wanted), _LEAST)
    scaled, target = rows * weight[:, None], wanted * weight
    best, least = np.zeros(rows.shape[1]), float(target @ target)
    for size in range(1, rows.shape[1] + 1):
        for columns in itertools.combinations(range(rows.shape[1]), size):
            found, *_ = np.linalg.lstsq(scaled[:, columns], target, rcond=None)
            left = scaled[:, columns] @ found - target
            if (found >= 0).all() and float(left @ left) < least - 1e-12:
                best = np.zeros(rows.shape[1])
                best[list(columns)] = found
                least = float(left @ left)
    return best


def calibrate(points: Sequence[Measured], symbols: int) -> Costs:
    """Return the costs, fitted to the points with workers; raise `ValueError` if there is none."""
    points = [point for point in points if point.point.workers]
    if not points:
        raise ValueError("expected at least one point with workers, was none")
    runtime = _fit(points, "runtime", lambda m, p: (*_read(m, p), p.batches, p.batches * m.point.shards))
    upstream = _fit([m for m in points if m.point.runtimes > 1], "upstream", lambda _, p: (p.messages, p.epochs))
    driver = _fit(points, "driver", lambda m, p: (p.batches, p.batches * _tasks(m, p)))
    executor = _fit(points, "executor", lambda m, p: (p.messages, p.batches * _tasks(m, p)))
    daemon = _fit(points, "daemon", lambda m, p: (p.seconds * m.point.workers,))
    ingest = [cost for cost in (runtime[0], upstream[0]) if cost > 0]
    costs = Costs(
        ingest_us=1e6 * statistics.fmean(ingest) if ingest else 1.0,
        pass_us=1e6 * float(runtime[1]),
        publish_ms=1e3 * float(runtime[2]),
        publish_shard_ms=1e3 * float(runtime[3]),
        driver_ms=1e3 * float(driver[0]),
        driver_task_ms=1e3 * float(driver[1]),
        executor_us=1e6 * float(executor[0]),
        executor_task_ms=1e3 * float(executor[1]),
        single_us=0.0,
        daemon_cores=float(daemon[0]),
        wait_ms=0.0,
    )
    return msgspec.structs.replace(costs, wait_ms=1e3 * _wait_s(points, costs, symbols))


def errors(points: Sequence[Measured], symbols: int, burst_messages: int) -> list[Error]:
    """Return all figures of all points with workers, measured and modelled."""
    points = [point for point in points if point.point.workers]
    costs = calibrate(points, symbols)
    found: list[Error] = []
    for measured in points:
        others = [other for other in points if other is not measured]
        apart = calibrate(others, symbols) if others else None
        modelled, without = (_modelled(each, measured, symbols, burst_messages) for each in (costs, apart))
        values = {"rate": measured.rates, "p50_ms": measured.p50_ms, "p99_ms": measured.p99_ms}
        for what, taken in values.items():
            found.append(Error(measured.point.name, what, statistics.median(taken), modelled[what], without[what]))
    return found


def _modelled(costs: Costs | None, measured: Measured, symbols: int, burst_messages: int) -> dict[str, float]:
    if costs is None:
        return dict.fromkeys(("rate", "p50_ms", "p99_ms"), float("nan"))
    layout = layout_of(measured, symbols)
    aged = steady(costs, layout, measured.rate, measured.steady.seconds)
    return {"rate": burst(costs, layout, burst_messages).rate, "p50_ms": aged.p50_ms, "p99_ms": aged.p99_ms}


def _read(measured: Measured, phase: Phase) -> tuple[int, int]:
    """Return how many messages the runtime with the views has read itself, and how many upstreams passed to it."""
    return (phase.messages, 0) if measured.point.runtimes == 1 else (0, phase.messages)


def _tasks(measured: Measured, phase: Phase) -> int:
    is_small = phase.messages / phase.batches < _LARGE_MESSAGES
    return measured.point.shards + (1 if is_small else measured.point.shards)


def _fit(
    points: Sequence[Measured], part: Part, drivers: Callable[[Measured, Phase], tuple[float, ...]]
) -> tuple[float, ...]:
    phases = [(measured, phase) for measured in points for phase in (measured.burst, measured.steady)]
    if not phases:
        return (0.0, 0.0)
    rows = np.array([drivers(measured, phase) for measured, phase in phases], np.float64)
    wanted = np.array([phase.cpu_s[part] for _, phase in phases])
    return tuple(map(float, non_negative(rows, wanted)))


def _wait_s(points: Sequence[Measured], costs: Costs, symbols: int) -> float:
    """Return the seconds of a steady batch that the modelled work does not explain, as the median over the points."""
    left = []
    for measured in points:
        phase = measured.steady
        reading = costs.ingest_us + (costs.pass_us if measured.point.runtimes > 1 else 0.0)
        busy = reading / 1e6 * measured.rate
        if phase.batch_s:
            modelled = batch_s(costs, layout_of(measured, symbols), phase.messages / phase.batches, busy)
            left.append(statistics.median(phase.batch_s) - modelled)
    return max(0.0, statistics.median(left)) if left else 0.0

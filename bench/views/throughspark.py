"""Measurements through Spark: rates and latencies by views and state, the fixed cost, memory."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from bench.views.cases import BROKER_SUM, SIX, Case
from bench.views.lane_process import Plain, Small
from bench.views.plan import Batches, Plan
from bench.views.spark import Followed, LaneProcess, Log, Memory, seal_log

__all__ = ["CLASSES", "PLAIN_EVENTS", "PLAIN_ORDERS", "PLAIN_QUERY", "SMALL_EVENTS", "ThroughSpark", "through_spark"]

CLASSES: Final = {"linear": (BROKER_SUM.name,), "multilinear": ("bsv",), "ordered": ("vwap", "axf", "bsp")}
"""Queries whose cost represents each class of views."""
SMALL_EVENTS: Final = 100
"""Number of events of a small epoch."""
PLAIN_QUERY: Final = "axf"
"""Query that plain Structured Streaming runs."""
PLAIN_ORDERS: Final = 2_000
"""Number of rows per side for plain Structured Streaming; with 20,000 rows, the batch that loads them takes minutes."""
PLAIN_EVENTS: Final = 1_000
"""Number of events of a batch for plain Structured Streaming."""
_BOTH: Final = ("bids", "asks")
_FLAT: Final = 1_000_000


class ThroughSpark(msgspec.Struct):
    """All measurements through Spark."""

    alone: dict[tuple[str, int], Followed] = {}
    """Measurement of a single query, by query and live orders per side."""
    six: dict[int, Followed] = {}
    """Measurement of all six queries, by live orders per side."""
    small: tuple[float, ...] = ()
    """Seconds from a sealed epoch of `SMALL_EVENTS` to its result, with all six."""
    empty: tuple[float, ...] = ()
    """Seconds from a sealed epoch without events to its result, with all six."""
    flat: Memory | None = None
    """Memory while many batches of a million events passed."""
    plain: tuple[float, ...] = ()
    """Seconds of plain Structured Streaming for a batch."""


def through_spark(plan: Plan, cases: list[Case], directory: Path, report: Callable[[str], None]) -> ThroughSpark:
    """Measure everything, in separate processes; logs are made under the directory and removed."""
    run = _Run(plan, cases, directory, report)
    run.smallest()
    for orders in plan.states[1:]:
        run.larger(orders)
    run.largest()
    run.flat()
    return run.found


class _Run:
    """One run of all measurements."""

    def __init__(self, plan: Plan, cases: list[Case], directory: Path, report: Callable[[str], None]) -> None:
        self.found = ThroughSpark()
        self._plan = plan
        self._cases = cases
        self._six = [case for case in cases if case.name in SIX]
        self._directory = directory
        self._report = report
        self._processes = 0

    def smallest(self) -> None:
        """Measure each query alone, all six, small and empty epochs, and plain Structured Streaming."""
        lowest = self._plan.states[0]
        with self._lanes() as lanes:
            for relations in (_BOTH, ("bids",)):
                with self._log(relations, lowest, self._plan.spark) as log:
                    if relations == _BOTH:
                        self._report("through Spark, all six")
                        self.found.six[lowest] = lanes.follow(log, self._six)
                    self._alone(lanes, log, self._cases, lowest)
            self._report("through Spark, small epochs")
            views = tuple(case.name for case in self._six)
            self.found.small, self.found.empty = (
                lanes.ask(Small(str(lanes.folder()), views, lowest, events, self._plan.small)).seconds
                for events in (SMALL_EVENTS, 0)
            )
            self._report("plain Structured Streaming")
            plain = Plain(str(lanes.folder()), PLAIN_QUERY, PLAIN_ORDERS, PLAIN_EVENTS, 4)
            self.found.plain = lanes.ask(plain).seconds

    def larger(self, orders: int) -> None:
        """Measure all six at a larger state."""
        with self._log(_BOTH, orders, self._plan.spark_larger) as log, self._lanes() as lanes:
            self._report(f"through Spark, all six, {orders:,} live orders a side")
            self.found.six[orders] = lanes.follow(log, self._six)

    def largest(self) -> None:
        """Measure the queries that represent classes, alone, at the largest state."""
        orders = self._plan.states[-1]
        names = {name for queries in CLASSES.values() for name in queries}
        chosen = [case for case in self._cases if case.name in names]
        with self._lanes() as lanes:
            for relations in {case.relations: None for case in chosen}:
                with self._log(relations, orders, self._plan.spark_cost) as log:
                    self._alone(lanes, log, chosen, orders)

    def flat(self) -> None:
        """Measure the memory while many events pass."""
        batches = ((_FLAT, self._plan.flat_batches),)
        with self._log(_BOTH, self._plan.states[0], batches) as log, self._lanes() as lanes:
            self._report("through Spark, memory over many batches")
            self.found.flat = lanes.follow(log, self._six).memory

    def _alone(self, lanes: LaneProcess, log: Log, cases: list[Case], orders: int) -> None:
        for case in cases:
            if case.relations == log.relations:
                self._report(f"through Spark, {case.name}, {orders:,} live orders a side")
                self.found.alone[case.name, orders] = lanes.follow(log, [case])

    def _lanes(self) -> LaneProcess:
        self._processes += 1
        return LaneProcess(self._directory / f"lanes{self._processes}")

    @contextmanager
    def _log(self, relations: tuple[str, ...], live_orders: int, batches: Batches) -> Iterator[Log]:
        self._report(f"a log of {' and '.join(relations)} with {live_orders:,} live orders a side is made")
        sizes = [size for size, count in batches for _ in range(count)]
        log = seal_log(self._directory / "log", relations, live_orders, sizes)
        try:
            yield log
        finally:
            shutil.rmtree(log.directory)

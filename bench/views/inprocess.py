"""Rates in this process: the view program and its alternatives, on the same batches, in turns.

In a run the next batches of the market are made. Then the contestants apply these batches, one contestant after
another; contestants that recompute the answer apply only the first batches. Every run begins with a different
contestant. Wall-clock time is what a user sees; thread time is the cost of a program on one thread, independent of
other load.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.views.cases import Case, program_of
from bench.views.handwritten import HANDWRITTEN, Answer, Handwritten
from bench.views.hosted import Answers, Hosted, WrongAnswerError, columns_of
from bench.views.market import Market
from bench.views.plan import STATES
from bench.views.polars_frames import PolarsFrames
from bench.views.scratch import FromScratch
from runtime.views.composed import Events

__all__ = ["BATCHES", "LOOP", "ONE_THREAD", "SINGLE", "Rate", "Rates", "measure", "measure_events"]

_RECOMPUTED_BATCHES: Final = 4
"""Number of batches of a run that Polars and DuckDB answer. Their answers take the most time, which hardly varies."""
BATCHES: Final = {1: 300, 10: 300, 100: 200, 1_000: 100, 10_000: 50, 100_000: 10, 1_000_000: 3}
"""Number of batches of a run at the smallest state, by size of batch."""
SINGLE: Final = "single"
"""Contestant: the program with one call per event, changes as Python tuples."""
LOOP: Final = "loop"
"""Contestant: the program with all views answered after each event of a batch, changes left in arrays."""
ONE_THREAD: Final = ("program", SINGLE, LOOP, "numpy")
"""Contestants whose cost is their thread time."""
_EVENTS: Final = {SINGLE: 20_000, LOOP: 200_000}
"""Number of events of a run at the smallest state; a tenth of them at larger states."""

_CHECKED_EVENTS: Final = 1_000

Integers = npt.NDArray[np.int64]
Tables = Mapping[str, pa.Table]


class Rate(msgspec.Struct, frozen=True):
    """Rates of one program at one size of batch and of state."""

    query: str
    """Name of the case."""
    who: str
    """Contestant: ``program``, ``single``, ``loop``, ``numpy``, ``polars`` or ``duckdb``."""
    live_orders: int
    """Number of live orders per side."""
    batch: int
    """Number of events of a batch."""
    values: tuple[float, ...]
    """Events per second of wall-clock time, one value per run."""
    cpu: tuple[float, ...] = ()
    """Events per second of thread time; empty for contestants with several threads."""


class Rates:
    """All rates of a run of the benchmark."""

    def __init__(self) -> None:
        self.all: list[Rate] = []

    def of(self, query: str, who: str, live_orders: int, batch: int, *, cpu: bool = False) -> tuple[float, ...]:
        """Return the runs of one contestant; empty if it was not measured."""
        return next(
            (
                rate.cpu if cpu else rate.values
                for rate in self.all
                if (rate.query, rate.who, rate.live_orders, rate.batch) == (query, who, live_orders, batch)
            ),
            (),
        )


class _Timed(msgspec.Struct):
    """Runs of one contestant at one size of batch."""

    wall: list[float] = []
    cpu: list[float] = []

    def run(self, batches: Sequence[Tables], size: int, apply: Callable[[Tables], Any]) -> list[Any]:
        """Apply batches; return the results."""
        gc.collect()
        wall, cpu = time.perf_counter(), time.thread_time()
        found = [apply(tables) for tables in batches]
        cpu, wall = time.thread_time() - cpu, time.perf_counter() - wall
        self.add(size * len(batches), wall, cpu)
        return found

    def add(self, events: int, wall: float, cpu: float) -> None:
        """Record a run."""
        self.wall.append(events / wall)
        self.cpu.append(events / cpu)

    def rate(self, query: str, who: str, live_orders: int, batch: int) -> Rate:
        """Return the rate of all runs except the first, which warms up."""
        cpu = tuple(self.cpu[1:]) if who in ONE_THREAD else ()
        return Rate(query, who, live_orders, batch, tuple(self.wall[1:]), cpu)


class _Contest:
    """Measurement of all contestants on one query and one market, at one size of the state."""

    def __init__(self, case: Case, live_orders: int) -> None:
        self._case, self._orders = case, live_orders
        self._market, self._answers = Market(live_orders), Answers()
        self._hosted = Hosted(program_of(case))
        self._handwritten: Handwritten | None = HANDWRITTEN[case.name]() if case.name in HANDWRITTEN else None
        self._by_hand: Answer | None = None
        first = self._market.first(case.relations)
        self._answers.take(self._hosted.apply(first).changes)
        if self._handwritten is not None:
            self._by_hand = self._handwritten.apply(columns_of(first))
        self._is_smallest = live_orders <= STATES[0]

    def rates(self, size: int, runs: int) -> Iterator[Rate]:
        """Yield the rates of all contestants at one size of batch."""
        timed: dict[str, _Timed] = {}
        count = BATCHES[size] if self._is_smallest else max(2, BATCHES[size] // 3)
        for run in range(runs + 1):
            live = self._market.live(self._case.relations)
            batches = [self._market.batch(size, self._case.relations) for _ in range(count)]
            contestants = [self._program, self._numpy, self._polars, self._duckdb]
            for place in range(len(contestants)):
                who = contestants[(run + place) % len(contestants)]
                who(timed, live, batches, size)
        for name, each in timed.items():
            yield each.rate(self._case.name, name, self._orders, size)

    def _program(self, timed: dict[str, _Timed], live: Tables, batches: Sequence[Tables], size: int) -> None:
        del live
        for step in timed.setdefault("program", _Timed()).run(batches, size, self._hosted.apply):
            self._answers.take(step.changes)

    def _numpy(self, timed: dict[str, _Timed], live: Tables, batches: Sequence[Tables], size: int) -> None:
        del live
        program = self._handwritten
        if program is not None:
            each = timed.setdefault("numpy", _Timed())
            self._by_hand = each.run(batches, size, lambda tables: program.apply(columns_of(tables)))[-1]

    def _polars(self, timed: dict[str, _Timed], live: Tables, batches: Sequence[Tables], size: int) -> None:
        frames = PolarsFrames(self._case.name, live)
        timed.setdefault("polars", _Timed()).run(batches[: self._recomputed()], size, frames.apply)

    def _duckdb(self, timed: dict[str, _Timed], live: Tables, batches: Sequence[Tables], size: int) -> None:
        with FromScratch(self._case, live) as scratch:
            timed.setdefault("duckdb", _Timed()).run(batches[: self._recomputed()], size, scratch.apply)

    def _recomputed(self) -> int:
        return _RECOMPUTED_BATCHES if self._is_smallest else 1

    def check(self) -> None:
        """Check that all answers are equal now; raise `WrongAnswerError` if they are not."""
        answer, live = self._answers.rows(self._case.name), self._market.live(self._case.relations)
        if self._by_hand is not None:
            _expect_equal(self._case, answer, sorted(self._by_hand, key=repr))
        _expect_equal(self._case, answer, PolarsFrames(self._case.name, live).answer())
        with FromScratch(self._case, live) as scratch:
            _expect_equal(self._case, answer, scratch.answer())


def measure(case: Case, live_orders: int, sizes: Sequence[int], runs: int) -> list[Rate]:
    """Warm up, then time whole batches of each size; raise `WrongAnswerError` if the answers at the end differ."""
    contest = _Contest(case, live_orders)
    rates = [rate for size in sizes for rate in contest.rates(size, runs)]
    contest.check()
    return rates


class _Events:
    """Measurement of one query at one state, one event at a time: with a call for each event, and in a compiled
    loop."""

    def __init__(self, case: Case, live_orders: int) -> None:
        self._case, self._market = case, Market(live_orders)
        self._hosted, self._batched = Hosted(program_of(case)), Hosted(program_of(case))
        self._answers, self._expected = Answers(), Answers()
        self._divisor = 1 if live_orders <= STATES[0] else 10
        first = self._market.first(case.relations)
        self._answers.take(self._hosted.apply(first).changes)
        self._expected.take(self._batched.apply(first).changes)

    def _batch(self, who: str) -> Tables:
        """Return the events of a run, after the program for batches has applied them as one batch."""
        tables = self._market.batch(_EVENTS[who] // self._divisor, self._case.relations)
        self._expected.take(self._batched.apply(tables).changes)
        return tables

    def single(self, timed: _Timed) -> None:
        """Time a call for each event."""
        tables = self._batch(SINGLE)
        events = list(_rows_of(tables))
        (found,) = timed.run([tables], len(events), lambda _: [self._hosted.shard.step_rows(event) for event in events])
        for changes in found:
            for view, row, count in changes:
                self._answers.add(view, row, count)
        _expect_equal(self._case, *(answers.rows(self._case.name) for answers in (self._answers, self._expected)))

    def loop(self, timed: _Timed) -> None:
        """Time one call for all events."""
        tables = self._batch(LOOP)
        order = _order_of(tables)
        (events,) = timed.run([tables], len(order), lambda given: self._taken(given, order))
        if events.done != len(order):
            raise WrongAnswerError(f"expected {len(order)} events, was {events.done}")

    def _taken(self, tables: Tables, order: Integers) -> Events:
        events = self._hosted.shard.events(tables, order)
        for _ in events:
            raise WrongAnswerError("expected no view to be watched, was an event of one")
        return events

    def check(self) -> None:
        """Check after the loop that the next batch changes the same rows as in the program for batches, and that the
        answer of the program for batches is right.
        """
        tables, query = self._market.batch(_CHECKED_EVENTS, self._case.relations), self._case.name
        changed, expected = Answers(), Answers()
        changed.take(self._hosted.apply(tables).changes)
        changes = self._batched.apply(tables).changes
        expected.take(changes)
        self._expected.take(changes)
        _expect_equal(self._case, changed.rows(query), expected.rows(query))
        with FromScratch(self._case, self._market.live(self._case.relations)) as scratch:
            _expect_equal(self._case, self._expected.rows(query), scratch.answer())


def measure_events(case: Case, live_orders: int, runs: int) -> list[Rate]:
    """Measure one event at a time; raise `WrongAnswerError` if the answers at the end differ."""
    events = _Events(case, live_orders)
    single, loop = _Timed(), _Timed()
    for _ in range(runs + 1):
        events.single(single)
    for _ in range(runs + 1):
        events.loop(loop)
    events.check()
    return [each.rate(case.name, who, live_orders, 1) for who, each in ((SINGLE, single), (LOOP, loop))]


def _order_of(tables: Tables) -> Integers:
    """Return for each event the number of its table; the relations take turns, as in the market."""
    places = np.concatenate([np.arange(table.num_rows) for table in tables.values()])
    numbers = np.repeat(np.arange(len(tables)), [table.num_rows for table in tables.values()])
    return numbers[np.argsort(places, kind="stable")]


def _rows_of(tables: Tables) -> Iterator[list[tuple[str, tuple[int, ...], int]]]:
    """Yield the events as arguments of `ShardState.step_rows`."""
    names, rows = list(tables), [_rows(table) for table in tables.values()]
    following = [iter(each) for each in rows]
    for number in _order_of(tables).tolist():
        *row, weight = next(following[number])
        yield [(names[number], tuple(row), weight)]


def _rows(table: pa.Table) -> list[tuple[int, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _expect_equal(case: Case, found: Answer, other: Answer) -> None:
    if found != other:
        raise WrongAnswerError(f"expected {other[:3]} for {case.name} at the end, was {found[:3]}")

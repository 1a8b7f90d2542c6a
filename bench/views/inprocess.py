"""Rates in this process: the view program, the hand-written one and DuckDB from scratch, on the same batches."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import pyarrow as pa

from bench.views.cases import Case, program_of
from bench.views.handwritten import HANDWRITTEN, Answer, Handwritten
from bench.views.hosted import Answers, Hosted, WrongAnswerError, columns_of
from bench.views.market import Market
from bench.views.plan import STATES
from bench.views.scratch import FromScratch
from runtime.views.tuplewise import TuplewiseProgram

__all__ = ["BATCHES", "Rate", "Rates", "measure"]

_TUPLES: Final = 3_000
"""Events of a run of the kernel for one at a time."""
_SCRATCH_BATCHES: Final = 4
"""Batches of a run that DuckDB answers: it takes the most time, which hardly varies."""
BATCHES: Final = {1: 300, 10: 300, 100: 200, 1_000: 100, 10_000: 50, 100_000: 10, 1_000_000: 3}
"""Size of a batch → how many of them are a run at the smallest state."""

Tables = Mapping[str, pa.Table]


class Rate(msgspec.Struct, frozen=True):
    """What one program did at one size of batch and of state."""

    query: str
    """The case."""
    who: str
    """``program``, ``tuplewise``, ``numpy`` or ``duckdb``."""
    live_orders: int
    """A side."""
    batch: int
    """Events."""
    values: tuple[float, ...]
    """Events a second, one per run."""


class Rates:
    """All rates of a run of the benchmark."""

    def __init__(self) -> None:
        self.all: list[Rate] = []

    def of(self, query: str, who: str, live_orders: int, batch: int) -> tuple[float, ...]:
        """The runs of one; empty where it was not measured."""
        return next(
            (
                rate.values
                for rate in self.all
                if (rate.query, rate.who, rate.live_orders, rate.batch) == (query, who, live_orders, batch)
            ),
            (),
        )


def measure(case: Case, live_orders: int, sizes: Sequence[int], runs: int) -> list[Rate]:
    """Warm up, then time whole batches of each size; the answers at the end are equal, or `WrongAnswerError`."""
    market, answers = Market(live_orders), Answers()
    hosted = Hosted(program_of(case))
    handwritten = HANDWRITTEN[case.name]() if case.name in HANDWRITTEN else None
    first = market.first(case.relations)
    answers.take(hosted.apply(first).changes)
    by_hand = handwritten.apply(columns_of(first)) if handwritten else None
    rates: list[Rate] = []
    is_smallest = live_orders <= STATES[0]
    scratch_batches = _SCRATCH_BATCHES if is_smallest else 1
    for size in sizes:
        count = BATCHES[size] if is_smallest else max(2, BATCHES[size] // 3)
        found: dict[str, list[float]] = {"program": [], "numpy": [], "duckdb": []}
        for _ in range(runs + 1):  # the first warms up
            with FromScratch(case, market.live(case.relations)) as scratch:
                batches = [market.batch(size, case.relations) for _ in range(count)]
                rate, steps = _rate_of(batches, size, hosted.apply)
                found["program"].append(rate)
                for step in steps:
                    answers.take(step.changes)
                if handwritten:
                    rate, results = _rate_of(batches, size, partial(_by_hand, handwritten))
                    found["numpy"].append(rate)
                    by_hand = results[-1]
                found["duckdb"].append(_rate_of(batches[:scratch_batches], size, scratch.apply)[0])
        rates += [Rate(case.name, who, live_orders, size, tuple(values[1:])) for who, values in found.items() if values]
    answer = answers.rows(case.name)
    if by_hand is not None:
        _expect_equal(case, answer, sorted(by_hand, key=repr))
    with FromScratch(case, market.live(case.relations)) as scratch:
        _expect_equal(case, answer, scratch.answer())
    if 1 in sizes and is_smallest:
        rates += _tuplewise(case, live_orders, runs)
    return rates


def _rate_of(batches: Sequence[Tables], size: int, apply: Callable[[Tables], Any]) -> tuple[float, list[Any]]:
    gc.collect()
    start = time.perf_counter()
    found = [apply(tables) for tables in batches]
    return size * len(batches) / (time.perf_counter() - start), found


def _by_hand(handwritten: Handwritten, tables: Tables) -> Answer:
    return handwritten.apply(columns_of(tables))


def _expect_equal(case: Case, found: Answer, other: Answer) -> None:
    if found != other:
        raise WrongAnswerError(f"expected {other[:3]} for {case.name} at the end, was {found[:3]}")


def _tuplewise(case: Case, live_orders: int, runs: int) -> list[Rate]:
    """The kernel for one event at a time, where it takes the query."""
    kernel = TuplewiseProgram(program_of(case))
    if kernel.unsupported:
        return []
    market = Market(live_orders)
    kernel.load({name: _rows(table)[0] for name, table in market.first(case.relations).items()})
    values: list[float] = []
    for _ in range(runs + 1):
        batches = [market.batch(1, case.relations) for _ in range(_TUPLES)]
        events = [(name, _rows(table)[0][0], _rows(table)[1][0]) for b in batches for name, table in b.items()]
        gc.collect()
        start = time.perf_counter()
        for event in events:
            kernel.apply(*event)
        values.append(len(events) / (time.perf_counter() - start))
    answer = sorted((tuple(row) for row in kernel.result(case.name)), key=repr)
    with FromScratch(case, market.live(case.relations)) as scratch:
        _expect_equal(case, answer, scratch.answer())
    return [Rate(case.name, "tuplewise", live_orders, 1, tuple(values[1:]))]


def _rows(table: pa.Table) -> tuple[list[tuple[int, ...]], list[int]]:
    *columns, weight = (column.to_pylist() for column in table.columns)
    return list(zip(*columns, strict=True)), weight

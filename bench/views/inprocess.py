"""Rates in this process: the view program, the hand-written one and DuckDB from scratch, on the same batches."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import duckdb
import msgspec
import pyarrow as pa

from bench.views.cases import Case, program_of
from bench.views.handwritten import HANDWRITTEN, Answer, Handwritten
from bench.views.hosted import Answers, Hosted, WrongAnswerError, answer_of, columns_of
from bench.views.market import Market

__all__ = ["BATCHES", "Rate", "Rates", "measure", "seconds_as_written"]

BATCHES: Final = {1: 300, 10: 300, 100: 200, 1_000: 100, 10_000: 50, 100_000: 10, 1_000_000: 3}
"""Size of a batch → how many of them are a run."""

Tables = Mapping[str, pa.Table]


class Rate(msgspec.Struct, frozen=True):
    """What one program did at one size of batch and of state."""

    query: str
    """The case."""
    who: str
    """``program``, ``numpy`` or ``duckdb``."""
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
    answers.take(hosted.apply(first))
    by_hand = handwritten.apply(columns_of(first)) if handwritten else None
    rates: list[Rate] = []
    for size in sizes:
        ours: list[float] = []
        theirs: list[float] = []
        for _ in range(runs + 1):  # the first warms up
            batches = [market.batch(size, case.relations) for _ in range(BATCHES[size])]
            seconds, steps = _time_each(batches, hosted.apply)
            ours.append(size * len(batches) / seconds)
            for step in steps:
                answers.take(step)
            if handwritten:
                seconds, found = _time_each(batches, partial(_by_hand, handwritten))
                theirs.append(size * len(batches) / seconds)
                by_hand = found[-1]
        rates.append(Rate(case.name, "program", live_orders, size, tuple(ours[1:])))
        if handwritten:
            rates.append(Rate(case.name, "numpy", live_orders, size, tuple(theirs[1:])))
    answer = answers.rows(case.name)
    if by_hand is not None:
        _expect_equal(case, answer, sorted(by_hand, key=repr))
    scratch = _from_scratch(case, market, runs, answer)
    return rates + [Rate(case.name, "duckdb", live_orders, n, tuple(n / s for s in scratch)) for n in sizes]


def _time_each(batches: Sequence[Tables], apply: Callable[[Tables], Any]) -> tuple[float, list[Any]]:
    gc.collect()
    start = time.perf_counter()
    found = [apply(tables) for tables in batches]
    return time.perf_counter() - start, found


def _by_hand(handwritten: Handwritten, tables: Tables) -> Answer:
    return handwritten.apply(columns_of(tables))


def _from_scratch(case: Case, market: Market, runs: int, answer: Answer) -> list[float]:
    """Seconds of DuckDB for one answer; it is given the relations as they are, and its threads."""
    with duckdb.connect() as connection:
        for name in case.relations:
            connection.register("given", market.live((name,))[name])
            connection.execute(f"CREATE TABLE {name} AS FROM given")
        _expect_equal(case, answer, answer_of(connection, case.tuned))
        return [_timed(connection, case.tuned) for _ in range(runs)]


def _timed(connection: duckdb.DuckDBPyConnection, sql: str) -> float:
    start = time.perf_counter()
    connection.sql(sql).fetchall()
    return time.perf_counter() - start


def _expect_equal(case: Case, found: Answer, other: Answer) -> None:
    if found != other:
        raise WrongAnswerError(f"expected {other[:3]} for {case.name} at the end, was {found[:3]}")


def seconds_as_written(case: Case, live_orders: int, limit_seconds: float, memory: str) -> float | None:
    """How long DuckDB takes for the SQL as it is written; None if it passes the limit of time or memory."""
    market = Market(live_orders)
    with duckdb.connect(config={"memory_limit": memory, "temp_directory": ""}) as connection:
        for name in case.relations:
            connection.register("given", market.live((name,))[name])
            connection.execute(f"CREATE TABLE {name} AS FROM given")
        timer = threading.Timer(limit_seconds, connection.interrupt)
        timer.start()
        try:
            return _timed(connection, case.sql)
        except (duckdb.InterruptException, duckdb.OutOfMemoryException):
            return None
        finally:
            timer.cancel()

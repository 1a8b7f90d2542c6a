"""All figures of ``make bench-views``, in the order in which they are taken."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

import msgspec

from bench.report import Record, record
from bench.views.cases import BROKER_SUM, CASES, Case, program_of
from bench.views.hosted import check, is_incremental
from bench.views.inprocess import Rates, measure, seconds_as_written

__all__ = ["Plan", "run"]

_MAIN: Final = 10_000
"""The size of batch of the main figures."""
_NUMPY: Final = "hand-written numpy for this query"
_DUCKDB: Final = "DuckDB from scratch, hand-tuned SQL"


class Plan(msgspec.Struct, frozen=True):
    """How much is measured."""

    runs: int
    """Timed runs of each figure."""
    sizes: tuple[int, ...]
    """Batches in process at the smallest state."""
    larger_sizes: tuple[int, ...]
    """Batches in process at the others."""
    live_orders: tuple[int, ...]
    """States, orders a side, ascending."""
    checked_orders: int
    """State at which the answers are compared before they are timed."""
    written_seconds: float
    """How long DuckDB may take for SQL as it is written."""


_FULL: Final = Plan(
    runs=5,
    sizes=(1, 10, 100, 1_000, 10_000, 100_000, 1_000_000),
    larger_sizes=(1, 10_000, 1_000_000),
    live_orders=(20_000, 200_000, 2_000_000),
    checked_orders=20_000,
    written_seconds=60,
)
_QUICK: Final = Plan(
    runs=3,
    sizes=(1, 100, 10_000, 100_000),
    larger_sizes=(10_000,),
    live_orders=(20_000, 2_000_000),
    checked_orders=2_000,
    written_seconds=3,
)


def run(quick: bool) -> list[Record]:
    """Everything; with `quick` the same keys from less."""
    plan = _QUICK if quick else _FULL
    rates = Rates()
    cases = list(_measurable([BROKER_SUM, *CASES.values()]))
    for case in cases:
        _say(f"{case.name}: answers are compared")
        check(case, plan.checked_orders)
        for live_orders in plan.live_orders:
            sizes = plan.sizes if live_orders == plan.live_orders[0] else plan.larger_sizes
            _say(f"{case.name}: in process, {live_orders:,} live orders a side")
            rates.all += measure(case, live_orders, sizes, plan.runs)
    return [r for case in cases for r in _in_process(plan, rates, case)]


def _say(text: str) -> None:
    sys.stderr.write(f"bench: views: {text}\n")


def _measurable(cases: list[Case]) -> Iterator[Case]:
    for case in cases:
        program = program_of(case)
        if is_incremental(program):
            yield case
        else:
            _say(f"{case.name}: left out, it is re-evaluated: {program.views[0].reason}")


def _in_process(plan: Plan, rates: Rates, case: Case) -> Iterator[Record]:
    key, orders = f"views.program.{case.name}", plan.live_orders[0]
    ours = rates.of(case.name, "program", orders, _MAIN)
    theirs = rates.of(case.name, "numpy", orders, _MAIN)
    scratch = rates.of(case.name, "duckdb", orders, _MAIN)
    if theirs:
        yield record(f"{key}.events_per_s", ours, "events/s", _NUMPY, theirs)
        ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
        yield record(f"{key}.ratio_numpy", ratios, "ratio", _NUMPY)
    else:
        yield record(f"{key}.events_per_s", ours, "events/s", _DUCKDB, scratch)
    yield record(
        f"{key}.refreshes_per_s",
        rates.of(case.name, "program", orders, 1),
        "refreshes/s",
        _DUCKDB,
        rates.of(case.name, "duckdb", orders, 1),
    )
    for rate in rates.all:
        if rate.query == case.name:
            what = f"views.{rate.who}.{case.name}.live_{rate.live_orders}.batch_{rate.batch}.events_per_s"
            yield record(what, rate.values, "events/s")
    seconds = seconds_as_written(case, orders, plan.written_seconds, "4GB")
    if seconds is not None:
        yield record(f"views.duckdb.{case.name}.as_written.answers_per_s", [1 / seconds], "answers/s")

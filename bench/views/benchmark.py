"""All figures of ``make bench-views``, in the order in which they are measured."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.report import Record
from bench.views.cases import BROKER_SUM, CASES, SIX, WINDOWED, Case, program_of
from bench.views.figures import Measured, records
from bench.views.hosted import Hosted, check, is_incremental
from bench.views.inprocess import measure, measure_events
from bench.views.market import Market
from bench.views.plan import FULL, MAIN, QUICK, Plan
from bench.views.plots import draw
from bench.views.scratch import seconds_as_written
from bench.views.statefigures import checkpoints_of, compilation_of, held_bytes, stalls_of
from bench.views.tables import show
from bench.views.throughspark import through_spark

__all__ = ["run"]

_OUT: Final = Path(__file__).resolve().parent.parent / "out"
_MEMORY: Final = "4GB"
_STATE_BATCH: Final = 100_000


def run(quick: bool) -> list[Record]:
    """Measure everything; with `quick` the same keys from less data."""
    plan = QUICK if quick else FULL
    cases = list(_measurable([BROKER_SUM, *CASES.values()]))
    measured = Measured(plan)
    for case in cases:
        _report(f"{case.name}: answers are compared")
        check(case, plan.checked_orders)
        for orders in plan.states:
            _report(f"{case.name}: in process, {orders:,} live orders a side")
            measured.rates.all += measure(case, orders, plan.sizes_at(orders), plan.runs)
            if orders in (plan.states[0], plan.states[-1]):
                measured.rates.all += measure_events(case, orders, plan.runs)
        _report(f"{case.name}: single batches, checkpoints, compilation, DuckDB as written")
        measured.stalls[case.name] = stalls_of(case, plan.states[-1], plan.stall_batches)
        measured.checkpoints[case.name] = checkpoints_of(case, plan.states[0])
        measured.compilation[case.name] = compilation_of([case])
        measured.written[case.name] = seconds_as_written(case, plan.states[0], plan.written_seconds, _MEMORY)
    for case in WINDOWED.values():
        _report(f"{case.name}: answers are compared")
        check(case, plan.checked_orders)
        _report(f"{case.name}: in process, {plan.states[0]:,} live orders a side")
        measured.rates.all += measure(case, plan.states[0], [MAIN], plan.runs)
    _report("size of the state")
    six = [case for case in cases if case.name in SIX]
    measured.state_bytes = _state_bytes(six, plan)
    measured.held_bytes = {orders: held_bytes(six, orders) for orders in plan.states}
    measured.compilation["six"] = compilation_of(six)
    directory = Path(tempfile.mkdtemp(prefix="bench-views-"))
    try:
        measured.spark = through_spark(plan, cases, directory, _report)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    show(measured)
    for path in draw(measured, _OUT):
        _report(f"plot: {path}")
    return list(records(measured))


def _report(text: str) -> None:
    sys.stderr.write(f"bench: views: {text}\n")


def _measurable(cases: list[Case]) -> Iterator[Case]:
    for case in cases:
        program = program_of(case)
        if is_incremental(program):
            yield case
        else:
            _report(f"{case.name}: left out, it is re-evaluated: {program.views[0].reason}")


def _state_bytes(six: list[Case], plan: Plan) -> tuple[int, int]:
    """Return the bytes of the maps of all six queries, compacted, after fewer and after more events."""
    market, hosted = Market(plan.states[0]), Hosted(program_of(*six), keeps_taken=True)
    hosted.apply(market.first())
    done, sizes = 0, []
    for events in plan.state_events:
        while done < events:
            hosted.apply(market.batch(_STATE_BATCH))
            hosted.shard.save()
            done += _STATE_BATCH
        sizes.append(len(hosted.shard.save_all()))
    return sizes[0], sizes[1]

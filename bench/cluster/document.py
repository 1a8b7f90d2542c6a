"""The tables of docs/scaling.md, also printed on the terminal."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from bench.cluster.calibration import Error
from bench.cluster.meter import PARTS
from bench.cluster.model import Costs
from bench.cluster.parts import Parts
from bench.cluster.plan import Plan, Point
from bench.cluster.point import Measured
from bench.cluster.scenarios import BIG, RATE, answer, sensitivity
from bench.strategies.tables import placed

__all__ = ["PLACES", "Findings", "Progress", "show", "tables", "write"]

Progress = Callable[[str], None]
PLACES: Final = ("setting", "points", "processor", "costs", "errors", "scenarios", "sensitivity")
"""Places of the tables in the page."""
_COSTS: Final = {
    "ingest_us": "a message, in the runtime that reads its feed, µs",
    "pass_us": "a message of an upstream, in the runtime with the views, µs",
    "publish_ms": "a batch, in the Python of the runtime with the views, ms",
    "publish_shard_ms": "a shard of a batch, in the Python of the runtime with the views, ms",
    "driver_ms": "a batch, in Spark's driver, ms",
    "driver_task_ms": "a task, in the driver, ms",
    "executor_us": "a message, in the executors, µs",
    "executor_task_ms": "a task, in an executor, ms",
    "single_us": "of a message in the executors: views that live in one shard, µs (none of these does)",
    "daemon_cores": "a worker with nothing to do, cores",
    "wait_ms": "a batch: time in which nothing is computed, ms",
    "epoch_ms": "between two epochs, ms (a setting)",
}


class Findings(msgspec.Struct, frozen=True):
    """All results."""

    points: list[Measured]
    """Points in the order of the plan."""
    parts: Parts
    """Figures of the views without Spark."""
    costs: Costs
    """Costs calibrated on the points."""
    model_errors: list[Error]
    """Errors of the model at the points."""
    plan: Plan
    """Plan of the run."""


def tables(found: Findings, machine: str) -> dict[str, str]:
    """Return the Markdown text of each place."""
    return {
        "setting": _setting(found.parts, found.plan, machine),
        "points": _points(found.points),
        "processor": _processor(found.points),
        "costs": _costs(found.costs),
        "errors": _errors(found.model_errors),
        "scenarios": _scenarios(found.costs, statistics.median(found.parts.one_shard_us)),
        "sensitivity": _sensitivity(found.costs),
    }


def show(found: Findings) -> None:
    """Print all tables."""
    for text in tables(found, "").values():
        sys.stdout.write(f"\n{text}\n")


def write(page: Path, found: Findings, machine: str) -> None:
    """Put the tables into the page; raise `ValueError` if a place is missing."""
    text = page.read_text("utf-8")
    for place, table in tables(found, machine).items():
        text = placed(text, place, table)
    page.write_text(text, "utf-8")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _spread(values: Sequence[float]) -> str:
    return f"{_short(statistics.median(values))} ({_short(min(values))} to {_short(max(values))})"


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _words(point: Point) -> str:
    where = f"{point.workers} worker{'s' if point.workers > 1 else ''}" if point.workers else "none: `local[2]`"
    return where + (f", {point.shards} shards" if point.shards != Point(1, 1).shards else "")


def _setting(parts: Parts, plan: Plan, machine: str) -> str:
    rate = statistics.median(parts.messages_per_s)
    where = f"Measured on {machine}. " if machine else ""
    return (
        f"{where}{plan.symbols} symbols, {plan.live_orders:,} live orders, {plan.bursts} bursts of "
        f"{plan.burst:,} messages, then {plan.rate:,} messages a second for {plan.steady_s:.0f} s. "
        f"The six views alone, in one process on one thread without Spark, take {rate:,.0f} messages a second."
    )


def _points(points: Sequence[Measured]) -> str:
    head = ("workers", "runtimes that read", "messages/s", "deltas/s", "age, p50 ms", "age, p99 ms", "batch, ms")
    rows = []
    for each in points:
        rate = statistics.median(each.rates)
        batch = statistics.median(each.steady.batch_s) * 1e3 if each.steady.batch_s else float("nan")
        rows.append(
            [
                _words(each.point),
                str(each.point.runtimes),
                _spread(each.rates),
                _short(rate * each.deltas_per_message),
                _spread(each.p50_ms),
                _spread(each.p99_ms),
                _short(batch),
            ]
        )
    return _table(head, rows)


def _processor(points: Sequence[Measured]) -> str:
    head = ("workers, runtimes that read", *(f"{part}, µs" for part in PARTS), "all, µs", "share of the machine")
    rows = []
    for each in points:
        spent = each.burst.cpu_s
        whole = sum(spent.values())
        cells = [_short(1e6 * spent[part] / each.burst.messages) for part in PARTS]
        busy = whole / (each.burst.seconds * each.cores)
        name = f"{_words(each.point)}, {each.point.runtimes}"
        rows.append([name, *cells, _short(1e6 * whole / each.burst.messages), f"{busy:.0%}"])
    return _table(head, rows)


def _costs(costs: Costs) -> str:
    rows = [[_COSTS[name], _short(getattr(costs, name))] for name in costs.__struct_fields__]
    return _table(("what", "cost"), rows)


def _errors(errors: Sequence[Error]) -> str:
    words = {"rate": "messages/s", "p50_ms": "p50, ms", "p99_ms": "p99, ms"}
    rows = [
        [
            f"`{error.name}`",
            words[error.what],
            _short(error.measured),
            _short(error.modelled),
            f"{error.percent:+.0f} %",
            f"{error.percent_without:+.0f} %",
        ]
        for error in errors
    ]
    for what, title in words.items():
        mine = [error for error in errors if error.what == what]
        if mine:
            seen = statistics.fmean(abs(error.percent) for error in mine)
            unseen = statistics.fmean(abs(error.percent_without) for error in mine)
            rows.append(["mean of the magnitudes", title, "", "", f"{seen:.0f} %", f"{unseen:.0f} %"])
    return _table(("point", "figure", "measured", "model", "error", "error, point left out"), rows)


def _scenarios(costs: Costs, one_shard_us: float) -> str:
    rows = []
    for scenario in BIG:
        result = answer(costs, scenario, one_shard_us)
        layout = scenario.layout
        rows.append(
            [
                scenario.title,
                f"{layout.runtimes}, {layout.shards}",
                _short(result.most_rate),
                result.limit,
                _short(result.rate),
                _short(result.at_rate.p50_ms),
                _short(result.at_rate.p99_ms),
            ]
        )
    head = ("cluster", "upstreams, shards", "most messages/s", "limited by", "ages at messages/s", "p50, ms",
            "p99, ms")  # fmt: skip
    return _table(head, rows)


def _sensitivity(costs: Costs) -> str:
    scenario = next(scenario for scenario in BIG if scenario.key == "symbols_100.workers_100")
    rows = [
        [_COSTS[s.cost], *(_short(v) for v in s.rate), *(_short(v) for v in s.p50_ms)]
        for s in sensitivity(costs, scenario)
    ]
    half, twice = "at half the cost", "at twice the cost"
    return _table(
        ("cost", f"most messages/s {half}", twice, f"p50 at {RATE:,}/s or the most possible, ms, {half}", twice), rows
    )

"""The plot of docs/scaling.md: measured and modelled values, and the limits of the model."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter

from bench.cluster.calibration import layout_of
from bench.cluster.document import Findings
from bench.cluster.model import Costs, Layout, burst, limits, steady
from bench.cluster.plan import Plan
from bench.cluster.point import Measured
from bench.cluster.scenarios import RATE, with_one_shard_view

__all__ = ["draw"]

_COLOURS: Final = {1: "#0072B2", 2: "#D55E00"}
_LINES: Final = (("and VWAP over all symbols", "#999999", "--"), ("views by symbol", "#009E73", "-"))
_WORKERS: Final = (1, 2, 4, 8, 10, 16, 25, 40, 64, 100)
_DPI: Final = 110


def draw(found: Findings, path: Path) -> None:
    """Draw two panels of measured values, and two of the model's values for larger clusters."""
    points, costs, plan = found.points, found.costs, found.plan
    plt.rcParams.update({"font.size": 10, "axes.grid": True, "grid.alpha": 0.3, "axes.axisbelow": True})
    figure, ((rate, age), (most, fresh)) = plt.subplots(2, 2, figsize=(12, 8.4))
    with_workers = [p for p in points if p.point.workers and p.point.shards == plan.points[0].shards]
    for runtimes, colour in _COLOURS.items():
        mine = sorted((p for p in with_workers if p.point.runtimes == runtimes), key=lambda p: p.point.workers)
        if mine:
            _measured(rate, age, mine, costs, plan, colour)
    local = next((p for p in points if not p.point.workers), None)
    if local is not None:
        for axes, values in ((rate, local.rates), (age, local.p50_ms)):
            axes.axhline(statistics.median(values), color="#666666", linestyle=":", label="local[2], 1 runtime reads")
    cores = points[0].cores
    rate.set_title(f"Messages a second, measured on {cores} cores in all")
    age.set_title(f"Age of a message, ms, at {plan.rate:,} messages a second")
    for axes in (rate, age):
        axes.set_xlabel("workers, a core each")
        axes.set_xticks(sorted({p.point.workers for p in with_workers}))
        axes.set_ylim(0, 1.15 * axes.get_ylim()[1])
        axes.legend(frameon=False, fontsize=9)
    _larger(most, fresh, costs, plan.symbols, statistics.median(found.parts.one_shard_us))
    for axes in (rate, most):
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    figure.tight_layout()
    figure.savefig(path, dpi=_DPI)
    plt.close(figure)


def _measured(rate: Any, age: Any, mine: Sequence[Measured], costs: Costs, plan: Plan, colour: str) -> None:  # noqa: PLR0917
    workers = [p.point.workers for p in mine]
    runtimes = mine[0].point.runtimes
    label = f"{runtimes} runtime{'s read' if runtimes > 1 else ' reads'}"
    for axes, values, percent in ((rate, [p.rates for p in mine], ""), (age, [p.p50_ms for p in mine], ", p50")):
        middle = [statistics.median(v) for v in values]
        reach = [[m - min(v) for m, v in zip(middle, values, strict=True)],
                 [max(v) - m for m, v in zip(middle, values, strict=True)]]  # fmt: skip
        axes.errorbar(workers, middle, yerr=reach, color=colour, marker="o", capsize=3, label=f"{label}{percent}")
    layouts = [layout_of(p, plan.symbols) for p in mine]
    modelled = [burst(costs, layout, plan.burst).rate for layout in layouts]
    rate.plot(workers, modelled, color=colour, linestyle="--", marker="x", label=f"{label}, model")
    ages = [steady(costs, layout, plan.rate, plan.steady_s).p50_ms for layout in layouts]
    age.plot(workers, ages, color=colour, linestyle="--", marker="x", label=f"{label}, model")


def _larger(most: Any, fresh: Any, costs: Costs, symbols: int, one_shard_us: float) -> None:
    """Draw the largest rate and the age of results by the number of workers, with a core for each process."""
    for (label, colour, style), more_us in zip(_LINES, (one_shard_us, 0.0), strict=True):
        these = with_one_shard_view(costs, more_us)
        layouts = [Layout(n, 1, 2 * n, max(1, n // 4), symbols) for n in _WORKERS]
        rates = [min(limits(these, layout).values()) for layout in layouts]
        most.plot(_WORKERS, rates, color=colour, linestyle=style, marker="o", label=label)
        for at, mark in ((RATE / 5, "o"), (RATE, "s")):
            ages = [
                steady(these, layout, at, 60).p50_ms if at < 0.95 * reached else float("nan")
                for layout, reached in zip(layouts, rates, strict=True)
            ]
            fresh.plot(_WORKERS, ages, color=colour, linestyle=style, marker=mark, label=f"{label}, {at:,.0f}/s")
    most.set_title(f"Model: most messages a second, {symbols} symbols")
    fresh.set_title("Model: median age, ms")
    for axes in (most, fresh):
        axes.set_xscale("log")
        axes.set_xticks(_WORKERS, [str(n) for n in _WORKERS])
        axes.set_xlabel("workers, a core each; two shards a worker; an upstream for four")
        axes.set_ylim(0, 1.15 * axes.get_ylim()[1])
        axes.legend(frameon=False, fontsize=9)

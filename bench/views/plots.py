"""Plots of the measurements, one for each question."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter

from bench.views.figures import Measured
from bench.views.plan import MAIN
from bench.views.tables import short

__all__ = ["draw"]

_WHO: Final = {
    "program": ("view program", "#0072B2", "o"),
    "single": ("one event a call, rows as tuples", "#56B4E9", "D"),
    "loop": ("one event at a time, compiled loop", "#CC79A7", "X"),
    "numpy": ("numpy, by hand for this query", "#D55E00", "s"),
    "polars": ("Polars from scratch, tuned expression", "#E69F00", "v"),
    "duckdb": ("DuckDB from scratch, tuned SQL", "#009E73", "^"),
}
_DBTOASTER: Final = {"axf": 22e3, "bsp": 21e3, "bsv": 103e3, "mst": 20, "psp": 19e3, "vwap": 3.3e3}
"""Refreshes per second that DBToaster published for its generated C++."""
_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#666666", "#8A6FBF")
_MARKERS: Final = "os^DvPX*"
_DPI: Final = 110


def draw(measured: Measured, folder: Path) -> Iterator[Path]:
    """Draw all plots for which there are figures; yield their files."""
    folder.mkdir(parents=True, exist_ok=True)
    plt.rcParams.update({"font.size": 10, "axes.grid": True, "grid.alpha": 0.3, "axes.axisbelow": True})
    pictures: dict[str, Callable[[Measured], Any]] = {
        "views-numpy": _against_numpy,
        "views-batch": _by_batch,
        "views-state": _by_state,
        "views-spark": _through_spark,
        "views-latency": _latency,
        "views-memory": _memory,
    }
    for name, picture in pictures.items():
        figure = picture(measured)
        if figure is not None:
            path = folder / f"{name}.png"
            figure.savefig(path, dpi=_DPI, bbox_inches="tight")
            plt.close(figure)
            yield path


def _against_numpy(measured: Measured) -> Any:
    """Draw bars per query at the main size of batch."""
    orders = measured.plan.states[0]
    queries = [q for q in measured.queries() if measured.rates.of(q, "numpy", orders, MAIN)]
    if not queries:
        return None
    figure, axes = plt.subplots(figsize=(13, 5))
    for place, who in enumerate(("program", "numpy", "polars", "duckdb")):
        label, colour, _ = _WHO[who]
        values = [statistics.median(measured.rates.of(q, who, orders, MAIN)) for q in queries]
        places = [n + (place - 1.5) * 0.21 for n in range(len(queries))]
        bars = axes.bar(places, values, 0.2, color=colour, label=label)
        axes.bar_label(bars, [short([v]) for v in values], fontsize=8, padding=2)
    axes.set_xticks(range(len(queries)), [q.upper() for q in queries])
    axes.set_yscale("log")
    axes.set_ylabel("events a second")
    axes.yaxis.set_major_formatter(_units())
    axes.set_title(f"In process: batches of {MAIN:,} events, {orders:,} live orders a side")
    axes.legend(loc="upper center", ncols=4, bbox_to_anchor=(0.5, -0.07), frameon=False)
    low, high = axes.get_ylim()
    axes.set_ylim(10 ** math.floor(math.log10(low)), 1.5 * high)
    return figure


def _by_batch(measured: Measured) -> Any:
    """Draw a panel per query: rates over the size of batch at the smallest state."""
    orders = measured.plan.states[0]
    queries = measured.queries()
    if not queries:
        return None
    columns = min(4, len(queries))
    rows = -(-len(queries) // columns)
    height = 3.1 * rows + 0.8
    figure, panels = plt.subplots(
        rows, columns, figsize=(3.6 * columns, height), sharex=True, sharey=True, squeeze=False
    )
    for panel, query in zip(panels.flat, queries, strict=False):
        for who, (label, colour, marker) in _WHO.items():
            found = sorted(
                (r.batch, statistics.median(r.values))
                for r in measured.rates.all
                if (r.query, r.who, r.live_orders) == (query, who, orders)
            )
            if found:
                panel.plot(*zip(*found, strict=True), marker=marker, color=colour, label=label, markersize=5)
        if query in _DBTOASTER:
            panel.plot(1, _DBTOASTER[query], "kx", label="published for DBToaster's C++, its machine")
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_title(query.upper().replace("_", " "))
    for panel in panels.flat[len(queries) :]:
        panel.set_visible(False)
    for panel in panels.flat:
        panel.xaxis.set_major_formatter(_units())
        panel.yaxis.set_major_formatter(_units())
    for panel in panels[-1]:
        panel.set_xlabel("events in a batch")
    figure.supylabel("events a second")
    handles = {label: handle for p in panels.flat for handle, label in zip(*p.get_legend_handles_labels(), strict=True)}
    figure.suptitle(f"In process, {orders:,} live orders a side: one thread, Polars and DuckDB all cores")
    figure.tight_layout(rect=(0, 0.5 / height, 1, 1))
    figure.legend(handles.values(), handles.keys(), loc="lower center", ncols=4, frameon=False)
    return figure


def _by_state(measured: Measured) -> Any:
    """Draw the milliseconds of a batch over the size of the state, in process and through Spark."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5))
    for place, query in enumerate(measured.queries()):
        style = _style(place)
        found = sorted(
            (r.live_orders, 1000 * r.batch / statistics.median(r.values))
            for r in measured.rates.all
            if (r.query, r.who, r.batch) == (query, "program", MAIN)
        )
        if found:
            left.plot(*zip(*found, strict=True), label=query.upper().replace("_", " "), **style)
        lanes = sorted(
            (orders, 1000 * statistics.median(f.seconds[MAIN]))
            for (name, orders), f in measured.spark.alone.items()
            if name == query and MAIN in f.seconds
        )
        if len(lanes) > 1:
            right.plot(*zip(*lanes, strict=True), label=query.upper().replace("_", " "), **style)
    six = sorted(
        (orders, 1000 * statistics.median(f.seconds[MAIN]))
        for orders, f in measured.spark.six.items()
        if MAIN in f.seconds
    )
    if six:
        right.plot(*zip(*six, strict=True), label="all six", color="black", marker=".", linewidth=2)
    if measured.spark.empty:
        empty = 1000 * statistics.median(measured.spark.empty)
        right.axhline(empty, color="black", linestyle=":", label="an epoch without events")
    for panel, title in ((left, "in process, one thread"), (right, "through Spark, state committed")):
        panel.set_xscale("log")
        panel.set_ylim(bottom=0)
        panel.set_xticks(measured.plan.states, [f"{n:,}" for n in measured.plan.states])
        panel.set_xlabel("live orders a side")
        panel.set_ylabel(f"milliseconds for a batch of {MAIN:,} events")
        panel.set_title(title)
    handles = {label: h for p in (right, left) for h, label in zip(*p.get_legend_handles_labels(), strict=True)}
    figure.suptitle("What a larger state costs")
    figure.tight_layout(rect=(0, 0.09, 1, 1))
    figure.legend(handles.values(), handles.keys(), loc="lower center", ncols=5, frameon=False)
    return figure


def _through_spark(measured: Measured) -> Any:
    """Draw the rates over the size of batch, for each query and all six."""
    lowest = measured.plan.states[0]
    lanes = [("all six", measured.spark.six.get(lowest))]
    lanes += [(q.upper().replace("_", " "), f) for (q, orders), f in measured.spark.alone.items() if orders == lowest]
    if not any(followed for _, followed in lanes):
        return None
    figure, axes = plt.subplots(figsize=(9, 6))
    for place, (name, followed) in enumerate(lanes):
        if followed is None:
            continue
        style = _style(place - 1) if place else {"color": "black", "marker": ".", "linewidth": 2.5}
        found = [(size, statistics.median(followed.rates(size))) for size in sorted(followed.seconds)]
        axes.plot(*zip(*found, strict=True), label=name, **style)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(_units())
    axes.yaxis.set_major_formatter(_units())
    axes.set_xlabel("events in a batch")
    axes.set_ylabel("events a second, epoch log to published result")
    axes.set_title(f"Through Spark, local[2], {lowest:,} live orders a side")
    axes.legend()
    return figure


def _latency(measured: Measured) -> Any:
    """Draw the share of small epochs that were published, by the time since they were sealed."""
    if not measured.spark.small:
        return None
    figure, axes = plt.subplots(figsize=(8, 4.5))
    for seconds, label, colour in (
        (measured.spark.small, "100 events", "#0072B2"),
        (measured.spark.empty, "no events: the fixed cost", "#666666"),
    ):
        ordered = sorted(1000 * s for s in seconds)
        share = [100 * (n + 1) / len(ordered) for n in range(len(ordered))]
        median = statistics.median(ordered)
        axes.step(ordered, share, where="post", color=colour, label=f"{label}; half within {median:,.0f} ms")
    axes.set_xlim(left=0)
    axes.set_ylim(0, 101)
    axes.set_xlabel("milliseconds from a sealed epoch to its published result")
    axes.set_ylabel("per cent of the epochs")
    axes.set_title("Small epochs through Spark, all six views")
    axes.legend(loc="upper left")
    return figure


def _memory(measured: Measured) -> Any:
    """Draw the resident memory while many batches pass."""
    flat = measured.spark.flat
    if flat is None or not flat.bytes:
        return None
    figure, axes = plt.subplots(figsize=(9, 4.5))
    start = flat.seconds[0]
    axes.plot([s - start for s in flat.seconds], [b / 2**30 for b in flat.bytes], color="#0072B2")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds")
    axes.set_ylabel("GiB resident: driver, its Java, Python workers")
    axes.set_title(
        f"Memory over {measured.plan.flat_batches} batches of a million events, all six views, "
        f"{measured.plan.states[0]:,} live orders a side"
    )
    return figure


def _style(place: int) -> dict[str, Any]:
    return {
        "color": _COLOURS[place % len(_COLOURS)],
        "marker": _MARKERS[place % len(_MARKERS)],
        "markersize": 5,
        "linewidth": 1.5,
    }


def _units() -> Any:
    def text(value: float, _: Sequence[float]) -> str:
        for limit, unit in ((1e6, " M"), (1e3, " k")):
            if value >= limit:
                return f"{value / limit:g}{unit}"
        return f"{value:g}"

    return FuncFormatter(text)

"""Tables of the measurements for the terminal."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from bench.views.figures import Measured, thirds
from bench.views.inprocess import LOOP, SINGLE

__all__ = ["show"]


def show(measured: Measured) -> None:
    """Print all tables."""
    console = Console(width=160, soft_wrap=True)
    console.print(_in_process(measured))
    console.print(_through_spark(measured))
    console.print(_memory(measured))


def _in_process(measured: Measured) -> Table:
    table = Table(
        title="In process: events a second (median), and how many times the others; cpu: by thread time",
        title_justify="left",
    )
    for heading in ("query", "live orders a side", "batch", "program", "cpu", "numpy", "cpu", "Polars", "DuckDB"):
        table.add_column(heading, justify="left" if heading == "query" else "right")
    for heading in ("× numpy", "cpu", "× Polars", "× DuckDB"):
        table.add_column(heading, justify="right")
    for rate in measured.rates.all:
        if rate.who not in ("program", SINGLE, LOOP):
            continue
        where = (rate.live_orders, rate.batch)
        is_batch = rate.who == "program"
        numpy, numpy_cpu, polars, duckdb = (
            measured.rates.of(rate.query, who, *where, cpu=is_cpu) if is_batch else ()
            for who, is_cpu in (("numpy", False), ("numpy", True), ("polars", False), ("duckdb", False))
        )
        table.add_row(
            rate.query,
            f"{rate.live_orders:,}",
            f"{rate.batch:,}" if is_batch else {SINGLE: "one a call", LOOP: "loop"}[rate.who],
            *(short(values) for values in (rate.values, rate.cpu, numpy, numpy_cpu, polars, duckdb)),
            _times(rate.values, numpy),
            _times(rate.cpu, numpy_cpu),
            _times(rate.values, polars),
            _times(rate.values, duckdb),
        )
    return table


def _through_spark(measured: Measured) -> Table:
    table = Table(title="Through Spark, local[2]: events a second (median)", title_justify="left")
    table.add_column("views")
    table.add_column("live orders a side", justify="right")
    sizes = sorted({size for size, _ in (*measured.plan.spark, *measured.plan.spark_larger, *measured.plan.spark_cost)})
    for size in sizes:
        table.add_column(f"{size:,}", justify="right")
    lanes = [("all six", orders, f) for orders, f in measured.spark.six.items()]
    lanes += [(query, orders, f) for (query, orders), f in measured.spark.alone.items()]
    for name, orders, followed in lanes:
        rates = (short(followed.rates(size)) if size in followed.seconds else "" for size in sizes)
        table.add_row(name, f"{orders:,}", *rates)
    return table


def _memory(measured: Measured) -> Table:
    table = Table(title="Latency, state and memory of all six", title_justify="left", show_header=False)
    spark = measured.spark
    for name, seconds in (("epoch of 100 events to its result", spark.small), ("epoch without events", spark.empty)):
        if seconds:
            ordered = sorted(1000 * s for s in seconds)
            table.add_row(name, f"p50 {statistics.median(ordered):,.0f} ms, slowest {ordered[-1]:,.0f} ms")
    for events, size in zip(measured.plan.state_events, measured.state_bytes, strict=True):
        table.add_row(f"maps after {events:,} events, compacted", f"{size / 2**20:,.2f} MiB")
    for orders, held in measured.held_bytes.items():
        table.add_row(f"arrays at {orders:,} live orders a side", f"{held / 2**20:,.1f} MiB")
    for query, stalls in measured.stalls.items():
        table.add_row(f"{query}: largest ÷ median batch at the largest state", f"{stalls.ratio:.1f}")
    for orders, followed in spark.six.items():
        table.add_row(f"memory at {orders:,} live orders a side, peak", f"{followed.memory.peak() / 2**30:.2f} GiB")
    if spark.flat is not None and len(spark.flat.bytes) >= 10:
        early, late = (f"{size / 2**30:.2f} GiB" for size in thirds(spark.flat))
        table.add_row(f"memory over {measured.plan.flat_batches} M events, second and last third", f"{early}, {late}")
    return table


def short(values: Sequence[float]) -> str:
    """Return the median with a unit."""
    if not values:
        return ""
    value = statistics.median(values)
    for limit, unit in ((1e6, " M"), (1e3, " k")):
        if value >= limit:
            return f"{value / limit:,.3g}{unit}" if value < 1000 * limit else f"{value / limit:,.0f}{unit}"
    return f"{value:,.3g}"


def _times(values: Sequence[float], others: Sequence[float]) -> str:
    return f"{statistics.median(values) / statistics.median(others):.2f}" if others else ""

"""Conversion of measurements into records with their keys."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from bench.report import Record, record
from bench.views.cases import WINDOWED
from bench.views.inprocess import LOOP, SINGLE, Rates
from bench.views.plan import MAIN, Plan
from bench.views.spark import Memory
from bench.views.statefigures import Checkpoints, Compilation, Stalls
from bench.views.throughspark import CLASSES, PLAIN_EVENTS, PLAIN_ORDERS, PLAIN_QUERY, ThroughSpark

__all__ = ["Measured", "records"]

NUMPY: Final = "hand-written numpy for this query"
POLARS: Final = "Polars from scratch, a hand-tuned expression"
DUCKDB: Final = "DuckDB from scratch, hand-tuned SQL"
ONE_THREAD: Final = "the same program in process, one thread"
_EMPTY: Final = "an epoch without events"


class Measured(msgspec.Struct):
    """All measurements."""

    plan: Plan
    """Plan of the run."""
    rates: Rates = msgspec.field(default_factory=Rates)
    """Rates of all programs in this process."""
    written: dict[str, float | None] = {}
    """DuckDB's seconds for the original SQL, by query; None if it exceeded a limit."""
    stalls: dict[str, Stalls] = {}
    """Single batches at the largest state, by query."""
    checkpoints: dict[str, Checkpoints] = {}
    """Checkpoints at the smallest state, by query."""
    compilation: dict[str, Compilation] = {}
    """Compilation of the kernels, by query, or ``six``."""
    held_bytes: dict[int, int] = {}
    """Bytes of the arrays of all six queries, by live orders per side."""
    state_bytes: tuple[int, int] = (1, 1)
    """Bytes of the maps of all six queries after fewer and after more events."""
    spark: ThroughSpark = msgspec.field(default_factory=ThroughSpark)
    """Measurements through Spark."""

    def queries(self) -> list[str]:
        """Return the measured queries."""
        return list(self.written)


def records(measured: Measured) -> Iterator[Record]:
    """Yield all figures, the main ones of each kind first."""
    for query in measured.queries():
        yield from _program(measured, query)
    for query in WINDOWED:
        yield from _windowed(measured, query)
    yield from _spark(measured)
    yield from _cost(measured)
    fewer, more = measured.state_bytes
    yield record("views.state.bytes", [more], "bytes", f"after {measured.plan.state_events[0]:,} events", [fewer])
    yield record("views.state.ratio_10m_1m", [more / fewer], "ratio")
    yield from _state(measured)
    yield from _memory(measured)
    yield from _grid(measured)


def _program(measured: Measured, query: str) -> Iterator[Record]:
    key, orders, rates = f"views.program.{query}", measured.plan.states[0], measured.rates
    for kind, is_cpu in (("", False), (".cpu", True)):
        ours, theirs = (rates.of(query, who, orders, MAIN, cpu=is_cpu) for who in ("program", "numpy"))
        if theirs:
            yield record(f"{key}{kind}.events_per_s", ours, "events/s", NUMPY, theirs)
            yield record(f"{key}{kind}.ratio_numpy", _ratios(ours, theirs), "ratio", NUMPY)
        else:
            yield record(f"{key}{kind}.events_per_s", ours, "events/s")
    ours = rates.of(query, "program", orders, MAIN)
    for who, name in (("polars", POLARS), ("duckdb", DUCKDB)):
        yield record(f"{key}.ratio_{who}", _ratios(ours, rates.of(query, who, orders, MAIN)), "ratio", name)
    answers = rates.of(query, "duckdb", orders, 1)
    for kind, is_cpu in (("", False), (".cpu", True)):
        single, loop = (rates.of(query, who, orders, 1, cpu=is_cpu) for who in (SINGLE, LOOP))
        yield record(f"{key}{kind}.refreshes_per_s", single, "refreshes/s", *(() if is_cpu else (DUCKDB, answers)))
        yield record(f"{key}.loop{kind}.refreshes_per_s", loop, "refreshes/s", "one event a call", single)


def _windowed(measured: Measured, query: str) -> Iterator[Record]:
    key, orders, rates = f"views.{query}", measured.plan.states[0], measured.rates
    ours, polars, duckdb = (rates.of(query, who, orders, MAIN) for who in ("program", "polars", "duckdb"))
    yield record(f"{key}.events_per_s", ours, "events/s", POLARS, polars)
    yield record(f"{key}.cpu.events_per_s", rates.of(query, "program", orders, MAIN, cpu=True), "events/s")
    yield record(f"{key}.ratio_duckdb", _ratios(ours, duckdb), "ratio", DUCKDB)


def _ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    return [a / b for a, b in zip(ours, theirs, strict=True)]


def _state(measured: Measured) -> Iterator[Record]:
    """Yield stalls, checkpoints, memory and compilation."""
    smallest, largest = measured.plan.states[0], measured.plan.states[-1]
    for query in measured.queries():
        few, many = (measured.rates.of(query, "program", orders, MAIN, cpu=True) for orders in (smallest, largest))
        ratios = [statistics.median(few) / rate for rate in many]
        yield record(f"views.program.{query}.ratio_2m_20k", ratios, "ratio", "thread time of a batch")
    for query, stalls in measured.stalls.items():
        key = f"views.program.{query}"
        about = f"the median of {len(stalls.milliseconds)} batches of {MAIN:,} events at {largest:,} live orders a side"
        yield record(f"{key}.largest_batch_ratio", [stalls.ratio], "ratio", about)
        yield record(f"{key}.single_batch_ms", stalls.milliseconds, "ms")
    for query, saved in measured.checkpoints.items():
        key = f"views.checkpoint.{query}"
        yield record(f"{key}.bytes_per_event", saved.bytes_per_event, "bytes")
        yield record(f"{key}.save_us", saved.microseconds, "us", f"a batch of {MAIN:,} events")
        yield record(f"{key}.base_bytes", [saved.base_bytes], "bytes")
    for query, compiled in measured.compilation.items():
        key = f"views.compile.{query}"
        yield record(f"{key}.seconds", [compiled.seconds], "s", f"{compiled.kernels} kernels, an empty cache")
        yield record(f"{key}.cpu_seconds", [compiled.cpu_seconds], "s")
        yield record(f"{key}.cache_bytes", [compiled.cache_bytes], "bytes")
    for orders, held in measured.held_bytes.items():
        yield record(f"views.program.six.live_{orders}.bytes", [held], "bytes", "arrays of all structures")


def _spark(measured: Measured) -> Iterator[Record]:
    spark, lowest = measured.spark, measured.plan.states[0]
    largest = measured.plan.spark[-1][0]
    if lowest in spark.six:
        yield record("views.spark.six.events_per_s", spark.six[lowest].rates(largest), "events/s")
    for (query, orders), followed in spark.alone.items():
        if orders == lowest:
            nearest = max((r.batch for r in measured.rates.all if r.query == query), default=0)
            reference = measured.rates.of(query, "program", orders, nearest)
            yield record(
                f"views.spark.{query}.events_per_s", followed.rates(largest), "events/s", ONE_THREAD, reference
            )
    if spark.small:
        small, empty = ([1000 * s for s in seconds] for seconds in (spark.small, spark.empty))
        yield record("views.spark.six.p50_ms", small, "ms", _EMPTY, empty)
        yield record("views.spark.empty.p50_ms", empty, "ms")
    if spark.plain:
        rates = [PLAIN_EVENTS / seconds for seconds in spark.plain]
        about = f"insertions alone, {PLAIN_ORDERS:,} rows a side, batches of {PLAIN_EVENTS:,}"
        yield record(f"views.structured_streaming.{PLAIN_QUERY}.events_per_s", rates, "events/s", about)


def _cost(measured: Measured) -> Iterator[Record]:
    """Yield how much longer a batch takes at the largest state than at the smallest; for a class, the ratio of its
    worst query.
    """
    lowest, highest = measured.plan.states[0], measured.plan.states[-1]
    for name, queries in CLASSES.items():
        hosted: dict[str, list[float]] = {}
        lanes: dict[str, list[float]] = {}
        for query in queries:
            few, many = (measured.rates.of(query, "program", orders, MAIN, cpu=True) for orders in (lowest, highest))
            if few and many:
                hosted[query] = [statistics.median(few) / rate for rate in many]
            alone = [measured.spark.alone.get((query, orders)) for orders in (lowest, highest)]
            if alone[0] is not None and alone[1] is not None:
                usual = statistics.median(alone[0].seconds[MAIN])
                lanes[query] = [seconds / usual for seconds in alone[1].seconds[MAIN]]
                milliseconds = [1000 * seconds for seconds in alone[1].seconds[MAIN]]
                what = f"views.cost.{name}.{query}.spark.batch_ms"
                yield record(what, milliseconds, "ms", f"at {lowest:,} live orders a side", [1000 * usual])
        for kind, ratios in (("", hosted), (".spark", lanes)):
            if ratios:
                worst = max(ratios.values(), key=statistics.median)
                yield record(f"views.cost.{name}{kind}.ratio_2m_20k", worst, "ratio")
            for query, values in ratios.items():
                yield record(f"views.cost.{name}.{query}{kind}.ratio_2m_20k", values, "ratio")


def _memory(measured: Measured) -> Iterator[Record]:
    for orders, followed in measured.spark.six.items():
        yield record(f"views.memory.six.live_{orders}.peak_bytes", [followed.memory.peak()], "bytes")
    flat = measured.spark.flat
    if flat is not None and len(flat.bytes) >= 10:
        early, late = thirds(flat)
        yield record("views.memory.six.flat.bytes", [late], "bytes", "after a third of the events", [early])
        yield record("views.memory.six.flat.ratio", [late / early], "ratio")


def thirds(memory: Memory) -> tuple[float, float]:
    """Return the medians of the second and of the last third."""
    third = len(memory.bytes) // 3
    return statistics.median(memory.bytes[third : 2 * third]), statistics.median(memory.bytes[-third:])


def _grid(measured: Measured) -> Iterator[Record]:
    """Yield every rate, by query, state and size of batch."""
    for rate in measured.rates.all:
        what = f"views.{rate.who}.{rate.query}.live_{rate.live_orders}.batch_{rate.batch}.events_per_s"
        yield record(what, rate.values, "events/s")
        if rate.cpu:
            what = f"views.{rate.who}.{rate.query}.live_{rate.live_orders}.batch_{rate.batch}.cpu.events_per_s"
            yield record(what, rate.cpu, "events/s")
    for query, taken in measured.written.items():
        if taken is not None:
            yield record(f"views.duckdb.{query}.as_written.answers_per_s", [1 / taken], "answers/s")
    lanes = {(query, orders): f for (query, orders), f in measured.spark.alone.items()}
    lanes |= {("six", orders): f for orders, f in measured.spark.six.items()}
    for (query, orders), followed in lanes.items():
        for size in followed.seconds:
            what = f"views.spark.{query}.live_{orders}.batch_{size}.events_per_s"
            yield record(what, followed.rates(size), "events/s")

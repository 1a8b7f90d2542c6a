"""From what was measured to records with the keys under which it is known."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Final

import msgspec

from bench.report import Record, record
from bench.views.inprocess import Rates
from bench.views.plan import MAIN, Plan
from bench.views.spark import Memory
from bench.views.throughspark import CLASSES, PLAIN_EVENTS, PLAIN_ORDERS, PLAIN_QUERY, ThroughSpark

__all__ = ["Measured", "records"]

NUMPY: Final = "hand-written numpy for this query"
DUCKDB: Final = "DuckDB from scratch, hand-tuned SQL"
ONE_THREAD: Final = "the same program in process, one thread"
_EMPTY: Final = "an epoch without events"


class Measured(msgspec.Struct):
    """All that was measured."""

    plan: Plan
    """By this plan."""
    rates: Rates = msgspec.field(default_factory=Rates)
    """In process."""
    written: dict[str, float | None] = {}
    """Query → seconds of DuckDB for the SQL as it is written; None if it passed a limit."""
    state_bytes: tuple[int, int] = (1, 1)
    """Bytes of the maps of all six after fewer and after more events."""
    spark: ThroughSpark = msgspec.field(default_factory=ThroughSpark)
    """Through Spark."""

    def queries(self) -> list[str]:
        """Those that were measured."""
        return list(self.written)


def records(measured: Measured) -> Iterator[Record]:
    """All figures, the main ones of each kind first."""
    for query in measured.queries():
        yield from _program(measured, query)
    yield from _spark(measured)
    yield from _cost(measured)
    fewer, more = measured.state_bytes
    yield record("views.state.bytes", [more], "bytes", f"after {measured.plan.state_events[0]:,} events", [fewer])
    yield record("views.state.ratio_10m_1m", [more / fewer], "ratio")
    yield from _memory(measured)
    yield from _grid(measured)


def _program(measured: Measured, query: str) -> Iterator[Record]:
    key, orders, rates = f"views.program.{query}", measured.plan.states[0], measured.rates
    ours, scratch = rates.of(query, "program", orders, MAIN), rates.of(query, "duckdb", orders, MAIN)
    theirs = rates.of(query, "numpy", orders, MAIN)
    if theirs:
        yield record(f"{key}.events_per_s", ours, "events/s", NUMPY, theirs)
        ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
        yield record(f"{key}.ratio_numpy", ratios, "ratio", NUMPY)
    else:
        yield record(f"{key}.events_per_s", ours, "events/s", DUCKDB, scratch)
    single = rates.of(query, "program", orders, 1)
    tuplewise = rates.of(query, "tuplewise", orders, 1)
    answers = rates.of(query, "duckdb", orders, 1)
    yield record(f"{key}.refreshes_per_s", tuplewise or single, "refreshes/s", DUCKDB, answers)


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
    """How much longer a batch takes at the largest state than at the smallest; of a class the worst query."""
    lowest, highest = measured.plan.states[0], measured.plan.states[-1]
    for name, queries in CLASSES.items():
        hosted: dict[str, list[float]] = {}
        lanes: dict[str, list[float]] = {}
        for query in queries:
            few, many = (measured.rates.of(query, "program", orders, MAIN) for orders in (lowest, highest))
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
    """Medians of the second and of the last third."""
    third = len(memory.bytes) // 3
    return statistics.median(memory.bytes[third : 2 * third]), statistics.median(memory.bytes[-third:])


def _grid(measured: Measured) -> Iterator[Record]:
    """Every rate, by query, state and size of batch."""
    for rate in measured.rates.all:
        what = f"views.{rate.who}.{rate.query}.live_{rate.live_orders}.batch_{rate.batch}.events_per_s"
        yield record(what, rate.values, "events/s")
    for query, taken in measured.written.items():
        if taken is not None:
            yield record(f"views.duckdb.{query}.as_written.answers_per_s", [1 / taken], "answers/s")
    lanes = {(query, orders): f for (query, orders), f in measured.spark.alone.items()}
    lanes |= {("six", orders): f for orders, f in measured.spark.six.items()}
    for (query, orders), followed in lanes.items():
        for size in followed.seconds:
            what = f"views.spark.{query}.live_{orders}.batch_{size}.events_per_s"
            yield record(what, followed.rates(size), "events/s")

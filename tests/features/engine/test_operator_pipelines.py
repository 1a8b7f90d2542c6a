"""Plans of operators in the task-queue engine, on two workers: rows 21, 26 to 28, 35 and 39."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pytest

from runtime.engine.barriers import Barrier, BarrierOutcome
from runtime.engine.engine import EngineConfig, QueryEngine
from runtime.engine.errors import BarrierError, PlanError
from runtime.engine.listeners import QueryStatus, StatusListener
from runtime.engine.operators import Stream, engine_plan, scan
from runtime.engine.plan import Context, Emitter, Pipeline, Source
from runtime.state import MemoryStore, ObjectSpace
from tests.generators.operator_lab import rows_of

TRADES = pa.schema([("symbol", pa.string()), ("price", pa.int64())])
PATIENCE_S = 20.0


def trades(*rows: tuple[str, int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"symbol": symbol, "price": price} for symbol, price in rows], schema=TRADES)


class Hand(Source):
    """Brings in what a test gives it."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.emit: Emitter

    def open(self, emit: Emitter) -> None:
        self.emit = emit
        self.opened.set()

    def close(self) -> None:
        return


class Collected(Pipeline):
    """Keeps batches by epoch; the engine calls it one at a time."""

    def __init__(self) -> None:
        self.epochs: list[list[pa.RecordBatch]] = [[]]

    def execute(self, inputs: Sequence[object], context: Context) -> None:
        self.epochs[-1] += inputs

    def start_drain(self, barrier: Barrier, context: Context) -> None:
        self.epochs.append([])


class Told(StatusListener):
    """The end of a query, and why."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.reason = ""

    def on_status(self, query_id: str, status: QueryStatus, reason: str) -> None:
        if status in {QueryStatus.STOPPED, QueryStatus.FAILED}:
            self.reason = reason
            self.ended.set()


class Running:
    """A plan that runs."""

    def __init__(self, engine: QueryEngine, stream: Stream, names: Sequence[str], space: ObjectSpace | None) -> None:
        self.engine = engine
        self.sources = {name: Hand() for name in names}
        self.sink = Collected()
        engine.start(engine_plan(stream, "plan", self.sources, self.sink, space=space))
        for source in self.sources.values():
            assert source.opened.wait(PATIENCE_S)

    def put(self, name: str, *batches: pa.RecordBatch) -> None:
        for batch in batches:
            assert self.sources[name].emit.put(batch)

    def barrier(self) -> list[pa.RecordBatch]:
        """The output of the epoch that ends here."""
        assert self.engine.request_barrier("plan").wait(PATIENCE_S) is BarrierOutcome.REACHED
        return self.sink.epochs[-2]


@contextmanager
def running(
    stream: Stream, *names: str, told: Told | None = None, space: ObjectSpace | None = None
) -> Iterator[Running]:
    engine = QueryEngine(EngineConfig(workers=2), told or Told())
    try:
        yield Running(engine, stream, names, space)
    finally:
        engine.shutdown(PATIENCE_S)


def test_row_21_a_barrier_is_refused_naming_the_pipeline_of_an_operator_that_cannot_drain() -> None:
    step = scan("trades", TRADES).filter("price > 0").step
    assert step.make is not None
    made = step.make

    def make(place):  # type: ignore[no-untyped-def]
        operator = made(place)
        operator.cannot_drain = "a filter made for this test"
        return operator

    refused = pytest.raises(BarrierError, match=r"pipeline 1.*a filter made for this test")
    with running(Stream(replace(step, make=make)), "trades") as plan, refused:
        plan.engine.request_barrier("plan")


def test_row_28_barriers_through_exchanges_over_instances_in_parallel() -> None:
    one, other = (scan(name, TRADES) for name in ("one", "other"))
    spread = one.union(other).exchange("symbol", instances=4).aggregate(["symbol"], ["SUM(price) AS total"])
    again = spread.exchange("total", instances=3).aggregate(["total"], ["COUNT(*) AS n"]).gather()
    with running(again.aggregate([], ["SUM(n) AS symbols", "SUM(n * total) AS sum"]), "one", "other") as plan:
        for epoch in range(20):
            whole = trades(*((chr(97 + place), epoch) for place in range(26)))
            batches = [part for cut in range(5) for part in (whole.slice(0, 5 * cut), whole.slice(5 * cut))]
            plan.put("one", *batches)
            plan.put("other", *batches)
            assert rows_of(plan.barrier()) == [(26, 26 * 10 * epoch)]


def test_row_27_output_is_never_merged_across_a_barrier() -> None:
    left = scan("left", TRADES, order=["symbol"])
    joined = left.join(scan("right", TRADES, order=["symbol"]).renamed("r_"), [("symbol", "r_symbol")], "left")
    with running(joined, "left", "right") as plan:
        for epoch in range(20):
            plan.put("left", trades(("a", epoch)), trades(("b", epoch)))
            plan.put("right", trades(("a", -epoch)))
            assert rows_of(plan.barrier()) == [("a", epoch, "a", -epoch), ("b", epoch, None, None)]


def test_row_35_what_is_kept_is_in_the_object_space_when_a_barrier_is_complete() -> None:
    store, found = MemoryStore(), []
    for _ in range(3):
        space = ObjectSpace(store)
        with running(scan("trades", TRADES).row_number("n").limit(5), "trades", space=space) as plan:
            plan.put("trades", trades(("a", 1), ("b", 2)))
            found.append([row[2] for row in rows_of(plan.barrier())])
            space.commit()
    assert found == [[1, 2], [3, 4], [5]]


def test_row_39_a_plan_gives_in_parallel_what_a_task_gives_one_after_the_other() -> None:
    stream = scan("trades", TRADES).exchange("symbol", instances=3).aggregate(["symbol"], ["MAX(price) AS top"])
    stream = stream.gather().sort("symbol")
    found = []
    for _ in range(2):
        with running(stream, "trades") as plan:
            for price in range(10):
                plan.put("trades", trades(*((chr(97 + place * price % 7), price) for place in range(9))))
            found.append(plan.barrier())
    assert [batch.to_pylist() for batch in found[0]] == [batch.to_pylist() for batch in found[1]]


def test_the_end_of_all_inputs_gives_out_what_is_held() -> None:
    told = Told()
    stream = scan("trades", TRADES).aggregate(["symbol"], ["SUM(price) AS total"])
    with running(stream, "trades", told=told) as plan:
        plan.put("trades", trades(("a", 1)), trades(("a", 2)))
        plan.sources["trades"].emit.end_of_stream()
        assert told.ended.wait(PATIENCE_S)
        assert rows_of(plan.sink.epochs[-1]) == [("a", 3)]


def test_the_stop_of_a_query_gives_out_what_is_held() -> None:
    told = Told()
    stream = scan("trades", TRADES).aggregate(["symbol"], ["SUM(price) AS total"])
    with running(stream, "trades", told=told) as plan:
        plan.put("trades", trades(("a", 1)))
        plan.barrier()
        plan.put("trades", trades(("a", 5)))
        assert rows_of(plan.barrier()) == [("a", 5)]
        plan.engine.stop("plan")
        assert told.ended.wait(PATIENCE_S)
        assert plan.sink.epochs[-1] == []


def test_an_operator_that_fails_fails_its_query_with_the_reason() -> None:
    told = Told()
    ordered = scan("left", TRADES, order=["price"]).join(
        scan("right", TRADES, order=["price"]).renamed("r_"), [("price", "r_price")]
    )
    with running(ordered, "left", "right", told=told) as plan:
        plan.put("left", trades(("a", 2), ("a", 1)))
        assert told.ended.wait(PATIENCE_S)
        assert "expected the left input sorted by price" in told.reason


def test_sources_and_scans_must_meet() -> None:
    stream = scan("trades", TRADES).limit(1)
    with pytest.raises(PlanError, match="expected sources for trades, were none"):
        engine_plan(stream, "plan", {}, Collected())
    plan = engine_plan(stream, "plan", {"trades": Hand()}, Collected())
    assert "pipeline 1 (limit 1) ◀── trades" in str(plan)


def test_items_must_be_record_batches() -> None:
    told = Told()
    with running(scan("trades", TRADES).limit(1), "trades", told=told) as plan:
        assert plan.sources["trades"].emit.put("no batch")
        assert told.ended.wait(PATIENCE_S)
        assert "expected a record batch, was str" in told.reason

"""Rows 21 and 26 to 29 of the engine's features: plans of operators at barriers. Those of operators: the next file."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from runtime.engine.errors import BarrierError
from runtime.engine.operators import Stream, Task, scan
from tests.generators.operator_lab import rows_of

TRADES = pa.schema([("symbol", pa.string()), ("price", pa.int64())])


def trades(*rows: tuple[str, int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"symbol": symbol, "price": price} for symbol, price in rows], schema=TRADES)


def test_row_21_a_barrier_on_a_plan_with_an_operator_that_cannot_drain_is_refused_naming_it() -> None:
    step = scan("trades", TRADES).filter("price > 0").step
    assert step.make is not None
    made = step.make

    def make(place):  # type: ignore[no-untyped-def]
        operator = made(place)
        operator.cannot_drain = "a filter made for this test"
        return operator

    task = Task(Stream(replace(step, make=make)).limit(3))
    task.add_input("trades", trades(("a", 1)))
    with pytest.raises(BarrierError, match=r"pipeline 1: a filter made for this test"):
        task.request_barrier()
    assert rows_of(task.outputs()) == [("a", 1)]  # and the task goes on


def test_row_22_a_barrier_after_the_last_input_is_refused() -> None:
    task = Task(scan("trades", TRADES))
    task.end_of_input("trades")
    with pytest.raises(BarrierError, match="before the end of all inputs"):
        task.request_barrier()


def test_row_22_input_behind_a_barrier_waits_for_it() -> None:
    task = Task(scan("trades", TRADES).aggregate(["symbol"], ["SUM(price) AS total"]))
    task.add_input("trades", trades(("a", 1)))
    task.request_barrier()
    task.add_input("trades", trades(("a", 10)))
    assert rows_of(task.outputs()) == [("a", 1)]
    assert rows_of(task.drain()) == [("a", 10)]


def test_row_22_a_scan_that_came_to_a_barrier_waits_for_the_others() -> None:
    one, other = (scan(name, TRADES) for name in ("one", "other"))
    task = Task(one.union(other).aggregate([], ["SUM(price) AS total"]))
    for _ in range(5):
        task.add_input("other", trades(("a", 1)))
    task.request_barrier()
    task.add_input("one", trades(("a", 100)))
    assert rows_of(task.outputs()) == [(5,)]
    assert rows_of(task.drain()) == [(100,)]


def test_row_26_operators_drain_one_after_the_other_in_a_pipeline_and_across_pipelines() -> None:
    counts = scan("trades", TRADES, order=["symbol"]).aggregate(["symbol"], ["COUNT(*) AS n"])
    assert "streaming aggregation" in str(counts)
    task = Task(counts.sort("n").aggregate(["n"], ["COUNT(*) AS symbols"]))
    task.add_input("trades", trades(("a", 1), ("a", 2), ("b", 1), ("c", 1), ("c", 2)))
    assert task.outputs() == []  # everything is held by one operator or another
    assert rows_of(task.drain()) == [(1, 1), (2, 2)]
    assert task.held_rows() == 0


def test_row_26_a_pipeline_passes_a_barrier_on_behind_what_all_its_operators_gave_out() -> None:
    sizes = scan("trades", TRADES).aggregate(["symbol"], ["COUNT(*) AS n"]).aggregate(["n"], ["COUNT(*) AS symbols"])
    task = Task(sizes.exchange("n", instances=2).aggregate(["n"], ["SUM(symbols) AS symbols"]))
    for _ in range(2):
        task.add_input("trades", trades(("a", 1), ("a", 2), ("b", 1), ("c", 1), ("c", 2)))
        assert rows_of(task.drain()) == [(1, 1), (2, 2)]
        assert task.held_rows() == 0


@pytest.mark.parametrize("instances", [1, 2, 5])
def test_row_26_an_exchange_passes_a_barrier_when_all_its_producers_have(instances: int) -> None:
    one, other = (scan(name, TRADES) for name in ("one", "other"))
    spread = one.union(other).exchange("symbol", instances=3).aggregate(["symbol"], ["SUM(price) AS total"])
    again = spread.exchange("total", instances=instances).aggregate(["total"], ["COUNT(*) AS n"]).gather()
    task = Task(again.aggregate([], ["SUM(n) AS symbols", "COUNT(*) AS totals"]))
    for _ in range(3):
        task.add_input("one", trades(*((chr(97 + place), place % 4) for place in range(20))))
        task.add_input("other", trades(*((chr(97 + place), 0) for place in range(10, 26))))
        assert rows_of(task.drain()) == [(26, 4)]  # one row: no instance was late


def test_row_27_output_is_never_merged_across_a_barrier() -> None:
    """Batches small enough to share an output batch, keys that go on: still each epoch has output of its own."""
    rows = scan("trades", TRADES, order=["symbol"])
    for plan in (
        rows.aggregate(["symbol"], ["SUM(price) AS total"]),
        scan("trades", TRADES).aggregate(["symbol"], ["SUM(price) AS total"]),
        rows.project("symbol", "price AS total"),
        rows.project("symbol", "price AS total").join(rows.project("symbol AS s"), [("symbol", "s")], "semi"),
    ):
        task = Task(plan)
        for price in (1, 2, 3):
            task.add_input("trades", trades(("a", price)))
            task.request_barrier()
        assert [rows_of([batch]) for batch in task.outputs()] == [[("a", 1)], [("a", 2)], [("a", 3)]]


def test_row_29_empty_epochs_give_nothing_and_leave_nothing() -> None:
    left, right = scan("left", TRADES), scan("right", TRADES).renamed("r_")
    task = Task(left.join(right, [("symbol", "r_symbol")], "full").aggregate(["symbol"], ["COUNT(*) AS n"]))
    for _ in range(50):
        task.request_barrier()
    assert task.outputs() == []
    assert (task.barriers, task.held_rows()) == (50, 0)


def test_row_29_a_scan_that_has_ended_is_not_waited_for() -> None:
    left, right = scan("left", TRADES), scan("right", TRADES).renamed("r_")
    task = Task(left.join(right, [("symbol", "r_symbol")], "left").project("symbol", "price", "r_price"))
    task.add_input("left", trades(("a", 1)))
    task.add_input("right", trades(("a", 7)))
    task.end_of_input("right")
    assert rows_of(task.drain()) == [("a", 1, 7)]
    task.add_input("left", trades(("a", 2)))
    assert rows_of(task.drain()) == [("a", 2, None)]
    task.add_input("left", trades(("a", 3)))
    task.end_of_input("left")
    assert rows_of(task.outputs()) == [("a", 3, None)]
    assert task.barriers == 2


def test_row_37_the_passage_of_a_barrier_counts_as_no_input() -> None:
    task = Task(scan("trades", TRADES))
    for _ in range(3):
        task.add_input("trades", trades(("a", 1)))
        task.drain()
    assert (task.inputs, task.barriers) == (3, 3)


def test_row_38_one_task_for_thousands_of_cycles_holds_nothing() -> None:
    one, other = (scan(name, TRADES, order=["symbol"]) for name in ("one", "other"))
    joined = one.join(other.renamed("o_"), [("symbol", "o_symbol")]).aggregate(["symbol"], ["SUM(price) AS total"])
    task = Task(joined)
    for number in range(2000):
        task.add_input("one", trades(("a", number)))
        task.add_input("other", trades(("a", 1)))
        assert rows_of(task.drain()) == [("a", number)]
        assert task.held_rows() == 0


def test_row_39_two_runs_give_the_same_batches() -> None:
    rows = [("abcdefgh"[place * 7 % 8], place * 37 % 11) for place in range(100)]

    def run() -> list[pa.RecordBatch]:
        one, other = (scan(name, TRADES).bounded(most_rows=7) for name in ("one", "other"))
        spread = one.exchange("symbol", instances=3).aggregate(["symbol", "price"], ["COUNT(*) AS n"])
        joined = spread.gather().join(other.renamed("o_"), [("symbol", "o_symbol")]).limit(400)
        task, found = Task(joined), []
        for start in range(0, 100, 20):
            task.add_input("one", trades(*rows[start : start + 20]))
            task.add_input("other", trades(*rows[start + 10 : start + 25]))
            found += task.drain()
        return found

    first, second = run(), run()
    assert len(first) > 20
    assert len(first) == len(second)
    assert all(one.equals(other) for one, other in zip(first, second, strict=True))

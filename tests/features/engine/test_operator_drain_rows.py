"""Rows 30 to 36 of the engine's features: what each operator does at a barrier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from runtime.engine.operators import (
    Found,
    HeldTooMuchError,
    Index,
    LookupJoin,
    MergeJoin,
    Pending,
    Stream,
    TableIndex,
    Task,
    scan,
)
from runtime.engine.operators.joins.merge import JOIN_KINDS, JoinKind
from runtime.state import MemoryStore, ObjectSpace
from tests.generators.operator_lab import rows_of

ROWS = pa.schema([("k", pa.int64()), ("v", pa.int64())])


def rows(*pairs: tuple[int | None, int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"k": key, "v": value} for key, value in pairs], schema=ROWS)


def epochs(stream: Stream, *given: pa.RecordBatch) -> list[list[tuple[Any, ...]]]:
    """What comes of a batch by epoch."""
    task, found = Task(stream), []
    for batch in given:
        task.add_input("rows", batch)
        found.append(rows_of(task.drain()))
    return found


def test_row_30_streaming_aggregation_flushes_its_open_group_and_starts_afresh() -> None:
    plan = scan("rows", ROWS, order=["k"]).aggregate(["k"], ["SUM(v) AS total", "COUNT(*) AS n", "FIRST(v) AS f"])
    assert "streaming aggregation" in str(plan)
    assert epochs(plan, rows((1, 1), (2, 2)), rows((2, 3), (2, 4)), rows(), rows((2, 5))) == [
        [(1, 1, 1, 1), (2, 2, 1, 2)],
        [(2, 7, 2, 3)],
        [],
        [(2, 5, 1, 5)],
    ]


def test_row_30_within_an_epoch_a_group_goes_on_over_batches() -> None:
    task = Task(scan("rows", ROWS, order=["k"]).aggregate(["k"], ["SUM(v) AS total"]))
    for batch in (rows((1, 1)), rows((1, 2)), rows((1, 3), (2, 4))):
        task.add_input("rows", batch)
    assert rows_of(task.outputs()) == [(1, 6)]
    assert rows_of(task.drain()) == [(2, 4)]


def test_row_31_hash_aggregation_flushes_its_groups_and_starts_afresh() -> None:
    plan = scan("rows", ROWS).aggregate(["k"], ["SUM(v) AS total"])
    assert "hash aggregation" in str(plan)
    assert epochs(plan, rows((2, 1), (1, 2), (2, 3)), rows((2, 4))) == [[(1, 2), (2, 4)], [(2, 4)]]


def test_row_31_groups_that_are_kept_are_part_of_the_checkpoint() -> None:
    store = MemoryStore()
    for total in (5, 10, 15):
        space = ObjectSpace(store)  # restarted after each epoch
        task = Task(scan("rows", ROWS).aggregate(["k"], ["SUM(v) AS total"], keep=True), space=space)
        task.add_input("rows", rows((1, 2), (1, 3)))
        assert rows_of(task.drain()) == [(1, total)]
        space.commit()


@pytest.mark.parametrize("kind", JOIN_KINDS)
def test_row_32_merge_join_gives_out_what_it_holds_and_resets(kind: JoinKind) -> None:
    """The same keys in each epoch, smaller ones after greater: nothing of an epoch meets another one's."""
    left, right = scan("left", ROWS, order=["k"]), scan("right", ROWS, order=["k"]).renamed("r_")
    task = Task(left.join(right, [("k", "r_k")], kind))
    expected = {
        "inner": [(2, 20, 2, 200)],
        "left": [(1, 10, None, None), (2, 20, 2, 200)],
        "right": [(2, 20, 2, 200), (None, None, 3, 300)],
        "full": [(1, 10, None, None), (2, 20, 2, 200), (None, None, 3, 300)],
        "semi": [(2, 20)],
        "anti": [(1, 10)],
    }[kind]
    for _ in range(3):
        task.add_input("left", rows((1, 10), (2, 20)))
        task.add_input("right", rows((2, 200), (3, 300)))
        assert rows_of(task.drain()) == expected
        assert task.held_rows() == 0


DROPS = {"inner": (1, 1), "left": (0, 1), "right": (1, 0), "full": (0, 0), "semi": (1, 1), "anti": (0, 1)}
"""Whether the rest of the left, and of the right, input is dropped once the other one is drained and passed."""


@pytest.mark.parametrize("port", [0, 1])
@pytest.mark.parametrize("kind", JOIN_KINDS)
def test_row_32_merge_join_drops_the_input_that_can_no_longer_match(kind: JoinKind, port: int) -> None:
    right = pa.schema([pa.field(f"r_{field.name}", field.type) for field in ROWS])
    join = MergeJoin(kind, ROWS, right, ["k"], ["r_k"], least_rows=0)
    schemas = (ROWS, right)

    def batch(side: int, *keys: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pa.array(keys), pa.array(keys)], schema=schemas[side])

    assert list(join.add_input(batch(1 - port, 1, 2), 1 - port)) == []
    list(join.drain_input(1 - port))
    assert not join.drops_input(port)  # its rows may match yet
    list(join.add_input(batch(port, 1, 2), port))
    assert not join.drops_input(port)  # 2 may come again
    list(join.add_input(batch(port, 5), port))
    assert join.drops_input(port) == bool(DROPS[kind][port])
    if DROPS[kind][port]:
        assert join.held_rows() == 0
    assert any(5 in row for row in rows_of(join.start_drain())) != bool(DROPS[kind][port])
    assert not join.drops_input(port)  # a new epoch


@pytest.mark.parametrize("port", [0, 1])
def test_row_32_a_task_does_not_look_at_input_that_is_dropped(port: int) -> None:
    names = ["left", "right"]
    left, right = scan("left", ROWS, order=["k"]), scan("right", ROWS, order=["k"]).renamed("r_")
    task = Task(left.filter("v > 0").join(right, [("k", "r_k")]))
    for _ in range(2):
        before = task.dropped_rows
        task.add_input(names[1 - port], rows((1, 1)))
        for key in range(1, 10):
            task.add_input(names[port], rows((key, 1)))
        assert rows_of(task.drain()) == [(1, 1, 1, 1)]
        assert task.dropped_rows - before >= 6


class Slow(Index):
    """Answers when it is told to, or when somebody waits."""

    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    keys = ("id",)

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.answered = 0

    def look_up(self, keys: Sequence[pa.Array]) -> Pending:
        number = len(self.asked)
        self.asked.append(keys[0].to_pylist())
        index = self

        class Answer:
            def done(self) -> bool:
                return index.answered > number

            def result(self) -> Found:
                index.answered = max(index.answered, number + 1)
                ids = index.asked[number]
                even = [place for place, each in enumerate(ids) if each % 2 == 0]
                names = [f"name {ids[place]}" for place in even]
                found = pa.RecordBatch.from_arrays([pa.array([ids[place] for place in even], pa.int64()),
                                                    pa.array(names, pa.string())], schema=Slow.schema)  # fmt: skip
                return Found(np.array(even, np.int64), found)

        return Answer()


def test_row_33_lookup_join_finishes_the_lookups_in_flight() -> None:
    index = Slow()
    join = LookupJoin(ROWS, index, ["k"], "left", most_in_flight=3)
    assert [list(join.add_input(rows((key, key)))) for key in (1, 2, 3)] == [[], [], []]
    assert (index.asked, join.held_rows()) == ([[1], [2], [3]], 3)
    assert rows_of(join.add_input(rows((4, 4)))) == [(1, 1, None)]  # no more than three are under way
    index.answered = 2
    assert rows_of(join.add_input(rows((None, 5)))) == [(2, 2, "name 2")]
    assert rows_of(join.start_drain()) == [(3, 3, None), (4, 4, "name 4"), (None, 5, None)]
    assert join.held_rows() == 0
    assert list(join.start_drain()) == []


def test_row_33_rows_that_wait_for_a_batch_of_lookups_are_looked_up_at_a_barrier() -> None:
    index = Slow()
    join = LookupJoin(ROWS, index, ["k"], "inner", batch_rows=100)
    assert [list(join.add_input(rows((key, key)))) for key in (1, 2, 4)] == [[], [], []]
    assert index.asked == []
    assert rows_of(join.start_drain()) == [(2, 2, "name 2"), (4, 4, "name 4")]
    assert index.asked == [[1, 2, 4]]


def test_row_33_an_index_is_changed_by_a_stream_and_kept() -> None:
    store = MemoryStore()
    changes = pa.schema([("id", pa.int64()), ("broker", pa.int64()), ("weight", pa.int64())])

    def batch(*given: tuple[int, int, int]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([dict(zip(changes.names, row, strict=True)) for row in given], schema=changes)

    found = []
    for given in (batch((1, 7, 1), (2, 8, 1)), batch((1, 9, 1), (2, 8, -1)), batch()):
        space = ObjectSpace(store)
        index = TableIndex(pa.schema([("id", pa.int64()), ("broker", pa.int64())]), ["id"], space=space)
        task = Task(scan("rows", ROWS).lookup(index, ["k"], "left", updates=scan("orders", changes)), space=space)
        task.add_input("orders", given)
        task.drain()
        space.commit()
        task.add_input("rows", rows((1, 0), (2, 0)))
        found.append(rows_of(task.drain()))
    assert found == [[(1, 0, 7), (2, 0, 8)], [(1, 0, 9), (2, 0, None)], [(1, 0, 9), (2, 0, None)]]


def test_row_34_unnest_finishes_the_rows_it_is_in() -> None:
    lists = pa.schema([("k", pa.int64()), ("l", pa.list_(pa.int64()))])
    task = Task(scan("rows", lists).bounded(most_rows=3).unnest("l"))
    task.add_input("rows", pa.RecordBatch.from_pylist([{"k": 1, "l": list(range(8))}, {"k": 2, "l": [9]}], lists))
    first = task.next()
    assert first is not None
    assert first.num_rows == 3
    task.request_barrier()  # in the middle of a list
    task.add_input("rows", pa.RecordBatch.from_pylist([{"k": 3, "l": [10]}], lists))
    rest = []
    while task.barriers == 0:
        batch = task.next()
        assert batch is not None or task.barriers
        rest += [batch] if batch is not None and batch.column("k")[0].as_py() != 3 else []
    assert rows_of([first, *rest]) == sorted([*((1, place) for place in range(8)), (2, 9)])
    assert [batch.num_rows for batch in rest] == [3, 3]


def test_row_35_union_passes_rows_of_all_inputs_and_a_barrier_behind_all_of_them() -> None:
    one, other = (scan(name, ROWS) for name in ("one", "other"))
    task = Task(one.union(other).aggregate([], ["COUNT(*) AS n"]))
    for count in (1, 2):
        for _ in range(count):
            task.add_input("one", rows((1, 1)))
            task.add_input("other", rows((1, 1), (2, 2)))
        assert rows_of(task.drain()) == [(3 * count,)]


def test_row_35_limit_and_row_number_keep_their_counters() -> None:
    plan = scan("rows", ROWS).row_number("n").limit(3, 1)
    given = rows((1, 1), (2, 2))
    assert epochs(plan, given, given, given) == [[(2, 2, 2)], [(1, 1, 3), (2, 2, 4)], []]


def test_row_35_the_counters_are_part_of_the_checkpoint() -> None:
    store = MemoryStore()
    found = []
    for _ in range(3):
        space = ObjectSpace(store)
        task = Task(scan("rows", ROWS).row_number("n").limit(5), space=space)
        task.add_input("rows", rows((1, 1), (2, 2)))
        found.append([row[2] for row in rows_of(task.drain())])
        space.commit()
    assert found == [[1, 2], [3, 4], [5]]


def test_row_36_what_would_have_to_be_spilled_is_refused_clearly() -> None:
    many = rows(*((key, key) for key in range(50)))
    bounded = scan("rows", ROWS).bounded(most_held=40)
    with pytest.raises(HeldTooMuchError, match="at most 40 rows to sort in an epoch, was 50: there is no spilling"):
        epochs(bounded.sort("k"), many)
    with pytest.raises(HeldTooMuchError, match="at most 40 groups in an epoch, was 50: there is no spilling"):
        epochs(bounded.aggregate(["k"], ["COUNT(*) AS n"]), many, many)


@pytest.mark.parametrize("name", ["left", "right"])
def test_row_36_a_join_whose_one_input_is_too_far_ahead_is_refused_clearly(name: str) -> None:
    left, right = (scan(each, ROWS, order=["k"]).bounded(most_held=40) for each in ("left", "right"))
    task = Task(left.join(right.renamed("r_"), [("k", "r_k")]))
    task.add_input(name, rows(*((key, key) for key in range(50))))
    with pytest.raises(HeldTooMuchError, match=f"at most 40 rows of the {name} input to wait .* was 50"):
        task.outputs()

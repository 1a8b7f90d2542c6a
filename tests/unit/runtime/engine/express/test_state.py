"""The state of the express lane comes back from its runs, whatever was lost on the way."""

from __future__ import annotations

import pyarrow as pa
import pytest

from runtime.compiler import Column, NamedSelect, Relation, compile_program
from runtime.engine.express import ExpressState
from runtime.state import CorruptStateError, Edit, MemoryStore, ObjectSpace
from runtime.views.materialised import PendingChanges

R = Relation("r", (Column("a", "int64"), Column("s", "string")))
PROGRAM = compile_program([NamedSelect("v", "SELECT s, SUM(a) AS x FROM r GROUP BY s", lane="express")], [R])


class FailingStore(MemoryStore):
    """Fails when it is told to."""

    is_failing = False

    def commit(self, edits: list[Edit]) -> None:  # type: ignore[override, unused-ignore]
        if self.is_failing:
            raise OSError("expected a disk, was none")
        super().commit(edits)


def _pending(changes: pa.Table) -> PendingChanges:
    pending = PendingChanges(changes.schema)
    pending.add(changes)
    return pending


def step(state: ExpressState, a: int, s: str) -> None:
    rows = pa.table({"a": [a], "s": [s], "weight": [1]})
    found = state.shard.step_tables({"r": rows})
    state.close({"v": _pending(found.changes["v"])})


def held(state: ExpressState) -> list[tuple[str, int]]:
    state.close({})
    rows = state.results.views["v"].rows()
    return sorted(zip(rows["s"].to_pylist(), map(int, rows["x"].to_pylist()), strict=True))


def opened(store: MemoryStore) -> tuple[ObjectSpace, ExpressState]:
    space, state = ObjectSpace(store), ExpressState()
    space.runs("express", state)
    return space, state


def test_edits_follow_a_base_and_add_up() -> None:
    store = MemoryStore()
    space, state = opened(store)
    state.begin(PROGRAM)
    for number in range(5):
        step(state, number, "xy"[number % 2])
        space.commit()
    _, again = opened(store)
    assert (held(again), again.program) == ([("x", 6), ("y", 4)], PROGRAM)
    step(again, 10, "x")
    assert held(again) == [("x", 16), ("y", 4)], "its shard goes on from there as well"


def test_strings_that_no_row_has_are_forgotten_with_a_base() -> None:
    _, state = opened(MemoryStore())
    state.begin(PROGRAM)
    step(state, 7, "stays")
    for number in range(3):
        rows = pa.table({"a": [1] * 5000, "s": [f"{number}-{n}" for n in range(5000)]})
        for weight in (1, -1):
            found = state.shard.step_tables({"r": rows.append_column("weight", pa.array([weight] * 5000))})
            state.close({"v": _pending(found.changes["v"])})
        state.save_all().encode()
        state.on_saved()
    assert len(state.results._pool) < 5000
    assert held(state) == [("stays", 7)]
    step(state, 1, "stays")
    assert held(state) == [("stays", 8)]


def test_a_row_removed_before_it_comes_stops_nothing() -> None:
    """A deletion may come in an earlier epoch than what it undoes."""
    q = Relation("q", (Column("b", "int64"),))
    sql = "SELECT r.s, q.b FROM r JOIN q ON r.a = q.b"
    _, state = opened(MemoryStore())
    state.begin(compile_program([NamedSelect("v", sql, lane="express")], [R, q]))
    other = pa.table({"b": [1], "weight": [1]})
    for weight in (-1, 1, 1):
        given = {"r": pa.table({"a": [1], "s": ["x"], "weight": [weight]}), "q": other.slice(0, weight == -1)}
        state.close({name: _pending(rows) for name, rows in state.shard.step_tables(given).changes.items()}).rows()
    assert state.results.views["v"].shown().to_pylist() == [{"s": "x", "b": 1, "weight": 1}]


def test_what_a_failed_commit_lost_goes_out_with_the_next() -> None:
    store = FailingStore()
    space, state = opened(store)
    state.begin(PROGRAM)
    space.commit()
    step(state, 1, "x")
    store.is_failing = True
    with pytest.raises(OSError, match="expected a disk"):
        space.commit()
    store.is_failing = False
    step(state, 2, "x")
    space.commit()
    assert held(opened(store)[1]) == [("x", 3)]


def test_a_program_that_follows_takes_standing_views_along() -> None:
    store = MemoryStore()
    space, state = opened(store)
    state.begin(PROGRAM)
    step(state, 1, "x")
    space.commit()
    longer = compile_program(
        [NamedSelect("v", PROGRAM.views[0].sql, lane="express"), NamedSelect("w", "SELECT a FROM r", lane="express")],
        [R],
    )
    state.migrate(longer)
    state.shard.step([], {"w": []})
    space.commit()
    _, again = opened(store)
    assert (held(again), list(again.results.views)) == ([("x", 1)], ["v", "w"])


def test_a_run_of_nothing_known_is_refused() -> None:
    with pytest.raises(CorruptStateError, match="expected a run of the express lane"):
        ExpressState().apply_run(b"\xff\xff")


def test_changes_during_a_commit_go_out_with_the_next() -> None:
    store = MemoryStore()
    space, state = opened(store)
    state.begin(PROGRAM)
    for number in range(4):
        step(state, number, "xyzw"[number])
        edits = space.save()
        step(state, 10, "xyzwv"[number + 1])
        store.commit(edits)
        space.on_saved()
    space.commit()
    _, again = opened(store)
    assert held(again) == held(state) == [("v", 10), ("w", 13), ("x", 0), ("y", 11), ("z", 12)]

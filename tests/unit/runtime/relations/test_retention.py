"""What leaves a relation is what came in, in order, by number and by age."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.relations import Retained, Retention, retention
from runtime.state import CorruptStateError, Edit, KeyColumn, MemoryStore, ObjectSpace, encode_words, width_of
from tests.generators.stores import UnreliableStore

COLUMNS = [KeyColumn("n", "int64", True), KeyColumn("t", "int64", True), KeyColumn("name", "string", True)]


def retained(space: ObjectSpace, limits: Retention) -> Retained:
    return Retained(space, "x", COLUMNS, limits, time="t")


def batch(rows: list[tuple[int, int, str | None]]) -> pa.RecordBatch:
    types = [pa.int64(), pa.int64(), pa.string()]
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pa.RecordBatch.from_arrays(
        [pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=[c.name for c in COLUMNS]
    )


@given(
    st.lists(st.lists(st.tuples(st.integers(-3, 9), st.none() | st.sampled_from("ab")), max_size=6), max_size=8),
    st.integers(0, 6),
    st.integers(0, 20),
    st.sets(st.integers(0, 7)),
    st.sets(st.integers(0, 7)),
    st.integers(1, 4),
)
def test_what_stays_is_what_the_limits_allow(
    batches: list[list[tuple[int, str | None]]],
    most: int,
    age: int,
    restarts: set[int],
    lost: set[int],
    chunk_rows: int,
) -> None:
    """Rows leave in the order in which they came, also where that is not the order of their times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retention, "_CHUNK_ROWS", chunk_rows)
        _check_retained(batches, most, age, restarts, lost)


def _check_retained(
    batches: list[list[tuple[int, str | None]]], most: int, age: int, restarts: set[int], lost: set[int]
) -> None:
    store = MemoryStore()
    space = ObjectSpace(store)
    held = retained(space, Retention(rows=most, time_ns=age))
    model: list[tuple[int, int, str | None]] = []
    number = t = 0
    for place, steps in enumerate(batches):
        rows = []
        for step, name in steps:
            number, t = number + 1, t + step
            rows.append((number, t, name))
        held.add(batch(rows))
        model += rows
        gone = held.expire()
        latest = max((row[1] for row in model), default=0)
        first = max(0, len(model) - most)
        while first < len(model) and model[first][1] < latest - age:
            first += 1
        fits = model[first:]
        expected = [(*row, -1) for row in model[:first]]
        assert ([tuple(row.values()) for row in gone.to_pylist()] if gone is not None else []) == expected
        assert (gone is None) == (not expected)
        model = fits
        assert len(held) == len(model)
        if place in lost:
            space.save()
            space.on_failed()
        if place in restarts:
            space.commit()
            space = ObjectSpace(store)
            held = retained(space, Retention(rows=most, time_ns=age))
            assert len(held) == len(model)


def test_rows_of_an_earlier_state_go_on() -> None:
    """Version 0.1 had them in a table, under a number that some relations had before their columns as well."""
    for numbered in (False, True):
        columns = [KeyColumn("_number", "int64"), *COLUMNS] if numbered else COLUMNS
        store = MemoryStore()
        space = ObjectSpace(store)
        table = space.table("x/rows", 1, [f"w{i}" for i in range(width_of(columns))] + ["time"])
        for n, t, name in [(2, 20, "b"), (1, 10, None), (10, 30, "a")]:
            row = batch([(n, t, name)])
            arrays = [pa.array([n]), *row.columns] if numbered else row.columns
            words = encode_words(columns, arrays, space.pool("x/strings"))
            table.put(row.column("n").to_numpy()[:, None], np.vstack([words.T, row.column("t").to_numpy()]))
        space.commit()
        space = ObjectSpace(store)
        assert len(retained(space, Retention())) == 3
        space.commit()
        space = ObjectSpace(store)
        assert list(space) == ["x/held"]
        assert retained(space, Retention(rows=1)).expire() == pa.RecordBatch.from_pylist(
            [{"n": 1, "t": 10, "name": None, "weight": -1}, {"n": 2, "t": 20, "name": "b", "weight": -1}]
        )


def test_what_is_forgotten_between_two_saves_does_not_come_back() -> None:
    store = MemoryStore()
    space = ObjectSpace(store)
    held = retained(space, Retention())
    held.add(batch([(1, 1, "a")]))
    space.commit()
    held.add(batch([(2, 2, "b")]))
    held.expire()
    held.add(batch([(3, 3, "c")]))
    gone = held.clear()
    assert gone is not None
    assert gone.column("n").to_pylist() == [1, 2, 3]
    space.commit()
    assert len(retained(ObjectSpace(store), Retention())) == 0


def test_many_small_batches_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_JOINED", 2)
    held = retained(ObjectSpace(MemoryStore()), Retention(rows=3))
    for n in range(7):
        held.add(batch([(n, n, "a")]))
    gone = held.expire()
    assert gone is not None
    assert gone.column("n").to_pylist() == [0, 1, 2, 3]


def test_runs_that_do_not_fit_are_an_error() -> None:
    store = MemoryStore()
    space = ObjectSpace(store)
    held = retained(space, Retention())
    for number in range(2):
        held.add(batch([(number, number, "a")]))
        held.expire()
        space.commit()
    store.commit([Edit("object/x/held", 0, None)])
    with pytest.raises(CorruptStateError, match="expected 2 rows in the runs of x, was 1"):
        retained(ObjectSpace(store), Retention())


def test_a_run_goes_with_the_last_of_its_rows() -> None:
    """No checkpoint writes all rows again, and what is stored follows what is held."""
    store = UnreliableStore(MemoryStore())
    space = ObjectSpace(store)
    held = retained(space, Retention(rows=50))
    for number in range(40):
        held.add(batch([(10 * number + n, n, "a") for n in range(10)]))
        held.expire()
        space.commit()
        assert [edit.key for edit in store.edits if edit.data is not None and edit.table == "object/x/held"] == [number]
        expected = list(range(max(0, 10 * number - 40), 10 * number + 10))
        assert [key for key, _ in store.scan("object/x/held")] == list(range(max(0, number - 4), number + 1))
        again = retained(ObjectSpace(store), Retention(rows=50))
        assert len(again) == len(expected)
    gone = again.clear()
    assert gone is not None
    assert gone.column("n").to_pylist() == expected


def test_rows_that_do_not_compress_are_not_written_again() -> None:
    store = UnreliableStore(MemoryStore())
    space = ObjectSpace(store)
    held = retained(space, Retention(rows=5000))
    chance = np.random.default_rng(1)
    most = 0
    for number in range(60):
        held.add(batch([(int(n), number, chance.bytes(24).hex()) for n in chance.integers(0, 1 << 62, 250)]))
        held.expire()
        space.commit()
        written = [len(edit.data) for edit in store.edits if edit.data is not None and edit.table == "object/x/held"]
        most = max(most, *written)
    assert most < 4 * 250 * (8 + 8 + 48 + 4)
    assert len(list(store.scan("object/x/held"))) == 20


def test_small_runs_give_way_to_a_base() -> None:
    store = MemoryStore()
    space = ObjectSpace(store)
    held = retained(space, Retention())
    longest = 0
    for number in range(1000):
        held.add(batch([(number, number, "a")]))
        held.expire()
        space.commit()
        longest = max(longest, sum(len(data) for _, data in store.scan("object/x/held")))
    assert longest < 3 * 64 * 1024
    assert len(retained(ObjectSpace(store), Retention())) == 1000


def test_an_unknown_setting_is_an_error() -> None:
    with pytest.raises(TypeError):
        Retention(hours=3)  # type: ignore[call-arg]

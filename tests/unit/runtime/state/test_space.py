"""The object space over both stores: what was committed is there again, what was not goes out with the next commit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from runtime.state import (
    CorruptStateError,
    Edit,
    KeyedTable,
    MemoryStore,
    ObjectSpace,
    PersistedValue,
    SqliteStore,
    StateError,
)
from tests.generators.stores import BrokenDiskError, UnreliableStore
from tests.harness.examples import examples


def contents(table: KeyedTable) -> dict[int, int]:
    slots = table.live_slots()
    return dict(zip(table.keys_of(slots)[:, 0].tolist(), table.get(slots)[0].tolist(), strict=True))


class SpaceMachine(RuleBasedStateMachine):
    """A table, a pool and a value; commits that fail and restarts that forget."""

    @initialize(sqlite=st.booleans())
    def start(self, sqlite: bool) -> None:
        self.store = UnreliableStore(SqliteStore(Path(":memory:")) if sqlite else MemoryStore())
        self.committed: tuple[dict[int, int], list[str], bytes | None] = ({}, [], None)
        self.open()

    def open(self) -> None:
        self.space = ObjectSpace(self.store)
        self.table = self.space.table("orders", 1, ["volume"])
        self.pool = self.space.pool("names")
        self.cursor = self.space.get_or_create(PersistedValue[bytes | None], "cursor")
        self.model, self.strings, self.value = dict(self.committed[0]), list(self.committed[1]), self.committed[2]

    @rule(keys=st.sets(st.integers(0, 60), max_size=30), value=st.integers(0, 99))
    def put(self, keys: set[int], value: int) -> None:
        self.table.put(np.array(sorted(keys), np.int64)[:, None], np.full((1, len(keys)), value))
        self.model.update(dict.fromkeys(keys, value))

    @rule(every=st.integers(1, 5))
    def delete(self, every: int) -> None:
        keys = list(self.model)[::every]
        self.table.delete(np.array(keys, np.int64)[:, None])
        for key in keys:
            del self.model[key]

    @rule(texts=st.lists(st.sampled_from("abcdefgh"), max_size=4))
    def name(self, texts: list[str]) -> None:
        self.pool.encode(pa.array(texts, pa.string()))
        self.strings += [t for t in dict.fromkeys(texts) if t not in self.strings]

    @rule(data=st.binary(max_size=2))
    def set_value(self, data: bytes) -> None:
        self.cursor.value = data
        self.value = data

    @rule(failures=st.integers(0, 2), more=st.sets(st.integers(0, 9), max_size=3))
    def commit(self, failures: int, more: set[int]) -> None:
        self.store.failures = ["lost"] * failures
        for _ in range(failures):
            with pytest.raises(BrokenDiskError):
                self.space.commit()
            self.put(more, 1)
        self.space.commit([Edit("own", 0, b"x")])
        assert self.store.get("own", 0) == b"x"
        self.committed = (dict(self.model), list(self.strings), self.value)
        self.space.commit()
        assert self.store.edits == [], "nothing changed, nothing is written"

    @rule()
    def restart(self) -> None:
        self.open()

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "model"):
            return
        self.table._check()
        assert contents(self.table) == self.model
        assert self.pool.decode(np.arange(len(self.pool))).to_pylist() == self.strings
        assert self.cursor.value == self.value

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()


TestSpace = SpaceMachine.TestCase
TestSpace.settings = settings(max_examples=examples(50), stateful_step_count=25, deadline=None)


def filled(rows: int) -> tuple[UnreliableStore, ObjectSpace, KeyedTable]:
    """A committed table of so many rows."""
    store = UnreliableStore(MemoryStore())
    space = ObjectSpace(store)
    table = space.table("orders", 1, ["a", "b"])
    table.put(np.arange(rows)[:, None], np.zeros((2, rows), np.int64))
    space.commit()
    return store, space, table


def test_a_checkpoint_costs_what_changed_not_what_is_held() -> None:
    """The same change costs the same in a table ten times the size."""
    costs = {}
    for held, changed in ((10_000, 10), (100_000, 10), (100_000, 1000)):
        store, space, table = filled(held)
        table.put(np.arange(changed)[:, None], np.ones((2, changed), np.int64))
        space.commit()
        costs[held, changed] = store.written_bytes
    assert costs[10_000, 10] == costs[100_000, 10]
    assert costs[100_000, 1000] < 40 * 1000


def test_the_chain_is_compacted_and_reads_the_same() -> None:
    """Thousands of commits of one row leave a bounded number of bytes, and the rows."""
    store, space, table = filled(100)
    most = 0
    for step in range(3000):
        table.put(np.array([[step % 150]]), np.array([[step], [step]]))
        space.commit()
        most = max(most, sum(len(data) for _, data in store.scan("object/orders")))
    assert most < 3 * 64 * 1024
    again = ObjectSpace(store).table("orders", 1, ["a", "b"])
    assert contents(again) == contents(table)
    assert len(again) == 150


def test_an_object_of_another_kind_is_refused() -> None:
    space = ObjectSpace(MemoryStore())
    space.table("orders", 1, ["a"])
    for width, names in ((2, ["a"]), (1, ["b"])):
        with pytest.raises(StateError, match="expected object orders to be table:"):
            space.table("orders", width, names)
    with pytest.raises(StateError, match="expected object orders to be pool, was table:1:a"):
        space.pool("orders")
    with pytest.raises(TypeError, match="expected object orders to be value"):
        space.get(PersistedValue, "orders")


def test_the_kind_is_remembered_over_a_restart() -> None:
    store = MemoryStore()
    space = ObjectSpace(store)
    space.pool("names")
    space.commit()
    with pytest.raises(StateError, match="expected object names to be value, was pool"):
        ObjectSpace(store).get(PersistedValue, "names")


def test_the_same_object_is_given_twice() -> None:
    space = ObjectSpace(MemoryStore())
    assert space.table("t", 1, ["a"]) is space.table("t", 1, ["a"])
    assert space.pool("p") is space.pool("p")


@pytest.mark.parametrize(
    ("name", "bad"), [("orders", b"nonsense"), ("orders", b""), ("names", b"\xc1"), ("names", b"\x01")]
)
def test_corrupt_bytes_name_their_object(name: str, bad: bytes) -> None:
    store = MemoryStore()
    space = ObjectSpace(store)
    space.table("orders", 1, ["a"]).put(np.array([[1]]), np.array([[1]]))
    space.pool("names").encode(pa.array(["x"]))
    space.commit()
    store.commit([Edit(f"object/{name}", 0, bad)])
    again = ObjectSpace(store)
    with pytest.raises(CorruptStateError, match=f"object {name}"):
        again.table("orders", 1, ["a"]) if name == "orders" else again.pool("names")


def test_a_corrupt_index_is_told() -> None:
    store = MemoryStore()
    store.commit([Edit("index", 0, b"\xc1")])
    with pytest.raises(CorruptStateError, match="expected entry 0 of the object index"):
        ObjectSpace(store)

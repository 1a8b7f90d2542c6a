"""A keyed table does what a dict of tuples does, and its runs are what changed, no more and no less."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from runtime.state import CorruptStateError, KeyedTable, decode_run, encode_run
from tests.harness.examples import examples

KEYS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 2), st.integers(-1, 1)), max_size=12)
Model = dict[tuple[int, ...], tuple[int, ...]]


def contents(table: KeyedTable) -> Model:
    """Everything held."""
    slots = table.live_slots()
    keys = map(tuple, table.keys_of(slots).tolist())
    return dict(zip(keys, map(tuple, table.get(slots).T.tolist()), strict=True))


class TableMachine(RuleBasedStateMachine):
    """One table, its model, and a second table that is fed by the first one's saved runs."""

    @initialize(width=st.sampled_from([0, 1, 3]), columns=st.sampled_from([0, 1, 2]))
    def start(self, width: int, columns: int) -> None:
        self.width, self.names = width, [f"c{n}" for n in range(columns)]
        self.table, self.copy = KeyedTable(width, self.names), KeyedTable(width, self.names)
        self.model: Model = {}
        self.touched: set[tuple[int, ...]] = set()

    def words(self, keys: list[tuple[int, ...]]) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """Keys as the table takes them."""
        return np.array(keys, np.int64).reshape(len(keys), self.width)

    @rule(drawn=KEYS, value=st.integers(-(2**63), 2**63 - 8))
    def put(self, drawn: list[tuple[int, int, int]], value: int) -> None:
        keys = list(dict.fromkeys(key[: self.width] for key in drawn))
        values = [tuple(value + n for n in range(len(self.names))) for _ in keys]
        self.table.put(self.words(keys), np.array(values, np.int64).reshape(len(keys), len(self.names)).T)
        self.model.update(zip(keys, values, strict=True))
        self.touched.update(keys)

    @rule(every=st.integers(1, 4))
    def delete(self, every: int) -> None:
        keys = list(self.model)[::every]
        self.table.delete(self.words(keys))
        for key in keys:
            del self.model[key]
        self.touched.update(keys)

    @rule(failures=st.integers(0, 2), between=KEYS)
    def save(self, failures: int, between: list[tuple[int, int, int]]) -> None:
        """What failed saves held comes again; what was not touched never comes, nor what nobody has seen."""
        for _ in range(failures):
            self.table.save()
            self.table.on_failed()
            self.put(between, 7)
        run = self.table.save()
        keys = [tuple(row[f"k{n}"] for n in range(self.width)) for row in run.to_pylist()]
        assert len(set(keys)) == len(keys)
        known = contents(self.copy)
        assert {key for key in self.touched if key in self.model or key in known} <= set(keys) <= self.touched
        if not failures:
            assert all(row["held"] or key in known for key, row in zip(keys, run.to_pylist(), strict=True))
        self.table.on_saved()
        self.touched.clear()
        assert not self.table.dirty
        self.copy.apply_run(decode_run(encode_run(run), "copy"))
        assert contents(self.copy) == self.model

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "model"):
            return
        self.table._check()
        self.copy._check()
        assert len(self.table) == len(self.model)
        assert contents(self.table) == self.model
        whole = KeyedTable(self.width, self.names)
        whole.apply_run(self.table.save_all())
        assert contents(whole) == self.model


TestTable = TableMachine.TestCase
TestTable.settings = settings(max_examples=examples(60), stateful_step_count=20, deadline=None)


def test_deleting_what_is_not_held_is_an_error() -> None:
    with pytest.raises(KeyError, match=r"expected keys that exist, was \[\[3\]\]"):
        KeyedTable(1, ["a"]).delete(np.array([[3]]))


def test_a_run_of_another_table_is_refused() -> None:
    run = KeyedTable(1, ["a"]).save_all()
    with pytest.raises(CorruptStateError, match=r"expected a run of \['k0', 'held', 'v_b'\], was"):
        KeyedTable(1, ["b"]).apply_run(run)


def test_every_bit_of_a_run_counts() -> None:
    table = KeyedTable(1, ["a"])
    table.put(np.array([[1], [2]]), np.array([[5, 6]]))
    data = encode_run(table.save())
    assert isinstance(decode_run(data, "orders"), pa.RecordBatch)
    for place in range(0, len(data), 7):
        flipped = bytearray(data)
        flipped[place] ^= 1 << place % 8
        with pytest.raises(CorruptStateError, match="object orders"):
            decode_run(bytes(flipped), "orders")
    for length in range(0, len(data), 13):
        with pytest.raises(CorruptStateError, match="object orders"):
            decode_run(data[:length], "orders")

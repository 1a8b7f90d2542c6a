"""Rows that wait are saved once, by their edits, and given out once, over restarts and lost saves."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.engine.errors import PlanError
from runtime.engine.operators.eventtime import Sequencer, sequencer
from runtime.engine.operators.operator import ENDED
from runtime.state import MemoryStore, ObjectSpace

SCHEMA = pa.schema([("t", pa.int64()), ("v", pa.string())])


def rows(*times: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(times, pa.int64()), pa.array([f"v{t}" for t in times])], schema=SCHEMA)


def times(batch: pa.RecordBatch) -> list[int]:
    found: list[int] = batch.column("t").to_pylist()
    return found


def test_a_run_that_is_given_out_in_part_is_not_given_out_again() -> None:
    """The rest of a stored run comes once, behind a restart."""
    store = MemoryStore()
    space = ObjectSpace(store)
    waiting = Sequencer(SCHEMA, "t", "s", space)
    waiting.push(rows(5, 1, 9))
    assert times(waiting.release(0, inclusive=True)) == []
    space.commit()
    assert times(waiting.release(5, inclusive=False)) == [1]
    space.commit()
    space = ObjectSpace(store)
    waiting = Sequencer(SCHEMA, "t", "s", space)
    assert waiting.rows == 2
    assert times(waiting.release(5, inclusive=True)) == [5]
    space.save()
    space.on_failed()  # nobody knows whether it is saved
    waiting.push(rows(7))
    assert times(waiting.release(6, inclusive=True)) == []
    space.commit()
    waiting = Sequencer(SCHEMA, "t", "s", ObjectSpace(store))
    assert times(waiting.release(20, inclusive=True)) == [7, 9]


def test_rows_that_come_and_go_between_two_saves_are_not_saved() -> None:
    """A row that has passed costs nothing; one that waits is written once."""
    space = ObjectSpace(MemoryStore())
    waiting = Sequencer(SCHEMA, "t", "s", space)
    space.commit()
    waiting.push(rows(1, 2))
    waiting.release(2, inclusive=True)
    assert space.save() == []
    space.on_saved()
    waiting.push(rows(3, 8))
    waiting.release(3, inclusive=True)
    assert len(space.save()) == 1
    space.on_saved()
    waiting.push(rows(4))
    waiting.release(4, inclusive=True)
    assert space.save() == []


def test_lists_cannot_wait() -> None:
    """A column without a place in the state is refused at once."""
    schema = SCHEMA.append(pa.field("l", pa.list_(pa.int64())))
    with pytest.raises(PlanError, match="expected a column that can be kept, was l"):
        Sequencer(schema, "t", "s", ObjectSpace(MemoryStore()))


def test_rows_without_any_watermark_survive_a_restart() -> None:
    """As those of one input while the other one has had none: nothing was ever released."""
    store = MemoryStore()
    space = ObjectSpace(store)
    Sequencer(SCHEMA, "t", "s", space).push(rows(5, 1))
    space.commit()
    waiting = Sequencer(SCHEMA, "t", "s", ObjectSpace(store))
    assert times(waiting.release(9, inclusive=True)) == [1, 5]


def test_rows_behind_the_end_of_the_input_wait_over_a_restart() -> None:
    """An end gives out all; rows that are appended later are new, whatever their time."""
    store = MemoryStore()
    space = ObjectSpace(store)
    waiting = Sequencer(SCHEMA, "t", "s", space)
    waiting.push(rows(5, 9))
    waiting.release(3, inclusive=True)
    space.commit()
    assert times(waiting.release(ENDED, inclusive=True)) == [5, 9]
    space.commit()
    space = ObjectSpace(store)
    waiting = Sequencer(SCHEMA, "t", "s", space)
    assert waiting.rows == 0
    waiting.push(rows(7, 8))
    assert times(waiting.release(7, inclusive=False)) == []
    space.commit()
    waiting = Sequencer(SCHEMA, "t", "s", ObjectSpace(store))
    assert times(waiting.release(8, inclusive=True)) == [7, 8]


STEPS = st.lists(
    st.tuples(st.just("push"), st.lists(st.integers(0, 60), min_size=1, max_size=9))
    | st.tuples(st.just("release"), st.integers(0, 3))
    | st.tuples(st.sampled_from(["commit", "failed", "restart", "drop"]), st.none()),
    max_size=40,
)


@given(steps=STEPS, part_rows=st.integers(1, 8))
def test_each_row_comes_once_in_order_of_time_then_arrival(steps: list[tuple[str, Any]], part_rows: int) -> None:
    """However parts are joined and divided, over restarts and lost saves; what is behind the bound never waits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequencer, "_PART_ROWS", part_rows)
        store = MemoryStore()
        space = ObjectSpace(store)
        waiting = Sequencer(SCHEMA, "t", "s", space)
        model: list[int] = []
        bound = 0
        for action, given_value in [*steps, ("restart", None), ("release", ENDED)]:
            if action == "push":
                pushed = [bound + t for t in given_value]
                waiting.push(rows(*pushed))
                model += pushed
            elif action == "release":
                bound = given_value if given_value == ENDED else bound + given_value
                found = times(waiting.release(bound, inclusive=False))
                assert found == sorted(t for t in model if t < bound)
                model = [t for t in model if t >= bound]
            elif action == "drop":
                waiting.drop()
                model = []
            elif action == "failed":
                space.save()
                space.on_failed()
            else:
                space.commit()
                if action == "restart":
                    space = ObjectSpace(store)
                    waiting = Sequencer(SCHEMA, "t", "s", space)
            assert waiting.rows == len(model)


def test_rows_that_wait_on_are_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A barrier looks into the parts that its bound divides, whatever else waits."""
    monkeypatch.setattr(sequencer, "_PART_ROWS", 10)
    divided: list[int] = []
    chosen = sequencer._Part.chosen

    def counted(part: Any, flags: Any) -> Any:
        divided.append(len(part.times))
        return chosen(part, flags)

    monkeypatch.setattr(sequencer._Part, "chosen", counted)
    space = ObjectSpace(MemoryStore())
    waiting = Sequencer(SCHEMA, "t", "s", space)
    for epoch in range(100):
        waiting.push(rows(*range(10 * epoch, 10 * epoch + 10)))
        space.commit()
    assert times(waiting.release(13, inclusive=False)) == list(range(13))
    assert waiting.rows == 987
    assert divided == [10, 10]  # one part: what goes, and what stays

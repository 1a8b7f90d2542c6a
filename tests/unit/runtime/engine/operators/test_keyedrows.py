"""Rows by a key, and the pool of their strings: it follows the rows that there are, not those that there were."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.compiler.script import NamedSelect
from runtime.engine.operators import DerivedQuery, StreamInput, keyedrows
from runtime.engine.operators.keyedrows import KeyedRows
from runtime.state import MemoryStore, ObjectSpace

SCHEMA = pa.schema([pa.field("t", pa.int64(), nullable=False), ("k", pa.string()), ("v", pa.string())])
Rows = dict[tuple[int, str | None], str | None]


def batch(rows: Rows) -> pa.RecordBatch:
    columns = zip(*[(t, k, v) for (t, k), v in rows.items()], strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def found(kept: KeyedRows) -> Rows:
    columns = [column.to_pylist() for column in kept.rows(kept.live_slots())]
    return {(t, k): v for t, k, v in zip(*columns, strict=True)}


def opened(store: MemoryStore) -> tuple[ObjectSpace, KeyedRows]:
    space = ObjectSpace(store)
    return space, KeyedRows(SCHEMA, 2, "rows", space)


KEYS = st.tuples(st.integers(0, 5), st.none() | st.sampled_from("abc"))
STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "delete"]), st.dictionaries(KEYS, st.none() | st.text(max_size=3), min_size=1))
    | st.tuples(st.sampled_from(["commit", "lost", "failed"]), st.just({})),
    max_size=30,
)


@given(steps=STEPS)
def test_rows_stay_while_their_pool_is_made_anew(steps: list[tuple[str, Rows]]) -> None:
    """Over restarts and lost saves as well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keyedrows, "_SPARE_STRINGS", 0)
        store = MemoryStore()
        space, kept = opened(store)
        rows: Rows = {}
        saved: Rows = {}
        for action, given_rows in steps:
            if action == "put":
                kept.put(batch(given_rows))
                rows |= given_rows
            elif action == "delete" and (gone := {key: rows.pop(key) for key in given_rows if key in rows}):
                slots = kept.find(batch(gone).columns[:2], len(gone))
                kept.delete_at(slots)
            elif action == "commit":
                space.commit()
                saved = dict(rows)
            elif action == "failed":
                space.save()
                space.on_failed()
            elif action == "lost":
                space, kept = opened(store)
                rows = dict(saved)
            assert found(kept) == rows
            assert len(space.pool("rows/strings")) <= 4 * len(rows)
        space.commit()
        assert found(opened(store)[1]) == rows


def test_strings_of_a_stream_go_with_its_rows() -> None:
    """Each epoch has new keys, and none of the old ones is held."""
    trades = StreamInput(pa.schema([("t", pa.int64()), ("k", pa.string())]), "t")
    space = ObjectSpace(MemoryStore())
    query = DerivedQuery(NamedSelect("s", "SELECT DISTINCT t, k FROM trades"), {"trades": trades}, space, "s")
    per_epoch = 1_000
    for epoch in range(22):
        keys = [f"{epoch}-{n}" for n in range(per_epoch)]
        query.add("trades", pa.record_batch({"t": [epoch] * per_epoch, "k": keys}))
        assert sum(rows.num_rows for rows in query.close({"trades": epoch + 1})) == per_epoch
        space.commit()
    pools = [space.pool(name) for name in space if space.kind(name) == "pool"]
    assert query.held_rows() == 0
    assert 0 < sum(map(len, pools)) < 5 * per_epoch

"""Rows 30 to 36 of docs/features/engine.md: operators at a barrier emit what is complete and keep what is open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from runtime.compiler.script import NamedSelect
from runtime.engine.operators import DerivedQuery, HeldTooMuchError, StreamInput
from runtime.engine.operators.joins.merge import JOIN_KINDS, JoinKind, MergeJoin
from runtime.engine.operators.rowwise import Unnest
from runtime.state import MemoryStore, ObjectSpace
from tests.generators.derived_lab import ENDED, close

ROWS = pa.schema([("t", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])
INPUTS = {
    "rows": StreamInput(ROWS, "t"),
    "others": StreamInput(ROWS, "t"),
    "lists": StreamInput(pa.schema([("t", pa.int64()), ("l", pa.list_(pa.int64()))]), "t"),
    "names": StreamInput(pa.schema([("k", pa.int64()), ("name", pa.string())]), is_table=True),
}


def query(sql: str, space: ObjectSpace | None = None, **options: int) -> DerivedQuery:
    return DerivedQuery(NamedSelect("q", sql), INPUTS, space, "q", **options)


def batch(relation: str, *given: tuple[Any, ...]) -> pa.RecordBatch:
    schema = INPUTS[relation].schema
    schema = schema.append(pa.field("weight", pa.int64())) if INPUTS[relation].is_table else schema
    return pa.RecordBatch.from_arrays(
        [pa.array([row[place] for row in given], field.type) for place, field in enumerate(schema)], schema=schema
    )


def epoch(
    stream: DerivedQuery, marks: Mapping[str, int] | int, **given: list[tuple[Any, ...]]
) -> list[tuple[Any, ...]]:
    """What comes of an epoch; one watermark counts for all streams."""
    for relation, rows in given.items():
        stream.add(relation, batch(relation, *rows))
    known = marks if isinstance(marks, Mapping) else dict.fromkeys(("rows", "others", "lists"), marks)
    return close(stream, known)


BARS = "SELECT k, window_start AS t, SUM(v) AS total, COUNT(*) AS n, FIRST(v) AS f FROM rows GROUP BY k, TUMBLE(t, 10)"


def test_row_30_streaming_aggregation_emits_complete_groups() -> None:
    """A window comes out once, in the epoch in which the watermark passes its end; an open one goes on."""
    bars = query(BARS)
    assert "streaming aggregation" in bars.explain()
    assert epoch(bars, 5, rows=[(1, 1, 1), (5, 2, 2)]) == []
    assert epoch(bars, 12, rows=[(6, 1, 3), (12, 1, 4)]) == [(1, 0, 4, 2, 1), (2, 0, 2, 1, 2)]
    assert bars.watermark() == 10
    assert epoch(bars, 20) == [(1, 10, 4, 1, 4)]
    assert bars.held_rows() == 0


def test_row_31_groups_come_in_any_order_and_outlive_a_restart() -> None:
    """Groups are found by hash; an open one is part of the checkpoint, and of it only what changed."""
    store = MemoryStore()
    for mark, given in ((1, [(1, 2, 1), (1, 1, 2)]), (2, [(2, 1, 4)]), (3, [(3, 2, 8)])):
        space = ObjectSpace(store)
        assert epoch(query(BARS, space), mark, rows=given) == []
        space.commit()
    bars = query(BARS, ObjectSpace(store))
    assert epoch(bars, 10) == [(1, 0, 6, 2, 2), (2, 0, 9, 2, 1)]
    assert bars.held_rows() == 0


@pytest.mark.parametrize("kind", JOIN_KINDS)
def test_row_32_merge_join_joins_up_to_the_lesser_watermark(kind: JoinKind) -> None:
    """What is ahead waits; what has come out is held no more."""
    columns = "l.t, l.v" if kind in ("semi", "anti") else "COALESCE(l.t, r.t) AS t, l.v, r.v AS w"
    if kind in ("inner", "left", "right"):
        columns = columns.replace("COALESCE(l.t, r.t) AS t", "r.t" if kind == "right" else "l.t")
    joined = query(f"SELECT {columns} FROM rows AS l {kind} JOIN others AS r ON l.t = r.t AND l.k = r.k")
    expected: dict[str, list[tuple[Any, ...]]] = {
        "inner": [(2, 20, 200)],
        "left": [(1, 10, None), (2, 20, 200)],
        "right": [(2, 20, 200), (3, None, 300)],
        "full": [(1, 10, None), (2, 20, 200), (3, None, 300)],
        "semi": [(2, 20)],
        "anti": [(1, 10)],
    }
    assert epoch(joined, {"rows": 5, "others": 1}, rows=[(1, 1, 10), (2, 1, 20)]) == []
    assert joined.held_rows() == 2
    assert epoch(joined, 4, others=[(2, 1, 200), (3, 1, 300)]) == expected[kind]
    assert joined.held_rows() == 0


@pytest.mark.parametrize("port", [0, 1])
@pytest.mark.parametrize("kind", JOIN_KINDS)
def test_row_32_merge_join_drops_rows_that_cannot_match(kind: JoinKind, port: int) -> None:
    """Once the other input has ended, rows that would only come out with a match are not held at all."""
    sides = ("rows", "others")
    columns = "COALESCE(l.t, r.t) AS t" if kind == "full" else "r.t" if kind == "right" else "l.t"
    joined = query(f"SELECT {columns} FROM rows AS l {kind} JOIN others AS r ON l.t = r.t AND l.k = r.k")
    epoch(joined, {sides[port]: 0, sides[1 - port]: ENDED})
    joined.add(sides[port], batch(sides[port], (7, 1, 1)))
    keeps = kind in (("left", "full", "anti"), ("right", "full"))[port]
    assert joined.held_rows() == int(keeps)
    assert MergeJoin(kind, ROWS, pa.schema([pa.field(f"r_{f.name}", f.type) for f in ROWS]), ["t"], ["r_t"]).drops[
        port
    ] == (not keeps)


def test_row_33_lookups_finish_at_the_barrier() -> None:
    """Rows that came before a table's row in the same epoch see it; later changes do not touch them."""
    found = query("SELECT t, name FROM rows JOIN names USING (k)")
    assert epoch(found, 1, rows=[(1, 1, 0)], names=[(1, "one", 1), (2, "two", 1)]) == [(1, "one")]
    assert epoch(found, 2, rows=[(2, 1, 0), (2, 2, 0)], names=[(1, "one", -1), (1, "uno", 1)]) == [
        (2, "uno"),
        (2, "two"),
    ]
    assert found.held_rows() == 2


def test_row_34_unnest_finishes_the_row_that_it_is_in() -> None:
    """A list is expanded piece by piece, and whole before the barrier."""
    schema = INPUTS["lists"].schema
    flat = pa.schema([("t", pa.int64()), ("l", pa.int64())])
    made = list(Unnest(flat, ["l"], most_rows=2).add_input(batch("lists", (1, [1, 2, 3]), (2, []), (3, [4]))))
    assert [piece.num_rows for piece in made] == [2, 2]
    assert schema.field("l").type == pa.list_(pa.int64())
    unnested = query("SELECT t, e, i FROM lists CROSS JOIN UNNEST(l) WITH ORDINALITY AS u(e, i)")
    assert epoch(unnested, 3, lists=[(1, [7, None]), (2, None), (3, [9])]) == [(1, 7, 1), (1, None, 2), (3, 9, 1)]
    assert unnested.held_rows() == 0


def test_row_35_union_limit_and_row_number_keep_their_counters() -> None:
    """They count over barriers and restarts."""
    store = MemoryStore()
    sql = """SELECT t, v, ROW_NUMBER() OVER () AS n
             FROM (SELECT t, v FROM rows UNION ALL SELECT t, v FROM others) AS u LIMIT 3 OFFSET 1"""
    expected = [[(1, 20, 2)], [(2, 30, 3), (2, 40, 4)], []]
    for mark, rows in zip((1, 2, 3), expected, strict=True):
        space = ObjectSpace(store)
        counted = query(sql, space)
        given = {1: {"rows": [(1, 1, 10)], "others": [(1, 1, 20)]}, 2: {"rows": [(2, 1, 30)], "others": [(2, 1, 40)]},
                 3: {"rows": [(3, 1, 50)]}}[mark]  # fmt: skip
        assert epoch(counted, mark + 1, **given) == rows
        space.commit()


def test_row_36_rows_beyond_the_bound_are_refused() -> None:
    """There is no spilling; the message names the operator that holds most."""
    joined = query("SELECT l.t FROM rows AS l JOIN others AS r ON l.t = r.t AND l.k = r.k", most_held=3)
    joined.add("rows", batch("rows", *((t, 1, 1) for t in range(3))))
    with pytest.raises(HeldTooMuchError, match=r"at most 3 rows held by q, was 4, most of them in: merge join inner"):
        joined.add("rows", batch("rows", (9, 1, 1)))

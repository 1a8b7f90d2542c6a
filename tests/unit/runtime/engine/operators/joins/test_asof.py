"""As-of join: what it reads and holds of the keys of earlier barriers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from runtime.engine.operators.joins import AsofJoin
from runtime.engine.operators.keyedrows import KeyedRows
from runtime.state import MemoryStore, ObjectSpace

LEFT = pa.schema([pa.field("t", pa.int64(), nullable=False), ("k", pa.string()), ("j", pa.string())])
RIGHT = pa.schema([pa.field("u", pa.int64(), nullable=False), ("r", pa.string()), ("bid", pa.int64())])
Rows = Sequence[tuple[Any, ...]]


def join(space: ObjectSpace, *by: tuple[str, str], tolerance: int | None = None, left: pa.Schema = LEFT) -> AsofJoin:
    return AsofJoin(left, RIGHT, ("t", "u"), by, outer=False, tolerance=tolerance, name="j", space=space)


def batch(schema: pa.Schema, rows: Rows) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
    )


def advance(joined: AsofJoin, bound: int, left: Rows, right: Rows, schema: pa.Schema = LEFT) -> list[tuple[Any, ...]]:
    for port, (columns, rows) in enumerate([(schema, left), (RIGHT, right)]):
        list(joined.add_input(batch(columns, rows), port))
    return [tuple(row.values()) for made in joined.advance(bound) for row in made.to_pylist()]


def test_a_barrier_reads_the_keys_of_its_rows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever number of keys is held."""
    joined = join(ObjectSpace(MemoryStore()), ("k", "r"))
    advance(joined, 10, [], [(1, f"k{n}", n) for n in range(500)])
    read: list[int] = []
    rows = KeyedRows.rows

    def counted(kept: KeyedRows, slots: Any, first: int = 0) -> list[pa.Array]:
        read.append(len(slots))
        return rows(kept, slots, first)

    monkeypatch.setattr(KeyedRows, "rows", counted)
    left = [(11, "k7", ""), (12, None, ""), (13, "unknown", ""), (14, "k7", "")]
    found = advance(joined, 20, left, [(12, "k8", -8), (13, "k7", -7)])
    assert found == [(11, "k7", "", 1, "k7", 7), (14, "k7", "", 13, "k7", -7)]
    assert read == [1]
    assert joined.held_rows() == 500


def test_unknown_keys_leave_no_strings() -> None:
    space = ObjectSpace(MemoryStore())
    joined = join(space, ("k", "r"))
    advance(joined, 10, [(n, f"k{n}", "") for n in range(100)], [(1, "k1", 0)])
    assert len(space.pool("j/strings")) == 1


def test_two_keys_may_be_those_of_one_column() -> None:
    joined = join(ObjectSpace(MemoryStore()), ("k", "r"), ("j", "r"))
    assert advance(joined, 10, [], [(1, "a", 1), (2, "b", 2)]) == []
    found = advance(joined, 20, [(11, "a", "a"), (12, "a", "b"), (13, "b", "b")], [])
    assert found == [(11, "a", "a", 1, "a", 1), (13, "b", "b", 2, "b", 2)]


def test_keys_of_another_type_match() -> None:
    """Equal integers of 64 and of 128 bits are equal."""
    left = LEFT.set(1, pa.field("k", pa.decimal128(38, 0)))
    joined = join(ObjectSpace(MemoryStore()), ("k", "bid"), left=left)
    advance(joined, 10, [], [(1, "a", 1), (2, "b", 2)], left)
    assert [row[3:] for row in advance(joined, 20, [(11, 2, ""), (12, 3, "")], [], left)] == [(2, "b", 2)]


def test_rows_behind_the_tolerance_are_deleted() -> None:
    """Before they are as many as a quarter of those that are held."""
    joined = join(ObjectSpace(MemoryStore()), ("k", "r"), tolerance=10)
    most = 0
    for now in range(0, 1000, 10):
        advance(joined, now, [], [(now, f"k{now + n}", n) for n in range(10)])
        most = max(most, joined.held_rows())
    assert most <= 40


def test_times_of_all_64_bits_have_their_difference() -> None:
    """A difference beyond 63 bits is beyond every tolerance."""
    joined = join(ObjectSpace(MemoryStore()), ("k", "r"), tolerance=5)
    right = [(-(2**63), "a", 1), (2**63 - 4, "b", 2)]
    left = [(-(2**63) + 5, "a", "x"), (2**63 - 2, "a", "x"), (2**63 - 2, "b", "y")]
    assert [(row[1], row[-1]) for row in advance(joined, 2**63 - 2, left, right)] == [("a", 1), ("b", 2)]

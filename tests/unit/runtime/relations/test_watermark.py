"""Watermarks: the largest time so far in nanoseconds, kept over a restart, and none before the first row."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from runtime.plan import Column, Relation
from runtime.relations import Adaptor, AdaptorError, RecentRows, Retention, RowAdaptor, Watermark, row_schema
from runtime.state import MemoryStore, ObjectSpace

DAY_NS = 86_400 * 10**9


@pytest.mark.parametrize(
    ("values", "type_", "expected"),
    [
        ([], pa.int64(), None),
        ([None], pa.int64(), None),
        ([3, 7, 5], pa.int64(), 7),
        ([None, -4, -9], pa.int64(), -4),
        ([1_000_005, None], pa.timestamp("us"), 1_000_005_000),
        ([2**62], pa.timestamp("us"), 2**63 - 2),
        ([dt.date(1970, 1, 3), None], pa.date32(), 2 * DAY_NS),
        ([None], pa.date32(), None),
    ],
)
def test_times_are_nanoseconds(values: list[Any], type_: pa.DataType, expected: int | None) -> None:
    watermark = Watermark(ObjectSpace(MemoryStore()), "x")
    watermark.advance(pa.array(values, type_))
    assert watermark.value == expected


def test_a_watermark_never_falls_and_is_kept() -> None:
    store = MemoryStore()
    space = ObjectSpace(store)
    watermark = Watermark(space, "x")
    for times, expected in (([5], 5), ([3], 5), ([6, 1], 6)):
        watermark.advance(pa.array(times))
        assert watermark.value == expected
    space.commit()
    watermark.advance(pa.array([99]))
    assert Watermark(ObjectSpace(store), "x").value == 6


RELATION = Relation("ticks", (Column("at", "int64", nullable=True), Column("x", "int64")))


def row_adaptor(space: ObjectSpace) -> Adaptor:
    return RowAdaptor(RELATION, row_schema(RELATION), time="at", watermark=Watermark(space, "ticks"))


def recent_rows(space: ObjectSpace) -> Adaptor:
    return RecentRows(space, "ticks", RELATION, row_schema(RELATION), Retention(), time="at")


def apply(adaptor: Adaptor, *times: int | None) -> None:
    rows = pa.RecordBatch.from_pydict({"at": pa.array(times, pa.int64()), "x": pa.array([1] * len(times))})
    adaptor.apply(adaptor.prepare(rows, np.arange(len(times))))


@pytest.mark.parametrize("make", [row_adaptor, recent_rows])
def test_rows_with_a_time_have_a_watermark(make: Any) -> None:
    store = MemoryStore()
    space = ObjectSpace(store)
    adaptor = make(space)
    seen = [adaptor.watermark]
    for times in ((), (7, 4)):
        apply(adaptor, *times)
        seen.append(adaptor.watermark)
    assert seen == [None, None, 7]
    with pytest.raises(AdaptorError, match="expected a time in at of every row of ticks, was NULL"):
        apply(adaptor, 9, None)
    assert adaptor.watermark == 7, "nothing has changed before the error"
    adaptor.at_barrier()
    space.commit()
    assert make(ObjectSpace(store)).watermark == 7


def test_rows_without_a_time_have_none() -> None:
    for adaptor in (
        RowAdaptor(RELATION, row_schema(RELATION)),
        RecentRows(ObjectSpace(MemoryStore()), "ticks", RELATION, row_schema(RELATION), Retention()),
    ):
        apply(adaptor, 7, 9)
        assert adaptor.watermark is None


@pytest.mark.parametrize(("time", "columns"), [("y", None), ("at", frozenset({"x"})), ("name", None), ("price", None)])
def test_a_time_is_a_column_that_is_read(time: str, columns: frozenset[str] | None) -> None:
    relation = Relation("ticks", (*RELATION.columns, Column("name", "string"), Column("price", "int64", scale=2)))
    with pytest.raises(AdaptorError, match=f"that is read as the time of ticks, was '{time}'"):
        RowAdaptor(
            relation,
            row_schema(relation),
            columns=columns,
            time=time,
            watermark=Watermark(ObjectSpace(MemoryStore()), "ticks"),
        )

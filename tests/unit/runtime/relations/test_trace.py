"""DBToaster's traces: streams keep their declared names, and every line is a message of its own."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa
import pytest

from runtime.plan import Column, Relation
from runtime.relations import AdaptorError, BookStream, TraceAdaptor
from runtime.state import MemoryStore, ObjectSpace


def stream(name: str, book: Literal["bids", "asks"], *columns: str) -> BookStream:
    return BookStream(Relation(name, tuple(Column(c, "int64") for c in columns)), book)


def run(trace: TraceAdaptor, *lines: tuple[int, int, str, int, int]) -> dict[str, list[dict[str, int]]]:
    columns = [pa.array(c) for c in zip(*lines, strict=True)]
    rows = pa.RecordBatch.from_arrays(columns, schema=trace.schema.arrow_schema())
    prepared = trace.prepare(rows, np.arange(len(lines)))
    assert prepared.cuttable.all()
    return {name: batch.to_pylist() for name, batch in trace.apply(prepared).items()}


def test_streams_keep_their_names_and_take_their_side() -> None:
    streams = [
        stream("buys", "bids", "when", "who", "b", "v", "p"),
        stream("sells", "asks", "t", "id"),
        stream("again", "bids", "x"),
    ]
    trace = TraceAdaptor(ObjectSpace(MemoryStore()), "trace", streams, brokers=3)
    assert [r.name for r in trace.relations] == ["buys", "sells", "again"]
    deltas = run(trace, (1, 7, "B", 10, 100), (2, 8, "S", 5, 101))
    assert deltas["buys"] == [{"when": 1, "who": 7, "b": 7 % 3, "v": 10, "p": 100, "weight": 1}]
    assert deltas["sells"] == [{"t": 2, "id": 8, "weight": 1}]
    assert deltas["again"] == [{"x": 1, "weight": 1}]
    deltas = run(trace, (3, 7, "E", 4, 100), (4, 8, "D", 0, 0), (5, 99, "D", 0, 0), (6, 7, "X", 1, 0))
    assert [(r["v"], r["weight"]) for r in deltas["buys"]] == [(10, -1), (6, 1)]
    assert deltas["sells"] == [{"t": 2, "id": 8, "weight": -1}]
    assert trace.counters() == {
        "messages": 6,
        "unknown_orders": 1,
        "duplicate_orders": 0,
        "bad_volumes": 0,
        "live_orders": 1,
    }


def test_what_changes_nothing_gives_no_deltas() -> None:
    trace = TraceAdaptor(ObjectSpace(MemoryStore()), "trace", [stream("buys", "bids", "t")], brokers=10)
    assert run(trace, (1, 7, "S", 10, 100), (2, 8, "C", 1, 1)) == {}


@pytest.mark.parametrize("columns", [(), tuple("abcdef")])
def test_a_stream_has_one_to_five_columns(columns: tuple[str, ...]) -> None:
    with pytest.raises(AdaptorError, match=f"expected up to 5 columns .* in stream buys, was {len(columns)}"):
        TraceAdaptor(ObjectSpace(MemoryStore()), "trace", [stream("buys", "bids", *columns)], brokers=10)

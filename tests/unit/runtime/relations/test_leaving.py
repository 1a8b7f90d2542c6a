"""What a feed has put into the market's relations leaves with it: every row, and nothing of another feed."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from runtime.formats import InOrder, InputFormatter, RawBuffer
from runtime.formats.itch import itch_schema
from runtime.relations import FeedAdaptor, ItchAdaptor, Retention
from runtime.relations.itch import Scale
from runtime.state import MemoryStore, ObjectSpace
from tests.generators.ingest_lab import feed

Held = dict[str, Counter[tuple[Any, ...]]]


def add_up(held: Held, deltas: Mapping[str, pa.RecordBatch]) -> None:
    for name, batch in deltas.items():
        *columns, weights = (column.to_pylist() for column in batch.columns)
        for row, weight in zip(zip(*columns, strict=True), weights, strict=True):
            held.setdefault(name, Counter())[row] += weight


def rest(held: Held) -> Held:
    found = {name: Counter({row: n for row, n in rows.items() if n}) for name, rows in held.items()}
    return {name: rows for name, rows in found.items() if rows}


@pytest.mark.parametrize("with_restart", [False, True])
def test_all_of_a_feed_leaves(with_restart: bool) -> None:
    store = MemoryStore()
    space, held = ObjectSpace(store), Held()
    adaptor = FeedAdaptor(space, "reader/1", Retention(rows=5), prefix="lse:")
    formatter = InputFormatter(adaptor.schema)
    formatter.open(0, offset=0)
    for batch in formatter.format([RawBuffer(0, 1, feed(60), 0)]).batches:
        add_up(held, adaptor.apply(adaptor.prepare(batch.rows, batch.row_ends)))
        add_up(held, adaptor.at_barrier())
    assert {row[5] for row in rest(held)["bids"]} == {"lse:ACME"}
    assert sum(rest(held)["trades"].values()) == 5
    if with_restart:
        space.commit()
        space = ObjectSpace(store)
        adaptor = FeedAdaptor(space, "reader/1", Retention(rows=5), 61, prefix="lse:")
    add_up(held, adaptor.leave())
    assert rest(held) == {}
    assert adaptor.leave() == {}
    add_up(held, adaptor.at_barrier())
    assert rest(held) == {}


def test_itch_leaves_in_the_ticks_it_came_in() -> None:
    held = Held()
    schema = itch_schema("file", 0)
    adaptor = ItchAdaptor(
        ObjectSpace(MemoryStore()), "r", Retention(), schema=schema, scale=Scale(tick_units=100), prefix="x:"
    )
    add = struct.pack(">cHH6sQcI8sI", b"A", 1, 0, (5).to_bytes(6, "big"), 77, b"B", 30, b"ACME    ", 120_000)
    end = struct.pack(">cHH6sc", b"S", 0, 0, (9).to_bytes(6, "big"), b"C")
    data = b"".join(len(each).to_bytes(2, "big") + each for each in (add, end))
    formatter = InputFormatter(schema, adaptor.pushdown)
    formatter.open(0, offset=0)
    adaptor.opened(1)
    for batch in InOrder(16).add(formatter.format([RawBuffer(0, 1, data, 0)]).batches):
        add_up(held, adaptor.apply(adaptor.prepare(adaptor.received(batch), batch.row_ends)))
    ((row,),) = [tuple(rest(held)["bids"])]
    assert row[3:] == (30, 1200, "x:ACME")
    add_up(held, adaptor.leave())
    assert rest(held) == {}

"""Touches as the adaptors give them: switched at a cut, over restarts, in ticks and lots, with the relation's name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deltabook.wire.itch import encode_message, frame
from runtime.compiler.relations import MARKET_RELATIONS, TOUCHES
from runtime.formats import InOrder, InputFormatter, RawBuffer
from runtime.plan import Column, Relation
from runtime.relations import (
    FEED,
    FEED_SCHEMA,
    TOUCHES_SCHEMA,
    AdaptorError,
    BookStream,
    FeedAdaptor,
    ItchAdaptor,
    Messages,
    OrderBookAdaptor,
    Retention,
    RowAdaptor,
    Scale,
    TraceAdaptor,
    row_schema,
)
from runtime.state import ARROW_TYPES, MemoryStore, ObjectSpace

Row = tuple[int, str | None, int | None, int | None, int | None, int | None]

LINES: list[tuple[int, int, int, int, str, int, int, str]] = [
    (1, 10, 1, 3, "B", 5, 100, "ACME"),
    (2, 20, 2, 3, "S", 4, 102, "ACME"),
    (3, 30, 3, 4, "B", 2, 100, "ACME"),
    (4, 30, 4, 4, "B", 9, 99, "ACME"),
    (5, 40, 5, 1, "S", 7, 50, "BOLT"),
    (6, 50, 1, 3, "F", 5, 100, "ACME"),
    (7, 50, 3, 3, "F", 2, 100, "ACME"),
    (8, 50, 6, 3, "S", 1, 100, "ACME"),
    (9, 60, 4, 4, "D", 9, 99, "ACME"),
    (10, 70, 99, 4, "D", 9, 99, "ACME"),
]
TOUCHED: list[Row] = [
    (10, "ACME", 100, 5, None, None),
    (20, "ACME", 100, 5, 102, 4),
    (30, "ACME", 100, 7, 102, 4),
    (40, "BOLT", None, None, 50, 7),
    (50, "ACME", 100, 2, 102, 4),
    (50, "ACME", 99, 9, 102, 4),
    (50, "ACME", 99, 9, 100, 1),
    (60, "ACME", None, None, 100, 1),
]


def apply(feed: FeedAdaptor, lines: list[tuple[int, int, int, int, str, int, int, str]]) -> list[Row]:
    """The touches that some lines bring."""
    columns = [pa.array(c, f.type) for c, f in zip(zip(*lines, strict=True), FEED_SCHEMA.arrow_schema(), strict=True)]
    rows = pa.RecordBatch.from_arrays(columns, schema=FEED_SCHEMA.arrow_schema())
    return of(feed.apply(feed.prepare(rows, np.arange(len(lines)))))


def of(deltas: Any) -> list[Row]:
    if "touches" not in deltas:
        return []
    rows = deltas["touches"]
    assert rows.schema == TOUCHES_SCHEMA
    assert set(rows.column("weight").to_pylist()) == {1}
    return [tuple(row.values())[:-1] for row in rows.to_pylist()]


@pytest.mark.parametrize("size", [1, 2, 3, 10])
def test_batches_do_not_change_rows(size: int) -> None:
    feed = FeedAdaptor(ObjectSpace(MemoryStore()), "feed", Retention(), gives_touches=True)
    found = [apply(feed, LINES[start : start + size]) for start in range(0, len(LINES), size)]
    assert [row for rows in found for row in rows] == TOUCHED


@pytest.mark.parametrize("cut", range(1, 10))
def test_rows_survive_a_restart(cut: int) -> None:
    store = MemoryStore()
    space = ObjectSpace(store)
    feed = FeedAdaptor(space, "feed", Retention(), gives_touches=True)
    found = apply(feed, LINES[:cut])
    space.commit()
    apply(feed, LINES[cut:])  # of an epoch that is lost
    feed = FeedAdaptor(ObjectSpace(store), "feed", Retention(), cut + 1, gives_touches=True)
    assert found + apply(feed, LINES[cut:]) == TOUCHED


def test_touches_are_given_while_they_are_on() -> None:
    feed = FeedAdaptor(ObjectSpace(MemoryStore()), "feed", Retention())
    assert (feed.gives_touches, feed.relations) == (False, MARKET_RELATIONS)
    assert apply(feed, LINES[:3]) == []
    feed.switch_touches(True)
    feed.switch_touches(True)
    assert feed.gives_touches
    assert feed.relations == (*MARKET_RELATIONS, TOUCHES)
    assert apply(feed, LINES[3:6]) == TOUCHED[3:5]
    feed.switch_touches(False)
    feed.switch_touches(False)
    assert apply(feed, LINES[6:7]) == []
    feed.switch_touches(True)
    assert apply(feed, LINES[7:]) == TOUCHED[6:]


def test_a_feed_that_leaves_gives_no_touches() -> None:
    feed = FeedAdaptor(ObjectSpace(MemoryStore()), "feed", Retention(), gives_touches=True)
    apply(feed, LINES[:4])
    assert "touches" not in feed.leave()
    assert apply(feed, LINES[4:]) == [(40, "BOLT", None, None, 50, 7), (50, "ACME", None, None, 100, 1)]


def test_the_relation_is_that_of_the_rows() -> None:
    assert [(c.name, ARROW_TYPES[c.type]) for c in TOUCHES.columns] == [
        (f.name, f.type) for f in TOUCHES_SCHEMA if f.name != "weight"
    ]


def itch_touches(adaptor: ItchAdaptor, messages: list[bytes]) -> tuple[list[Row], list[dict[str, Any]]]:
    formatter = InputFormatter(adaptor.schema, adaptor.pushdown)
    raw = RawBuffer(1, 1, b"".join(map(frame, messages)), 0)
    touches, bids = [], []
    for batch in InOrder(16).add(formatter.format([raw]).batches):
        deltas = adaptor.apply(adaptor.prepare(adaptor.received(batch), np.zeros(batch.rows.num_rows, np.int64)))
        touches += of(deltas)
        bids += deltas["bids"].to_pylist()
    return touches, bids


@pytest.mark.parametrize("is_late", [False, True])
def test_itch_touches_are_in_ticks_and_lots(is_late: bool) -> None:
    """Levels add up what BIDS has: whole ticks and lots of each order, and none of an order below a lot."""
    adaptor = ItchAdaptor(
        ObjectSpace(MemoryStore()),
        "feed",
        Retention(),
        scale=Scale(100, 10),
        scales={"FINE": Scale()},
        prefix="x:",
        gives_touches=not is_late,
    )

    def add(number: int, shares: int, price: int, stock: str = "ACME") -> bytes:
        return encode_message(
            "A",
            timestamp=number,
            order_reference_number=number,
            buy_sell_indicator="B",
            shares=shares,
            stock=stock,
            price=price,
        )

    first = [add(1, 25, 10_000), add(2, 9, 20_000), add(3, 15, 10_099), add(4, 7, 10_001, "FINE")]
    touches, bids = itch_touches(adaptor, first)
    assert sum(row["volume"] for row in bids if row["price"] == 100) == 3
    assert touches == ([] if is_late else [
        (1, "x:ACME", 100, 2, None, None),
        (3, "x:ACME", 100, 3, None, None),
        (4, "x:FINE", 10_001, 7, None, None),
    ])  # fmt: skip
    adaptor.switch_touches(True)
    later = [
        encode_message("X", timestamp=5, order_reference_number=1, canceled_shares=4),
        encode_message("X", timestamp=6, order_reference_number=1, canceled_shares=3),
        encode_message(
            "U", timestamp=7, order_reference_number=3, new_order_reference_number=9, shares=40, price=30_000
        ),
        encode_message("S", timestamp=8, event_code="C"),
    ]
    adaptor.opened(5)
    touches, _ = itch_touches(adaptor, later)
    assert touches == [(6, "x:ACME", 100, 2, None, None), (7, "x:ACME", 300, 4, None, None)]


def test_volumes_that_are_too_large_are_null() -> None:
    book = OrderBookAdaptor(ObjectSpace(MemoryStore()), "book", FEED)
    book.switch_touches(True)
    found = []
    for number, action in ((1, "B"), (2, "B"), (3, "B"), (1, "D")):
        letter, one = np.array([ord(action)], np.uint8), np.array([number])
        messages = Messages(one, one, one, letter, np.array([2**62]), np.array([7]), np.array([-1]), one)
        found += of(book.apply(messages))
    assert found == [
        (1, None, 7, 2**62, None, None),
        (2, None, 7, None, None, None),
        (3, None, 7, None, None, None),
        (1, None, 7, None, None, None),
    ]
    assert book.counts()["large_touches"] == 3


def test_a_trace_has_touches_beside_its_streams() -> None:
    bids = BookStream(Relation("buys", (Column("t", "int64"),)), "bids")
    trace = TraceAdaptor(ObjectSpace(MemoryStore()), "trace", [bids], brokers=3, gives_touches=True)
    assert [relation.name for relation in trace.relations] == ["buys", "touches"]
    rows = pa.RecordBatch.from_pylist(
        [
            {"t": 5, "id": 1, "action": "B", "volume": 10, "price": 100},
            {"t": 4, "id": 2, "action": "S", "volume": 10, "price": 99},
        ],
        schema=trace.schema.arrow_schema(),
    )
    deltas = trace.apply(trace.prepare(rows, np.arange(2)))
    assert of(deltas) == [(5, "", 100, 10, None, None), (4, "", 100, 10, 99, 10)]
    assert set(deltas) == {"buys", "touches"}


def test_a_stream_of_a_trace_may_not_be_called_touches() -> None:
    named = BookStream(Relation("touches", (Column("t", "int64"),)), "bids")
    trace = TraceAdaptor(ObjectSpace(MemoryStore()), "trace", [named], brokers=3)
    with pytest.raises(AdaptorError, match="expected no stream called touches beside the touches of a book, was one"):
        trace.switch_touches(True)


def test_rows_have_no_touches() -> None:
    relation = Relation("quotes", (Column("t", "int64"),))
    adaptor = RowAdaptor(relation, row_schema(relation))
    adaptor.switch_touches(False)
    assert not adaptor.gives_touches
    with pytest.raises(AdaptorError, match="expected the adaptor of an order book to give touches, was one of quotes"):
        adaptor.switch_touches(True)

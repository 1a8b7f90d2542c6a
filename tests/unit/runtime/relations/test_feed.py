"""The feed's adaptor: where an epoch may end, and that no message is missed or taken twice."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from runtime.relations import FEED_SCHEMA, FeedAdaptor, FeedGapError, Prepared, Retention
from runtime.state import MemoryStore, ObjectSpace

Line = tuple[int, int, int, int, str, int, int, str]


def adaptor(retention: Retention | None = None, next_sequence: int = 1) -> FeedAdaptor:
    return FeedAdaptor(ObjectSpace(MemoryStore()), "feed", retention or Retention(), next_sequence)


def rows(lines: list[Line]) -> pa.RecordBatch:
    schema = FEED_SCHEMA.arrow_schema()
    columns = list(zip(*lines, strict=True)) if lines else [()] * len(schema)
    return pa.RecordBatch.from_arrays(
        [pa.array(c, t) for c, t in zip(columns, schema.types, strict=True)], schema=schema
    )


def prepared(feed: FeedAdaptor, lines: list[Line]) -> Prepared:
    return feed.prepare(rows(lines), np.arange(10, 10 * len(lines) + 10, 10))


def bid(sequence: int, t: int = 0) -> Line:
    return (sequence, t or sequence, sequence, 1, "B", 5, 100, "ACME")


def heartbeat(sequence: int, t: int) -> Line:
    return (sequence, t, 0, 0, "H", 0, 0, "")


@pytest.mark.parametrize(
    ("lines", "cuttable"),
    [
        ([], []),
        ([bid(1, 5)], [False]),
        ([bid(1, 5), bid(2, 5)], [False, False]),
        ([bid(1, 5), bid(2, 6)], [True, False]),
        ([bid(1, 5), bid(2, 5), bid(3, 6), bid(4, 6), bid(5, 7)], [False, True, False, True, False]),
        ([bid(1, 5), heartbeat(2, 5)], [True]),
        ([bid(1, 5), heartbeat(2, 5), bid(2, 5)], [True, False]),
        ([bid(1, 5), bid(2, 5), heartbeat(3, 9), heartbeat(3, 10)], [False, True]),
        ([heartbeat(1, 5)], []),
        ([heartbeat(1, 5), bid(1, 5)], [False]),
    ],
)
def test_where_an_epoch_may_end(lines: list[Line], cuttable: list[bool]) -> None:
    """Before a heartbeat and between different times: never between two messages of one request."""
    found = prepared(adaptor(), lines)
    assert found.cuttable.tolist() == cuttable
    assert [r["sequence"] for r in found.rows.to_pylist()] == [line[0] for line in lines if line[4] != "H"]
    assert np.asarray(found.row_ends).tolist() == [10 * n for n, line in enumerate(lines, 1) if line[4] != "H"]


def test_messages_become_deltas() -> None:
    feed = adaptor()
    lines: list[Line] = [
        (1, 1, 7, 3, "B", 10, 100, "ACME"),
        (2, 2, 8, 4, "S", 10, 102, "BOLT"),
        (3, 3, 7, 3, "E", 4, 100, "ACME"),
        (4, 3, 0, 0, "T", 2, 101, "ACME"),
    ]
    deltas = feed.apply(prepared(feed, lines))
    assert deltas["bids"].to_pylist() == [
        {"t": 1, "id": 7, "broker_id": 3, "volume": 6, "price": 100, "symbol": "ACME", "weight": 1}
    ]
    assert deltas["asks"].column("symbol").to_pylist() == ["BOLT"]
    assert [
        (r["match_id"], r["symbol"], r["side"], r["resting_id"], r["broker_id"], r["volume"])
        for r in deltas["trades"].to_pylist()
    ] == [(3, "ACME", "S", 7, 3, 4), (4, "ACME", None, None, None, 2)]
    assert {c.name for c in feed.relations} >= set(deltas)
    assert feed.counters()["live_orders"] == 2
    assert feed.next_sequence == 5


@pytest.mark.parametrize(
    ("sequences", "expected", "was"),
    [([2], 1, 2), ([1, 2, 4], 3, 4), ([1, 3, 2], 2, 3), ([1, 2, 2], 3, 2), ([1, 9, 2], 2, 9)],
)
def test_a_missing_message_is_an_error(sequences: list[int], expected: int, was: int) -> None:
    feed = adaptor()
    with pytest.raises(FeedGapError, match=f"^expected feed message {expected}, was {was}$"):
        feed.apply(prepared(feed, [bid(n) for n in sequences]))


def test_a_gap_between_batches_is_an_error() -> None:
    feed = adaptor()
    feed.apply(prepared(feed, [bid(1), bid(2)]))
    with pytest.raises(FeedGapError, match="expected feed message 3, was 5"):
        feed.apply(prepared(feed, [bid(5)]))


def test_messages_out_of_order_are_an_error_even_if_old() -> None:
    feed = adaptor(next_sequence=3)
    with pytest.raises(FeedGapError, match="expected feed message 3, was 9"):
        feed.apply(prepared(feed, [bid(1), bid(9), bid(2), bid(3)]))


def test_repeated_messages_are_dropped() -> None:
    feed = adaptor()
    feed.apply(prepared(feed, [bid(1), bid(2), bid(3)]))
    assert feed.apply(prepared(feed, [bid(2), bid(3)])) == {}
    deltas = feed.apply(prepared(feed, [bid(2), bid(3), bid(4)]))
    assert deltas["bids"].column("id").to_pylist() == [4]
    assert feed.counters()["repeated"] == 4
    assert feed.counters()["duplicate_orders"] == 0


def test_numbers_of_malformed_messages_may_be_missing() -> None:
    """So many as were set aside, and no more."""
    feed = adaptor()
    feed.allow_missing(2)
    feed.apply(prepared(feed, [bid(1), bid(3)]))
    feed.apply(prepared(feed, [bid(5)]))
    assert feed.counters()["gaps"] == 2
    with pytest.raises(FeedGapError, match="expected feed message 6, was 7"):
        feed.apply(prepared(feed, [bid(7)]))


def test_an_adaptor_goes_on_where_the_last_epoch_ended() -> None:
    feed = adaptor(next_sequence=40)
    feed.apply(prepared(feed, [bid(40)]))
    with pytest.raises(FeedGapError, match="expected feed message 41, was 42"):
        feed.apply(prepared(feed, [bid(42)]))


def test_trades_leave_again() -> None:
    """The sum of all deltas is what retention allows, also over a restart."""
    store = MemoryStore()
    held: list[int] = []
    for start in (0, 5):
        space = ObjectSpace(store)
        feed = FeedAdaptor(space, "feed", Retention(rows=3), start + 1)
        for n in range(start + 1, start + 6):
            deltas = feed.apply(prepared(feed, [(n, n, 0, 0, "T", 1, 100, "ACME")]))
            held += deltas["trades"].column("match_id").to_pylist()
            gone = feed.at_barrier()
            for row in gone["trades"].to_pylist() if gone else []:
                assert row["weight"] == -1
                assert row["symbol"] == "ACME"
                held.remove(row["match_id"])
            assert held == list(range(max(1, n - 2), n + 1))
        space.commit()

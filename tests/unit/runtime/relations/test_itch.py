"""The ITCH adaptor: the same relations as from the text feed, whatever the batches."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest

from deltabook.wire.itch import encode_message, frame
from deltabook.wire.soupbin import encode_packet
from deltabook.wire.text import FeedMessage
from runtime.formats import InOrder, InputFormatter, RawBuffer
from runtime.formats.itch import itch_schema
from runtime.relations import FEED_SCHEMA, TRADES_SCHEMA, FeedAdaptor, ItchAdaptor, Prepared, Retention, Scale
from runtime.state import MemoryStore, ObjectSpace
from tests.generators.itch_day import TICK, make_day

Deltas = dict[str, Counter[Any]]


def itch_adaptor(framing: Literal["file", "soupbin"] = "file", **options: Any) -> ItchAdaptor:
    space = ObjectSpace(MemoryStore())
    return ItchAdaptor(space, "feed", Retention(), schema=itch_schema(framing), **options)


def rows_of(adaptor: ItchAdaptor, data: bytes, sizes: Sequence[int] = ()) -> list[Prepared]:
    """What the adaptor prepares of the bytes, in buffers of these sizes and the rest."""
    formatter, order = InputFormatter(adaptor.schema, adaptor.pushdown), InOrder(1 << 20)
    prepared: list[Prepared] = []
    cuts = [0, *np.cumsum(sizes).tolist(), len(data)]
    for number, (start, stop) in enumerate(pairwise(cuts), start=1):
        result = formatter.format([RawBuffer(1, number, data[start:stop], start)])
        for batch in order.add(result.batches):
            rows = adaptor.received(batch)
            if rows.num_rows:
                prepared.append(adaptor.prepare(rows, batch.row_ends))
    return prepared


def joined(parts: Sequence[Prepared]) -> pa.RecordBatch:
    return pa.Table.from_batches([part.rows for part in parts]).combine_chunks().to_batches()[0]


def into(relations: Deltas, deltas: Any) -> None:
    for name, batch in deltas.items():
        for row in batch.to_pylist():
            weight = row.pop("weight")
            relations.setdefault(name, Counter())[tuple(row.items())] += weight
            if not relations[name][tuple(row.items())]:
                del relations[name][tuple(row.items())]


def applied(adaptor: Any, rows: pa.RecordBatch, size: int) -> Deltas:
    """The relations after batches of so many rows."""
    relations: Deltas = {}
    for start in range(0, rows.num_rows, size):
        part = rows.slice(start, size)
        into(relations, adaptor.apply(Prepared(part, np.zeros(part.num_rows, np.int64), np.ones(part.num_rows, bool))))
    return {name: rows for name, rows in relations.items() if rows}


def text_rows(lines: Sequence[FeedMessage]) -> pa.RecordBatch:
    columns = [[getattr(line, name) for line in lines] for name in FEED_SCHEMA.names]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, FEED_SCHEMA.arrow_schema(), strict=True)],
        schema=FEED_SCHEMA.arrow_schema(),
    )


def with_match_ids(relations: Deltas, numbers: Sequence[int]) -> Deltas:
    """The text feed's trades with the numbers of their ITCH messages."""
    renumbered = Counter(
        {
            tuple((name, numbers[value - 1] + 1 if name == "match_id" else value) for name, value in row): count
            for row, count in relations.get("trades", Counter()).items()
        }
    )
    return {**relations, **({"trades": renumbered} if renumbered else {})}


class TestAgainstTheTextFeed:
    @pytest.mark.parametrize("size", [1, 7, 100, 100_000])
    @pytest.mark.parametrize("seed", range(2))
    def test_the_same_flow_gives_the_same_relations(self, seed: int, size: int) -> None:
        day = make_day(seed, 400)
        feed = FeedAdaptor(ObjectSpace(MemoryStore()), "feed", Retention())
        expected = with_match_ids(applied(feed, text_rows(day.lines), 50), day.numbers)
        adaptor = itch_adaptor(scale=Scale(tick_units=TICK))
        assert applied(adaptor, joined(rows_of(adaptor, day.data)), size) == expected
        assert set(expected) == {"bids", "asks", "trades"}
        assert adaptor.counters()["unknown_orders"] == adaptor.counters()["unknown_replaces"] == 0

    @pytest.mark.parametrize("seed", range(3))
    def test_a_flow_with_lost_messages_is_the_same_in_any_batches(self, seed: int) -> None:
        rng = random.Random(seed)
        messages = [message for message in make_day(seed, 400, others=0.0).messages if rng.random() < 0.8]
        messages += messages[100:150]  # and some come twice, which adds orders that are live
        data = b"".join(map(frame, messages))
        found = []
        for size in (1, 2, 9, 100_000):
            adaptor = itch_adaptor()
            found.append((applied(adaptor, joined(rows_of(adaptor, data)), size), adaptor.counters()))
        assert found[0][1]["unknown_replaces"] > 0
        assert all(each == found[0] for each in found)


def add(number: int, side: str = "B", shares: int = 10, price: int = 100, stock: str = "ACME", **more: Any) -> bytes:
    letter = "F" if "attribution" in more else "A"
    return encode_message(
        letter, order_reference_number=number, buy_sell_indicator=side, shares=shares, price=price, stock=stock, **more
    )


def replace(old: int, new: int, shares: int = 20, price: int = 200, **more: Any) -> bytes:
    return encode_message(
        "U", order_reference_number=old, new_order_reference_number=new, shares=shares, price=price, **more
    )


def execute(number: int, shares: int, **more: Any) -> bytes:
    return encode_message("E", order_reference_number=number, executed_shares=shares, match_number=99, **more)


def relations_of(*messages: bytes, size: int = 1000, adaptor: ItchAdaptor | None = None) -> dict[str, list[Any]]:
    adaptor = adaptor or itch_adaptor()
    found = applied(adaptor, joined(rows_of(adaptor, b"".join(map(frame, messages)))), size)
    return {name: [dict(row) for row in sorted(rows.elements())] for name, rows in found.items()}


class TestMessages:
    @pytest.mark.parametrize("size", [1, 2, 1000])
    def test_replacements_inherit_side_symbol_and_broker(self, size: int) -> None:
        chain = [add(1, "S", stock="CHAIN", attribution="17"), replace(1, 2), replace(2, 3), replace(3, 4, 5, 300)]
        (row,) = relations_of(*chain, add(9), size=size)["asks"]
        assert row == {"t": 0, "id": 4, "broker_id": 17, "volume": 5, "price": 300, "symbol": "CHAIN"}

    @pytest.mark.parametrize("size", [1, 2, 1000])
    def test_replacements_of_an_ended_order_add_nothing(self, size: int) -> None:
        adaptor = itch_adaptor()
        found = relations_of(
            add(1), execute(1, 10), replace(1, 2), replace(2, 3), add(5), replace(5, 6), size=size, adaptor=adaptor
        )
        assert [row["id"] for row in found["bids"]] == [6]
        assert adaptor.counters()["unknown_replaces"] == 2

    @pytest.mark.parametrize("size", [1, 2, 1000])
    def test_a_failed_replacement_spares_apparent_dependants(self, size: int) -> None:
        flow = [replace(1, 5, 20), add(5, shares=100), execute(5, 20), replace(5, 6, 30), replace(6, 7, 40)]
        found = relations_of(*flow, size=size)
        assert [(row["id"], row["volume"]) for row in found["bids"]] == [(7, 40)]

    @pytest.mark.parametrize("size", [1, 1000])
    def test_an_order_that_replaces_itself_lives_on(self, size: int) -> None:
        found = relations_of(add(1), replace(1, 1, 20), replace(1, 1, 30), replace(2, 2, 40), size=size)
        assert [(row["id"], row["volume"]) for row in found["bids"]] == [(1, 30)]

    def test_an_execution_without_a_price_has_that_of_the_order(self) -> None:
        (trade,) = relations_of(add(1, "S", 10, 1234, attribution="7"), execute(1, 4, timestamp=5))["trades"]
        assert trade == dict(
            zip(
                [field.name for field in TRADES_SCHEMA if field.name != "weight"],
                (5, 2, "ACME", 1234, 4, "B", 1, None, 7),
                strict=True,
            )
        )

    @pytest.mark.parametrize(("printable", "prices"), [("Y", [99]), ("N", [])])
    def test_an_execution_that_is_not_printable_is_no_trade(self, printable: str, prices: list[int]) -> None:
        executed = encode_message(
            "C",
            order_reference_number=1,
            executed_shares=4,
            match_number=1,
            printable=printable,
            execution_price=99,
        )
        found = relations_of(add(1), executed)
        assert [row["price"] for row in found.get("trades", [])] == prices
        assert [row["volume"] for row in found["bids"]] == [6]

    def test_a_trade_against_a_hidden_order_changes_no_book(self) -> None:
        hidden = encode_message(
            "P", order_reference_number=0, buy_sell_indicator="B", shares=3, stock="ACME", price=5, match_number=1
        )
        found = relations_of(hidden)
        assert list(found) == ["trades"]
        assert [(row["symbol"], row["price"], row["volume"], row["side"]) for row in found["trades"]] == [
            ("ACME", 5, 3, None)
        ]

    @pytest.mark.parametrize(("shares", "trades"), [(30, [(50, 30, None, None, None)]), (0, [])])
    def test_a_cross_is_one_trade_and_takes_its_orders_shares(self, shares: int, trades: list[tuple[Any, ...]]) -> None:
        parts = [
            encode_message(
                "C", order_reference_number=n, executed_shares=4, match_number=9, printable="N", execution_price=50
            )
            for n in (1, 2)
        ]
        cross = encode_message("Q", cross_shares=shares, stock="ACME", cross_price=50, match_number=9, cross_type="O")
        adaptor = itch_adaptor()
        found = relations_of(add(1), add(2, "S", shares=4), *parts, cross, adaptor=adaptor)
        columns = ("price", "volume", "side", "resting_id", "broker_id")
        assert [tuple(row[c] for c in columns) for row in found.get("trades", [])] == trades
        assert [row["volume"] for row in found["bids"]] == [6]
        assert "asks" not in found
        assert adaptor.counters()["bad_volumes"] == 0

    def test_a_trade_that_is_void_stays_a_trade(self) -> None:
        found = relations_of(add(1), execute(1, 4), encode_message("B", match_number=99))
        assert [row["volume"] for row in found["trades"]] == [4]

    @pytest.mark.parametrize(
        ("attribution", "broker"), [("7", 7), ("9999", 9999), ("A000", 10_000), ("", 0), ("a b", None)]
    )
    def test_brokers_are_numbers_or_a_code_of_their_own(self, attribution: str, broker: int | None) -> None:
        (row,) = relations_of(add(1, attribution=attribution))["bids"]
        assert row["broker_id"] == broker if broker is not None else row["broker_id"] > 1_000_000

    def test_prices_and_shares_become_ticks_and_lots_by_symbol(self) -> None:
        adaptor = itch_adaptor(scale=Scale(100), scales={"LOTS": Scale(10, 5)})
        found = relations_of(add(1, price=700), add(2, price=700, stock="LOTS"), adaptor=adaptor)
        assert [(row["symbol"], row["price"], row["volume"]) for row in found["bids"]] == [
            ("ACME", 7, 10),
            ("LOTS", 70, 2),
        ]
        assert adaptor.counters()["off_scale"] == 0

    def test_what_is_no_whole_tick_or_lot_is_counted(self) -> None:
        adaptor = itch_adaptor(scale=Scale(100, 5))
        found = relations_of(add(1, price=750), add(2, price=700), adaptor=adaptor)
        assert [row["price"] for row in found["bids"]] == [7, 7]
        assert adaptor.counters()["off_scale"] == 1

    def test_a_side_that_is_none_is_counted_and_adds_nothing(self) -> None:
        adaptor = itch_adaptor()
        assert relations_of(add(1, side="E"), execute(1, 2), adaptor=adaptor) == {}
        assert adaptor.counters()["bad_sides"] == adaptor.counters()["unknown_orders"] == 1


class TestNumbers:
    def test_malformed_messages_count_and_are_counted(self) -> None:
        adaptor = itch_adaptor()
        data = b"".join(map(frame, [add(1), b"Z" * 9, execute(1, 2), add(2)]))
        relations = applied(adaptor, joined(rows_of(adaptor, data)), 100)
        (trade,) = relations["trades"]
        assert dict(trade)["match_id"] == 3
        assert (adaptor.next_sequence, adaptor.counters()["gaps"]) == (5, 1)

    def test_unsequenced_packets_do_not_count_over_a_reconnect(self) -> None:
        adaptor = itch_adaptor("soupbin")
        packets = [("S", add(1)), ("H", b""), ("H", b""), ("U", add(7)), ("S", execute(1, 2)), ("H", b"")]
        data = b"".join(encode_packet(type_.encode(), payload) for type_, payload in packets)
        parts = rows_of(adaptor, data, [10, 60, 1])
        assert joined(parts).column("sequence").to_pylist() == [1, 2]
        applied(adaptor, joined(parts), 1)
        adaptor.opened(adaptor.next_sequence)
        again = rows_of(adaptor, data)
        assert joined(again).column("sequence").to_pylist() == [3, 4]

    @pytest.mark.parametrize("sizes", [(), (40,), (80,), (81,)])
    def test_an_unsequenced_message_hides_no_other(self, sizes: Sequence[int]) -> None:
        """It has no number, so it is not applied; and what follows it, in its buffer or the next one, is."""
        adaptor = itch_adaptor("soupbin")
        packets = [("S", add(1)), ("U", add(7)), ("S", execute(1, 2)), ("S", add(2))]
        data = b"".join(encode_packet(type_.encode(), payload) for type_, payload in packets)
        relations = applied(adaptor, joined(rows_of(adaptor, data, sizes)), 100)
        assert sorted(dict(row)["id"] for row in relations["bids"]) == [1, 2]
        assert [dict(row)["volume"] for row in relations["trades"]] == [2]
        assert (adaptor.counters()["repeated"], adaptor.next_sequence) == (0, 4)

    def test_messages_that_come_again_are_not_applied_again(self) -> None:
        adaptor = itch_adaptor()
        data = b"".join(map(frame, [add(1), execute(1, 2)]))
        applied(adaptor, joined(rows_of(adaptor, data)), 100)
        adaptor.opened(1)
        assert applied(adaptor, joined(rows_of(adaptor, data)), 100) == {}
        assert adaptor.counters()["repeated"] == 2


class TestCuts:
    def test_an_epoch_may_end_between_times_and_before_a_heartbeat(self) -> None:
        adaptor = itch_adaptor("soupbin")
        packets = [("S", add(1, timestamp=1)), ("S", add(2, timestamp=1)), ("S", add(3, timestamp=2)), ("H", b"")]
        data = b"".join(encode_packet(type_.encode(), payload) for type_, payload in packets)
        (prepared,) = rows_of(adaptor, data)
        assert prepared.cuttable.tolist() == [False, True, True]
        assert prepared.rows.num_rows == 3

    def test_the_last_message_may_share_its_time_with_the_next(self) -> None:
        adaptor = itch_adaptor()
        (prepared,) = rows_of(adaptor, frame(add(1)))
        assert prepared.cuttable.tolist() == [False]

"""OUCH 5.0: what clients ask for and what they are told, in a market without an exchange around it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from deltabook.wire.ouch5 import Option, encode_options, encode_request
from exchange_server.matching.inputs import Enter, OpenAccount
from exchange_server.matching.order import STOP
from tests.generators.ouch_desk import MIDNIGHT_NS, Desk, cancel, enter, modify, replace, short


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    desk.open("A")
    yield desk
    desk.market._check()


# -- byte by byte ----------------------------------------------------------------------------------------------------


def test_accepted_says_the_request_again_byte_by_byte(desk: Desk) -> None:
    options = {Option.FIRM: "FIRM", Option.CUSTOMER_TYPE: "N"}
    for request in (enter(1), enter(2, "S", 7, 20_000_000, options=options, inter_market_sweep_eligibility="Y")):
        desk.send("A", request)
        (told,) = desk.raw("A")
        stamp = (desk.time_ns - MIDNIGHT_NS).to_bytes(8)
        order_id = desk.market.next_order_id - 1
        assert told == b"A" + stamp + request[1:28] + order_id.to_bytes(8) + request[28:31] + b"L" + request[31:]


def test_every_reply_is_these_bytes(desk: Desk) -> None:
    def number(value: int, width: int) -> bytes:
        return value.to_bytes(width)

    def stamp() -> bytes:
        return number(desk.time_ns - MIDNIGHT_NS, 8)

    desk.send("A", enter(1, quantity=300))
    desk.raw("A")
    desk.rest("S", 100, 1_000)
    assert desk.raw("A") == [
        b"E" + stamp() + number(1, 4) + number(100, 4) + number(100_000, 8) + b"A" + number(1, 8) + b"\0\0"
    ]
    desk.send("A", cancel(1, 250))
    assert desk.raw("A") == [b"C" + stamp() + number(1, 4) + number(50, 4) + b"U"]
    desk.send("A", modify(1, 200))
    assert desk.raw("A") == [b"M" + stamp() + number(1, 4) + b"B" + number(100, 4)]
    request = replace(1, 2, 180, 100_100)
    desk.send("A", request)
    order_id = desk.market.next_order_id - 1
    assert desk.raw("A") == [
        b"U" + stamp() + number(1, 4) + number(2, 4) + b"B" + number(80, 4) + b"ACME    " + request[13:23]
        + number(order_id, 8) + b"P" + b"N" + b"N" + b"L" + request[24:]
    ]  # fmt: skip
    desk.send("A", enter(3, price=1))
    assert desk.raw("A") == [b"J" + stamp() + number(3, 4) + number(0x1D, 2) + b"c3            "]
    desk.send("A", b"Q")
    assert desk.raw("A") == [b"Q" + stamp() + number(4, 4)]


def test_an_aiq_cancel_is_these_bytes() -> None:
    desk = Desk()
    desk.open("A", self_trade="newest")
    desk.send("A", enter(1, "S", 40), enter(2, "B", 100))
    stamp = desk.time_ns + 1 - MIDNIGHT_NS
    assert desk.raw("A")[2:] == [
        b"D" + stamp.to_bytes(8) + b"\0\0\0\x02" + (100).to_bytes(4) + b"Q" + (40).to_bytes(4)
        + (100_000).to_bytes(8) + b"R" + b"N"
    ]  # fmt: skip


def test_an_order_prevented_at_rest_gets_the_same_message() -> None:
    desk = Desk()
    desk.open("A", self_trade="both")
    desk.open("B", broker_id=7, self_trade="both")
    desk.send("A", enter(1, "S", 40))
    told = desk.ask("A", enter(2, "B", 100))
    assert short(told, "user_ref_num", "liquidity_flag", "decrement_shares")[2:] == [
        ("D", 1, "A", 40),
        ("D", 2, "R", 100),
    ]


def test_a_prevention_names_the_setting_that_was_applied() -> None:
    """The setting of the entering order's account decides, whoever is notified."""
    desk = Desk()
    desk.open("A", self_trade="decrement")
    desk.open("B", self_trade="allow")
    desk.open("C", self_trade="oldest")
    desk.send("A", enter(1, "S", 40))
    desk.send("B", enter(1, "S", 40))
    desk.send("C", enter(1, "B", 100))
    assert [each.fields["aiq_strategy"] for each in desk.take("A") + desk.take("B") if each.type == "D"] == ["O", "O"]


def test_an_account_of_another_broker_has_no_self_trades() -> None:
    desk = Desk()
    desk.open("A", broker_id=7, self_trade="newest")
    desk.send("A", enter(1, "S", 40))
    desk.open("A", broker_id=8, self_trade="newest")
    assert short(desk.ask("A", enter(2, "B", 100)), "user_ref_num", "decrement_shares") == [("A", 2), ("D", 2, 100)]


def test_a_replacement_keeps_the_broker_that_the_feed_has() -> None:
    """ITCH announces a replacement without a broker: the listeners keep that of the first order."""
    desk = Desk()
    desk.open("A", broker_id=7)
    desk.send("A", enter(1, "S", 40))
    desk.open("A", broker_id=8)
    desk.send("A", replace(1, 2, 50), enter(3, "S", 40))
    assert [order.broker_id for order in desk.market.books["ACME"].resting()] == [8, 7]


def test_an_order_at_rest_when_a_stop_enters_is_resting() -> None:
    """An order may be prevented from trading at rest by a stop that its own execution has triggered."""
    desk = Desk()
    desk.open("A")
    desk.apply(OpenAccount(0, "text:7", "text", 7, self_trade="oldest"))
    stop = desk.market.accounts[-1].index
    desk.apply(Enter(0, stop, 7, 1, "ACME", "S", 10, 1_000, STOP, stop_ticks=1_000))
    desk.rest("S", 10, 1_000)
    assert short(desk.ask("A", enter(1, "B", 30)), "liquidity_flag", "aiq_strategy") == [
        ("A",),
        ("E", "R"),
        ("D", "A", "O"),
    ]


def test_timestamps_begin_again_at_midnight(desk: Desk) -> None:
    desk.ask("A", enter(1))
    desk.time_ns = MIDNIGHT_NS + 86_400 * 10**9
    told = desk.ask("A", enter(2), b"Q", cancel(1))
    assert [each.fields["timestamp"] for each in told] == [1_000, 1_001, 1_002]


# -- numbers ---------------------------------------------------------------------------------------------------------


def test_numbers_that_do_not_rise_are_repetitions(desk: Desk) -> None:
    assert short(desk.ask("A", enter(5), enter(5), enter(4), enter(5, price=1), enter(6)), "user_ref_num") == [
        ("A", 5),
        ("A", 6),
    ]
    assert desk.ask("A", enter(0)) == []


def test_a_rejected_order_has_used_its_number_up(desk: Desk) -> None:
    told = desk.ask("A", enter(1, price=1), enter(1), enter(2))
    assert short(told, "user_ref_num") == [("J", 1), ("A", 2)]
    assert desk.ask("A", b"Q")[0].fields["next_user_ref_num"] == 3


def test_each_message_has_a_time_of_its_own(desk: Desk) -> None:
    told = desk.ask("A", enter(1), enter(2), cancel(1))
    times = [each.fields["timestamp"] for each in told]
    assert times == [desk.time_ns - MIDNIGHT_NS + n for n in range(3)]
    assert desk.market.last_time_ns == desk.time_ns + 2


# -- cancel, modify, replace -----------------------------------------------------------------------------------------


def test_a_cancel_says_how_large_the_order_is_to_be_in_all(desk: Desk) -> None:
    desk.send("A", enter(1, quantity=100))
    desk.rest("S", 30, 1_000)
    desk.take("A")
    steps = [(100, []), (200, []), (90, [("C", 10)]), (90, []), (30, [("C", 60)]), (0, [])]
    for quantity, expected in steps:
        assert short(desk.ask("A", cancel(1, quantity)), "quantity") == expected
    assert desk.market.live_orders == 0
    desk.send("A", enter(2, quantity=100))
    assert short(desk.ask("A", enter(3), cancel(2), cancel(2), cancel(99)), "user_ref_num", "quantity") == [
        ("A", 2, 100),
        ("A", 3, 100),
        ("C", 2, 100),
    ]


@pytest.mark.parametrize("options", [{}, {Option.GROUP_ID: 7}])
def test_cancels_and_queries_may_have_an_appendage(desk: Desk, options: dict[int, int | str]) -> None:
    """Clients that append an empty list of options to every message are common."""
    appendage = encode_options(options)
    desk.send("A", enter(1, quantity=100))
    desk.take("A")
    assert short(desk.ask("A", cancel(1, 60) + appendage), "quantity") == [("C", 40)]
    assert short(desk.ask("A", modify(1, 50) + appendage), "quantity") == [("M", 50)]
    assert short(desk.ask("A", b"Q" + appendage), "next_user_ref_num") == [("Q", 2)]


@pytest.mark.parametrize("message", [cancel(1), modify(1, 1), b"Q"])
def test_a_broken_appendage_ends_the_session(desk: Desk, message: bytes) -> None:
    assert desk.send("A", message + b"\0").startswith("expected an appendage of as many bytes as its length says")


def test_a_mass_cancel_ends_the_accounts_orders_in_its_symbol(desk: Desk) -> None:
    desk.rest("B", 10, 900)
    desk.send("A", enter(1), enter(2, symbol="LOTS"), enter(3))
    desk.take("A")
    fields = ("user_ref_num", "symbol")
    request = encode_request("C", user_ref_num=4, firm="FIRM", symbol="ACME")
    told = desk.ask("A", request)
    assert [message.type for message in told] == ["C", "C", "X"]
    assert short(told[-1:], *fields, "firm") == [("X", 4, "ACME", "FIRM")]
    assert desk.ask("A", request) == []  # a repetition
    assert short(desk.ask("A", encode_request("C", user_ref_num=5, firm="", symbol="NONE")), "user_ref_num") == [
        ("J", 5)
    ]
    told = desk.ask("A", encode_request("C", user_ref_num=6, firm="", symbol=""))
    assert [message.type for message in told] == ["C", "X"]
    assert desk.market.live_orders == 1  # the other account's


def test_a_cancel_keeps_the_place_and_a_replacement_loses_it(desk: Desk) -> None:
    desk.open("B", broker_id=8)
    desk.send("A", enter(1), cancel(1, 90))
    desk.send("B", enter(1))
    desk.take("A"), desk.take("B")
    desk.rest("S", 10, 1_000)
    assert short(desk.take("A"), "quantity") == [("E", 10)]
    desk.send("A", replace(1, 2, 90, 100_000))
    desk.rest("S", 10, 1_000)
    assert short(desk.take("A"), "quantity") == [("U", 80)]
    assert short(desk.take("B"), "quantity") == [("E", 10)]


def test_a_modification_keeps_the_place_and_only_shrinks(desk: Desk) -> None:
    desk.open("B", broker_id=8)
    desk.send("A", enter(1))
    desk.send("B", enter(1))
    desk.take("B")
    told = desk.ask("A", modify(1, 40), modify(1, 40), modify(1, 50), modify(1, 30, "S"), modify(7, 1))
    assert short(told, "side", "quantity") == [("A", "B", 100), ("M", "B", 40)]
    desk.rest("S", 40, 1_000)
    assert desk.take("B") == []
    assert short(desk.take("A")) == [("E",)]


def test_a_modification_to_what_was_executed_ends_the_order(desk: Desk) -> None:
    desk.send("A", enter(1))
    desk.rest("S", 30, 1_000)
    desk.take("A")
    assert short(desk.ask("A", modify(1, 30)), "quantity") == [("C", 70)]


def test_a_sale_may_become_a_short_sale_and_back(desk: Desk) -> None:
    desk.send("A", enter(1, "S"))
    told = desk.ask("A", modify(1, 100, "T"), modify(1, 100, "T"), modify(1, 90, "E"), modify(1, 90, "B"))
    assert short(told, "side", "quantity") == [("A", "S", 100), ("M", "T", 100), ("M", "E", 90)]
    assert desk.ask("A", replace(1, 2, 80))[0].fields["side"] == "E"


def test_a_replacements_quantity_counts_what_its_chain_executed(desk: Desk) -> None:
    desk.send("A", enter(1, quantity=100))
    desk.rest("S", 30, 1_000)
    desk.ask("A", replace(1, 2, 90))
    desk.rest("S", 20, 1_001)
    told = desk.take("A")
    assert short(told, "user_ref_num", "quantity") == [("E", 2, 20)]
    assert short(desk.ask("A", replace(2, 3, 200)), "user_ref_num", "quantity") == [("U", 3, 150)]
    assert short(desk.ask("A", replace(3, 4, 50)), "user_ref_num", "quantity", "reason") == [("C", 3, 150, "U")]


def test_a_replacement_of_a_dead_order_uses_no_number(desk: Desk) -> None:
    told = desk.ask("A", enter(1), cancel(1), replace(1, 5), replace(77, 6), enter(2))
    assert short(told, "user_ref_num") == [("A", 1), ("C", 1), ("A", 2)]
    assert desk.ask("A", replace(2, 2), replace(2, 1)) == []
    assert desk.market.live_orders == 1


@pytest.mark.parametrize(
    "wrong", [{"price": 1}, {"quantity": 1_000_000}, {"quantity": 0}, {"display": "?"}, {"options": {14: "X"}}]
)
def test_an_impossible_replacement_ends_the_order_and_no_number(desk: Desk, wrong: dict[str, Any]) -> None:
    told = desk.ask("A", enter(1), replace(1, 2, **wrong), enter(2))
    assert short(told, "user_ref_num", "reason") == [("A", 1), ("C", 1, "U"), ("A", 2)]


def test_a_replacement_inherits_capacity_cross_side_and_symbol(desk: Desk) -> None:
    desk.send("A", enter(1, "S", symbol="LOTS", price=100_000, quantity=50, capacity="R"))
    fields = desk.ask("A", replace(1, 2, 40, 100_500))[1].fields
    assert [fields[name] for name in ("side", "symbol", "capacity", "cross_type", "cl_ord_id")] == [
        "S",
        "LOTS",
        "R",
        "N",
        "r2",
    ]

"""OUCH 4.2: what clients ask for and what they are told, in a market without an exchange around it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from deltabook.wire.ouch42 import MARKET_HOURS, RejectReason, encode_request
from exchange_server.matching.inputs import Enter, Phase, Tick
from exchange_server.nasdaq.ouch import protocol42
from tests.generators.ouch_desk import MIDNIGHT_NS, Desk, enter_42, short


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    desk.open("A", "ouch42")
    yield desk
    desk.market._check()


def cancel(token: str, shares: int = 0) -> bytes:
    return encode_request("X", order_token=token, shares=shares)


def modify(token: str, shares: int, side: str = "B") -> bytes:
    return encode_request("M", order_token=token, buy_sell_indicator=side, shares=shares)


def replace(existing: str, token: str, shares: int = 100, price: int = 100_100, **values: Any) -> bytes:
    fields: dict[str, Any] = {
        "existing_order_token": existing,
        "replacement_order_token": token,
        "shares": shares,
        "price": price,
        "time_in_force": MARKET_HOURS,
        "display": "Y",
        "intermarket_sweep_eligibility": "N",
        "minimum_quantity": 0,
    }
    return encode_request("U", **(fields | values))


def test_every_reply_is_these_bytes(desk: Desk) -> None:
    def number(value: int, width: int = 4) -> bytes:
        return value.to_bytes(width)

    def stamp() -> bytes:
        return number(desk.time_ns - MIDNIGHT_NS, 8)

    one, two = b"T1            ", b"T2            "
    request = enter_42("T1", shares=300)
    desk.send("A", request)
    order_id = number(desk.market.next_order_id - 1, 8)
    assert desk.raw("A") == [b"A" + stamp() + request[1:41] + order_id + request[41:48] + b"L "]
    desk.rest("S", 100, 1_000)
    assert desk.raw("A") == [b"E" + stamp() + one + number(100) + number(100_000) + b"A" + number(1, 8)]
    desk.send("A", cancel("T1", 250))
    assert desk.raw("A") == [b"C" + stamp() + one + number(50) + b"U"]
    desk.send("A", modify("T1", 200))
    assert desk.raw("A") == [b"M" + stamp() + one + b"B" + number(100)]
    desk.send("A", replace("T1", "T2", 180))
    order_id = number(desk.market.next_order_id - 1, 8)
    assert desk.raw("A") == [
        b"U" + stamp() + two + b"B" + number(80) + b"ACME    " + number(100_100) + number(MARKET_HOURS) + b"FIRMY"
        + order_id + b"PN" + number(0) + b"NL" + one + b" "
    ]  # fmt: skip
    desk.send("A", enter_42("T3", price=1))
    assert desk.raw("A") == [b"J" + stamp() + b"T3            X"]


def test_an_aiq_cancel_is_these_bytes() -> None:
    desk = Desk()
    desk.open("A", "ouch42", self_trade="oldest")
    desk.send("A", enter_42("R", "S", 40), enter_42("T"))
    stamp = (desk.time_ns + 1 - MIDNIGHT_NS).to_bytes(8)
    numbers = (40).to_bytes(4) + b"Q" + (40).to_bytes(4) + (100_000).to_bytes(4)
    assert desk.raw("A")[2:] == [b"D" + stamp + b"R             " + numbers + b"A"]


def test_a_token_names_one_order_for_ever(desk: Desk) -> None:
    told = desk.ask(
        "A", enter_42("T"), enter_42("T"), cancel("T"), enter_42("T"), enter_42("U", price=1), enter_42("U")
    )
    assert short(told, "order_token") == [("A", "T"), ("C", "T"), ("J", "U")]
    told = desk.ask("A", enter_42("V"), replace("V", "T"), replace("V", "V"), replace("V", "W"), enter_42("W"))
    assert short(told, "replacement_order_token") == [("A",), ("U", "W")]


def test_the_tokens_that_are_remembered_are_bounded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol42, "REMEMBERED_TOKENS", 10)
    account = desk.market.account_named("A")
    assert account is not None
    desk.send("A", enter_42("LIVE"))
    for number in range(100):
        desk.send("A", enter_42(f"T{number}"), cancel(f"T{number}"))
        assert len(account.tokens) + len(account.older_tokens) <= 20
    desk.take("A")
    assert desk.ask("A", enter_42("T99"), enter_42("T90"), enter_42("LIVE")) == []
    assert short(desk.ask("A", enter_42("T1"))) == [("A",)]


def test_a_cancel_says_how_large_the_order_is_to_be_in_all(desk: Desk) -> None:
    desk.send("A", enter_42("T"))
    desk.rest("S", 30, 1_000)
    desk.take("A")
    for shares, expected in [(100, []), (90, [("C", 10)]), (30, [("C", 60)]), (0, [])]:
        assert short(desk.ask("A", cancel("T", shares)), "decrement_shares") == expected


@pytest.mark.parametrize("wrong", [{"price": 1}, {"shares": 0}, {"shares": 1_000_000}, {"display": "M"}])
def test_an_impossible_replacement_ends_the_order_and_no_token(desk: Desk, wrong: dict[str, Any]) -> None:
    told = desk.ask("A", enter_42("T"), replace("T", "U", **wrong), enter_42("U"), replace("GONE", "V"), enter_42("V"))
    assert short(told, "order_token", "reason") == [("A", "T"), ("C", "T", "U"), ("A", "U"), ("A", "V")]


def test_an_order_lives_for_its_seconds(desk: Desk) -> None:
    desk.rest("S", 30, 1_000)
    told = desk.ask("A", enter_42("I", time_in_force=0), enter_42("M", price=99_900, time_in_force=MARKET_HOURS))
    assert short(told, "reason") == [("A",), ("E",), ("C", "I"), ("A",)]
    desk.ask("A", enter_42("T", price=99_900, time_in_force=5))
    desk.time_ns += 5 * 10**9 - 2_000
    desk.apply(Tick(0))
    assert desk.take("A") == []
    desk.time_ns += 1_000
    desk.apply(Tick(0))
    assert short(desk.take("A"), "order_token", "reason") == [("C", "T", "T")]


def test_display_says_hidden_and_post_only(desk: Desk) -> None:
    desk.rest("S", 30, 1_000)
    told = desk.ask("A", enter_42("P", display="P"), enter_42("N", price=99_900, display="N"))
    assert short(told, "reason") == [("A",), ("C", "Z"), ("A",)]
    assert list(desk.market.books["ACME"].levels("B")) == []


def test_an_order_with_an_unmet_minimum_is_accepted_dead(desk: Desk) -> None:
    told = desk.ask("A", enter_42("T", time_in_force=0, minimum_quantity=10), enter_42("U"))
    assert short(told, "order_state") == [("A", "D"), ("A", "L")]


def test_a_market_order_and_one_for_an_auction(desk: Desk) -> None:
    desk.rest("S", 30, 5_000)
    told = desk.ask("A", enter_42("M", shares=30, price=0x7FFFFFFF))
    assert short(told, "execution_price") == [("A",), ("E", 500_000)]
    desk.send("A", enter_42("C", cross_type="C", time_in_force=0, price=600_000))
    desk.apply(Phase(0, "ACME", "auction-close"))
    desk.rest("S", 30, 5_000)
    desk.apply(Phase(0, "ACME", "continuous"))
    told = desk.take("A")
    assert short(told, "liquidity_flag", "executed_shares", "reason") == [("A",), ("E", "C", 30), ("C", "C")]


def test_a_price_that_has_no_room_is_the_largest_that_has(desk: Desk) -> None:
    desk.apply(Enter(0, 0, 99, 0, "ACME", "S", 30, 1 << 40))
    told = desk.ask("A", enter_42("M", shares=30, price=0x7FFFFFFF))
    assert short(told, "execution_price") == [("A",), ("E", 2**32 - 1)]


def test_trade_now_changes_nothing(desk: Desk) -> None:
    assert short(desk.ask("A", enter_42("T"), encode_request("N", order_token="T"))) == [("A",)]


WRONG = [
    ({"stock": "NOPE"}, RejectReason.INVALID_STOCK),
    ({"buy_sell_indicator": "X"}, RejectReason.OTHER),
    ({"shares": 0}, RejectReason.SHARES_EXCEED_THRESHOLD),
    ({"shares": 1_000_000}, RejectReason.SHARES_EXCEED_THRESHOLD),
    ({"stock": "LOTS", "shares": 15}, RejectReason.ODD_LOT_RESTRICTION),
    ({"price": 0}, RejectReason.INVALID_PRICE),
    ({"price": 100_050}, RejectReason.INVALID_PRICE),
    ({"display": "M"}, RejectReason.INVALID_DISPLAY),
    ({"display": "Z"}, RejectReason.INVALID_DISPLAY),
    ({"capacity": "X"}, RejectReason.OTHER),
    ({"cross_type": "S"}, RejectReason.INVALID_CROSS),
    ({"time_in_force": 100_000}, RejectReason.OTHER),
    ({"minimum_quantity": 5}, RejectReason.INVALID_MINIMUM_QUANTITY),
]


@pytest.mark.parametrize(("values", "reason"), WRONG)
def test_unsupported_orders_are_rejected_with_the_reason(
    desk: Desk, values: dict[str, Any], reason: RejectReason
) -> None:
    assert short(desk.ask("A", enter_42("T", **values)), "order_token", "reason") == [("J", "T", reason)]


@pytest.mark.parametrize("data", [b"", b"?", b"O", enter_42("T")[:-1], enter_42("T") + b"x", b"X", b"N"])
def test_what_is_no_message_ends_the_session(desk: Desk, data: bytes) -> None:
    assert "expected" in desk.send("A", enter_42("U"), data, enter_42("V"))
    assert short(desk.take("A"), "order_token") == [("A", "U")]


def test_an_order_expires_before_a_later_rejected_request(desk: Desk) -> None:
    desk.send("A", enter_42("T", time_in_force=1))
    desk.take("A")
    desk.time_ns += 10**9 - 1 - 1_000
    told = desk.ask("A", cancel("NONE"), enter_42("U", price=1))
    assert short(told, "order_token", "reason") == [("C", "T", "T"), ("J", "U", "X")]

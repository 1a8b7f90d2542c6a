"""Kinds of orders of OUCH 5.0, what is rejected, and long runs of orders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from deltabook.wire._messages import DecodedMessage
from deltabook.wire.ouch5 import Option, RejectReason, encode_request
from exchange_server.matching.inputs import Enter, Kill, MassCancel, Phase, PhaseName, Tick
from exchange_server.matching.order import MARKET, STOP, AccountLimits, RefuseReason
from exchange_server.matching.order import CancelReason as MarketReason
from exchange_server.nasdaq.ouch.protocol import CANCELED_5, CANCELED_42, REJECTED_5, REJECTED_42
from tests.generators.ouch_desk import MIDNIGHT_NS, START_NS, Desk, cancel, enter, replace, short


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    desk.open("A")
    yield desk
    desk.market._check()


def mass_cancel(ref: int, symbol: str) -> bytes:
    return encode_request("C", user_ref_num=ref, firm="FIRM", symbol=symbol)


def rejected(told: list[DecodedMessage]) -> RejectReason:
    assert [each.type for each in told] == ["J"], told
    return RejectReason(int(told[0].fields["reason"]))


# -- kinds of orders -------------------------------------------------------------------------------------------------


def test_an_immediate_orders_rest_is_cancelled(desk: Desk) -> None:
    desk.rest("S", 30, 1_000)
    told = desk.ask("A", enter(1, time_in_force="3"))
    assert short(told, "quantity", "liquidity_flag", "reason") == [("A", 100), ("E", 30, "R"), ("C", 70, "I")]


def test_an_order_with_an_unmet_minimum_is_accepted_dead(desk: Desk) -> None:
    desk.rest("S", 30, 1_000)
    told = desk.ask("A", enter(1, time_in_force="3", options={Option.MINIMUM_QUANTITY: 31}), enter(2))
    assert short(told, "user_ref_num", "order_state") == [("A", 1, "D"), ("A", 2, "L"), ("E", 2)]
    desk.rest("S", 100, 1_010)
    told = desk.ask("A", enter(3, price=101_000, time_in_force="3", options={Option.MINIMUM_QUANTITY: 100}))
    assert short(told, "order_state") == [("A", "L"), ("E",)]


def test_a_replacement_with_an_unmet_minimum_is_dead(desk: Desk) -> None:
    told = desk.ask("A", enter(1), replace(1, 2, time_in_force="3", options={Option.MINIMUM_QUANTITY: 50}))
    assert short(told, "order_state") == [("A", "L"), ("U", "D")]


def test_a_market_order_is_one_of_200000_dollars_or_more(desk: Desk) -> None:
    desk.rest("S", 30, 5_000)
    for ref, price in ((1, 2_000_000_000), (2, 0x7FFFFFFF), (3, 2**64 - 1)):
        told = desk.ask("A", enter(ref, quantity=10, price=price))
        assert short(told, "price") == [("A", price), ("E", 500_000)]
    assert short(desk.ask("A", enter(4, price=2_000_000_000)), "reason") == [("A",), ("C", "I")]


def test_a_post_only_order_is_cancelled_instead_of_executed(desk: Desk) -> None:
    desk.rest("S", 30, 1_000)
    told = desk.ask(
        "A", enter(1, options={Option.POST_ONLY: "P"}), enter(2, price=99_900, options={Option.POST_ONLY: "P"})
    )
    assert short(told, "reason") == [("A",), ("C", "G"), ("A",)]
    assert short(desk.ask("A", enter(3, options={Option.POST_ONLY: "N"}))) == [("A",), ("E",)]


def test_a_hidden_order_adds_what_nobody_saw(desk: Desk) -> None:
    desk.send("A", enter(1, display="N"))
    assert list(desk.market.books["ACME"].levels("B")) == []
    desk.take("A")
    desk.rest("S", 30, 1_000)
    assert short(desk.take("A"), "liquidity_flag") == [("E", "J")]


def test_an_iceberg_displays_its_floor_and_is_restated(desk: Desk) -> None:
    desk.send("A", enter(1, quantity=100, options={Option.MAX_FLOOR: 40}))
    assert list(desk.market.books["ACME"].levels("B")) == [(1_000, 40, 1)]
    desk.take("A")
    desk.rest("S", 50, 1_000)
    told = desk.take("A")
    assert [each.type for each in told] == ["E", "R", "E"] or [each.type for each in told] == ["E", "E", "R"]
    (restated,) = [each for each in told if each.type == "R"]
    assert restated.fields["reason"] == "R"
    order = next(iter(desk.market.books["ACME"].orders.values()))
    assert restated.options == {Option.DISPLAY_QUANTITY: 40, Option.SECONDARY_ORDER_REFERENCE: order.feed_id}
    assert short(desk.ask("A", cancel(1, 60)), "quantity") == [("C", 40)]


def test_a_floor_of_the_whole_order_is_an_order_like_any_other(desk: Desk) -> None:
    desk.send("A", enter(1, quantity=40, options={Option.MAX_FLOOR: 40}))
    assert next(iter(desk.market.books["ACME"].orders.values())).flags == 0


def test_a_good_till_time_order_ends_at_its_second_of_the_day(desk: Desk) -> None:
    seconds = (START_NS - MIDNIGHT_NS) // 10**9 + 5
    told = desk.ask("A", enter(1, time_in_force="6", options={Option.EXPIRE_TIME: seconds}))
    assert told[0].options == {Option.EXPIRE_TIME: seconds}
    desk.time_ns = START_NS + 5 * 10**9 - 2_000
    desk.apply(Tick(0))
    assert desk.take("A") == []
    desk.apply(Tick(0))
    assert short(desk.take("A"), "reason") == [("C", "T")]


def test_orders_for_auctions_take_part_in_theirs_alone(desk: Desk) -> None:
    letters = {"O": "auction-open", "C": "auction-close", "H": "auction-halt"}
    for ref, (cross, phase) in enumerate(letters.items(), 1):
        desk.apply(Phase(0, "ACME", "continuous"))
        desk.send("A", enter(ref, cross_type=cross, time_in_force="3", display="N"))
        desk.apply(Phase(0, "ACME", phase))  # type: ignore[arg-type]
        desk.rest("S", 30, 1_000)
        desk.apply(Phase(0, "ACME", "continuous"))
        told = short(desk.take("A"), "liquidity_flag", "quantity", "reason")
        assert told == [("A", 100), ("E", cross, 30), ("C", 70, "Z")]


# -- rejections ------------------------------------------------------------------------------------------------------

WRONG = [
    ({"symbol": "NOPE"}, RejectReason.INVALID_SYMBOL),
    ({"symbol": "TOOLONGN"}, RejectReason.INVALID_SYMBOL),
    ({"side": "X"}, RejectReason.INVALID_SIDE),
    ({"quantity": 0}, RejectReason.INVALID_QUANTITY),
    ({"quantity": 1_000_000}, RejectReason.INVALID_QUANTITY),
    ({"symbol": "LOTS", "quantity": 15}, RejectReason.INVALID_QUANTITY),
    ({"price": 0}, RejectReason.INVALID_PRICE),
    ({"price": 100_050}, RejectReason.INVALID_PRICE),
    ({"symbol": "LOTS", "price": 100_100}, RejectReason.INVALID_PRICE),
    ({"display": "Q"}, RejectReason.INVALID_DISPLAY),
    ({"display": "Z"}, RejectReason.INVALID_DISPLAY),
    ({"capacity": "X"}, RejectReason.OTHER),
    ({"time_in_force": "9"}, RejectReason.OTHER),
    ({"time_in_force": "6"}, RejectReason.OTHER),
    ({"time_in_force": "6", "options": {Option.EXPIRE_TIME: 1}}, RejectReason.OTHER),
    ({"inter_market_sweep_eligibility": "X"}, RejectReason.ISO_NOT_ALLOWED),
    ({"cross_type": "R"}, RejectReason.RETAIL_NOT_ALLOWED),
    ({"cross_type": "S"}, RejectReason.INVALID_CROSS_ORDER),
    ({"options": {Option.MINIMUM_QUANTITY: 5}}, RejectReason.INVALID_MINIMUM_QUANTITY),
    ({"options": {Option.MINIMUM_QUANTITY: 500}, "time_in_force": "3"}, RejectReason.INVALID_MINIMUM_QUANTITY),
    ({"options": {Option.MINIMUM_QUANTITY: 5}, "cross_type": "O"}, RejectReason.INVALID_MINIMUM_QUANTITY),
    ({"options": {Option.MAX_FLOOR: 5}, "display": "N"}, RejectReason.INVALID_MAX_FLOOR),
    ({"options": {Option.MAX_FLOOR: 5}, "time_in_force": "3"}, RejectReason.INVALID_MAX_FLOOR),
    ({"options": {Option.MAX_FLOOR: 15}, "symbol": "LOTS"}, RejectReason.INVALID_MAX_FLOOR),
    ({"options": {Option.RANDOM_RESERVES: 5}}, RejectReason.INVALID_MAX_FLOOR),
    ({"options": {Option.PRICE_TYPE: "P"}}, RejectReason.PEGGING_NOT_ALLOWED),
    ({"options": {Option.PEG_OFFSET: -5}}, RejectReason.PEGGING_NOT_ALLOWED),
    ({"options": {Option.DISCRETION_PRICE: 5}}, RejectReason.RISK_ORDER_TYPE),
    ({"options": {Option.DISCRETION_PRICE_TYPE: "L"}}, RejectReason.RISK_ORDER_TYPE),
    ({"options": {Option.DISCRETION_PEG_OFFSET: 5}}, RejectReason.RISK_ORDER_TYPE),
    ({"options": {Option.ROUTE: "SCAN"}}, RejectReason.ROUTING_NOT_ALLOWED),
    ({"options": {Option.HANDLE_INSTRUCTION: "I"}}, RejectReason.OTHER),
    ({"options": {Option.POST_ONLY: "X"}}, RejectReason.OTHER),
    ({"options": {Option.POST_ONLY: "P"}, "time_in_force": "3"}, RejectReason.RISK_ORDER_TYPE),
    ({"options": {Option.BBO_WEIGHT: "1"}}, RejectReason.OTHER),
    ({"options": {Option.DISPLAY_QUANTITY: 1}}, RejectReason.OTHER),
]


@pytest.mark.parametrize(("values", "reason"), WRONG)
def test_unsupported_orders_are_rejected_with_the_reason(
    desk: Desk, values: dict[str, Any], reason: RejectReason
) -> None:
    assert rejected(desk.ask("A", enter(1, **values))) == reason
    assert short(desk.ask("A", enter(2)), "cl_ord_id") == [("A", "c2")]


HARMLESS = [
    {"time_in_force": "5"},
    {"time_in_force": "E"},
    {"display": "A"},
    {"inter_market_sweep_eligibility": "Y"},
    {"options": {Option.PRICE_TYPE: "L", Option.CUSTOMER_TYPE: "R", Option.TRADE_NOW: "Y", Option.GROUP_ID: 5}},
    {"options": {Option.SHARES_LOCATED: "Y", Option.ROUTE: "", Option.HANDLE_INSTRUCTION: ""}},
    {"side": "T"},
    {"side": "E"},
]


@pytest.mark.parametrize("values", HARMLESS)
def test_what_makes_no_difference_here_is_taken_and_said_again(desk: Desk, values: dict[str, Any]) -> None:
    (told,) = desk.ask("A", enter(1, **values))
    assert told.options == values.get("options", {})
    assert told.fields.items() >= {name: value for name, value in values.items() if name != "options"}.items()


def test_options_of_unknown_tags_end_the_session(desk: Desk) -> None:
    request = enter(1)[:-2] + b"\x00\x03\x02\x63x"
    assert "was tag 99" in desk.send("A", request)
    assert desk.take("A") == []


def test_the_markets_refusals_have_their_words() -> None:
    desk = Desk()
    desk.open("A", limits=AccountLimits(requests_per_s=1))
    assert rejected(desk.ask("A", enter(1), enter(2))[1:]) == RejectReason.RISK_PORT_RATE
    desk.open("B", limits=AccountLimits(open_orders=1))
    assert rejected(desk.ask("B", enter(1), enter(2))[1:]) == RejectReason.RISK_EXPOSURE
    desk.open("C", limits=AccountLimits(order_notional=1_000 * 99))
    assert rejected(desk.ask("C", enter(1))) == RejectReason.EXCEEDS_NOTIONAL
    desk.apply(Phase(0, "ACME", "halted"))
    assert rejected(desk.ask("C", enter(2))) == RejectReason.HALTED
    desk.apply(Phase(0, "ACME", "closed"))
    assert rejected(desk.ask("C", enter(3))) == RejectReason.DESTINATION_CLOSED
    account = desk.market.account_named("C")
    assert account is not None
    desk.apply(Kill(0, account.index, True))
    told = desk.ask("C", enter(4))
    assert told[0].fields["cl_ord_id"] == "c4"
    assert rejected(told) == RejectReason.FIRM_NOT_AUTHORIZED
    assert rejected(desk.ask("C", enter(5, price=1))) == RejectReason.FIRM_NOT_AUTHORIZED


@pytest.mark.parametrize(
    "request_",
    [mass_cancel(2, ""), mass_cancel(2, "NONE"), enter(2, price=1), b"Q"],
    ids=["mass cancel", "unlisted symbol", "rejected", "query"],
)
def test_an_order_expires_before_a_request_of_the_same_bytes(desk: Desk, request_: bytes) -> None:
    """The second request has the time at which the order ends."""
    desk.send("A", enter(1, time_in_force="6", options={Option.EXPIRE_TIME: 36_001}))
    desk.take("A")
    desk.time_ns = MIDNIGHT_NS + 36_001 * 10**9 - 1 - 1_000
    told = desk.ask("A", cancel(7), request_)
    assert (told[0].type, told[0].fields["reason"], told[0].fields["timestamp"]) == ("C", "T", 36_001 * 10**9)


def test_a_mass_cancel_does_not_count_for_the_request_rate() -> None:
    desk = Desk()
    desk.open("A", limits=AccountLimits(requests_per_s=1))
    assert [each.type for each in desk.ask("A", enter(1))] == ["A"]
    assert rejected(desk.ask("A", mass_cancel(2, "NONE"))) == RejectReason.INVALID_SYMBOL


def test_cancels_by_others_have_their_reasons(desk: Desk) -> None:
    reasons = [(MarketReason.SUPERVISORY, "S"), (MarketReason.DISCONNECT, "Z"), (MarketReason.USER, "U")]
    for ref, (reason, letter) in enumerate(reasons, 1):
        desk.send("A", enter(ref))
        desk.take("A")
        desk.apply(MassCancel(0, 1, "", reason))
        assert short(desk.take("A"), "reason") == [("C", letter)]


def test_every_reason_of_the_market_has_a_word() -> None:
    assert REJECTED_5.keys() == REJECTED_42.keys() == set(RefuseReason)
    assert CANCELED_5.keys() == CANCELED_42.keys() == set(MarketReason)


def test_the_days_end_is_said(desk: Desk) -> None:
    desk.apply(Phase(0, "", "closed"))
    assert short(desk.take("A"), "event_code") == [("S", "E")]


# -- runs ------------------------------------------------------------------------------------------------------------

ODD = [
    enter(70, "T"),
    enter(5),
    enter(70, price=100_050),
    enter(70, symbol="LOTS", price=100_500, quantity=50),
    enter(70, display="N"),
    enter(70, quantity=0),
    enter(70, quantity=1_000_000),
    enter(70, price=2_000_000_000),
    enter(70, side="X"),
    enter(70, symbol="NOPE"),
    enter(70, options={Option.POST_ONLY: "P"}),
    cancel(3),
    replace(3, 70),
    b"Q",
    b"?",
]


def carry_out_both_ways(orders: list[bytes], prepare: Callable[[Desk], None]) -> tuple[str, list[bytes]]:
    """In one piece and one by one; the answers, which must be the same."""
    together, single = Desk(), Desk()
    for desk in (together, single):
        prepare(desk)
    reason = together.send("A", *orders)
    for order in orders:
        if single.send("A", order):
            break
        single.time_ns -= 999
    single.market.shared.inputs = together.market.inputs
    assert together.market.state_hash() == single.market.state_hash()
    told = together.raw("A")
    assert told == single.raw("A")
    together.market._check()
    return reason, told


def plain_orders(count: int) -> list[bytes]:
    return [enter(n + 1 + (n >= 69), "BS"[n % 3 == 0], 10 + n % 7, 100_000 + 100 * (n % 5)) for n in range(count)]


@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
@pytest.mark.parametrize("at", [0, 1, 63, 64, 65, 199])
def test_many_orders_in_one_piece_do_what_they_do_one_by_one(odd: bytes, at: int) -> None:
    orders = plain_orders(200)
    orders.insert(at, odd)
    reason, _ = carry_out_both_ways(orders, lambda desk: desk.open("A"))
    assert bool(reason) == (odd == b"?")


def with_limits(desk: Desk) -> None:
    desk.open("A", limits=AccountLimits(requests_per_s=150, open_orders=40, open_notional=1_000_000))


def with_self_trade_prevention(desk: Desk) -> None:
    desk.open("A", self_trade="oldest")


def in_a_phase(phase: PhaseName) -> Callable[[Desk], None]:
    def prepare(desk: Desk) -> None:
        desk.open("A")
        desk.apply(Phase(0, "ACME", phase))

    return prepare


def with_what_is_unusual(desk: Desk) -> None:
    desk.open("A")
    desk.open("B", broker_id=8)
    seconds = (START_NS - MIDNIGHT_NS) // 10**9 + 1
    desk.send("B", enter(1, "S", display="N"), enter(2, options={Option.MAX_FLOOR: 3}))
    desk.send("B", enter(3, time_in_force="6", options={Option.EXPIRE_TIME: seconds}))
    desk.apply(Enter(0, 0, 9, 0, "ACME", "B", 50, 0, STOP | MARKET, stop_ticks=1_002))
    desk.time_ns = START_NS + 10**9 - 1_000 - 100


def when_the_market_fills(desk: Desk) -> None:
    desk.open("A")
    desk.market.shared.full_at = 30
    desk.market.shared.rules = msgspec.structs.replace(desk.market.rules, max_live_orders=30)


PREPARED: list[Callable[[Desk], None]] = [
    with_limits,
    with_self_trade_prevention,
    with_what_is_unusual,
    when_the_market_fills,
]
PREPARED += [in_a_phase(phase) for phase in ("auction-open", "halted", "paused", "closed")]


@pytest.mark.parametrize("prepare", PREPARED)
def test_a_run_meets_limits_phases_and_what_is_in_the_book(prepare: Callable[[Desk], None]) -> None:
    _, told = carry_out_both_ways(plain_orders(200), prepare)
    assert len(told) >= 200


def test_an_unmet_minimum_ignores_executions_of_the_chain(desk: Desk) -> None:
    desk.rest("S", 30, 1_000)
    desk.send("A", enter(1))
    desk.take("A")
    told = desk.ask("A", replace(1, 2, time_in_force="3", options={Option.MINIMUM_QUANTITY: 50}))
    assert short(told, "quantity", "order_state") == [("U", 70, "D")]

"""What is not taken, and in which order that is looked for."""

from __future__ import annotations

from typing import NoReturn

import pytest

from deltabook.wire.symbols import Instrument
from exchange_server.matching import AccountLimits, Enter, Market, MarketRules
from exchange_server.matching.order import (
    CLOSING,
    EXPIRES,
    HALTED_ONLY,
    HIDDEN,
    ICEBERG,
    IOC,
    MARKET,
    MINIMUM,
    OPENING,
    POST_ONLY,
    STOP,
    Order,
    RefuseReason,
)
from exchange_server.matching.requests import refusal_of
from tests.generators.order_desk import AGENT, OrderDesk

BIG = 2**63 - 1


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"symbol": "NOPE"}, "UNKNOWN_SYMBOL"),
        ({"symbol": "PAST"}, "REPLAYED"),
        ({"side": "X", "volume": 0}, "BAD_SIDE"),
        ({"volume": 0, "price_ticks": -1}, "BAD_VOLUME"),
        ({"volume": BIG + 1}, "BAD_VOLUME"),
        ({"price_ticks": -1, "flags": MINIMUM}, "BAD_PRICE"),
        ({"price_ticks": BIG + 1}, "BAD_PRICE"),
        ({"flags": STOP}, "BAD_PRICE"),
        ({"flags": MINIMUM, "minimum": 1}, "BAD_MINIMUM"),
        ({"flags": MINIMUM | IOC}, "BAD_MINIMUM"),
        ({"flags": MINIMUM | IOC, "minimum": 6}, "BAD_MINIMUM"),
        ({"flags": ICEBERG}, "BAD_DISPLAY"),
        ({"flags": ICEBERG, "volume": 2_001, "display": 2}, "BAD_DISPLAY"),
        ({"flags": EXPIRES, "expire_ns": 2_000}, "BAD_TIME"),
        ({"flags": EXPIRES | MARKET, "price_ticks": 0, "expire_ns": 9_000}, "BAD_COMBINATION"),
        ({"flags": POST_ONLY, "price_ticks": 0}, "BAD_COMBINATION"),
        ({"flags": HIDDEN, "price_ticks": 0}, "BAD_COMBINATION"),
        ({"flags": ICEBERG, "price_ticks": 0, "display": 1}, "BAD_COMBINATION"),
        ({"flags": IOC | POST_ONLY}, "BAD_COMBINATION"),
        ({"flags": IOC | HIDDEN}, "BAD_COMBINATION"),
        ({"flags": IOC | ICEBERG, "display": 1}, "BAD_COMBINATION"),
        ({"flags": IOC | EXPIRES, "expire_ns": 9_000}, "BAD_COMBINATION"),
        ({"flags": POST_ONLY | HIDDEN}, "BAD_COMBINATION"),
        ({"flags": HIDDEN | ICEBERG, "display": 1}, "BAD_COMBINATION"),
        ({"flags": STOP | POST_ONLY, "stop_ticks": 1}, "BAD_COMBINATION"),
        ({"flags": STOP | MINIMUM | IOC, "stop_ticks": 1, "minimum": 1}, "BAD_COMBINATION"),
        ({"flags": STOP | OPENING, "stop_ticks": 1}, "BAD_COMBINATION"),
        ({"flags": OPENING | IOC}, "BAD_COMBINATION"),
        ({"flags": OPENING | CLOSING}, "BAD_COMBINATION"),
        ({"flags": HALTED_ONLY | HIDDEN}, "BAD_COMBINATION"),
    ],
)
def test_refusals(values: dict[str, object], reason: str) -> None:
    desk = OrderDesk(("ACME", "PAST"), replay_symbols=("PAST",), replay_mode="as-recorded")
    desk.open("ann")
    desk.time_ns = 2_000
    fields = {"ref": 1, "symbol": "ACME", "side": "B", "volume": 5, "price_ticks": 100} | values
    desk.feed()
    assert desk.apply(Enter(0, 1, 1, **fields)) == 0  # type: ignore[arg-type]
    assert desk.told("ann") == [f"refused {reason}"]
    assert desk.feed() == []
    assert desk.market.orders == 0


@pytest.mark.parametrize(
    "values",
    [
        {"flags": MINIMUM | IOC, "minimum": 5},
        {"flags": ICEBERG, "volume": 2_000, "display": 2},
        {"flags": EXPIRES | POST_ONLY, "expire_ns": 9_000},
        {"flags": EXPIRES | ICEBERG, "expire_ns": 9_000, "display": 1},
        {"flags": STOP | IOC, "stop_ticks": 5},
        {"flags": STOP | HIDDEN, "stop_ticks": BIG},
        {"flags": STOP, "price_ticks": 0, "stop_ticks": 5},
        {"flags": IOC, "price_ticks": 0},
        {"flags": OPENING, "price_ticks": 0},
        {"volume": BIG, "price_ticks": BIG},
    ],
)
def test_what_is_taken(values: dict[str, object]) -> None:
    desk = OrderDesk()
    desk.open("ann")
    fields = {"ref": 1, "symbol": "ACME", "side": "B", "volume": 5, "price_ticks": 100} | values
    desk.apply(Enter(0, 1, 1, **fields))  # type: ignore[arg-type]
    assert desk.told("ann")[0] == "accepted 1"


def limited(**limits: int) -> OrderDesk:
    desk = OrderDesk()
    desk.open("ann", limits=AccountLimits(**limits))
    return desk


def test_requests_in_a_second() -> None:
    desk = limited(requests_per_s=2)
    for _ in range(3):
        desk.enter("ann", "B", 1, 100)
    desk.replace("ann", 1, 1, 101)
    desk.cancel("ann", 1)
    assert desk.told("ann") == [
        "accepted 1", "accepted 2", "refused RATE", "refused RATE", "canceled 1 1 USER left 0",
    ]  # fmt: skip
    desk.time_ns += 500_000_000
    desk.enter("ann", "B", 1, 100)
    desk.enter("ann", "B", 1, 100)
    assert desk.told("ann") == ["accepted 3", "refused RATE"]
    desk.time_ns += 60_000_000_000
    for _ in range(3):
        desk.enter("ann", "B", 1, 100)
    assert desk.told("ann") == ["accepted 4", "accepted 5", "refused RATE"]


def test_open_orders() -> None:
    desk = limited(open_orders=2)
    desk.enter("ann", "B", 1, 100)
    desk.enter("ann", "B", 1, 100, stop=150)
    desk.enter("ann", "B", 1, 100)
    assert desk.replace("ann", 1, 2, 100) == 3
    assert desk.told("ann") == ["accepted 1", "accepted 2", "refused OPEN_ORDERS", "replaced 1 3"]
    desk.enter(AGENT, "S", 2, 100)
    assert desk.enter("ann", "B", 1, 90) == 5


def test_the_worth_of_one_order() -> None:
    desk = limited(order_notional=1_000)
    desk.enter("ann", "B", 10, 100)
    desk.enter("ann", "B", 10, 101)
    desk.enter("ann", "S", 11)
    assert desk.told("ann") == ["accepted 1", "refused NOTIONAL", "refused NOTIONAL"]


def test_the_worth_of_all_open_orders() -> None:
    desk = limited(open_notional=1_000)
    account = desk.market.accounts[1]
    desk.enter("ann", "B", 4, 100)
    desk.enter("ann", "B", 6, 100, show=2)
    desk.enter("ann", "B", 1, 1)
    assert desk.told("ann") == ["accepted 1", "accepted 2", "refused NOTIONAL"]
    assert desk.replace("ann", 1, 3, 110) == 3
    assert account.open_notional == 930
    desk.enter(AGENT, "S", 6, 100)
    assert account.open_notional == 300
    desk.reduce("ann", 2, 2)
    assert account.open_notional == 100
    desk.cancel("ann", 2)
    assert account.open_notional == 0
    desk.enter("ann", "B", 5, 100)
    desk.open("ann", limits=AccountLimits())
    assert account.open_notional == 0
    desk.open("ann", limits=AccountLimits(open_notional=1))
    assert account.open_notional == 500


def test_the_number_of_live_orders_is_bounded() -> None:
    desk = OrderDesk(max_live_orders=2)
    desk.open("ann")
    desk.enter("ann", "B", 5, 100)
    desk.enter("ann", "B", 5, 100, stop=150)
    desk.enter("ann", "B", 5, 100)
    desk.replace("ann", 1, 6, 100)
    desk.cancel("ann", 2)
    desk.enter("ann", "B", 5, 100)
    desk.enter("ann", "B", 5, 100)
    assert [words.split()[0] + words[-12:] for words in desk.told("ann") if words.startswith("refused")] == [
        "refused MARKET_FULL",
        "refused MARKET_FULL",
    ]
    assert desk.market.live_orders == 2


def test_settings_that_are_made_again_give_no_requests_back() -> None:
    desk = limited(requests_per_s=2)
    for choice in (True, False):
        desk.enter("ann", "B", 1, 100)
        desk.open("ann", limits=AccountLimits(requests_per_s=2), cancel_on_disconnect=choice)
    desk.enter("ann", "B", 1, 100)
    assert desk.told("ann") == ["refused RATE"]
    desk.open("ann", limits=AccountLimits(requests_per_s=3))
    desk.enter("ann", "B", 1, 100)
    assert desk.told("ann") == ["accepted 3"]


def test_times_of_ended_orders_are_dropped_without_a_scan() -> None:
    desk = OrderDesk()
    desk.open("ann")
    live = desk.enter(AGENT, "B", 1, 90)

    class Unseen(dict[int, Order]):
        def values(self) -> NoReturn:
            raise AssertionError("all live orders were looked at")

    book = desk.market.books["ACME"]
    book.orders = Unseen(book.orders)
    market, time_ns = desk.market, desk.time_ns
    for number in range(1, 1_000):
        time_ns += 2
        order_id = market.apply(Enter(time_ns, 1, 1, number, "ACME", "B", 1, 100, EXPIRES, 0, 0, 0, 10**9 + number))
        book.cancel(int(order_id))
    assert len(market.shared.expiries) <= 200
    assert list(book.orders) == [live]


def test_a_market_order_cannot_be_given_a_price(monkeypatch: pytest.MonkeyPatch) -> None:
    desk, refusals = limited(), []
    desk.enter("ann", "B", 1, 0, MARKET, stop=150)
    desk.enter("ann", "B", 1, 90)
    monkeypatch.setattr(type(desk.market.shared), "turn_down", lambda *refusal: refusals.append(refusal[3:5]))
    assert desk.replace("ann", 1, 2, 100) == desk.replace("ann", 2, 2, 0) == 0
    assert refusals == [
        (RefuseReason.BAD_PRICE, "expected price 0 for a market order was 100"),
        (RefuseReason.BAD_PRICE, "expected a price as the order has one was 0"),
    ]


@pytest.mark.parametrize(
    ("volume", "price", "words"),
    [
        (0, 100, "expected a volume of 1 or more was 0"),
        (2**63, 100, "expected a volume up to 9223372036854775807 was 9223372036854775808"),
        (1, -1, "expected a price of 0 or more was -1"),
        (1, 2**63, "expected a price up to 9223372036854775807 was 9223372036854775808"),
    ],
)
def test_a_refusal_names_the_bound_that_a_number_exceeds(volume: int, price: int, words: str) -> None:
    market = Market(MarketRules(instruments=(Instrument("ACME"),)))
    refusal = refusal_of(market.shared, market.books["ACME"], Order(0, 0, 1, "B", price, volume, 7))
    assert refusal is not None
    assert refusal[1] == words

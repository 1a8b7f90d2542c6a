"""A market's state: everything that matters comes back, and equal markets have equal fingerprints."""

from __future__ import annotations

from random import Random

import pytest

from exchange_server.matching import (
    AnyInput,
    Cancel,
    Enter,
    Market,
    MarketRules,
    Now,
    OpenAccount,
    Phase,
    Replace,
    Tick,
)
from exchange_server.matching.inputs import PhaseName, Recorded
from exchange_server.matching.order import (
    EXPIRES,
    HIDDEN,
    ICEBERG,
    IOC,
    OPENING,
    POST_ONLY,
    STOP,
    AccountLimits,
    SelfTrade,
)
from tests.generators.order_desk import AGENT, OrderDesk
from tests.model.said import SaidFeed, SaidProtocol

KINDS = (0, 0, 0, IOC, POST_ONLY, HIDDEN, ICEBERG, STOP, EXPIRES, OPENING, ICEBERG | EXPIRES)
POLICIES: tuple[SelfTrade, ...] = ("allow", "decrement", "oldest")
PHASES: tuple[PhaseName, ...] = ("continuous", "continuous", "auction-open", "paused")


def requests(seed: int, count: int) -> list[AnyInput]:
    random, made = Random(seed), list[AnyInput]()
    for index, policy in enumerate(POLICIES, 1):
        limits = AccountLimits(open_notional=10**6, requests_per_s=10**6) if index == 2 else AccountLimits()
        made.append(OpenAccount(index, f"a{index}", "said", index, limits, policy))
    for time_ns in range(10, 10 + count):
        account, chance = random.randrange(4), random.random()
        symbol, order_id, price = (
            random.choice(("ACME", "GLOBEX")),
            random.randrange(1, count),
            random.randrange(95, 106),
        )
        if chance < 0.7:
            flags, volume = random.choice(KINDS), random.randrange(1, 30)
            made.append(
                Enter(
                    time_ns,
                    account,
                    account or 9,
                    time_ns,
                    symbol,
                    random.choice("BS"),
                    volume,
                    price,
                    flags,
                    display=random.randrange(1, 5),
                    stop_ticks=price,
                    expire_ns=time_ns + random.randrange(1, 99),
                )
            )
        elif chance < 0.8:
            made.append(Cancel(time_ns, account, account or 9, time_ns, order_id, symbol))
        elif chance < 0.9:
            volume = random.randrange(1, 30)
            made.append(Replace(time_ns, account, account or 9, time_ns, order_id, volume, price, symbol))
        elif chance < 0.95:
            side = random.choice("BSED")
            made.append(Recorded(time_ns, time_ns, random.randrange(60), 5, side, random.randrange(9), price, "GLOBEX"))
        else:
            made.append(Phase(time_ns, symbol, random.choice(PHASES)) if chance < 0.97 else Tick(time_ns))
    return made


@pytest.mark.parametrize("seed", range(5))
def test_a_market_goes_on_from_its_state_as_if_nothing_had_been(seed: int) -> None:
    rules = MarketRules(
        instruments=OrderDesk(("ACME", "GLOBEX")).market.rules.instruments, replay_symbols=("GLOBEX",), collar_bps=900
    )
    inputs = requests(seed, 600)
    now, protocol = Now(), SaidProtocol()
    market = Market(rules, [SaidFeed(now)], [protocol], now)
    for place, item in enumerate(inputs):
        market.apply(item)
        if place % 150 == 149:
            later_now, later_protocol = Now(), SaidProtocol()
            feed = SaidFeed(later_now)
            later = Market.restore(rules, market.state(), [feed], [later_protocol], later_now)
            later._check()
            assert later.state() == market.state()
            before = len(market.encoders[0].said)  # type: ignore[attr-defined]
            for each in inputs[place + 1 : place + 100]:
                assert later.apply(each) == market.apply(each)
            assert feed.said == market.encoders[0].said[before:]  # type: ignore[attr-defined]
            assert later.state_hash() == market.state_hash()
            market = later
            break
    assert market.trades > 20


def test_the_fingerprint_is_that_of_the_market_whoever_listens() -> None:
    inputs = requests(1, 200)
    rules = OrderDesk(("ACME", "GLOBEX")).market.rules
    silent, heard = Market(rules), Market(rules, [SaidFeed(Now())], [SaidProtocol()])
    for item in inputs:
        silent.apply(item)
        heard.apply(item)
    heard.accounts[1].next_message += 7
    assert silent.state_hash() == heard.state_hash()
    assert len(silent.state_hash()) == 64
    silent.apply(Tick(10**6))
    assert silent.state_hash() != heard.state_hash()


def test_the_place_in_the_queue_is_a_part_of_it() -> None:
    hashes = set()
    for first, second in ((1, 2), (2, 1)):
        desk = OrderDesk()
        for volume in (1, 2):
            desk.enter(AGENT, "B", volume, 100)
        book = desk.market.books["ACME"]
        for order_id in (first, second):
            book.displace(book.orders[order_id])
            book.place(book.orders[order_id])
        hashes.add(desk.market.state_hash())
    assert len(hashes) == 2


def test_bytes_of_another_market_are_refused() -> None:
    state = OrderDesk(("ACME", "GLOBEX")).market.state()
    rules = OrderDesk().market.rules
    with pytest.raises(ValueError, match="with 1 symbols, was version 1 with 2"):
        Market.restore(rules, state)
    with pytest.raises(ValueError):
        Market.restore(rules, state[:-1])


def test_room_for_orders_is_counted_anew() -> None:
    desk = OrderDesk(max_live_orders=2)
    desk.enter(AGENT, "B", 1, 100)
    later = Market.restore(desk.market.rules, desk.market.state())
    for time_ns in (10**6, 10**6 + 1, 10**6 + 2):
        later.apply(Enter(time_ns, 0, 9, 0, "ACME", "B", 1, 100))
    assert later.live_orders == 2


def test_no_figure_of_an_order_or_account_outgrows_the_state() -> None:
    desk = OrderDesk()
    desk.open("ann", "bob")
    large = 2**63 - 1
    order_id = desk.enter("ann", "B", large, large)
    for _ in range(3):
        desk.enter("bob", "S", large - 1, large)
        order_id = desk.replace("ann", order_id, large, large)
    desk.open("ann", limits=AccountLimits(open_notional=1, requests_per_s=large))
    later = Market.restore(desk.market.rules, desk.market.state())
    assert later.state_hash() == desk.market.state_hash()
    assert later.accounts[1].open_notional == large * large
    later._check()

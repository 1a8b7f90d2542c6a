"""Rows 12 to 14 of docs/features/exchange.md: auctions, halts, and collars."""

from __future__ import annotations

import pytest

from exchange_server.matching import PhaseName, Tick
from exchange_server.matching.order import CLOSING, HALTED_ONLY, HIDDEN, IOC, OPENING, POST_ONLY
from tests.generators.order_desk import AGENT, OrderDesk


@pytest.fixture
def desk() -> OrderDesk:
    """ACME collects orders for its opening; the reference price is 100."""
    desk = OrderDesk(opens_with_auction=True)
    desk.open("ann", "bob", "cid")
    return desk


def cross(desk: OrderDesk, phase: PhaseName = "continuous") -> list[str]:
    """What the feed says when the phase is left."""
    desk.feed()
    desk.phase(phase)
    return desk.feed()


def test_row_12_auction_crosses_at_the_price_of_most_lots(desk: OrderDesk) -> None:
    desk.enter("ann", "B", 5, 103)
    desk.enter("ann", "B", 5, 101)
    desk.enter("bob", "S", 4, 99)
    desk.enter("bob", "S", 4, 101)
    # At 101: 10 lots wanted, 8 offered; at 102 and above only 5 wanted, at 100 and below only 4 offered.
    assert cross(desk) == [
        "crossed 1 5@101", "crossed 2 3@101", "crossed 3 4@101", "crossed 4 4@101", "cross 8@101 O", "trading T",
        "system Q",
    ]  # fmt: skip
    assert desk.resting() == [(2, "B", 2, 101)]
    assert desk.told("ann")[2:] == ["executed 1 5@101 O left 0", "executed 2 3@101 O left 2"]
    assert desk.market.books["ACME"].last_trade_ticks == 101


@pytest.mark.parametrize(
    ("bids", "asks", "price"),
    [
        # Most lots execute anywhere from 98 to 104; nearest to the reference of 100 is itself.
        ([(104, 5)], [(98, 5)], 100),
        # 5 lots execute at 102 and at 104; 102 leaves 3 bid, 104 none.
        ([(104, 5), (102, 3)], [(101, 5)], 104),
        # Away from the reference: the nearer one.
        ([(108, 5)], [(103, 5)], 103),
        # 5 lots execute at 99 and 101 too, but leave 5 over; nobody's price, the reference, leaves none.
        ([(101, 5), (99, 5)], [(99, 5), (101, 5)], 100),
    ],
)
def test_row_12_auction_price(
    desk: OrderDesk, bids: list[tuple[int, int]], asks: list[tuple[int, int]], price: int
) -> None:
    for side, orders in (("B", bids), ("S", asks)):
        for limit, volume in orders:
            desk.enter(AGENT, side, volume, limit)
    assert f"@{price} O" in next(words for words in cross(desk) if words.startswith("cross "))


def test_row_12_auction_of_market_orders_executes_first(desk: OrderDesk) -> None:
    desk.enter("cid", "B", 5, 110)
    desk.enter("ann", "B", 4, 0, OPENING)
    desk.enter("bob", "S", 6, 100)
    assert cross(desk)[:4] == ["crossed 1 2@100", "crossed 3 6@100", "cross 6@100 O", "trading T"]
    assert desk.told("ann") == ["accepted 2", "executed 2 4@100 O left 0"]
    assert desk.told("cid") == ["accepted 1", "executed 1 2@100 O left 3"]


def test_row_12_auction_orders_are_in_no_feed(desk: OrderDesk) -> None:
    desk.enter("ann", "B", 4, 101, OPENING)
    desk.enter("ann", "B", 4, 101, CLOSING)
    desk.feed()
    desk.enter("bob", "S", 3, 101)
    assert cross(desk) == ["crossed 3 3@101", "cross 3@101 O", "trading T", "system Q"]
    assert desk.told("ann") == [
        "accepted 1", "accepted 2", "executed 1 3@101 O left 1", "canceled 1 1 CROSS left 0",
    ]  # fmt: skip
    desk.enter("bob", "S", 4, 100)
    desk.phase("auction-close")
    assert cross(desk, "closed")[:3] == ["crossed 4 4@101", "cross 4@101 C", "trading H"]
    assert desk.told("ann") == ["executed 2 4@101 C left 0", "system E"]


def test_row_12_auction_takes_undisplayed_lots_last(desk: OrderDesk) -> None:
    desk.enter("ann", "B", 3, 100, HIDDEN)
    desk.enter("bob", "B", 6, 100, show=2)
    desk.enter("cid", "B", 2, 100)
    desk.enter(AGENT, "S", 7, 100)
    assert cross(desk)[:4] == ["crossed 2 2@100", "crossed 3 2@100", "crossed 4 7@100", "cross 7@100 O"]
    assert desk.told("bob")[1:] == ["executed 2 5@100 O left 1", "refreshed 2 as 5 1+0"]
    assert desk.told("ann") == ["accepted 1"]
    assert desk.told("cid")[1:] == ["executed 3 2@100 O left 0"]


def test_row_12_auction_says_its_imbalance_with_each_tick(desk: OrderDesk) -> None:
    desk.enter(AGENT, "B", 5, 102)
    desk.feed()
    desk.apply(Tick(0))
    assert desk.feed() == ["imbalance 0 5 O 0 0 100 O"]
    desk.enter(AGENT, "S", 3, 99)
    desk.enter(AGENT, "S", 1, 101, OPENING)
    desk.feed()
    desk.apply(Tick(0))
    # At the reference of 100: 5 wanted, 3 offered. All cross at 101 (4 lots), those for the auction alone do not.
    assert desk.feed() == ["imbalance 3 2 B 0 101 100 O"]


def test_row_12_auction_reaches_stops_which_enter_behind_it(desk: OrderDesk) -> None:
    desk.enter("ann", "B", 1, stop=101)
    desk.enter(AGENT, "B", 5, 101)
    desk.enter(AGENT, "S", 6, 101)
    assert cross(desk) == [
        "crossed 2 5@101", "crossed 3 5@101", "cross 5@101 O", "trading T", "executed 3 1@101", "system Q",
    ]  # fmt: skip
    assert desk.told("ann")[1:] == ["triggered 1", "executed 1 1@101 R left 0"]


def test_row_12_auction_at_the_close_ends_the_day(desk: OrderDesk) -> None:
    desk.phase("continuous")
    desk.enter("ann", "B", 5, 99)
    desk.enter("bob", "B", 5, stop=200)
    desk.phase("auction-close")
    assert cross(desk, "closed") == ["trading H", "deleted 1 5", "system M", "system E", "system C"]
    assert desk.told("ann")[1:] == ["canceled 1 5 CLOSED left 0", "system E"]
    assert desk.told("bob")[1:] == ["canceled 2 5 CLOSED left 0", "system E"]
    desk.enter("ann", "B", 5, 99)
    assert desk.told("ann") == ["refused CLOSED"]


def test_row_12_auction_refuses_immediate_orders(desk: OrderDesk) -> None:
    desk.enter("ann", "B", 5, 101, IOC)
    desk.enter("ann", "B", 5)
    assert desk.told("ann") == ["refused HALTED", "refused HALTED"]
    desk.enter("ann", "S", 5, 100)
    assert desk.enter("ann", "B", 5, 101, POST_ONLY) == 2
    assert desk.resting() == [(2, "B", 5, 101), (1, "S", 5, 100)]


def test_row_13_halt_takes_cancels_until_trading_resumes() -> None:
    desk = OrderDesk()
    desk.open("ann", "bob")
    desk.enter("ann", "B", 5, 100)
    desk.feed()
    desk.phase("halted", reason="T1")
    assert desk.feed() == ["trading H T1"]
    desk.enter("bob", "S", 5, 100)
    desk.replace("ann", 1, 5, 101)
    desk.replace("ann", 1, 4, 100)
    desk.reduce("ann", 1, 1)
    assert desk.told("bob") == ["refused HALTED"]
    assert desk.told("ann")[1:] == ["refused HALTED", "canceled 1 1 USER left 4", "canceled 1 1 USER left 3"]
    desk.phase("continuous")
    desk.enter("bob", "S", 5, 100)
    assert desk.feed() == ["reduced 1 1", "reduced 1 1", "trading T", "executed 1 3@100", "added 2 S 2@100"]


def test_row_13_halt_may_end_with_an_auction() -> None:
    desk = OrderDesk()
    desk.open("ann")
    desk.phase("halted")
    desk.phase("auction-halt")
    desk.enter("ann", "B", 3, 101, HALTED_ONLY)
    desk.enter(AGENT, "S", 3, 100)
    assert cross(desk) == ["crossed 2 3@100", "cross 3@100 H", "trading T"]
    assert desk.told("ann")[1:] == ["executed 1 3@100 H left 0"]


def test_row_13_halt_pauses_and_then_crosses() -> None:
    desk = OrderDesk()
    desk.open("ann", "bob")
    desk.phase("paused")
    desk.enter("ann", "B", 3, 101)
    desk.enter("bob", "S", 2, 100)
    assert desk.feed() == ["trading P", "added 1 B 3@101", "added 2 S 2@100"]
    assert cross(desk) == ["crossed 1 2@100", "crossed 2 2@100", "cross 2@100 H", "trading T"]


def test_row_13_halt_of_all_symbols_at_once() -> None:
    desk = OrderDesk(("ACME", "GLOBEX"))
    desk.phase("halted", symbol="")
    assert desk.feed() == ["trading H", "trading H"]


def test_row_13_a_kill_switch_ends_an_accounts_orders() -> None:
    desk = OrderDesk()
    desk.open("ann", "bob")
    desk.enter("ann", "B", 5, 100)
    desk.enter("bob", "B", 5, 100)
    desk.feed()
    desk.kill("ann")
    desk.enter("ann", "B", 5, 100)
    assert desk.feed() == ["deleted 1 5"]
    assert desk.told("ann")[1:] == ["canceled 1 5 SUPERVISORY left 0", "refused KILLED"]
    desk.kill("ann", killed=False)
    assert desk.enter("ann", "B", 5, 100) == 3


@pytest.fixture
def collared() -> OrderDesk:
    """Executions within 5 % of the last trade, at first of 100: 95 to 105."""
    desk = OrderDesk(collar_bps=500)
    desk.open("ann", "bob")
    return desk


def test_row_14_collar_ends_what_would_execute_too_far_away(collared: OrderDesk) -> None:
    desk = collared
    desk.enter(AGENT, "S", 2, 105)
    desk.enter(AGENT, "S", 2, 106)
    desk.enter("ann", "B", 5, 110)
    assert desk.told("ann") == ["accepted 3", "executed 3 2@105 R left 3", "canceled 3 3 COLLAR left 0"]
    desk.enter("ann", "B", 5)
    assert desk.told("ann") == ["accepted 4", "executed 4 2@106 R left 3", "canceled 4 3 MARKET left 0"]


def test_row_14_collar_moves_with_the_last_trade(collared: OrderDesk) -> None:
    desk = collared
    desk.enter(AGENT, "S", 1, 94)
    desk.enter("ann", "B", 1, 100)
    assert desk.told("ann") == ["accepted 2", "canceled 2 1 COLLAR left 0"]
    desk.enter(AGENT, "S", 1, 94)
    desk.enter(AGENT, "B", 1, 90)
    desk.enter("bob", "S", 1, 90)
    assert desk.told("bob") == ["accepted 5", "canceled 5 1 COLLAR left 0"]
    assert desk.market.trades == 0


def test_row_14_collar_lets_orders_rest_that_meet_none(collared: OrderDesk) -> None:
    assert collared.enter("ann", "B", 5, 300) == 1
    assert collared.resting() == [(1, "B", 5, 300)]

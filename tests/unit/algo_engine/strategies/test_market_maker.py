"""The market maker quotes both sides, leans against its inventory, and never takes."""

from __future__ import annotations

import pytest

from algo_engine.desk.order import EventKind, Side
from tests.generators.strategy_rig import StrategyRig


def maker(*parameters: str) -> StrategyRig:
    rig = StrategyRig("market_maker", *parameters)
    rig.quote(98, 102)
    rig.start()
    rig.lab.settle()
    return rig


def test_it_quotes_both_sides_of_the_middle() -> None:
    assert maker().orders() == [("B", 50, 98), ("S", 50, 102)]
    assert maker("half_spread_percent=50").orders() == [("B", 50, 99), ("S", 50, 101)]


def test_it_never_takes() -> None:
    rig = maker("half_spread_percent=0")
    rig.quote(100, 101)
    rig.later(1)
    rig.later(1)
    assert rig.orders() == [("B", 50, 100), ("S", 50, 101)]
    assert all(order.options.post_only for order in rig.host.open_orders())


def test_it_replaces_its_quotes_when_the_touch_moves() -> None:
    rig = maker()
    rig.later(1)
    rig.quote(103, 107)
    assert rig.orders() == [("B", 50, 103), ("S", 50, 107)]
    assert [event.kind for event in rig.lab.events].count(EventKind.REPLACED) == 2


def test_it_leaves_its_quotes_when_the_touch_hardly_moves() -> None:
    rig = maker("replace_ticks=3")
    rig.later(1)
    before = list(rig.lab.exchange.resting)
    rig.quote(100, 104)
    assert rig.orders()
    assert list(rig.lab.exchange.resting) == before


def test_it_sends_no_faster_than_its_interval() -> None:
    rig = maker()
    sent = rig.lab.desk.blotter.last_client_id
    for step in range(20):
        rig.quote(103 + step, 107 + step)
        rig.lab.settle()
    assert rig.lab.desk.blotter.last_client_id == sent
    rig.later(0.2)
    assert rig.orders() == [("B", 50, 122), ("S", 50, 126)]


def test_it_leans_against_its_inventory() -> None:
    rig = maker("position_orders=2", "size_lots=10")
    rig.fill(Side.BUY)
    for _ in range(4):
        rig.later(0.2)
    # Half the limit: both quotes two ticks lower, the ask no lower than above the bid.
    assert sorted(rig.orders()) == [("B", 10, 96), ("S", 10, 100)]


def test_it_does_not_buy_beyond_its_position_limit() -> None:
    rig = maker("position_orders=1", "size_lots=10", "skew_percent=0")
    rig.fill(Side.BUY)
    rig.later(1)
    assert rig.orders() == [("S", 10, 102)]


def test_a_quote_is_cancelled_first_if_two_would_pass_the_limit() -> None:
    rig = maker("position_orders=1", "size_lots=10", "skew_percent=0")
    rig.later(1)
    rig.quote(103, 107)
    assert rig.orders() == []
    rig.later(0.2)
    assert rig.orders() == [("B", 10, 103), ("S", 10, 107)]
    assert EventKind.REPLACED not in {event.kind for event in rig.lab.events}


def test_a_quote_that_somebody_cancelled_comes_back() -> None:
    rig = maker()
    rig.lab.exchange.end(rig.open(Side.BUY).order_id, "halt")
    rig.lab.told()
    assert rig.orders() == [("S", 50, 102)]
    rig.later(0.2)
    assert rig.orders() == [("S", 50, 102), ("B", 50, 98)]


def test_it_takes_over_orders_of_an_earlier_run() -> None:
    rig = StrategyRig("market_maker")
    rig.quote(98, 102)
    rig.lab.desk.submit(Side.BUY, "ACME", 50, 98)
    rig.lab.desk.submit(Side.BUY, "ACME", 50, 97)
    rig.lab.settle()
    rig.start()
    assert sorted(rig.orders()) == [("B", 50, 98), ("S", 50, 102)]


@pytest.mark.parametrize(("bid", "ask"), [(98, None), (None, 102), (102, 98)])
def test_it_does_not_quote_without_a_spread(bid: int | None, ask: int | None) -> None:
    rig = StrategyRig("market_maker")
    rig.quote(bid, ask)
    rig.start()
    assert rig.orders() == []

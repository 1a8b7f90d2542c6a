"""Price levels: best first, each a queue that finds its first order at once."""

from __future__ import annotations

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from exchange_server.matching.levels import NOTHING, SHORT, Levels, ranks_of
from exchange_server.matching.order import Order


def filled(side: str, *prices: int) -> Levels:
    levels = Levels(1 if side == "B" else -1)
    for order_id, price in enumerate(prices, 1):
        levels.open(price)[order_id] = Order(order_id, order_id, 1, "B" if side == "B" else "S", price, 5, 7)
    levels._check("ACME", side)
    return levels


def test_the_best_price_is_the_first_of_either_side() -> None:
    bids, asks = filled("B", 99, 101, 100), filled("S", 99, 101, 100)
    assert (list(bids), bids.best(), bids.top()) == ([101, 100, 99], 101, 101)
    assert (list(asks), asks.best(), asks.top()) == ([99, 100, 101], 99, -99)
    assert [order.price_ticks for order in asks.in_priority()] == [99, 100, 101]


def test_nothing_is_worse_than_every_price() -> None:
    empty = Levels(1)
    assert (empty.best(), empty.top(), len(empty)) == (None, NOTHING, 0)
    assert NOTHING < -(2**63)


@given(st.sets(st.integers(-5, 50)), st.sets(st.integers(-5, 50)))
def test_prices_that_come_and_go_leave_the_others(prices: set[int], closed: set[int]) -> None:
    for side in "BS":
        levels = filled(side, *prices)
        for price in closed & prices:
            levels.close(price)
        assert set(levels) == prices - closed
        assert [price in levels for price in closed] == [False] * len(closed)
        levels._check("ACME", side)


@given(st.sets(st.integers(1, 20)), st.sets(st.integers(1, 20)))
def test_the_prices_of_two_kinds_of_orders_come_best_first_and_each_once(shown: set[int], hidden: set[int]) -> None:
    assert list(ranks_of(filled("B", *shown), filled("B", *hidden))) == sorted(shown | hidden, reverse=True)
    assert list(ranks_of(filled("S", *shown), filled("S", *hidden))) == sorted(-each for each in shown | hidden)[::-1]


def test_a_long_queue_is_linked_in_the_same_order_when_it_is_walked() -> None:
    for length in (SHORT, SHORT + 1):
        levels = Levels(1)
        queue = levels.open(100)
        for order_id in range(length):
            queue[order_id] = Order(order_id, order_id, 1, "B", 100, 5, 7)
        walked = levels.walk(100)
        assert walked is levels[100] is levels.walk(100)
        assert isinstance(walked, OrderedDict) == (length > SHORT)
        assert list(walked) == list(queue)

"""Price levels: best first, each a queue that finds its first order at once."""

from __future__ import annotations

from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange_server.matching.levels import NEAR, NOTHING, SHORT, Levels, ranks_of
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
def test_prices_of_two_kinds_come_best_first_and_once(shown: set[int], hidden: set[int]) -> None:
    assert list(ranks_of(filled("B", *shown), filled("B", *hidden))) == sorted(shown | hidden, reverse=True)
    assert list(ranks_of(filled("S", *shown), filled("S", *hidden))) == sorted(-each for each in shown | hidden)[::-1]


def test_a_long_queue_is_relinked_in_the_same_order() -> None:
    for length in (SHORT, SHORT + 1):
        levels = Levels(1)
        queue = levels.open(100)
        for order_id in range(length):
            queue[order_id] = Order(order_id, order_id, 1, "B", 100, 5, 7)
        walked = levels.walk(100)
        assert walked is levels[100] is levels.walk(100)
        assert isinstance(walked, OrderedDict) == (length > SHORT)
        assert list(walked) == list(queue)


@given(st.lists(st.integers(1, 60), max_size=120))
def test_prices_far_from_the_touch_are_kept_apart_and_come_back(prices: list[int]) -> None:
    for side in "BS":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("exchange_server.matching.levels.NEAR", 4)
            levels, left = filled(side), set[int]()
            for price in prices:
                if price in left:
                    levels.close(price)
                else:
                    levels.open(price)[price] = Order(price, price, 1, "B" if side == "B" else "S", price, 5, 7)
                left ^= {price}
                levels._check("ACME", side)
                assert len(levels.ranks) <= 4
                assert set(levels) == left
            while (best := levels.best()) is not None:
                assert best == (max(left) if side == "B" else min(left))
                levels.close(best)
                left.remove(best)
            assert not left


def test_no_price_moves_more_than_so_many_others() -> None:
    for step in (1, -1):
        levels = Levels(1)
        for price in range(500_000, 500_000 + 3 * NEAR * step, step):
            levels.open(price)[1] = Order(1, 1, 1, "B", price, 5, 7)
            assert len(levels.ranks) <= NEAR
        assert len(levels) == 3 * NEAR

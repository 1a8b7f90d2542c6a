"""Icebergs, hidden orders and self-trades where they meet."""

from __future__ import annotations

from collections import OrderedDict

import pytest

from exchange_server.matching.levels import SHORT
from exchange_server.matching.order import HIDDEN, IOC
from tests.generators.order_desk import AGENT, OrderDesk


@pytest.fixture
def desk() -> OrderDesk:
    desk = OrderDesk()
    desk.open("ann", "bob")
    return desk


def test_icebergs_take_turns_at_their_price(desk: OrderDesk) -> None:
    desk.enter("ann", "S", 4, 100, show=1)
    desk.enter("bob", "S", 4, 100, show=2)
    desk.feed()
    desk.enter(AGENT, "B", 5, 100)
    assert desk.feed() == [
        "executed 1 1@100", "added 4 S 1@100", "executed 2 2@100", "added 5 S 2@100", "executed 4 1@100",
        "added 6 S 1@100", "executed 5 1@100",
    ]  # fmt: skip


def test_hidden_orders_come_behind_the_last_part_of_an_iceberg(desk: OrderDesk) -> None:
    desk.enter("ann", "S", 1, 100, HIDDEN)
    desk.enter("bob", "S", 3, 100, show=1)
    desk.feed()
    desk.enter(AGENT, "B", 4, 100)
    assert desk.feed()[-1] == "traded S 1@100"


def test_a_hidden_order_within_the_spread_is_the_best(desk: OrderDesk) -> None:
    desk.enter("ann", "S", 1, 99, HIDDEN)
    desk.enter("bob", "S", 1, 100)
    desk.feed()
    desk.enter(AGENT, "B", 3, 100)
    assert desk.feed() == ["traded S 1@99", "executed 2 1@100", "added 3 B 1@100"]


def test_parts_that_would_be_prevented_count_as_they_come() -> None:
    desk = OrderDesk()
    desk.open("own", self_trade="decrement")
    desk.enter("own", "S", 4, 100, show=1)
    desk.enter(AGENT, "S", 2, 100)
    desk.feed()
    # One lot is taken off both, then two trade: the order has one left, which the next part takes off.
    desk.enter("own", "B", 4, 100, IOC, minimum=3)
    assert desk.told("own")[-1] == "canceled 3 4 MINIMUM left 0"
    desk.enter("own", "B", 4, 100, IOC, minimum=2)
    assert desk.feed() == ["deleted 1 1", "added 5 S 1@100", "executed 2 2@100", "deleted 5 1", "added 6 S 1@100"]
    assert desk.told("own") == [
        "accepted 4", "prevented 1 1 of 1 left 3", "prevented 4 1 of 1 left 3", "refreshed 1 as 5 1+2",
        "executed 4 2@100 R left 1", "prevented 1 1 of 1 left 2", "prevented 4 1 of 1 left 0", "refreshed 1 as 6 1+1",
    ]  # fmt: skip


def test_an_own_hidden_order_is_made_smaller_unseen() -> None:
    desk = OrderDesk()
    desk.open("own", self_trade="decrement")
    desk.enter("own", "S", 5, 100, HIDDEN)
    desk.enter("own", "B", 2, 100)
    assert desk.feed() == []
    assert desk.market.books["ACME"].orders[1].volume == 3


def test_what_was_executed_before_an_own_order_stays_so() -> None:
    desk = OrderDesk()
    desk.open("own", self_trade="newest")
    desk.enter(AGENT, "S", 1, 100)
    desk.enter("own", "S", 1, 100)
    desk.enter(AGENT, "S", 1, 100)
    desk.enter("own", "B", 3, 100, IOC, minimum=2)
    desk.enter("own", "B", 3, 100, IOC, minimum=1)
    assert desk.told("own")[1:] == [
        "accepted 4", "canceled 4 3 MINIMUM left 0", "accepted 5", "executed 5 1@100 R left 2",
        "prevented 5 2 of 1 left 0",
    ]  # fmt: skip


def test_the_oldest_are_passed_over_for_a_minimum() -> None:
    desk = OrderDesk()
    desk.open("own", self_trade="oldest")
    desk.enter("own", "S", 9, 100)
    desk.enter(AGENT, "S", 3, 101)
    desk.feed()
    desk.enter("own", "B", 3, 101, IOC, minimum=3)
    assert desk.feed() == ["deleted 1 9", "executed 2 3@101"]


def test_a_minimum_does_not_skip_ended_orders_repeatedly(desk: OrderDesk) -> None:
    ids = [desk.enter(AGENT, "S", 1, 100) for _ in range(3 * SHORT)]
    for order_id in ids[:SHORT]:
        desk.cancel(AGENT, order_id)
    desk.enter(AGENT, "B", 3 * SHORT, 100, IOC, minimum=3 * SHORT)
    assert isinstance(desk.market.books["ACME"].asks[100], OrderedDict)
    assert len(desk.resting()) == 2 * SHORT

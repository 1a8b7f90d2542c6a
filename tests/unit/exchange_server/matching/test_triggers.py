"""Stops, and orders that end at a time of their own."""

from __future__ import annotations

from exchange_server.matching import Order, Tick
from exchange_server.matching.order import STOP
from exchange_server.matching.triggers import Stops
from tests.generators.order_desk import AGENT, OrderDesk


def stop(order_id: int, side: str, stop_ticks: int) -> Order:
    return Order(order_id, order_id, 1, "B" if side == "B" else "S", 0, 1, 7, flags=STOP, stop_ticks=stop_ticks)


def test_buys_come_before_sells_and_the_nearest_first() -> None:
    stops = Stops()
    orders = [
        stop(1, "S", 98),
        stop(2, "B", 103),
        stop(3, "S", 99),
        stop(4, "B", 101),
        stop(5, "B", 101),
        stop(6, "B", 200),
    ]
    for order in orders:
        stops.add(order)
    assert stops.reached() == []
    stops.traded(99)
    stops.traded(103)
    stops.traded(100)
    assert stops.reached() == [4, 5, 2, 3]
    assert stops.reached() == []
    stops._check("ACME", {order.order_id: order for order in orders})
    stops.remove(orders[3])
    stops.traded(101)
    assert stops.reached() == [5]
    assert len(stops) == 5


def test_a_reached_stop_rests_expires_and_is_replaced() -> None:
    desk = OrderDesk()
    desk.open("ann")
    desk.enter("ann", "B", 5, 100, stop=101, until=5_000)
    desk.enter(AGENT, "S", 1, 101)
    desk.enter(AGENT, "B", 1, 101)
    assert desk.resting() == [(1, "B", 5, 100)]
    assert desk.replace("ann", 1, 5, 99) == 4
    desk.time_ns = 5_000
    desk.apply(Tick(0))
    assert desk.told("ann") == ["accepted 1", "triggered 1", "replaced 1 4", "canceled 4 5 TIMEOUT left 0"]


def test_a_stop_waits_for_trading_and_can_be_cancelled() -> None:
    desk = OrderDesk()
    desk.open("ann")
    desk.phase("auction-open")
    desk.enter("ann", "B", 5, stop=101)
    desk.enter("ann", "B", 5, stop=102)
    desk.reduce("ann", 1, 2)
    desk.cancel("ann", 1)
    desk.phase("continuous")
    desk.enter(AGENT, "S", 3, 101)
    desk.enter(AGENT, "B", 1, 101)
    assert desk.told("ann") == ["accepted 1", "accepted 2", "canceled 1 2 USER left 3", "canceled 1 3 USER left 0"]


def test_orders_expire_earliest_first_before_the_next_request() -> None:
    desk = OrderDesk()
    desk.open("ann")
    desk.enter("ann", "B", 1, 100, until=3_000)
    desk.enter("ann", "B", 1, 101, until=2_500)
    desk.enter("ann", "B", 1, 102, until=2_500)
    desk.enter("ann", "B", 1, stop=200, until=0)
    assert desk.market.next_due_ns == 2_500
    desk.time_ns = 2_498
    desk.enter(AGENT, "S", 1, 150)
    assert desk.told("ann")[4:] == []
    desk.enter(AGENT, "S", 1, 90)
    assert desk.told("ann") == [
        "canceled 2 1 TIMEOUT left 0", "canceled 3 1 TIMEOUT left 0", "executed 1 1@100 A left 0",
    ]  # fmt: skip
    desk.time_ns = 9_000
    desk.apply(Tick(0))
    assert desk.market.next_due_ns == 2**63 - 1


def test_what_will_expire_is_noted_for_live_orders_only() -> None:
    desk = OrderDesk()
    for _ in range(1_000):
        order = desk.enter(AGENT, "B", 1, 100, until=10**15)
        desk.cancel(AGENT, order)
    desk.enter(AGENT, "B", 1, 100, until=10**15)
    assert len(desk.market.shared.expiries) <= 65


def test_no_stop_moves_more_than_so_many_others() -> None:
    stops = Stops()
    for order_id in range(1, 20_001):
        stops.add(stop(order_id, "BS"[order_id % 2], order_id))
    for keys in (stops._buys, stops._sells):
        assert max(map(len, getattr(keys, "_lists", [keys]))) <= 4_000

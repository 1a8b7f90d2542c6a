"""Orders that are replaced, that expire, and that have options."""

from __future__ import annotations

import pytest

from algo_engine.desk.order import EventKind, Order, OrderStatus, Side
from algo_engine.desk.risk import RiskLimits
from deltabook.wire.text import OrderOptions, Response, parse_request
from tests.generators.order_lab import BROKER, LIMITS, OrderLab


def kinds(lab: OrderLab) -> list[EventKind]:
    return [event.kind for event in lab.events]


def resting(lab: OrderLab, lots: int = 10, price: int = 100) -> int:
    client_id = lab.desk.submit(Side.BUY, "ACME", lots, price)
    lab.settle()
    lab.events.clear()
    return client_id


def order(lab: OrderLab, client_id: int) -> Order:
    found = lab.desk.blotter.order(client_id)
    assert found is not None
    return found


@pytest.fixture
def lab() -> OrderLab:
    lab = OrderLab()
    lab.settle()
    return lab


def test_a_replacement_changes_the_exchanges_number_alone(lab: OrderLab) -> None:
    client_id = resting(lab)
    lab.desk.replace(client_id, 25, 101)
    assert order(lab, client_id).price_ticks == 100, "nothing is known before the answer"
    lab.settle()
    after = order(lab, client_id)
    assert (after.order_id, after.remaining_lots, after.price_ticks) == (2, 25, 101)
    lab.exchange.fill(2, 25, 101)
    lab.told()
    lab.settle()
    assert kinds(lab) == ["replaced", "filled"]
    lab.check_settled()


def test_what_executes_on_the_way_comes_on_top_of_it(lab: OrderLab) -> None:
    client_id = resting(lab)
    lab.desk.replace(client_id, 10, 101)
    lab.exchange.fill(1, 4, 100)
    lab.told()
    lab.settle()
    after = order(lab, client_id)
    assert (after.filled_lots, after.remaining_lots, after.volume_lots) == (4, 10, 14)
    assert kinds(lab) == ["partially_filled", "replaced"]
    lab.check_settled()


@pytest.mark.parametrize(("lots", "left"), [(10, 10), (4, 4)])
def test_a_shrink_at_the_same_price_keeps_its_number(lab: OrderLab, lots: int, left: int) -> None:
    client_id = resting(lab)
    lab.desk.replace(client_id, lots, 100)
    lab.settle()
    assert kinds(lab) == ["replaced"]
    assert (order(lab, client_id).order_id, order(lab, client_id).remaining_lots) == (1, left)
    lab.check_settled()


def test_an_order_gone_before_its_replacement_stays_gone(lab: OrderLab) -> None:
    client_id = resting(lab)
    lab.desk.replace(client_id, 5, 101)
    lab.exchange.fill(1, 10, 100)
    lab.told()
    lab.settle()
    assert kinds(lab) == ["filled", "replace_refused"]
    assert (lab.events[-1].order.client_id, lab.events[-1].reason) == (client_id, "unknown order")
    lab.check_settled()


def test_a_cancellation_overtaken_by_a_replacement_is_resent(lab: OrderLab) -> None:
    client_id = resting(lab)
    lab.desk.replace(client_id, 10, 101)
    lab.desk.cancel(client_id)
    lab.turn()
    asked = [parse_request(line) for line in lab.requests]
    assert [(request.action, request.order_id) for request in asked] == [("U", 1), ("D", 1)]
    lab.settle()
    assert kinds(lab) == ["replaced", "cancel_refused", "cancelled"]
    assert not lab.exchange.resting
    lab.check_settled()


def test_the_kill_switch_cancels_pending_and_replaced_orders(lab: OrderLab) -> None:
    replaced = resting(lab)
    lab.desk.replace(replaced, 20, 99)
    lab.desk.submit(Side.SELL, "ACME", 5, 101)
    lab.turn()
    lab.desk.kill("by hand")
    lab.settle()
    assert not lab.exchange.resting
    assert lab.desk.blotter.open_orders() == []
    lab.desk.replace(replaced, 1, 99)
    lab.desk.submit(Side.SELL, "ACME", 5, 101)
    assert lab.events[-1].reason == "kill switch: by hand"
    lab.check_settled()


def test_one_replacement_at_a_time_and_none_of_an_ending_order(lab: OrderLab) -> None:
    client_id = resting(lab)
    lab.desk.replace(client_id, 5, 101)
    lab.desk.replace(client_id, 6, 101)
    assert lab.events[-1].kind is EventKind.REPLACE_REFUSED
    lab.settle()
    lab.desk.cancel(client_id)
    lab.desk.replace(client_id, 6, 101)
    lab.settle()
    lab.desk.replace(client_id, 6, 101)
    assert kinds(lab) == ["replace_refused", "replaced", "replace_refused", "cancelled", "replace_refused"]
    assert "was cancelled" in lab.events[-1].reason
    lab.check_settled()


def test_limits_count_an_order_and_its_pending_replacement() -> None:
    limits = RiskLimits(max_position_lots={"*": 30}, max_order_lots={"*": 100}, price_band_bps=1000)
    lab = OrderLab(limits=limits)
    lab.settle()
    client_id = resting(lab, lots=10)
    lab.desk.replace(client_id, 21, 101)
    assert "position: expected at most 30 lots" in lab.events[-1].reason
    lab.desk.replace(client_id, 15, 101)
    lab.desk.submit(Side.BUY, "ACME", 6, 100)
    assert "was 31" in lab.events[-1].reason
    lab.settle()
    lab.desk.submit(Side.BUY, "ACME", 15, 100)
    lab.settle()
    assert kinds(lab)[-1] is EventKind.ACCEPTED


def test_the_lots_of_a_replaced_order_fit_in_64_bits() -> None:
    """A replacement adds its lots to those that were executed; result tables and clients count lots in 64 bits."""
    most = 2**63 - 1
    limits = RiskLimits(max_order_lots={"*": most}, max_position_lots={"*": 2 * most}, price_band_bps=1000)
    lab = OrderLab(limits=limits)
    lab.settle()
    client_id = resting(lab)
    for lots in (most - 9, most - 10):
        lab.desk.replace(client_id, lots, 100)
        lab.exchange.fill(lab.exchange.accepted[-1], 1, 100)
        lab.told()
        lab.settle()
    assert kinds(lab) == ["replace_refused", "partially_filled", "partially_filled", "replaced"]
    assert lab.events[0].reason == f"volume: expected {most - 10} lots or fewer, was {most - 9}"
    assert order(lab, client_id).volume_lots == most - 8
    lab.check_settled()


def test_a_replacement_that_never_arrived_ends_at_the_fence(lab: OrderLab) -> None:
    client_id = resting(lab)
    lab.desk.replace(client_id, 5, 101)
    lab.turn()
    lab.drop()
    lab.settle()
    assert kinds(lab) == ["replace_refused"]
    assert order(lab, client_id).remaining_lots == 10
    lab.check_settled()


def test_a_replacement_answered_in_a_crash_is_recovered(lab: OrderLab) -> None:
    client_id = resting(lab)
    lab.desk.replace(client_id, 5, 101)
    lab.turn()
    lab.crash(arriving=1)
    lab.deliver_late()
    lab.settle()
    assert (order(lab, client_id).order_id, order(lab, client_id).remaining_lots) == (2, 5)
    lab.check_settled()


def test_an_order_whose_time_is_over_is_expired(lab: OrderLab) -> None:
    client_id = resting(lab)
    lab.exchange.end(1, "timeout")
    lab.told()
    lab.settle()
    assert kinds(lab) == ["expired"]
    assert (order(lab, client_id).status, order(lab, client_id).reason) == (OrderStatus.EXPIRED, "timeout")
    lab.check_settled()


def test_options_are_on_the_wire_and_outlive_a_crash(lab: OrderLab) -> None:
    options = OrderOptions(post_only=True, display=3, expire_ns=10**18)
    client_id = lab.desk.submit(Side.BUY, "ACME", 10, 100, options)
    lab.turn()
    assert parse_request(lab.requests[0]).options == options
    lab.crash(arriving=1)
    lab.settle()
    assert order(lab, client_id).options == options


def test_a_stop_that_is_reached_is_an_event(lab: OrderLab) -> None:
    client_id = resting(lab)
    number = lab.desk.blotter.sequence + 1
    lab.desk.receive(Response(number, 7, 1, BROKER, "T", 10, 100, "ACME", client_id, "99"))
    assert kinds(lab) == ["triggered"]


def test_daily_order_counts_last_over_restarts_for_one_day() -> None:
    lab = OrderLab(limits=RiskLimits(max_orders_per_day=2, max_order_lots={"*": 10}), compact_bytes=64)
    lab.settle()
    client_id = resting(lab, lots=1)
    lab.desk.replace(client_id, 2, 99)
    lab.settle()
    lab.crash()
    lab.settle()
    lab.desk.submit(Side.BUY, "ACME", 1, 100)
    assert lab.events[-1].reason == "orders of the day: expected fewer than 2, was 2"
    lab.clock.advance(86_400)
    lab.desk.submit(Side.BUY, "ACME", 1, 100)
    assert lab.events[-1].kind is EventKind.SUBMITTED


def test_refused_and_rejected_orders_keep_count_and_reason(lab: OrderLab) -> None:
    rejected = lab.desk.submit(Side.BUY, "ACME", 950, 100)
    refused = lab.desk.submit(Side.BUY, "ACME", LIMITS.max_order_lots["*"] + 1, 100)
    lab.settle()
    assert (lab.desk.blotter.rejected, lab.desk.blotter.refused) == (1, 1)
    assert (order(lab, rejected).status, order(lab, rejected).reason) == (OrderStatus.REJECTED, "too large")
    assert order(lab, refused).reason.startswith("order size: expected at most 1000 lots")

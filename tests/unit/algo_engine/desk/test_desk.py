"""The desk: orders through their life."""

from __future__ import annotations

import itertools

import pytest

from algo_engine.desk.journal import MemoryJournal
from algo_engine.desk.order import EventKind, OrderStatus, Side
from algo_engine.desk.records import Checkpoint, Intent
from algo_engine.errors import LoginRefused, StreamGap
from deltabook.wire.text import Accepted, Request, Response
from tests.generators.order_lab import BROKER, OrderLab


def kinds(lab: OrderLab) -> list[EventKind]:
    return [event.kind for event in lab.events]


@pytest.fixture
def lab() -> OrderLab:
    lab = OrderLab()
    lab.settle()
    return lab


def test_an_order_is_accepted_partly_filled_and_filled(lab: OrderLab) -> None:
    client_id = lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.settle()
    lab.exchange.fill(1, 4, 100)
    lab.exchange.fill(1, 6, 99)
    lab.told()
    lab.settle()
    assert kinds(lab) == ["submitted", "accepted", "partially_filled", "filled"]
    order = lab.desk.blotter.order(client_id)
    assert order is not None
    assert (order.status, order.filled_lots, order.remaining_lots) == (OrderStatus.FILLED, 10, 0)
    lab.check_settled()


def test_the_rest_of_a_market_order_is_cancelled(lab: OrderLab) -> None:
    lab.desk.submit(Side.SELL, "ACME", 10, 0)
    lab.settle()
    assert kinds(lab) == ["submitted", "accepted", "partially_filled", "cancelled"]
    assert lab.desk.portfolio.holding("ACME").position_lots == -5
    lab.check_settled()


def test_an_order_is_reduced_and_reduced_to_nothing(lab: OrderLab) -> None:
    client_id = lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.settle()
    lab.desk.reduce(client_id, 4)
    lab.settle()
    order = lab.desk.blotter.order(client_id)
    assert order is not None
    assert order.remaining_lots == 6
    lab.desk.reduce(client_id, 6)
    lab.settle()
    assert kinds(lab)[2:] == ["reduced", "cancelled"]
    lab.check_settled()


def test_a_reduction_of_an_order_not_in_the_book_is_refused(lab: OrderLab) -> None:
    client_id = lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.desk.reduce(client_id, 4)
    assert kinds(lab) == ["submitted", "reduce_refused"]


def test_a_refused_order_is_rejected_with_the_exchanges_reason(lab: OrderLab) -> None:
    lab.desk.submit(Side.BUY, "ACME", 950, 100)
    lab.settle()
    assert (lab.events[-1].kind, lab.events[-1].reason) == (EventKind.REJECTED, "too large")
    lab.check_settled()


def test_a_cancellation_before_the_acceptance_waits_for_it(lab: OrderLab) -> None:
    client_id = lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.desk.cancel(client_id)
    lab.turn()
    assert len(lab.requests) == 1
    lab.settle()
    assert kinds(lab) == ["submitted", "accepted", "cancelled"]
    lab.check_settled()


def test_a_late_cancellation_is_refused_and_not_repeated(lab: OrderLab) -> None:
    client_id = lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.settle()
    lab.desk.cancel(client_id)
    lab.exchange.fill(1, 10, 100)
    lab.told()
    lab.settle()
    assert kinds(lab)[2:] == ["filled", "cancel_refused"]
    lab.check_settled()


def test_a_cancellation_of_a_vanishing_order_awaits_its_answer(lab: OrderLab) -> None:
    client_id = lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.settle()
    lab.desk.cancel(client_id)
    lab.turn()
    lab.exchange.end(1, "post-only")
    lab.told()
    lab.deliver_response()
    assert [intent.action for intent in lab.desk.blotter.pending()] == ["D"]
    lab.settle()
    assert kinds(lab)[2:] == ["cancelled", "cancel_refused"]
    lab.check_settled()


def test_of_two_cancellations_the_second_is_refused(lab: OrderLab) -> None:
    client_id = lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.settle()
    lab.desk.reduce(client_id, 10)
    lab.desk.cancel(client_id)
    lab.turn()
    lab.deliver_request()
    lab.deliver_response()
    assert [intent.action for intent in lab.desk.blotter.pending()] == ["D"]
    lab.settle()
    assert kinds(lab)[2:] == ["cancelled", "cancel_refused"]
    lab.check_settled()


def test_an_order_replaced_on_another_connection_stays_ours(lab: OrderLab) -> None:
    client_id = lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.settle()
    number = itertools.count(lab.desk.blotter.sequence + 1)

    def told(order_id: int, action: str, volume: int, price: int, detail: str) -> None:
        lab.desk.receive(Response(next(number), 1, order_id, BROKER, action, volume, price, "ACME", 999, detail))

    told(1, "E", 2, 100, "maker")
    told(77, "U", 20, 101, "1")
    told(77, "N", 5, 101, "78")
    told(77, "T", 20, 101, "99")
    told(78, "U", 20, 101, "76")
    told(79, "U", 20, 101, "?")
    order = lab.desk.blotter.order(client_id)
    assert order is not None
    assert (order.order_id, order.price_ticks, order.filled_lots, order.remaining_lots) == (77, 101, 2, 20)
    assert lab.desk.blotter.unmatched == 2
    told(77, "F", 20, 101, "maker")
    assert kinds(lab)[2:] == ["partially_filled", "reconciled", "triggered", "filled"]
    assert lab.desk.portfolio.holding("ACME").position_lots == 22
    lab.desk.blotter._check()


def test_nothing_is_sent_before_it_is_durable(lab: OrderLab) -> None:
    lab.desk.submit(Side.BUY, "ACME", 10, 100)
    assert not lab.requests
    assert not any(isinstance(record, Intent) for record in lab.journal.durable)
    lab.turn()
    assert len(lab.requests) == 1
    assert isinstance(lab.journal.durable[-1], Intent)


def test_requests_of_one_turn_share_one_sync() -> None:
    class Counting(MemoryJournal):
        syncs = 0

        def sync(self) -> None:
            self.syncs += 1
            super().sync()

    lab = OrderLab(make_journal=Counting)
    lab.settle()
    assert isinstance(lab.journal, Counting)
    before = lab.journal.syncs
    for _ in range(5):
        lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.turn()
    assert (lab.journal.syncs - before, len(lab.requests)) == (1, 5)


def test_a_disk_that_fails_ends_the_engine_and_sends_nothing() -> None:
    class Full(MemoryJournal):
        def sync(self) -> None:
            raise OSError("no space left")

    lab = OrderLab(make_journal=Full)
    lab.connect()
    lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.turn()
    assert not lab.requests
    assert str(lab.failures[0]) == "no space left"


def test_orders_without_a_connection_are_refused() -> None:
    lab = OrderLab()
    lab.desk.submit(Side.BUY, "ACME", 10, 100)
    assert kinds(lab) == ["refused"]
    assert lab.events[0].reason.startswith("connection")


def test_the_kill_switch_cancels_all_and_refuses_new_orders(lab: OrderLab) -> None:
    lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.settle()
    lab.desk.submit(Side.SELL, "ACME", 10, 100)  # not accepted yet when the switch is thrown
    lab.desk.kill("enough")
    lab.settle()
    assert not lab.exchange.resting
    lab.desk.submit(Side.BUY, "ACME", 10, 100)
    assert (lab.events[-1].kind, lab.events[-1].reason) == (EventKind.REFUSED, "kill switch: enough")
    lab.exchange.request(Request(500, 0, BROKER, "B", 10, 100, "ACME"))  # by another connection of the broker
    lab.told()
    lab.settle()
    assert not lab.exchange.resting
    lab.check_settled()


def test_a_disconnected_kill_switch_acts_after_the_next_login(lab: OrderLab) -> None:
    lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.settle()
    lab.drop()
    lab.desk.kill("enough")
    lab.settle()
    assert not lab.exchange.resting
    lab.check_settled()


def test_an_order_that_never_arrived_is_unknown_and_not_resent(lab: OrderLab) -> None:
    lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.turn()
    lab.drop()
    assert kinds(lab) == ["submitted", "unknown"]
    lab.settle()
    assert kinds(lab)[2:] == ["never_sent"]
    assert not lab.exchange.accepted
    lab.check_settled()


def test_an_order_that_arrived_before_the_break_is_reconciled(lab: OrderLab) -> None:
    lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.turn()
    lab.deliver_request()
    lab.drop()
    lab.settle()
    assert kinds(lab) == ["submitted", "unknown", "reconciled"]
    lab.check_settled()


def test_bytes_of_an_old_connection_count_only_before_the_fence(lab: OrderLab) -> None:
    lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.desk.submit(Side.BUY, "ACME", 20, 100)
    lab.turn()
    lab.drop(arriving=2)
    lab.connect()
    lab.turn()
    lab.deliver_late()  # the first order overtakes the fence …
    lab.deliver_request()
    lab.deliver_late()  # … the second does not
    lab.settle()
    assert lab.exchange.accepted == [1]
    assert kinds(lab)[4:] == ["reconciled", "never_sent"]
    lab.check_settled()


def test_nothing_can_be_ordered_before_the_fence_is_answered(lab: OrderLab) -> None:
    lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.settle()
    lab.drop()
    lab.connect()
    assert not lab.desk.is_synchronised
    lab.settle()
    assert lab.desk.is_synchronised


def test_an_unwanted_order_is_cancelled_after_a_lost_cancel(lab: OrderLab) -> None:
    client_id = lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.settle()
    lab.desk.cancel(client_id)
    lab.turn()
    lab.drop()
    lab.settle()
    assert not lab.exchange.resting
    lab.check_settled()


def test_a_lost_journal_is_made_up_from_the_private_stream(lab: OrderLab) -> None:
    lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.settle()
    lab.exchange.fill(1, 3, 100)
    lab.journal.durable.clear()
    lab.journal._written.clear()
    lab.spool.fills.clear()
    lab.crash()
    lab.settle()
    assert [order.client_id for order in lab.desk.blotter.open_orders()] == [1]
    lab.check_settled()
    assert lab.desk.submit(Side.BUY, "ACME", 10, 100) > 2
    lab.settle()
    lab.check_settled()


def test_another_session_is_refused(lab: OrderLab) -> None:
    lab.desk.lost()
    with pytest.raises(LoginRefused, match="of session S1 from message 1 on, was that of session S2 from message 1 on"):
        lab.desk.opened(Accepted("S2", 1, 0), lambda _: None)


def test_a_broker_without_further_client_ids_is_refused() -> None:
    """The desk would wait for ever for the answer to its first request, whose number no line can hold."""
    lab = OrderLab()
    for last in (2**63 - 1, 2**62 + 1):
        with pytest.raises(
            LoginRefused, match=f"expected a newest client id up to {2**62} of broker 9001, was {last}, "
        ):
            lab.desk.opened(Accepted("S1", 1, last), lambda _: None)
    lab.desk.opened(Accepted("S1", 1, 2**62), lambda _: None)


def test_another_brokers_journal_is_refused() -> None:
    with pytest.raises(LoginRefused, match="expected a journal of broker 9001, was one of broker 7"):
        OrderLab(make_journal=lambda records: MemoryJournal(records or [Checkpoint(7)]))


def test_a_message_that_is_told_twice_counts_once(lab: OrderLab) -> None:
    lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.settle()
    lab.exchange.fill(1, 4, 100)
    lab.told()
    lab.responses.append(lab.responses[-1])
    lab.settle()
    lab.check_settled()


def test_a_refused_retransmitted_number_makes_no_order(lab: OrderLab) -> None:
    """Somebody else used the same broker: his order is known, ours is rejected, nothing is doubled."""
    lab.exchange.request(Request(1, 0, BROKER, "B", 5, 98, "ACME"))
    lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.settle()
    lab.drop()
    lab.settle()
    assert lab.exchange.accepted == [1]
    assert [order.order_id for order in lab.desk.blotter.open_orders()] == [1]


def test_a_gap_in_the_private_stream_is_an_error(lab: OrderLab) -> None:
    with pytest.raises(StreamGap, match=r"expected message 1 .* was message 3"):
        lab.desk.receive(Response(3, 0, 1, BROKER, "A", 1, 1, "ACME", 1, "B"))


def test_compaction_keeps_the_journal_small_and_the_state_whole() -> None:
    lab = OrderLab(compact_bytes=64 * 20)
    lab.settle()
    for _ in range(100):
        lab.desk.submit(Side.BUY, "ACME", 10, 100)
        lab.settle()
        lab.exchange.fill(max(lab.exchange.resting), 10, 100)
        lab.told()
        lab.settle()
    assert len(lab.journal.durable) < 40
    lab.crash()
    lab.settle()
    lab.check_settled()
    assert lab.desk.blotter.filled_orders == 100

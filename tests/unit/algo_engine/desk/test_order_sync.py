"""Requests that are synced behind their sending: what may be sent early, and what a power loss may take."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import msgspec
import pytest

from algo_engine.desk.journal import MemoryJournal
from algo_engine.desk.order import EventKind, OrderStatus, Side
from algo_engine.desk.order_sync import BEHIND_LIMIT_S, RESERVED_REQUESTS
from algo_engine.desk.records import Checkpoint, Intent, Opened, Record, Reserved
from deltabook.wire.text import OrderOptions, Request
from tests.generators.order_lab import BROKER, LIMITS, OrderLab

DAY_S = 86_400


class CountingJournal(MemoryJournal):
    """Counts syncs that are waited for."""

    syncs = 0

    def sync(self) -> None:
        self.syncs += 1
        super().sync()


def syncs(lab: OrderLab) -> int:
    assert isinstance(lab.journal, CountingJournal)
    return lab.journal.syncs


@pytest.fixture
def lab() -> OrderLab:
    """A desk whose reservation is durable and that waits for nothing."""
    lab = OrderLab(make_journal=CountingJournal, is_behind=True)
    lab.settle()
    lab.desk.submit(Side.BUY, "ACME", 1, 90)
    lab.settle()
    return lab


def durable_requests(lab: OrderLab) -> list[int]:
    return [record.client_id for record in lab.journal.durable if isinstance(record, Intent)]


def test_a_request_is_sent_while_the_disk_follows(lab: OrderLab) -> None:
    before = syncs(lab)
    client_id = lab.desk.submit(Side.BUY, "ACME", 10, 100)
    assert not lab.requests
    lab.turn()
    assert len(lab.requests) == 1
    assert lab.survivors[-1] == lab.journal._written[-1], "it is written before it is sent"
    assert (client_id in durable_requests(lab), len(lab.syncs)) == (False, 1)
    lab.finish_sync()
    assert client_id in durable_requests(lab)
    assert syncs(lab) == before
    lab.settle()
    lab.check_settled()


def test_one_sync_serves_all_requests_written_meanwhile(lab: OrderLab) -> None:
    for _ in range(5):
        lab.desk.submit(Side.BUY, "ACME", 10, 100)
        lab.turn()
    assert (len(lab.requests), len(lab.syncs)) == (5, 1)
    lab.finish_sync()
    assert (durable_requests(lab), len(lab.syncs)) == ([1, 2], 1)
    lab.finish_sync()
    assert (durable_requests(lab), len(lab.syncs)) == ([1, 2, 3, 4, 5, 6], 0)


def test_a_reservation_is_durable_before_its_first_request() -> None:
    lab = OrderLab(make_journal=CountingJournal, is_behind=True)
    lab.settle()
    lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.turn()
    assert lab.journal.durable[-1] == Reserved(1 + RESERVED_REQUESTS, 0)
    assert (syncs(lab), len(lab.requests), len(lab.syncs)) == (1, 1, 0)


def test_a_reservation_is_renewed_without_waiting_for_the_disk(lab: OrderLab) -> None:
    before = syncs(lab)
    for _ in range(3 * RESERVED_REQUESTS):
        lab.desk.submit(Side.BUY, "ACME", 1, 90)
        lab.settle()
    assert syncs(lab) == before
    lab.check_settled()


def test_requests_beyond_the_reservation_wait_for_the_disk(lab: OrderLab) -> None:
    before = syncs(lab)
    for _ in range(RESERVED_REQUESTS):
        lab.desk.submit(Side.BUY, "ACME", 1, 90)
        lab.turn()
    assert syncs(lab) == before
    lab.desk.submit(Side.BUY, "ACME", 1, 90)
    lab.turn()
    assert syncs(lab) == before + 1
    assert len(lab.journal._written) == 0


def test_a_request_waits_for_the_disk_if_an_fsync_takes_long(lab: OrderLab) -> None:
    lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.turn()
    before = syncs(lab)
    lab.clock.advance(BEHIND_LIMIT_S)
    lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.turn()
    assert syncs(lab) == before
    lab.clock.advance(BEHIND_LIMIT_S / 2)
    lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.turn()
    assert (syncs(lab), len(lab.journal._written)) == (before + 1, 0)
    lab.settle()
    lab.check_settled()


def test_a_stop_order_is_durable_before_it_is_sent(lab: OrderLab) -> None:
    """Its trigger price is in no answer of the exchange, and the limits of notional read it."""
    client_id = lab.desk.submit(Side.BUY, "ACME", 10, 0, OrderOptions(stop_ticks=103))
    lab.turn()
    assert durable_requests(lab)[-1] == client_id
    other = lab.desk.submit(Side.BUY, "ACME", 10, 100, OrderOptions(post_only=True))
    lab.turn()
    assert durable_requests(lab)[-1] == client_id != other


def test_the_first_request_of_a_day_waits_for_its_reservation(lab: OrderLab) -> None:
    before = syncs(lab)
    lab.clock.advance(DAY_S)
    lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.turn()
    assert syncs(lab) == before + 1
    assert Reserved(2 + RESERVED_REQUESTS, 1) in lab.journal.durable
    lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.turn()
    assert syncs(lab) == before + 1


def test_a_power_loss_is_repaired_from_the_private_stream(lab: OrderLab) -> None:
    client_id = lab.desk.submit(Side.SELL, "ACME", 10, 104)
    lab.turn()
    lab.deliver_request()
    lab.exchange.fill(max(lab.exchange.resting), 4, 104)
    lab.crash()
    assert lab.desk.blotter.order(client_id) is None
    lab.settle()
    order = lab.desk.blotter.order(client_id)
    assert order is not None
    assert (order.side, order.remaining_lots, order.price_ticks) == (Side.SELL, 6, 104)
    kinds = [event.kind for event in lab.events if event.order.client_id == client_id]
    assert kinds == [EventKind.RECONCILED, EventKind.PARTIALLY_FILLED]
    assert lab.desk.blotter.sent == 2
    lab.check_settled()


def test_a_late_lost_request_cannot_pass_for_a_new_request(lab: OrderLab) -> None:
    """Without reserved numbers the new run would use the number of a request that is still on its way."""
    for price_ticks in (95, 96, 97):
        lab.desk.submit(Side.BUY, "ACME", 10, price_ticks)
    lab.turn()
    lab.crash(arriving=3)
    late, lab.late = lab.late, deque()
    lab.settle()
    lab.late = late
    mine = lab.desk.submit(Side.SELL, "ACME", 7, 105)
    lab.turn()
    for _ in range(3):
        lab.deliver_late()
    lab.settle()
    assert lab.exchange.accepted == [1, mine]
    lab.check_settled()


def limited(limit: int) -> OrderLab:
    lab = OrderLab(limits=msgspec.structs.replace(LIMITS, max_orders_per_day=limit), is_behind=True)
    lab.settle()
    return lab


def refusals(lab: OrderLab) -> list[str]:
    return [event.reason for event in lab.events if event.kind == EventKind.REFUSED]


@pytest.mark.parametrize("compact_bytes", [64, 1 << 30])
@pytest.mark.parametrize("volume_lots", [10, 950])
def test_lost_requests_count_toward_the_limit_of_their_day(volume_lots: int, compact_bytes: int) -> None:
    """Accepted or rejected; also if the machine crashes again, and the journal is compacted, before their answers."""
    lab = limited(5)
    lab.desk.submit(Side.BUY, "ACME", 1, 90)
    lab.settle()
    for _ in range(3):
        lab.desk.submit(Side.BUY, "ACME", volume_lots, 90)
        lab.turn()
        lab.deliver_request()
    lab.crash()
    lab.desk._state._compact_at_bytes = compact_bytes
    lab.desk._state.compact_if_large()
    lab.journal.sync()
    lab.crash()
    assert lab.desk.blotter.sent_on_day(lab.desk.gate.now_ns()) == 1
    lab.settle()
    assert lab.desk.blotter.sent_on_day(lab.desk.gate.now_ns()) == 4
    lab.desk.submit(Side.BUY, "ACME", 1, 90)
    lab.desk.submit(Side.BUY, "ACME", 1, 90)
    assert refusals(lab) == ["orders of the day: expected fewer than 5, was 5"]
    lab.settle()
    lab.check_settled()


def test_lost_requests_of_yesterday_do_not_count_today() -> None:
    lab = limited(3)
    for _ in range(3):
        lab.desk.submit(Side.BUY, "ACME", 10, 90)
        lab.turn()
        lab.deliver_request()
    lab.crash()
    lab.clock.advance(DAY_S)
    lab.settle()
    lab.desk.submit(Side.BUY, "ACME", 10, 90)
    assert refusals(lab) == []


def test_requests_of_another_connection_do_not_count() -> None:
    lab = limited(3)
    lab.desk.submit(Side.BUY, "ACME", 10, 90)
    lab.settle()
    lab.crash()
    lab.settle()
    lab.exchange.request(Request(5_000, 0, BROKER, "B", 10, 100, "ACME"))
    lab.told()
    lab.settle()
    assert lab.desk.blotter.sent_on_day(lab.desk.gate.now_ns()) == 1


class FailingJournal(MemoryJournal):
    """Its disk takes writes, and fails when they must be durable."""

    is_failing = False

    def begin_sync(self) -> Callable[[], None]:
        sync = super().begin_sync()

        def fail() -> None:
            if self.is_failing:
                raise OSError("input/output error")
            sync()

        return fail


def test_an_fsync_behind_that_fails_breaks_the_desk() -> None:
    lab = OrderLab(make_journal=FailingJournal, is_behind=True)
    lab.settle()
    for _ in range(2):
        lab.desk.submit(Side.BUY, "ACME", 10, 90)
        lab.settle()
    assert isinstance(lab.journal, FailingJournal)
    lab.journal.is_failing = True
    lab.desk.submit(Side.BUY, "ACME", 10, 90)
    lab.turn()
    lab.finish_sync()
    assert [str(failure) for failure in lab.failures] == ["input/output error"]
    records = len(lab.survivors)
    lab.desk.submit(Side.BUY, "ACME", 10, 90)
    lab.desk.kill("the disk failed")
    lab.settle()
    assert not lab.exchange.resting
    assert len(lab.exchange.accepted) == 3
    assert len(lab.survivors) == records, "nothing is written behind the failure"
    assert not lab.syncs


def test_a_write_that_fails_sends_nothing() -> None:
    class Full(MemoryJournal):
        def write(self) -> None:
            raise OSError("no space left")

    lab = OrderLab(make_journal=Full, is_behind=True)
    lab.settle()
    lab.desk.submit(Side.BUY, "ACME", 10, 90)
    lab.settle()
    lab.desk.submit(Side.BUY, "ACME", 10, 90)
    lab.turn()
    assert not lab.requests
    assert [str(failure) for failure in lab.failures] == ["no space left"]


def test_a_journal_compacted_during_an_fsync_keeps_what_follows(lab: OrderLab) -> None:
    lab.desk.submit(Side.BUY, "ACME", 10, 90)
    lab.turn()
    lab.desk._state._compact_at_bytes = 0
    lab.desk._state.compact_if_large()
    assert isinstance(lab.journal.durable[0], Checkpoint)
    client_id = lab.desk.submit(Side.BUY, "ACME", 10, 91)
    lab.turn()
    lab.finish_sync()
    assert client_id not in durable_requests(lab)
    lab.settle()
    assert client_id in durable_requests(lab)
    lab.crash()
    lab.settle()
    lab.check_settled()


def test_a_closed_desk_begins_no_fsync(lab: OrderLab) -> None:
    for _ in range(2):
        lab.desk.submit(Side.BUY, "ACME", 10, 90)
        lab.turn()
    lab.desk.close()
    lab.finish_sync()
    assert not lab.syncs


def test_a_journal_synced_behind_serves_a_desk_syncing_before(lab: OrderLab) -> None:
    lab.is_behind = False
    lab.kill()
    lab.settle()
    client_id = lab.desk.submit(Side.BUY, "ACME", 10, 90)
    assert client_id > 1 + RESERVED_REQUESTS
    lab.settle()
    lab.kill()
    lab.settle()
    assert lab.desk.submit(Side.BUY, "ACME", 10, 90) == client_id + 2, "the reservation is skipped once"
    order = lab.desk.blotter.order(client_id)
    assert order is not None
    assert order.status is OrderStatus.ACCEPTED
    lab.settle()
    lab.check_settled()


def test_every_prefix_of_the_journal_folds_to_the_same_state(lab: OrderLab) -> None:
    """A restart that crashes at once changes nothing but reserved numbers that are skipped."""
    lab.desk.submit(Side.BUY, "ACME", 10, 90)
    lab.turn()
    records: list[Record] = [*lab.journal.durable, *lab.journal._written]
    for end in range(1, len(records) + 1):
        lab.journal = CountingJournal(records[:end])
        lab.crash(written=0)
        last = lab.desk.blotter.last_client_id
        lab.kill()
        assert lab.desk.blotter.last_client_id == last
        lab.desk.blotter._check()


@pytest.mark.parametrize("syncs_before", [False, True])
def test_a_compaction_does_not_wait_for_the_disk(*, syncs_before: bool) -> None:
    lab = OrderLab(make_journal=CountingJournal, is_behind=True, syncs_before=syncs_before)
    lab.settle()
    lab.desk.submit(Side.BUY, "ACME", 1, 90)
    lab.settle()
    before = syncs(lab)
    lab.desk._state._compact_at_bytes = 0
    lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.turn()
    lab.deliver_request()
    lab.deliver_response()
    assert [type(record) for record in lab.survivors[:2]] == [Checkpoint, Opened], "the old journal is in force"
    lab.desk.submit(Side.BUY, "ACME", 20, 100)
    lab.turn()
    lab.settle()
    assert isinstance(lab.survivors[0], Checkpoint)
    assert lab.survivors[0].last_client_id == 2
    assert [record.volume_lots for record in lab.survivors if isinstance(record, Intent)] == [20]
    assert syncs(lab) == before + 2 * syncs_before, "only requests wait"
    lab.kill()
    lab.settle()
    lab.check_settled()

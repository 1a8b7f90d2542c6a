"""Schedules trade what is due, no more than all, and give up what a limit kept when their time is over."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from algo_engine.desk.order import Side
from algo_engine.execution import CompositeState, ParticipationOrder, Peg, PeggedOrder, ScheduledOrder, Urgency
from tests.generators.composite_rig import CompositeRig


def rig_at(bid: int = 99, ask: int = 101, lots: int = 1000) -> Any:
    rig = CompositeRig()
    rig.touch(bid, ask, lots)
    return rig


@given(
    st.integers(1, 200), st.integers(1, 100), st.integers(1, 20),
    st.lists(st.integers(0, 9), min_size=1, max_size=9).filter(any),
)  # fmt: skip
def test_a_schedule_reaches_all_lots_and_never_goes_back(
    lots: int, duration_ms: int, interval_ms: int, profile: list[int]
) -> None:
    """Whatever the profile: from 0 to all lots, and with one part evenly."""
    interval_ms = min(interval_ms, duration_ms)
    order = ScheduledOrder(rig_at(), Side.BUY, "ACME", lots, duration_ms, interval_ms, profile=profile)
    pieces = -(-duration_ms // interval_ms)
    scheduled = [order.scheduled_lots(piece) for piece in range(-1, pieces + 2)]
    assert scheduled == sorted(scheduled)
    assert (scheduled[0], scheduled[pieces], scheduled[-1]) == (0, lots, lots)
    even = ScheduledOrder(rig_at(), Side.BUY, "ACME", lots, duration_ms, interval_ms)
    assert [even.scheduled_lots(piece) for piece in range(pieces)] == [lots * (n + 1) // pieces for n in range(pieces)]


def test_twap_takes_a_piece_at_each_interval() -> None:
    """Three pieces at 0, 1 and 2 s; the last one is all that is left."""
    rig = rig_at()
    order = ScheduledOrder(rig, Side.BUY, "ACME", 10, 3_000, 1_000)
    rig.composites.add(order)
    rig.settle()
    assert [(o.volume_lots, o.price_ticks, o.options.immediate) for o in rig.sent] == [(3, 101, True)]
    rig.touch(99, 102, 1000)
    rig.settle()
    assert len(rig.sent) == 1, "a new touch makes nothing due"
    for _ in range(2):
        rig.pass_time(1_000)
        rig.settle()
    assert [(o.volume_lots, o.price_ticks) for o in rig.sent] == [(3, 101), (3, 102), (4, 102)]
    assert (order.state, order.average_ticks(), rig.timers) == (CompositeState.FILLED, 101.7, {})


def test_what_a_piece_leaves_is_added_to_the_next_one() -> None:
    """A touch of too few lots is taken again with the next quote, and after that with the next piece."""
    rig = rig_at(lots=2)
    order = ScheduledOrder(rig, Side.SELL, "ACME", 10, 2_000, 1_000)
    rig.composites.add(order)
    rig.settle()
    rig.touch(99, 101, 1)
    rig.settle()
    rig.pass_time(1_000)
    rig.settle()
    rig.touch(98, 101, 50)
    rig.settle()
    assert [(o.volume_lots, o.price_ticks) for o in rig.sent] == [(5, 99), (3, 99), (7, 99), (6, 98)]
    assert order.state is CompositeState.FILLED


def test_a_limit_keeps_lots_and_they_are_given_up_in_the_end() -> None:
    """Behind the duration and one interval it ends, and says why."""
    rig = rig_at()
    order = ScheduledOrder(rig, Side.BUY, "ACME", 10, 2_000, 1_000, limit_ticks=100)
    rig.composites.add(order)
    rig.pass_time(2_999)
    rig.settle()
    assert (rig.sent, order.state) == ([], CompositeState.WORKING)
    rig.pass_time(1)
    assert (order.state, order.reason, order.filled_lots) == (CompositeState.CANCELLED, "its time is over", 0)


def test_a_joining_schedule_rests_until_its_piece_is_overdue() -> None:
    """It stands at its own side's touch and moves with it; what the next piece finds open is taken."""
    rig = rig_at()
    order = ScheduledOrder(rig, Side.BUY, "ACME", 10, 2_000, 1_000, urgency=Urgency.JOIN)
    rig.composites.add(order)
    rig.settle()
    rig.touch(100, 102, 50)
    rig.settle()
    rig.fill(2, 1, 100)
    rig.settle()
    rig.pass_time(1_000)
    rig.settle()
    assert [(o.volume_lots, o.price_ticks, o.options.immediate) for o in rig.sent] == [
        (5, 99, False), (5, 100, False), (4, 102, True), (5, 100, False)
    ]  # fmt: skip
    assert order.filled_lots == 5


def test_participation_counts_the_market_from_its_start() -> None:
    """A fifth of what trades from now on, in a view whose seconds grow and are forgotten."""
    rig = rig_at()
    rig.rows = [{"symbol": "ACME", "second": 1, "volume": 100}, {"symbol": "OTHER", "second": 1, "volume": 9}]
    order = ParticipationOrder(rig, Side.BUY, "ACME", 10, 2_000, 60_000)
    rig.composites.add(order)
    rig.settle()
    assert rig.sent == []
    for second, volume in ((1, 104), (2, 5), (2, 11), (1, 50), (3, 4)):
        rig.trade(second, volume)
        rig.trade(second, volume * 1000, "OTHER")
        rig.settle()
    assert order.market_lots == 4 + 5 + 6 + 4
    assert [o.volume_lots for o in rig.sent] == [1, 2]
    rig.pass_time(60_000)
    assert (order.state, order.filled_lots) == (CompositeState.CANCELLED, 3)


def test_terms_that_cannot_be_are_refused() -> None:
    """Each with what was expected."""
    rig = rig_at()
    for arguments, words in (
        ((0, 1_000, 100), "expected 1 lot and 1 ms or more"),
        ((5, 1_000, 2_000), "expected an interval from 1 to 1000 ms, was 2000"),
    ):
        with pytest.raises(ValueError, match=words):
            ScheduledOrder(rig, Side.BUY, "ACME", *arguments)
    for profile in ((), (0, 0), (1, -1)):
        with pytest.raises(ValueError, match="expected volumes of 0 or more and one above"):
            ScheduledOrder(rig, Side.BUY, "ACME", 5, 1_000, 100, profile=profile)
    with pytest.raises(ValueError, match="expected a share from 1 to 10000 bps, was 0"):
        ParticipationOrder(rig, Side.BUY, "ACME", 5, 0, 1_000)
    with pytest.raises(ValueError, match="expected a step of 1 tick or more"):
        PeggedOrder(rig, Side.BUY, "ACME", 5, step_ticks=0)


@pytest.mark.parametrize(
    ("peg", "side", "price"),
    [
        (Peg.PRIMARY, Side.BUY, 97), (Peg.PRIMARY, Side.SELL, 106), (Peg.MARKET, Side.BUY, 102),
        (Peg.MARKET, Side.SELL, 101), (Peg.MIDPOINT, Side.BUY, 99), (Peg.MIDPOINT, Side.SELL, 104),
    ],
)  # fmt: skip
def test_a_peg_keeps_its_distance_and_its_limit(peg: Peg, side: Side, price: int) -> None:
    """Two ticks away from what it follows, on the far side; a limit of its own holds it back."""
    rig = rig_at(99, 104)
    rig.composites.add(PeggedOrder(rig, side, "ACME", 5, peg, offset_ticks=2))
    assert [order.price_ticks for order in rig.sent] == [price]
    limited = rig_at(99, 104)
    limit = price - 3 * side.sign
    limited.composites.add(PeggedOrder(limited, side, "ACME", 5, peg, offset_ticks=2, limit_ticks=limit))
    assert [order.price_ticks for order in limited.sent] == [limit]


def test_a_peg_follows_in_steps_and_not_its_own_shadow() -> None:
    """A small move leaves it in its queue; where it is the touch itself there is nothing to follow."""
    rig = rig_at(100, 110)
    order = PeggedOrder(rig, Side.BUY, "ACME", 5, step_ticks=2)
    rig.composites.add(order)
    rig.settle()
    for bid, lots in ((101, 9), (102, 9), (103, 5), (102, 5), (102, 9)):
        rig.touch(bid, 110, lots)
        rig.settle()
        order._check()
    assert [o.price_ticks for o in rig.sent] == [100, 102]
    rig.fill(rig.sent[-1].client_id, 5, 102)
    rig.settle()
    assert order.state is CompositeState.FILLED


def test_a_joining_order_does_not_follow_itself() -> None:
    """An order that is alone at the best price stays while more lots are due; its own price is not joined again."""
    rig = rig_at()
    order = ParticipationOrder(rig, Side.BUY, "ACME", 100, 1_000, 60_000, urgency=Urgency.JOIN)
    rig.composites.add(order)
    rig.trade(1, 40)
    rig.settle()
    assert [(o.volume_lots, o.price_ticks) for o in rig.sent] == [(4, 99)]
    rig.touch(99, 101, 4)
    rig.trade(1, 70)
    rig.touch(98, 101, 50)  # older than the order
    rig.settle()
    assert len(rig.sent) == 1, "it keeps its place in the queue"
    rig.touch(99, 101, 4)
    rig.trade(1, 80)
    rig.settle()
    assert len(rig.sent) == 1, "the order is gone, but the quote is still its own"
    rig.touch(98, 101, 50)
    rig.settle()
    assert [(o.volume_lots, o.price_ticks) for o in rig.sent[1:]] == [(8, 98)]

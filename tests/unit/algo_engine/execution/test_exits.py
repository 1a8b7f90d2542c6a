"""Exits never trade the same lots twice, and never more than there are, whatever crosses on the way."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from algo_engine.desk.order import Side
from algo_engine.execution import Bracket, CompositeState, Entry, OneCancelsOther, TrailingStop
from deltabook.wire.text import OrderOptions
from tests.generators.composite_rig import CompositeRig

STEPS = st.lists(
    st.one_of(
        st.just(("deliver", 0)), st.just(("hear", 0)), st.tuples(st.just("touch"), st.integers(80, 120)),
        st.tuples(st.just("fill"), st.integers(1, 12)), st.just(("trigger", 0)), st.just(("refuse", 1)),
        st.just(("cancel", 0)),
    ),
    max_size=60,
)  # fmt: skip
RESTS = st.sampled_from(["stop", "target"])


def run(rig: CompositeRig, composite: Any, steps: list[tuple[str, int]], check: Any) -> None:
    """Take the steps, checking the invariants after each, then let everything arrive."""
    for what, number in steps:
        if what == "deliver":
            rig.deliver()
        elif what == "hear":
            rig.hear()
        elif what == "touch":
            rig.touch(number, number + 1, lots=number % 7)
        elif what == "refuse":
            rig.refusals = number
        elif what == "cancel":
            composite.cancel()
        elif rig.book:
            client_id = list(rig.book)[number % len(rig.book)]
            order = rig.book[client_id]
            if what == "trigger":
                rig.trigger(client_id)
            elif order.price_ticks:
                rig.fill(client_id, number, order.price_ticks)
        check()
    rig.settle()
    check()
    assert composite.is_done == (composite not in rig.composites.working)


@given(STEPS, RESTS, st.sampled_from(Side), st.integers(1, 10))
def test_of_two_exits_no_lot_trades_twice(
    steps: list[tuple[str, int]], rests: Literal["stop", "target"], side: Side, lots: int
) -> None:
    """At every step: at most one exit may trade, and what traded and may trade is at most the position."""
    rig = CompositeRig()
    target, stop = (105, 95) if side is Side.SELL else (95, 105)
    pair = OneCancelsOther(rig, side, "ACME", lots, target, stop, rests=rests)  # type: ignore[arg-type]

    def check() -> None:
        pair._check()
        assert len(rig.live(side)) <= 1
        assert rig.filled(side) + sum(order.remaining_lots for order in rig.live(side)) <= lots

    rig.touch(99, 101)
    rig.composites.add(pair)
    run(rig, pair, steps, check)
    assert pair.filled_lots == rig.filled(side)
    if pair.state is CompositeState.FILLED:
        assert rig.filled(side) == lots


@given(STEPS, RESTS, st.sampled_from(Side), st.integers(1, 10), st.sampled_from([0, 100]))
def test_a_brackets_exit_never_exceeds_its_entry(
    steps: list[tuple[str, int]], rests: Literal["stop", "target"], side: Side, lots: int, price: int
) -> None:
    """At every step: one exit at most, of no more lots than have been entered, and one entry at most."""
    rig = CompositeRig()
    target, stop = (105, 95) if side is Side.BUY else (95, 105)
    bracket = Bracket(rig, side, "ACME", Entry(lots, price), target, stop, rests=rests)  # type: ignore[arg-type]
    out = Side.SELL if side is Side.BUY else Side.BUY

    def check() -> None:
        bracket._check()
        assert len(rig.live(out)) <= 1
        assert len(rig.live(side)) <= 1
        assert len([order for order in rig.sent if order.side is side]) <= 1
        assert rig.filled(out) + sum(order.remaining_lots for order in rig.live(out)) <= rig.filled(side) <= lots

    rig.touch(99, 101)
    rig.composites.add(bracket)
    run(rig, bracket, steps, check)
    assert (bracket.entry.filled_lots, bracket.exit.filled_lots) == (rig.filled(side), rig.filled(out))
    if bracket.state is CompositeState.FILLED:
        assert rig.filled(out) == rig.filled(side) > 0


@given(STEPS, st.sampled_from(Side), st.integers(1, 10), st.integers(1, 5), st.integers(1, 3))
def test_a_trailing_stop_never_goes_back(
    steps: list[tuple[str, int]], side: Side, lots: int, trail: int, step: int
) -> None:
    """Its price only moves in the position's favour, and it trades no more than its lots."""
    rig = CompositeRig()
    stop = TrailingStop(rig, side, "ACME", lots, trail, step_ticks=step)  # type: ignore[arg-type]
    best: list[int] = []

    def check() -> None:
        stop._check()
        assert len(rig.live(side)) <= 1
        if stop.stop_ticks:
            best.append(stop.stop_ticks * side.sign)
        assert best == sorted(best, reverse=True)

    rig.touch(99, 101)
    rig.composites.add(stop)
    run(rig, stop, steps, check)
    assert stop.filled_lots == rig.filled(side) <= lots


def test_the_target_takes_the_place_of_the_stop() -> None:
    """The stop is cancelled first; the target is sent for what is left, and the stop again for what that leaves."""
    rig = CompositeRig()
    rig.touch(99, 101)
    pair = OneCancelsOther(rig, Side.SELL, "ACME", 10, 105, 95)  # type: ignore[arg-type]
    rig.composites.add(pair)
    rig.settle()
    assert [(o.volume_lots, o.price_ticks, o.options.stop_ticks) for o in rig.sent] == [(10, 0, 95)]
    rig.touch(105, 106, lots=4)
    assert len(rig.sent) == 1, "nothing is sent before the stop is known to be gone"
    rig.settle()
    assert (rig.sent[1].volume_lots, rig.sent[1].price_ticks, rig.sent[1].options.immediate) == (10, 105, True)
    assert pair.filled_lots == 4
    rig.touch(104, 106)
    rig.settle()
    assert [(o.volume_lots, o.options.stop_ticks) for o in rig.sent[2:]] == [(6, 95)]
    rig.trigger(rig.sent[2].client_id)
    rig.settle()
    assert (pair.state, pair.filled_lots, rig.composites.working) == (CompositeState.FILLED, 10, [])


def test_an_execution_that_crosses_the_cancellation_counts() -> None:
    """The stop trades while it is being cancelled for the target: the target is not sent for those lots."""
    rig = CompositeRig()
    rig.touch(99, 101)
    pair = OneCancelsOther(rig, Side.SELL, "ACME", 10, 105, 95)  # type: ignore[arg-type]
    rig.composites.add(pair)
    rig.settle()
    rig.touch(105, 106)
    rig.fill(rig.sent[0].client_id, 7, 95)
    rig.settle()
    assert [order.volume_lots for order in rig.sent] == [10, 3]
    assert pair.state is CompositeState.FILLED


def test_a_resting_target_gives_way_to_the_stop_at_the_touch() -> None:
    """The stop is a market order for what the target leaves, repeated until all is out."""
    rig = CompositeRig()
    rig.touch(99, 101)
    pair = OneCancelsOther(rig, Side.SELL, "ACME", 10, 105, 95, rests="target")  # type: ignore[arg-type]
    rig.composites.add(pair)
    rig.settle()
    rig.fill(rig.sent[0].client_id, 2, 105)
    rig.settle()
    rig.touch(95, 97, lots=5)
    rig.settle()
    rig.touch(94, 97, lots=5)
    rig.settle()
    assert [(o.volume_lots, o.price_ticks) for o in rig.sent] == [(10, 105), (8, 0), (3, 0)]
    assert (pair.state, pair.average_ticks()) == (CompositeState.FILLED, (2 * 105 + 5 * 95 + 3 * 94) / 10)


def test_a_trailing_stop_follows_and_is_moved_in_steps() -> None:
    """A move of less than a step leaves the stop, and its place, alone."""
    rig = CompositeRig()
    rig.touch(100, 101)
    stop = TrailingStop(rig, Side.SELL, "ACME", 5, 3, step_ticks=2)  # type: ignore[arg-type]
    rig.composites.add(stop)
    for bid in (101, 102, 100, 105, 103):
        rig.settle()
        rig.touch(bid, bid + 1)
    rig.settle()
    assert [order.options.stop_ticks for order in rig.sent] == [97, 99, 102]


def test_orders_that_are_refused_again_and_again_end_it() -> None:
    """Each attempt waits for a quote; after ten in a row the reason is handed to the strategy."""
    rig = CompositeRig()
    ended: list[Any] = []
    rig.touch(99, 101)
    pair = OneCancelsOther(rig, Side.SELL, "ACME", 10, 105, 95)  # type: ignore[arg-type]
    pair.on_done = ended.append
    rig.refusals = 100
    rig.composites.add(pair)
    for n in range(20):
        rig.settle()
        rig.touch(99, 101 + n % 2)
    assert (pair.state, pair.reason, len(rig.sent), ended) == (CompositeState.FAILED, "a limit", 10, [pair])


def test_prices_in_the_wrong_order_are_refused() -> None:
    """A target that is worse than the stop would be reached at once."""
    rig: Any = CompositeRig()
    with pytest.raises(ValueError, match="expected a target above the stop, both above 0, was a target of 95"):
        OneCancelsOther(rig, Side.SELL, "ACME", 10, 95, 105)
    with pytest.raises(ValueError, match="expected a target below the stop"):
        Bracket(rig, Side.SELL, "ACME", Entry(1), 105, 95)
    with pytest.raises(ValueError, match="expected distances of 1 tick or more"):
        TrailingStop(rig, Side.SELL, "ACME", 10, 0)


def test_a_cancelled_bracket_keeps_what_was_entered() -> None:
    """Both parts are cancelled, and the strategy is told how much it holds."""
    rig: Any = CompositeRig()
    rig.touch(99, 101)
    bracket = Bracket(rig, Side.BUY, "ACME", Entry(10, 100), 110, 90)
    rig.composites.add(bracket)
    rig.settle()
    rig.fill(1, 4, 100)
    rig.settle()
    assert [(o.side, o.volume_lots) for o in rig.sent] == [(Side.BUY, 10), (Side.SELL, 4)]
    rig.composites.cancel_all("ACME")
    rig.settle()
    assert (bracket.state, bracket.filled_lots, rig.book) == (CompositeState.CANCELLED, 4, {})
    assert rig.composites.working == []


@pytest.mark.parametrize("rests", ["stop", "target"])
def test_a_bracket_may_enter_by_a_stop(rests: Literal["stop", "target"]) -> None:
    """The exit's stop lies behind the market until the entry trades, and the quote of that moment is an old one."""
    rig = CompositeRig()
    rig.touch(99, 101)
    breakout = Entry(10, options=OrderOptions(stop_ticks=110))
    bracket = Bracket(rig, Side.BUY, "ACME", breakout, 120, 105, rests=rests)  # type: ignore[arg-type]
    rig.composites.add(bracket)
    rig.settle()
    assert len(rig.live(Side.BUY)) == 1, "the entry waits for its price"
    rig.trigger(rig.sent[0].client_id)
    rig.settle()
    assert [(o.volume_lots, o.price_ticks, o.options.stop_ticks) for o in rig.live(Side.SELL)] == [
        (10, 0, 105) if rests == "stop" else (10, 120, None)
    ]
    rig.touch(109, 111)
    rig.settle()
    assert len(rig.sent) == 2
    rig.touch(104, 106)
    rig.settle()
    assert bracket.exit.is_stopped is (rests == "target")


def test_an_entry_behind_its_stop_is_left_at_once() -> None:
    """The best price had passed the stop before the entry traded: no further quote is needed."""
    rig = CompositeRig()
    rig.touch(99, 101)
    bracket = Bracket(rig, Side.BUY, "ACME", Entry(10, 100), 120, 95, rests="target")  # type: ignore[arg-type]
    rig.composites.add(bracket)
    rig.settle()
    rig.touch(94, 96)
    rig.fill(rig.sent[0].client_id, 10, 100)
    rig.settle()
    assert (bracket.state, rig.filled(Side.SELL)) == (CompositeState.FILLED, 10)


def test_no_entry_goes_on_without_an_exit() -> None:
    """All orders of the exit are refused: it fails, and the rest of the entry is cancelled."""
    rig = CompositeRig()
    rig.touch(99, 101)
    bracket = Bracket(rig, Side.BUY, "ACME", Entry(10, 100), 120, 90)  # type: ignore[arg-type]
    rig.composites.add(bracket)
    rig.settle()
    rig.fill(rig.sent[0].client_id, 2, 100)
    rig.refusals = 100
    for number in range(20):
        rig.settle()
        rig.touch(99 - number % 2, 101)
    rig.settle()
    assert (rig.live(Side.BUY), bracket.state) == ([], CompositeState.FAILED)

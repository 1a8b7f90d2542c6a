"""Composite orders survive the death of the engine at any moment, and trade what they were made for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from algo_engine.desk.order import Side
from algo_engine.execution import (
    Bracket,
    Composite,
    CompositeState,
    Entry,
    OneCancelsOther,
    ParticipationOrder,
    Peg,
    PeggedOrder,
    ScheduledOrder,
    TrailingStop,
    Urgency,
)
from tests.generators.composite_rig import CompositeRig

STEPS = st.lists(
    st.one_of(
        st.just(("deliver", 0)), st.just(("hear", 0)), st.tuples(st.just("touch"), st.integers(80, 120)),
        st.tuples(st.just("fill"), st.integers(1, 12)), st.just(("trigger", 0)), st.just(("refuse", 1)),
        st.tuples(st.just("pass"), st.integers(1, 700)), st.tuples(st.just("trade"), st.integers(1, 50)),
        st.tuples(st.just("crash"), st.integers(0, 3)), st.just(("cancel", 0)),
    ),
    max_size=60,
)  # fmt: skip
KINDS: dict[str, Callable[[Any, Side, int], Composite]] = {
    "pair": lambda rig, side, lots: OneCancelsOther(rig, side, "ACME", lots, 100 - 5 * side.sign, 100 + 5 * side.sign),
    "resting target": lambda rig, side, lots: OneCancelsOther(
        rig, side, "ACME", lots, 100 - 5 * side.sign, 100 + 5 * side.sign, rests="target"
    ),
    "trail": lambda rig, side, lots: TrailingStop(rig, side, "ACME", lots, 3, step_ticks=2),
    "peg": lambda rig, side, lots: PeggedOrder(rig, side, "ACME", lots, Peg.PRIMARY, step_ticks=2),
    "twap": lambda rig, side, lots: ScheduledOrder(rig, side, "ACME", lots, 3_000, 500),
    "vwap": lambda rig, side, lots: ScheduledOrder(
        rig, side, "ACME", lots, 3_000, 500, profile=(3, 1, 2), urgency=Urgency.JOIN
    ),
    "pov": lambda rig, side, lots: ParticipationOrder(rig, side, "ACME", lots, 2_000, 3_000),
}


def step(rig: CompositeRig, what: str, number: int) -> None:
    """Take a step that is no crash."""
    if what == "touch":
        rig.touch(number, number + 1, lots=number % 7)
    elif what == "refuse":
        rig.refusals = number
    elif what == "pass":
        rig.pass_time(number)
    elif what == "trade":
        second = rig.now_ns // 10**9
        rig.rows = [row for row in rig.rows if row["second"] != second]
        rig.rows.append({"symbol": "ACME", "second": second, "volume": number})
        rig.trade(second, number)
    elif what in ("deliver", "hear"):
        getattr(rig, what)()
    elif rig.book:
        client_id = list(rig.book)[number % len(rig.book)]
        order = rig.book[client_id]
        if what == "trigger":
            rig.trigger(client_id)
        elif order.price_ticks:
            rig.fill(client_id, number, order.price_ticks)


@pytest.mark.parametrize("kind", KINDS)
@given(steps=STEPS, side=st.sampled_from(Side), lots=st.integers(1, 10))
def test_no_restart_trades_a_lot_too_many(kind: str, steps: list[tuple[str, int]], side: Side, lots: int) -> None:
    """At every step the lots traded and open are at most those of the order; what it counts is what has traded."""
    rig = CompositeRig()
    rig.touch(99, 101)
    composite = KINDS[kind](rig, side, lots)
    rig.composites.add(composite)
    is_cancelled = False
    for what, number in steps:
        if what == "crash":
            was_done, before = composite.is_done, composite
            restored = rig.crash(adopt=number & 1 > 0, arrives=number & 2 > 0)
            if was_done:
                assert before not in restored
                continue
            ended = [each for each in restored if each.is_done]
            composite = restored[0]
            assert len(restored) == 1
            assert ended in ([], [composite])
        elif what == "cancel":
            composite.cancel()
            is_cancelled = True
        else:
            step(rig, what, number)
        assert composite.state is not CompositeState.WORKING or not is_cancelled
        composite._check()
        assert len(rig.live(side)) <= 1
        assert rig.filled(side) + sum(order.remaining_lots for order in rig.live(side)) <= lots
    rig.settle()
    composite._check()
    assert composite.filled_lots == rig.filled(side)
    assert composite.notional == sum(e.volume_lots * e.price_ticks for e in rig.heard if e.is_fill)
    assert rig.memories.keys() == ({"composite order 1"} if rig.composites.working else set())
    if composite.state is CompositeState.FILLED:
        assert composite.filled_lots == lots


@given(steps=STEPS, side=st.sampled_from(Side), lots=st.integers(1, 10))
def test_a_bracket_stays_one_over_restarts(steps: list[tuple[str, int]], side: Side, lots: int) -> None:
    """One entry at most is sent, and no more lots are on their way out than came in."""
    rig = CompositeRig()
    rig.touch(99, 101)
    target, stop = (105, 95) if side is Side.BUY else (95, 105)
    bracket: Any = Bracket(rig, side, "ACME", Entry(lots, 100), target, stop)  # type: ignore[arg-type]
    out = Side.SELL if side is Side.BUY else Side.BUY
    rig.composites.add(bracket)
    for what, number in steps:
        if what == "crash":
            is_working = bracket in rig.composites.working
            restored = rig.crash(adopt=number & 1 > 0, arrives=number & 2 > 0)
            assert len(restored) == is_working
            bracket = restored[0] if restored else bracket
        elif what == "cancel":
            bracket.cancel()
        else:
            step(rig, what, number)
        bracket._check()
        assert len(rig.live(out)) <= 1
        assert len([o for o in rig.sent if o.side is side and rig.orders[o.client_id].status != "never_sent"]) <= 1
        assert rig.filled(out) + sum(order.remaining_lots for order in rig.live(out)) <= rig.filled(side) <= lots
    rig.settle()
    assert (bracket.entry.filled_lots, bracket.exit.filled_lots) == (rig.filled(side), rig.filled(out))


def test_a_schedule_catches_up_after_a_restart() -> None:
    """What became due while the engine was down is traded when it is back; the rest keeps its times."""
    rig: Any = CompositeRig()
    rig.touch(99, 101)
    rig.composites.add(ScheduledOrder(rig, Side.BUY, "ACME", 40, 4_000, 1_000))
    rig.settle()
    rig.now_ns += 2_500_000_000
    (order,) = rig.crash(adopt=False, arrives=True)
    rig.settle()
    assert (order.filled_lots, [each.volume_lots for each in rig.sent]) == (30, [10, 20])
    rig.pass_time(600)
    rig.settle()
    assert order.state is CompositeState.FILLED


def test_a_trail_keeps_the_best_price_that_it_has_seen() -> None:
    """The market has fallen meanwhile: the stop stands where it stood."""
    rig: Any = CompositeRig()
    rig.touch(100, 101)
    rig.composites.add(TrailingStop(rig, Side.SELL, "ACME", 5, 3))
    rig.touch(110, 111)
    rig.settle()
    rig.quotes["ACME"] = rig.quotes["ACME"].__class__("ACME", 108, 10, 109, 10, 10)
    (stop,) = rig.crash(adopt=False, arrives=True)
    rig.settle()
    assert (stop.stop_ticks, rig.sent[-1].options.stop_ticks) == (107, 107)


def test_the_end_of_an_order_is_told_after_a_restart() -> None:
    """It was filled while the engine was down; the strategy's callback is called all the same."""
    rig: Any = CompositeRig()
    rig.touch(100, 101)
    rig.composites.add(PeggedOrder(rig, Side.BUY, "ACME", 5))
    rig.settle()
    rig.fill(rig.sent[0].client_id, 5, 100)
    rig.now_ns += 1
    ended: list[Composite] = []
    while rig.events:
        rig._next_event()
    rig.composites = type(rig.composites)(rig)
    restored = rig.composites.restore(ended.append)
    assert [(order.state, order.filled_lots) for order in ended] == [(CompositeState.FILLED, 5)]
    assert (list(restored), rig.memories, rig.composites.working) == (ended, {}, [])


def test_an_order_of_an_unknown_class_is_named() -> None:
    """A strategy's own class has to be given to `restore`."""

    class Own(PeggedOrder):
        pass

    rig: Any = CompositeRig()
    rig.touch(100, 101)
    rig.composites.add(Own(rig, Side.BUY, "ACME", 5))
    with pytest.raises(ValueError, match=r"expected a composite order out of .*, was Own in the journal"):
        rig.crash(adopt=True, arrives=True)
    rig.composites = type(rig.composites)(rig)
    assert [type(order) for order in rig.composites.restore(kinds=[Own])] == [Own]

"""Calls are made in the order of their times and of their asking, each with its turn."""

from __future__ import annotations

from deltabook.backtest.clock import SimulatedClock


def test_calls_come_by_time_and_then_in_order_of_request() -> None:
    clock, made = SimulatedClock(100), list[str]()
    clock.callLater(3e-9, made.append, "c")
    clock.callLater(1e-9, made.append, "a")
    clock.call_at(101, made.append, "b")
    assert clock.next_ns == 101
    clock.advance(102)
    assert (made, clock.now_ns) == (["a", "b"], 102)
    clock.advance(103)
    assert made == ["a", "b", "c"]


def test_an_immediate_call_comes_before_the_next_call() -> None:
    clock, made = SimulatedClock(), list[str]()

    def first() -> None:
        made.append("first")
        clock.callLater(0, made.append, "its turn")

    clock.call_at(5, first)
    clock.call_at(5, made.append, "second")
    clock.advance(5)
    assert made == ["first", "its turn", "second"]


def test_a_cancelled_or_made_call_is_inactive() -> None:
    clock, made = SimulatedClock(), list[str]()
    call = clock.callLater(1, made.append, "one")
    soon = clock.callLater(0, made.append, "two")
    call.cancel()
    soon.cancel()
    clock.run_turn()
    clock.advance(2_000_000_000)
    assert (made, call.active(), soon.active()) == ([], False, False)


def test_a_call_that_is_put_off_comes_once_and_later() -> None:
    clock, made = SimulatedClock(), list[str]()
    call = clock.callLater(1, made.append, "x")
    clock.advance(500_000_000)
    call.reset(1)
    clock.advance(1_400_000_000)
    assert (made, call.active()) == ([], True)
    clock.advance(1_500_000_000)
    assert (made, call.active()) == (["x"], False)


def test_seconds_count_from_the_beginning() -> None:
    clock = SimulatedClock()
    clock.begin(10**18)
    clock.advance(10**18 + 1_500_000_000)
    assert clock.seconds() == 1.5


def test_a_call_after_the_end_of_time_is_never_due() -> None:
    """The kernel of a backtest counts time in 64 bits; a strategy may set a timer that is to be due never."""
    clock = SimulatedClock(10**18)
    clock.callLater(10.0**27, print, "never")
    call = clock.callLater(1.0, print, "never")
    call.reset(10.0**27)
    assert call.due_ns == 2**63 - 1
    clock.advance(2 * 10**18)
    assert clock.next_ns == 2**63 - 1

"""Calls for the reactor's thread share a wake-up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runtime.sources.connecting import WakeUps


class Reactor:
    """Keeps the calls that woke it."""

    def __init__(self) -> None:
        self.woken: list[Callable[[], None]] = []

    def callFromThread(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self.woken.append(lambda: f(*args, **kwargs))

    def turn(self) -> None:
        woken, self.woken = self.woken, []
        for call in woken:
            call()


def test_pending_calls_share_one_wake_up() -> None:
    reactor = Reactor()
    done: list[int] = []
    calls = [lambda number=number: done.append(number) for number in range(1000)]
    wake_ups = WakeUps.of(reactor)
    assert WakeUps.of(reactor) is wake_ups
    for call in calls:
        wake_ups.call(call)
        wake_ups.call(call)
    assert len(reactor.woken) == 1
    reactor.turn()
    assert done == list(range(1000))
    wake_ups.call(calls[3])
    reactor.turn()
    assert done[1000:] == [3]


def test_a_call_that_raises_keeps_no_other_from_being_made() -> None:
    reactor = Reactor()
    done: list[str] = []

    def fail() -> None:
        raise RuntimeError("expected a source, was none")

    WakeUps.of(reactor).call(fail)
    WakeUps.of(reactor).call(lambda: done.append("made"))
    reactor.turn()
    assert done == ["made"]

"""Timers fire once or again and again, by name."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.task import Clock

from algo_engine.host import TIMERS_LIMIT, Timers


def test_timers_fire_once_repeat_and_are_set_anew() -> None:
    clock: Any = Clock()
    due: list[str] = []
    timers = Timers(clock, due.append)
    timers.set("once", 100)
    timers.set("again", 100, repeat=True)
    timers.set("moved", 100)
    timers.set("moved", 250)
    clock.pump([0.1, 0.1, 0.1])
    assert sorted(due) == ["again", "again", "again", "moved", "once"]
    timers.cancel("again")
    timers.cancel("never set")
    clock.advance(1)
    assert len(due) == 5
    assert not clock.getDelayedCalls()


def test_timers_are_bounded() -> None:
    timers = Timers(Clock(), lambda _: None)
    with pytest.raises(ValueError, match="1 ms"):
        timers.set("now", 0)
    for number in range(TIMERS_LIMIT):
        timers.set(str(number), 10)
    with pytest.raises(ValueError, match="at most"):
        timers.set("one more", 10)

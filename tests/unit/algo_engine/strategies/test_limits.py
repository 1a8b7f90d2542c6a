"""Limits of the built-in strategies: how often a symbol is evaluated."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.internet.task import Clock

from algo_engine.host import TIMERS_LIMIT, Timers
from algo_engine.strategies._limits import Pace


def test_more_symbols_than_timers_can_be_paced() -> None:
    """A market may have thousands of symbols; those without a timer are evaluated at their next change."""
    clock, due = Clock(), list[str]()
    timers = Timers(clock, due.append)
    context: Any = SimpleNamespace(now_ns=0, set_timer=timers.set)
    pace = Pace(200)
    symbols = [f"S{number}" for number in range(TIMERS_LIMIT + 1)]
    for symbol in symbols:
        assert pace.is_due(context, symbol)
        pace.rest(context, symbol)
    early = [pace.is_due(context, symbol) for symbol in symbols]
    assert not any(early)
    clock.advance(0.2)
    for symbol in due:
        pace.timer_due(symbol)
    context.now_ns = 200_000_000
    assert all(pace.is_due(context, symbol) for symbol in symbols)

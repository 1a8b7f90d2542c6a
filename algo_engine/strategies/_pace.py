"""Pace of a strategy: the interval at which it looks at a symbol."""

from __future__ import annotations

from algo_engine.strategy import Context

__all__ = ["Pace"]


class Pace:
    """At most one look at a symbol in an interval; a timer named as it makes up for one that came too early."""

    def __init__(self, interval_ms: int) -> None:
        self._interval_ns = interval_ms * 1_000_000
        self._next_ns: dict[str, int] = {}
        self._awaited: set[str] = set()

    def is_due(self, context: Context, symbol: str) -> bool:
        """Return True if it is time to look at a symbol, else set the timer."""
        wait_ns = self._next_ns.get(symbol, 0) - context.now_ns
        if wait_ns <= 0:
            return True
        if symbol not in self._awaited:
            self._awaited.add(symbol)
            context.set_timer(symbol, -(-wait_ns // 1_000_000))
        return False

    def rang(self, symbol: str) -> None:
        """The timer of the symbol was due."""
        self._awaited.discard(symbol)

    def rest(self, context: Context, symbol: str) -> None:
        """The interval begins now."""
        self._next_ns[symbol] = context.now_ns + self._interval_ns

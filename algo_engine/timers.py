"""Named timers on an injected clock."""

from __future__ import annotations

from collections.abc import Callable

from algo_engine.clocks import Clock, ScheduledCall

__all__ = ["TIMERS_LIMIT", "Timers"]

TIMERS_LIMIT = 256
"""So many timers may be set at once."""


class Timers:
    """At most one call per name."""

    def __init__(self, clock: Clock, on_due: Callable[[str], None]) -> None:
        self._clock, self._on_due = clock, on_due
        self._calls: dict[str, ScheduledCall] = {}

    def set(self, name: str, delay_ms: int, *, repeat: bool = False) -> None:
        """Call back after the delay, once or at that interval; raises `ValueError` for a delay below 1 ms."""
        if delay_ms < 1:
            raise ValueError(f"expected a delay of 1 ms or more, was {delay_ms}")
        self.cancel(name)
        if len(self._calls) >= TIMERS_LIMIT:
            raise ValueError(f"expected at most {TIMERS_LIMIT} timers, was one more")
        self._calls[name] = self._clock.callLater(delay_ms / 1000, self._due, name, delay_ms if repeat else 0)

    def cancel(self, name: str) -> None:
        """Forget a timer, if it is set."""
        call = self._calls.pop(name, None)
        if call is not None:
            call.cancel()

    def clear(self) -> None:
        """Forget all timers."""
        for name in list(self._calls):
            self.cancel(name)

    def _due(self, name: str, again_ms: int) -> None:
        del self._calls[name]
        if again_ms:
            self.set(name, again_ms, repeat=True)
        self._on_due(name)

"""Barriers: a consistent cut through a running query, and who waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import Enum

import msgspec

__all__ = ["Barrier", "BarrierFuture", "BarrierOutcome"]


class Barrier(msgspec.Struct, frozen=True):
    """One cut: all input before it is finished and drained before any input behind it is touched."""

    number: int
    """From 1, by query."""
    payload: object = None
    """What the request carries to the pipelines, a control record say."""


class BarrierOutcome(Enum):
    """How a barrier ended."""

    REACHED = "reached"
    """Every pipeline has drained; what was in front of it has gone all the way."""
    NOT_RUNNING = "not running"
    """The query was not running: there was nothing to drain."""
    ABORTED = "aborted"
    """The query was stopped or has failed meanwhile."""


class BarrierFuture:
    """A barrier that was asked for; thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._outcome: BarrierOutcome | None = None
        self._barrier: Barrier | None = None
        self._calls: list[Callable[[BarrierFuture], None]] = []

    @property
    def outcome(self) -> BarrierOutcome | None:
        """How it ended; None while it is under way."""
        return self._outcome

    @property
    def barrier(self) -> Barrier | None:
        """The barrier that was shared; None if it never began."""
        return self._barrier

    def wait(self, timeout_s: float) -> BarrierOutcome | None:
        """Wait for its end, not on a worker; None if that did not come in time."""
        with self._changed:
            self._changed.wait_for(lambda: self._outcome is not None, timeout_s)
            return self._outcome

    def when_done(self, call: Callable[[BarrierFuture], None]) -> None:
        """Call this at its end, on the worker that brought it about; at once if it has ended."""
        with self._changed:
            if self._outcome is None:
                self._calls.append(call)
                return
        call(self)

    def settle(self, outcome: BarrierOutcome, barrier: Barrier | None) -> list[Callable[[BarrierFuture], None]]:
        """It has ended so; the first time counts. Gives what its owner must call, without locks of its own."""
        with self._changed:
            if self._outcome is not None:
                return []
            self._outcome, self._barrier = outcome, barrier
            calls, self._calls = self._calls, []
            self._changed.notify_all()
            return calls

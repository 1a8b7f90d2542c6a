"""Barriers: a consistent cut through a running query, who waits for it, and how long it took."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Final

import msgspec
from twisted.logger import Logger

from deltabook.wire.durations import Durations
from runtime.engine.errors import BarrierError

__all__ = ["Barrier", "BarrierCycle", "BarrierFuture", "BarrierOutcome"]

_MOST_REQUESTS: Final = 1000


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

    _log = Logger()

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

    def settle(self, outcome: BarrierOutcome, barrier: Barrier | None) -> None:
        """It has ended so; the first time counts. Makes the calls that wait, whatever they raise: hold no lock."""
        with self._changed:
            if self._outcome is not None:
                return
            self._outcome, self._barrier = outcome, barrier
            calls, self._calls = self._calls, []
            self._changed.notify_all()
        for call in calls:
            try:
                call(self)
            except Exception:  # noqa: BLE001 (who waits never hurts the engine, nor others who wait)
                self._log.failure("who waited for a barrier failed at its end: {outcome}", outcome=outcome.value)


class _Round:
    """A barrier with those who wait for it."""

    __slots__ = ("futures", "payload")

    def __init__(self, payload: object, future: BarrierFuture | None) -> None:
        self.payload = payload
        self.futures = [] if future is None else [future]


class BarrierCycle:
    """The barriers of one query: the one under way, and the requests for others; belongs to the query's lock.

    ```
    idle ──request──▶ requested ──first place passes it on──▶ begun ──all nodes have──▶ idle, or the next request
                          └──────── stop, failure ────────────────┴──▶ idle
    ```

    Requests without a payload share a barrier: the one under way, unless it has begun at a cut point and so may leave
    out what came since; or else the next one. Requests with a payload have one each.
    """

    def __init__(self, now_s: Callable[[], float], *, shares_begun: bool) -> None:
        """``shares_begun``: nothing comes in while a barrier is under way, so that it has what every request wants."""
        self.current: Barrier | None = None
        self._now_s = now_s
        self._shares_begun = shares_begun
        self._has_begun = False
        self._round = _Round(None, None)
        self._next: deque[_Round] = deque()
        self._number = 0
        self._since_s = 0.0
        self._took = Durations()
        self.aborted = 0
        """Barriers that were aborted."""

    @property
    def durations(self) -> Durations:
        """Of those that were reached."""
        return self._took

    def request(self, payload: object) -> BarrierFuture:
        """Someone wants a barrier; see then whether one can `begin`. Raises BarrierError if too many wait."""
        future = BarrierFuture()
        if payload is None:
            if self.current is not None and (self._shares_begun or not self._has_begun):
                self._round.futures.append(future)
                return future
            for each in self._next:
                if each.payload is None:
                    each.futures.append(future)
                    return future
        if len(self._next) >= _MOST_REQUESTS:
            raise BarrierError(f"expected at most {_MOST_REQUESTS} requests of barriers that wait, was one more")
        self._next.append(_Round(payload, future))
        return future

    def begin(self) -> Barrier | None:
        """The barrier that begins now; None while one is under way, or if none is wanted."""
        if self.current is not None or not self._next:
            return None
        return self._begin(self._next.popleft())

    def begin_unasked(self, payload: object) -> Barrier:
        """A barrier that nobody has requested, or that requests without a payload wait for."""
        if payload is None and self._next:
            return self._begin(self._next.popleft())
        return self._begin(_Round(payload, None))

    def _begin(self, wanted: _Round) -> Barrier:
        self._number += 1
        self._round, self._has_begun = wanted, False
        self._since_s = self._now_s()
        self.current = Barrier(self._number, wanted.payload)
        return self.current

    def has_begun(self) -> None:
        """A cut point passes it on: input that comes from now on is not in it."""
        self._has_begun = True

    def complete(self) -> list[BarrierFuture]:
        """All nodes have passed it on: those who waited, to be settled without locks."""
        self._took.add(self._now_s() - self._since_s)
        return self._take()

    def abort(self) -> list[BarrierFuture]:
        """The query ends: all who wait, to be settled without locks."""
        self.aborted += self.current is not None
        futures = self._take()
        for each in self._next:
            futures += each.futures
        self._next.clear()
        return futures

    def _take(self) -> list[BarrierFuture]:
        futures = self._round.futures
        self.current, self._round = None, _Round(None, None)
        return futures

"""Barriers, which divide the input of a running query in two, with their futures and durations."""

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
"""Greatest number of barriers of a query that wait for the current one."""


class Barrier(msgspec.Struct, frozen=True):
    """Barrier of a query: all input before it is executed and drained before any later input is touched."""

    number: int
    """Number of the barrier in its query, from 1."""
    payload: object = None
    """Object that the request passes to the pipelines, such as a control record."""


class BarrierOutcome(Enum):
    """Outcome of a barrier."""

    REACHED = "reached"
    """Every pipeline has drained; all input before the barrier is executed."""
    NOT_RUNNING = "not running"
    """The query was not running, so there was nothing to drain."""
    ABORTED = "aborted"
    """The query was stopped or failed before the barrier completed."""


class BarrierFuture:
    """Future of a barrier that was requested; thread-safe."""

    _log = Logger()

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._outcome: BarrierOutcome | None = None
        self._barrier: Barrier | None = None
        self._calls: list[Callable[[BarrierFuture], None]] = []

    @property
    def outcome(self) -> BarrierOutcome | None:
        """Outcome of the barrier; None while it has not ended."""
        return self._outcome

    @property
    def barrier(self) -> Barrier | None:
        """Barrier that answered the request, perhaps together with other requests; None if that barrier never began."""
        return self._barrier

    def wait(self, timeout_s: float) -> BarrierOutcome | None:
        """Wait for the end of the barrier and return its outcome; None after the timeout. Must not block a worker."""
        with self._changed:
            self._changed.wait_for(lambda: self._outcome is not None, timeout_s)
            return self._outcome

    def when_done(self, call: Callable[[BarrierFuture], None]) -> None:
        """Call ``call`` at the end of the barrier, on the worker that ends it; if it has ended already, at once."""
        with self._changed:
            if self._outcome is None:
                self._calls.append(call)
                return
        call(self)

    def settle(self, outcome: BarrierOutcome, barrier: Barrier | None) -> None:
        """Set the outcome, once, and call all waiting callbacks, even if some raise; the caller holds no lock."""
        with self._changed:
            if self._outcome is not None:
                return
            self._outcome, self._barrier = outcome, barrier
            calls, self._calls = self._calls, []
            self._changed.notify_all()
        for call in calls:
            try:
                call(self)
            except Exception:  # noqa: BLE001 (a waiting call never harms the engine, nor other calls)
                self._log.failure("a call at the end of a barrier failed: {outcome}", outcome=outcome.value)


class _Request:
    """Requested barrier with the futures that wait for it."""

    __slots__ = ("futures", "payload")

    def __init__(self, payload: object, future: BarrierFuture | None) -> None:
        self.payload = payload
        self.futures = [] if future is None else [future]


class BarrierCycle:
    """Barriers of one query: the current one, and the requests for others; accessed with the query's lock held.

    ```
    idle ──request──▶ requested ──first place passes it on──▶ begun ──all nodes have──▶ idle, or the next request
                          └──────── stop, failure ────────────────┴──▶ idle
    ```

    Requests without a payload share a barrier. If the current barrier has begun at a cut point, it does not cover input
    that has come since, so a new request waits for the next barrier. Each request with a payload has its own barrier.
    """

    def __init__(self, now_s: Callable[[], float], *, shares_begun: bool) -> None:
        """Create the cycle of a query without barriers.

        ``shares_begun`` is True if no input is taken during a barrier, so that requests may share a barrier that has
        begun.
        """
        self.current: Barrier | None = None
        self._now_s = now_s
        self._shares_begun = shares_begun
        self._has_begun = False
        self._request = _Request(None, None)
        self._next: deque[_Request] = deque()
        self._number = 0
        self._since_s = 0.0
        self._took = Durations()
        self.aborted = 0
        """Number of barriers that were aborted."""

    @property
    def durations(self) -> Durations:
        """Durations of the barriers that have completed."""
        return self._took

    def request(self, payload: object) -> BarrierFuture:
        """Add a request for a barrier, after which the caller calls `begin`.

        Raise `BarrierError` if too many requests wait.
        """
        future = BarrierFuture()
        if payload is None:
            if self.current is not None and (self._shares_begun or not self._has_begun):
                self._request.futures.append(future)
                return future
            for each in self._next:
                if each.payload is None:
                    each.futures.append(future)
                    return future
        if len(self._next) >= _MOST_REQUESTS:
            raise BarrierError(f"expected at most {_MOST_REQUESTS} requests of barriers that wait, was one more")
        self._next.append(_Request(payload, future))
        return future

    def begin(self) -> Barrier | None:
        """Begin the next barrier and return it; return None while a barrier is in progress, or if none is requested."""
        if self.current is not None or not self._next:
            return None
        return self._begin(self._next.popleft())

    def begin_at_once(self, payload: object) -> Barrier:
        """Begin a barrier at once: the next requested one if ``payload`` is None and one waits, otherwise a new one."""
        if payload is None and self._next:
            return self._begin(self._next.popleft())
        return self._begin(_Request(payload, None))

    def _begin(self, request: _Request) -> Barrier:
        self._number += 1
        self._request, self._has_begun = request, False
        self._since_s = self._now_s()
        self.current = Barrier(self._number, request.payload)
        return self.current

    def has_begun(self) -> None:
        """Note that a cut point has passed the barrier on, so that later input comes after the barrier."""
        self._has_begun = True

    def complete(self) -> list[BarrierFuture]:
        """Complete the barrier after all nodes have passed it on; return its futures, to be settled without locks."""
        self._took.add(self._now_s() - self._since_s)
        return self._take()

    def abort(self) -> list[BarrierFuture]:
        """Abort all barriers because the query ends; return their futures, to be settled without locks."""
        self.aborted += self.current is not None
        futures = self._take()
        for each in self._next:
            futures += each.futures
        self._next.clear()
        return futures

    def _take(self) -> list[BarrierFuture]:
        futures = self._request.futures
        self.current, self._request = None, _Request(None, None)
        return futures

"""Clock of backtests and simulations: shows market time, and moves only when the program moves it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Final

__all__ = ["SimulatedClock"]

_SECOND_NS: Final = 1_000_000_000
_NEVER_NS: Final = 2**63 - 1
"""Time of the next call if there is none, in nanoseconds."""


class _Call:
    """A call that is due at a time; a cancelled call stays in the heap and does nothing."""

    __slots__ = ("_clock", "arguments", "due_ns", "function")

    def __init__(self, clock: SimulatedClock, due_ns: int, function: Callable[..., Any], arguments: Any) -> None:
        self._clock = clock
        self.due_ns = due_ns
        self.function: Callable[..., Any] | None = function
        self.arguments = arguments

    def active(self) -> bool:
        """See `algo_engine.clocks.ScheduledCall`."""
        return self.function is not None

    def cancel(self) -> None:
        """See `algo_engine.clocks.ScheduledCall`."""
        self.function = None

    def reset(self, secondsFromNow: float) -> None:
        """See `algo_engine.clocks.ScheduledCall`."""
        if self.function is not None:
            # The heap still has an entry with the call's old time. It is skipped, because that time is not `due_ns`.
            self.due_ns = self._clock.now_ns + round(secondsFromNow * _SECOND_NS)
            self._clock.enter(self)


class SimulatedClock:
    """Clock whose time changes only when the program moves it.

    Calls are made in the order of the times at which they are due. Calls that are due at the same time are made in the
    order in which they were scheduled.

    A call with a delay of 0 seconds belongs to the next turn. `run_turn` makes the calls of the next turn, including
    calls that are added to the turn meanwhile. Times are integers of nanoseconds; `seconds` counts from the clock's
    start, because a float of the Unix time cannot represent nanoseconds.

    >>> clock = SimulatedClock(1_000)
    >>> _ = clock.callLater(2e-6, print, "later")
    >>> _ = clock.callLater(0, print, "soon")
    >>> clock.run_turn()
    soon
    >>> clock.advance(5_000), clock.now_ns
    later
    (None, 5000)
    """

    def __init__(self, now_ns: int = 0) -> None:
        self.now_ns = now_ns
        """Market time in nanoseconds."""
        self.next_ns = _NEVER_NS
        """Time in nanoseconds before which no call is due. If a call was cancelled, the next call may be due later."""
        self._begin_ns = now_ns
        self._number = 0
        self._calls: list[tuple[int, int, _Call]] = []
        self.soon: deque[_Call] = deque()
        """Calls of the next turn."""

    def begin(self, now_ns: int) -> None:
        """Set the start time; call it before a call is scheduled."""
        self.now_ns = self._begin_ns = now_ns

    def seconds(self) -> float:
        """Return the seconds since the clock's start."""
        return (self.now_ns - self._begin_ns) / _SECOND_NS

    def callLater(self, delay: float, callable: Callable[..., Any], *args: Any) -> _Call:  # noqa: A002
        """See `algo_engine.clocks.Clock`."""
        if delay <= 0:
            call = _Call(self, self.now_ns, callable, args)
            self.soon.append(call)
        else:
            call = _Call(self, self.now_ns + round(delay * _SECOND_NS), callable, args)
            self.enter(call)
        return call

    def call_at(self, due_ns: int, function: Callable[..., Any], *arguments: Any) -> _Call:
        """Schedule a call for a market time, or for as soon as possible if that time is past."""
        call = _Call(self, due_ns, function, arguments)
        self.enter(call)
        return call

    def enter(self, call: _Call) -> None:
        """Schedule a call for the time at which it is due."""
        call.due_ns = min(call.due_ns, _NEVER_NS)  # the kernel reads `next_ns`, and counts time in 64 bits
        self._number += 1
        heappush(self._calls, (call.due_ns, self._number, call))
        self.next_ns = self._calls[0][0]

    def run_turn(self) -> None:
        """Make the calls of the next turn, including calls that are added to the turn meanwhile."""
        soon = self.soon
        while soon:
            call = soon.popleft()
            function = call.function
            if function is not None and call.due_ns <= self.now_ns:
                call.function = None
                function(*call.arguments)

    def advance(self, until_ns: int) -> None:
        """Make all calls that are due by ``until_ns``, then set the time to ``until_ns``.

        Each call is made at the time at which it is due, and is followed by a turn.
        """
        calls = self._calls
        while calls and calls[0][0] <= until_ns:
            due_ns, _, call = heappop(calls)
            function = call.function
            if function is None or due_ns != call.due_ns:
                continue
            call.function = None
            self.now_ns = max(self.now_ns, due_ns)
            function(*call.arguments)
            if self.soon:
                self.run_turn()
        self.next_ns = calls[0][0] if calls else _NEVER_NS
        self.now_ns = max(self.now_ns, until_ns)

"""Delays between attempts to reach a peer, and the time without data after which its connection is closed."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from twisted.logger import Logger

from algo_engine.clocks import Clock, ScheduledCall
from algo_engine.errors import PeerUnreachable

__all__ = ["LinkTimes", "Retry", "Watchdog"]


class LinkTimes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Delays and time limits of the connection to a peer, in seconds."""

    first_delay_s: float = 0.1
    """Delay before the first new attempt; doubles with each further attempt, until a connection lasts."""
    longest_delay_s: float = 5.0
    """Longest delay between two attempts."""
    give_up_s: float = 60.0
    """Time without a working connection after which the engine ends."""
    silence_s: float = 10.0
    """Time without received data after which a connection is closed."""
    connect_s: float = 5.0
    """Time limit of one attempt to connect."""


class Retry:
    """Retries with doubling delays up to a longest one; fails after `LinkTimes.give_up_s` without success.

    A connection that lasts for less than the longest delay does not shorten the next delay: otherwise an answer that
    ends each connection, such as a frame that cannot be applied, would be asked for ten times a second. Only the first
    failure with the shortest delay is logged.
    """

    _log = Logger()

    def __init__(self, clock: Clock, times: LinkTimes, peer: str, on_failure: Callable[[Exception], None]):
        self._clock, self._times, self._peer, self._on_failure = clock, times, peer, on_failure
        self._delay_s = times.first_delay_s
        self._since_s: float | None = clock.seconds()
        self._answered_s = 0.0
        self._call: ScheduledCall | None = None
        self.losses = 0
        """Number of times that the connection to an answering peer was lost."""

    def succeeded(self) -> None:
        """Note that the peer answers; if the connection lasts, the next loss starts with the shortest delay."""
        self._since_s, self._answered_s = None, self._clock.seconds()

    def again(self, attempt: Callable[[], None], reason: str) -> None:
        """Call ``attempt`` after the delay, or fail after too long a time without success."""
        now_s = self._clock.seconds()
        if self._since_s is None:
            self._since_s = now_s
            self.losses += 1
            if now_s - self._answered_s >= self._times.longest_delay_s:
                self._delay_s = self._times.first_delay_s
        if now_s - self._since_s >= self._times.give_up_s:
            self._on_failure(
                PeerUnreachable(f"expected {self._peer} to answer within {self._times.give_up_s:g} s, was {reason}")
            )
            return
        if self._delay_s == self._times.first_delay_s:
            self._log.warn("expected {peer} to answer, was {reason}; trying again", peer=self._peer, reason=reason)
        self._call = self._clock.callLater(self._delay_s, attempt)
        self._delay_s = min(2 * self._delay_s, self._times.longest_delay_s)

    def cancel(self) -> None:
        """Cancel the pending attempt."""
        if self._call is not None and self._call.active():
            self._call.cancel()


class Watchdog:
    """Calls a function when nothing has been received for ``silence_s`` seconds."""

    def __init__(self, clock: Clock, silence_s: float, on_silence: Callable[[], None]) -> None:
        self._clock, self._silence_s, self._on_silence = clock, silence_s, on_silence
        self._call: ScheduledCall | None = None

    def received(self) -> None:
        """Note that data arrived, and restart the wait."""
        if self._call is not None and self._call.active():
            self._call.reset(self._silence_s)
        else:
            self._call = self._clock.callLater(self._silence_s, self._on_silence)

    def stop(self) -> None:
        """Stop watching."""
        if self._call is not None and self._call.active():
            self._call.cancel()
        self._call = None

"""The market's clock."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["MarketClock"]


class MarketClock:
    """Nanoseconds since the UTC epoch, never going back: an anchor plus elapsed monotonic time × speed.

    Live, the anchor is the wall clock at the start and the speed is 1. In a replay the anchor is the recorded start,
    the clock stands still until `start` and while the replay is paused, and its speed is the replay's.
    `monotonic_s` is injected (a reactor's ``seconds``).
    """

    def __init__(
        self, monotonic_s: Callable[[], float], anchor_ns: int, *, speed: float = 1.0, running: bool = True
    ) -> None:
        self._monotonic_s = monotonic_s
        self._anchor_ns = anchor_ns
        self._anchor_s = monotonic_s()
        self._speed = speed
        self._running = running
        self._last_ns = anchor_ns

    def now_ns(self) -> int:
        """Market time."""
        if self._running:
            elapsed_ns = round((self._monotonic_s() - self._anchor_s) * self._speed * 1e9)
            self._last_ns = max(self._last_ns, self._anchor_ns + elapsed_ns)
        return self._last_ns

    def start(self) -> None:
        """Begin to run from where the clock stands; nothing if it runs."""
        if not self._running:
            self._anchor_ns, self._anchor_s, self._running = self._last_ns, self._monotonic_s(), True

    def stop(self) -> None:
        """Stand still; nothing if it does."""
        self.now_ns()
        self._running = False

    def set_speed(self, speed: float) -> None:
        """Go on from here at another speed."""
        self._anchor_ns, self._anchor_s, self._speed = self.now_ns(), self._monotonic_s(), speed

    def advance_to(self, time_ns: int) -> None:
        """Move on to a time, if it lies ahead; the clock goes on from there."""
        if time_ns > self.now_ns():
            self._anchor_ns = self._last_ns = time_ns
            self._anchor_s = self._monotonic_s()

    def seconds_until(self, time_ns: int) -> float:
        """Real seconds until the market's clock shows a time, 0 if it has."""
        return max(0.0, (time_ns - self.now_ns()) / 1e9 / self._speed)

"""Market clock, and the effects of time: expiries, the imbalance of auctions, and the phases of a day."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from twisted.logger import Logger

from exchange_server.errors import ExchangeError
from exchange_server.matching.inputs import AnyInput, Phase, PhaseName, Tick

__all__ = ["LATEST_NS", "Day", "DaySchedule", "MarketClock"]

LATEST_NS: Final = 9 * 10**18
"""Time at which the market clock stops, in the year 2255: later requests are a nanosecond apart, and fit into int64."""


class MarketClock:
    """Nanoseconds since the UTC epoch, never going back: an anchor plus elapsed monotonic time × speed.

    In a live market, the anchor is the wall clock at the start, and the speed is 1. In a replay, the anchor is the
    recorded start, the clock stands still until `start` and while the replay is paused, and the speed is that of the
    replay. At `LATEST_NS` the clock stops. `monotonic_s` is injected (a reactor's ``seconds``).
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
        """Return the market time in nanoseconds since the UTC epoch."""
        if self._running:
            elapsed_ns = min((self._monotonic_s() - self._anchor_s) * self._speed * 1e9, LATEST_NS)
            self._last_ns = max(self._last_ns, min(self._anchor_ns + round(elapsed_ns), LATEST_NS))
        return self._last_ns

    def start(self) -> None:
        """Start the clock from its present time; do nothing if it runs."""
        if not self._running:
            self._anchor_ns, self._anchor_s, self._running = self._last_ns, self._monotonic_s(), True

    def stop(self) -> None:
        """Stop the clock; do nothing if it is stopped."""
        self.now_ns()
        self._running = False

    def set_speed(self, speed: float) -> None:
        """Continue from the present time at another speed."""
        self._anchor_ns, self._anchor_s, self._speed = self.now_ns(), self._monotonic_s(), speed

    def advance_to(self, time_ns: int) -> None:
        """Advance the clock to a time and continue from there; do nothing if the time has passed."""
        if time_ns > self.now_ns():
            self._anchor_ns = self._last_ns = time_ns
            self._anchor_s = self._monotonic_s()

    def seconds_until(self, time_ns: int) -> float:
        """Return the real seconds until the market clock shows a time, 0 if it has passed."""
        return max(0.0, (time_ns - self.now_ns()) / 1e9 / self._speed)


_CHECK_S: Final = 0.05
"""Largest delay of an expiry while nothing else happens."""
_IMBALANCE_NS: Final = 10**9
"""Market time between two imbalances of an auction, in nanoseconds."""


class DaySchedule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Durations of the phases of a day, in seconds of market time; the day begins when agents and replay start."""

    opening_s: float = 0.0
    """Duration of the opening auction in seconds; 0 for no auction."""
    trading_s: float = 0.0
    """Duration of continuous trading in seconds; 0 for no end."""
    closing_s: float = 0.0
    """Duration of the closing auction in seconds; 0 for no auction."""


class Day:
    """Submits the inputs that depend on time: changes of phase, and a tick when an order expires and in each second of
    an auction.

    The schedule moves only the symbols that are in its present phase: a symbol that an operator has halted stays
    halted. The end of the day closes every symbol. After a restart the duration of the present phase begins again.
    `stop` is called with the reason when the journal fails.
    """

    _log = Logger()

    def __init__(self, exchange: Any, timers: Any, schedule: DaySchedule, stop: Callable[[str], None]) -> None:
        self._exchange = exchange
        self._timers = timers
        self._stop = stop
        stages: list[tuple[PhaseName, float]] = [
            ("auction-open", schedule.opening_s),
            ("continuous", schedule.trading_s),
            ("auction-close", schedule.closing_s),
        ]
        self._seconds: dict[PhaseName, float] = {phase: seconds for phase, seconds in stages if seconds > 0}
        self._phase: PhaseName = "continuous"
        self._due_ns: int | None = None
        self._imbalance_ns = 0
        self._call: Any = None

    def start(self) -> None:
        """Start to submit ticks."""
        self._call = self._timers.callLater(_CHECK_S, self._check)

    def begin(self) -> None:
        """Begin the schedule at the phase that the market is in."""
        phases = {book.phase for book in self._scheduled()}
        self._phase = next((phase for phase in ("auction-close", "auction-open") if phase in phases), "continuous")
        self._begin_phase()

    def stop(self) -> None:
        """Stop submitting."""
        if self._call is not None and self._call.active():
            self._call.cancel()

    def _scheduled(self) -> list[Any]:
        """Return the books with phases: neither books that follow a recording nor closed books."""
        books = self._exchange.market.books.values()
        return [book for book in books if book.phase != "closed" and not book.is_followed]

    def _begin_phase(self) -> None:
        seconds = self._seconds.get(self._phase)
        self._due_ns = None if seconds is None else self._exchange.clock.now_ns() + int(seconds * 1e9)

    def _check(self) -> None:
        self._call = self._timers.callLater(_CHECK_S, self._check)
        now_ns = self._exchange.clock.now_ns()
        if self._due_ns is not None and now_ns >= self._due_ns:
            self._next_phase()
        elif self._exchange.market.next_due_ns <= now_ns or self._is_imbalance_due(now_ns):
            self._submit([Tick(self._exchange.next_time_ns())])

    def _is_imbalance_due(self, now_ns: int) -> bool:
        if now_ns < self._imbalance_ns:
            return False
        self._imbalance_ns = now_ns + _IMBALANCE_NS
        return any(book.phase.startswith("auction") for book in self._exchange.market.books.values())

    def _next_phase(self) -> None:
        before = self._phase
        if before == "auction-open":
            self._phase = "continuous"
        elif before == "continuous" and "auction-close" in self._seconds:
            self._phase = "auction-close"
        else:
            self._phase = "closed"
        ends = self._phase == "closed"
        symbols = [book.symbol for book in self._scheduled() if ends or book.phase == before]
        first_ns = self._exchange.next_time_ns(count=len(symbols)) if symbols else 0
        self._submit([Phase(first_ns + at, symbol, self._phase) for at, symbol in enumerate(symbols)])
        self._log.info("day: {phase} of {symbols} symbols", phase=self._phase, symbols=len(symbols))
        self._begin_phase()

    def _submit(self, batch: list[AnyInput]) -> None:
        try:
            self._exchange.submit(batch)
        except ExchangeError as error:
            self._stop(str(error))

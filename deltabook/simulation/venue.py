"""The exchange of a simulation: the live one over a journal, or the same market without a journal; and its operator.

```
agents, day, operator, participants ──submit──▶ Venue ──▶ Market ──▶ answers to each account, then `published`
                                                 ├ JournalledVenue   exchange_server.Exchange: journal, feed, snapshots
                                                 └ MemoryVenue       nothing is stored
```

Planned halts are requests of the live exchange's operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from deltabook.backtest.clock import SimulatedClock
from deltabook.backtest.errors import ConfigurationError
from deltabook.simulation.config import Halt
from exchange_server.day import MarketClock
from exchange_server.exchange import Exchange
from exchange_server.matching import AnyInput, FeedEncoder, Market, MarketRules, Now, Phase, PhaseName
from exchange_server.matching.order import Account
from exchange_server.outputs import protocols_of

__all__ = ["HaltOperator", "JournalledVenue", "MemoryVenue", "Venue"]


class Venue(Protocol):
    """Interface of the exchange for participants, agents and the day."""

    market: Market
    clock: MarketClock
    inputs: int

    @property
    def session(self) -> str:
        """Name of the session."""
        ...

    def next_time_ns(self, at_least_ns: int = 0, count: int = 1) -> int:
        """Return the first of ``count`` consecutive times, all later than every time returned before."""
        ...

    def submit(self, batch: Sequence[AnyInput]) -> list[int | str]:
        """Apply a batch and publish its feed; return the answers of `Market.apply`."""
        ...

    def follow(self, account: Account, listener: Callable[[bytes], None]) -> None:
        """Call ``listener`` with each burst of an account's private stream."""
        ...


class JournalledVenue(Exchange):
    """The live exchange; ``published`` is called after each batch."""

    def __init__(self, *arguments: Any, published: Callable[[], None], **options: Any) -> None:
        self._published = published
        super().__init__(*arguments, **options)

    def submit(self, batch: Sequence[AnyInput]) -> list[int | str]:
        """See `Venue.submit`."""
        results = super().submit(batch)
        self._published()
        return results

    def follow(self, account: Account, listener: Callable[[bytes], None]) -> None:
        """See `Venue.follow`."""
        self.stream(account).on_append.append(listener)


class MemoryVenue:
    """Market without a journal: nothing is stored, and all answers are byte for byte those of `JournalledVenue`.

    ``now_ns`` returns the time of ``clock`` without a conversion through seconds. An account has one listener.
    """

    def __init__(
        self,
        rules: MarketRules,
        clock: MarketClock,
        now: Now,
        *,
        now_ns: Callable[[], int],
        session: str,
        observer: FeedEncoder,
        published: Callable[[], None],
    ) -> None:
        self.clock = clock
        self.session = session
        """Name of the session."""
        self.inputs = 0
        """Number of inputs so far."""
        self.market = Market(rules, (observer,), protocols_of(rules), now)
        self._apply = self.market.apply
        self._touched = self.market.touched
        self._published = published
        self._listeners: dict[int, Callable[[bytes], None]] = {}
        self._last_time_ns = 0
        self._now_ns = now_ns

    def next_time_ns(self, at_least_ns: int = 0, count: int = 1) -> int:
        """See `Venue.next_time_ns`."""
        time_ns = at_least_ns or self._now_ns()
        if time_ns <= self._last_time_ns:
            time_ns = self._last_time_ns + 1
        self._last_time_ns = time_ns + count - 1
        return time_ns

    def submit(self, batch: Sequence[AnyInput]) -> list[int | str]:
        """See `Venue.submit`."""
        self.inputs += len(batch)
        apply = self._apply
        results = [apply(item) for item in batch]
        if self._touched:
            self._answer()
        self._published()
        return results

    def follow(self, account: Account, listener: Callable[[bytes], None]) -> None:
        """See `Venue.follow`."""
        self._listeners[account.index] = listener

    def _answer(self) -> None:
        tellers = self._touched[:]
        self._touched.clear()
        for teller in tellers:
            data, count = teller.take()
            listener = self._listeners.get(teller.account.index)
            if count and listener is not None:
                listener(data)


_REASON = "MWC1"
"""Reason code of a halt on the feed: a market-wide circuit breaker, level 1."""
_SECOND_NS = 1_000_000_000


class HaltOperator:
    """Operator that declares each halt, begins its auction, and resumes trading; raises `ConfigurationError` for a halt
    of an unknown symbol, or outside the trading hours.
    """

    def __init__(self, venue: Venue, clock: SimulatedClock, halts: Sequence[Halt], trading_s: float) -> None:
        self._venue, self._clock, self._halts = venue, clock, tuple(halts)
        for halt in halts:
            if halt.symbol and halt.symbol not in venue.market.books:
                raise ConfigurationError(
                    f"expected a halt of one of {', '.join(venue.market.books)}, was of {halt.symbol}"
                )
            if halt.at_s + halt.halted_s + halt.auction_s >= trading_s:
                raise ConfigurationError(
                    f"expected a halt that ends within {trading_s:g} s of trading, was one at {halt.at_s:g} s"
                )

    def begin(self, trading_ns: int) -> None:
        """Schedule all halts; trading begins at this time."""
        for halt in self._halts:
            at_ns = trading_ns + round(halt.at_s * _SECOND_NS)
            self._clock.call_at(at_ns, self._change, halt.symbol, "halted")
            at_ns += round(halt.halted_s * _SECOND_NS)
            if halt.auction_s:
                self._clock.call_at(at_ns, self._change, halt.symbol, "auction-halt")
                at_ns += round(halt.auction_s * _SECOND_NS)
            self._clock.call_at(at_ns, self._change, halt.symbol, "continuous")

    def _change(self, symbol: str, phase: PhaseName) -> None:
        reason = _REASON if phase == "halted" else ""
        self._venue.submit([Phase(self._venue.next_time_ns(), symbol, phase, reason)])

"""The operator of a simulated exchange: planned halts, as requests of the live exchange's operator."""

from __future__ import annotations

from collections.abc import Sequence

from deltabook.backtest.clock import SimulatedClock
from deltabook.backtest.errors import ConfigurationError
from deltabook.simulation.config import Halt
from deltabook.simulation.venue import Venue
from exchange_server.matching import Phase, PhaseName

__all__ = ["Operator"]

_REASON = "MWC1"
_SECOND_NS = 1_000_000_000


class Operator:
    """Operator that declares each halt, begins its auction, and resumes trading; raises `ConfigurationError` for a halt
    of a symbol that is not traded, or outside the trading hours."""

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

"""Volatile static order book imbalance: SOBI with a threshold in units of the volatility.

The strategy is like `algo_engine.strategies.sobi`, but compares the difference of the two distances from the last
price. It buys if the asks are farther away than the bids by more than ``deviations`` standard deviations of the price,
and sells in the reverse case. The deviation is that of the trades in ``trades``, which contains at most the trades of
the last five minutes.

The comparison is exact, by squares. With distances b/s of the bids and a/s of the asks, n trades, and the sums Σp and
Σp² over their prices, the strategy buys if a > b and ``(a - b)² · n² > deviations² · (n·Σp² - (Σp)²) · s²``.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Annotated, Final

from msgspec import Meta

from algo_engine.desk.order import Side
from algo_engine.strategies._shape import Distances, ShapeParameters, ShapeTaker
from algo_engine.strategies._taking import thousandths
from queries import query_text

__all__ = ["VolatileSobi", "VolatileSobiParameters"]

MOMENTS_VIEW: Final = "trade_moments"
"""View with the number, sum and sum of squares of the prices of recent trades."""


class VolatileSobiParameters(ShapeParameters, frozen=True, forbid_unknown_fields=True):
    """Parameters, set with ``--param volatile_sobi.NAME=value``."""

    deviations: Annotated[float, Meta(ge=0, le=1_000_000)] = 1.0
    """Least difference of the distances for an order, in standard deviations; rounded to thousandths."""
    least_trades: Annotated[int, Meta(ge=2)] = 20
    """Least number of trades; with fewer trades the deviation is unknown, and the strategy does not trade."""


class VolatileSobi(ShapeTaker[VolatileSobiParameters]):
    """Takes liquidity on the side whose mean price is nearer to the last price, if the difference of the distances is
    larger than the price usually moves.
    """

    queries = MappingProxyType({MOMENTS_VIEW: query_text(MOMENTS_VIEW)})
    parameters_type = VolatileSobiParameters

    def __init__(self, parameters: VolatileSobiParameters) -> None:
        super().__init__(parameters)
        self._deviations_thousandths = thousandths(parameters.deviations)

    def leaning(self, symbol: str, distances: Distances) -> Side | None:
        """Return the side to trade on: that of the mean price that is nearer by more than the threshold, else None."""
        row = self.context.view(MOMENTS_VIEW).find(symbol=symbol)
        if row is None or row["trades"] < self.parameters.least_trades:
            return None
        trades, price_sum = int(row["trades"]), int(row["price_sum"])
        squared = trades * int(row["square_sum"]) - price_sum * price_sum  # (trades × deviation)²
        farther = distances.above - distances.below
        if (farther * trades * 1000) ** 2 <= self._deviations_thousandths**2 * squared * distances.scale**2:
            return None
        return Side.BUY if farther > 0 else Side.SELL

"""Simple static order book imbalance (SOBI).

The volume-weighted mean price of all bids, and that of all asks, each have a distance from the last price. If the
distance of the asks is at least ``factor`` times that of the bids, the strategy regards the buyers as more serious and
buys at the current price; in the reverse case it sells. After Kearns and Ortiz, *The Penn-Lehman Automated
Trading Project* (2003).

All comparisons are exact: with last price L and sums PV and V, a distance is ``(PV - L·V) / V``, and two fractions are
compared by cross multiplication.
"""

from __future__ import annotations

from algo_engine.desk.order import Side
from algo_engine.strategies._shape import Distances, ShapeParameters, ShapeTaker
from algo_engine.strategies._taking import Factor, thousandths

__all__ = ["SimpleSobi", "SobiParameters"]


class SobiParameters(ShapeParameters, frozen=True, forbid_unknown_fields=True):
    """Parameters, set with ``--param sobi.NAME=value``."""

    factor: Factor = 4.0
    """Least ratio of the two distances for an order; rounded to thousandths."""


class SimpleSobi(ShapeTaker[SobiParameters]):
    """Buys or sells a fixed size at the current price when the book is one-sided."""

    parameters_type = SobiParameters

    def __init__(self, parameters: SobiParameters) -> None:
        super().__init__(parameters)
        self._factor_thousandths = thousandths(parameters.factor)

    def leaning(self, symbol: str, distances: Distances) -> Side | None:
        """Return the side to trade on: that of the mean price that is nearer by `factor`; None if neither is."""
        del symbol
        below, above = distances.below, distances.above
        if above > below and above * 1000 >= self._factor_thousandths * below:
            return Side.BUY
        if below > above and below * 1000 >= self._factor_thousandths * above:
            return Side.SELL
        return None

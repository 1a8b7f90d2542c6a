"""Timed static order book imbalance: trades on the side whose best orders are newer.

The strategy compares the mean age of the best bids with that of the best asks. New orders among the best bids have just
improved the best price or joined it; old orders among the best asks are the rest after buyers have taken others. Both
are signs of pressure from buyers. If the best asks are at least ``factor`` times as old as the best bids, the strategy
buys at the current price; in the reverse case it sells.

Ages are measured from the latest mean time of arrival that any price level has had so far. This is a time of the
market, so that a recording gives the same ages at any speed. It is never later than the arrival of the newest order,
and equals that arrival if the order was alone at its price. Means are compared exactly, by cross multiplication.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from algo_engine.desk.order import Side
from algo_engine.strategies._ladders import Ladders
from algo_engine.strategies._limits import AtLeastOne, AtLeastZero
from algo_engine.strategies._taking import Factor, Taker, TakerParameters, thousandths
from algo_engine.strategy import Context
from algo_engine.views.contents import ViewChange
from queries import query_text

__all__ = ["TimedSobi", "TimedSobiParameters"]

AGES_VIEW: Final = "book_ages"
"""View with the times of arrival of the orders of each level."""


class TimedSobiParameters(TakerParameters, frozen=True, forbid_unknown_fields=True):
    """Parameters, set with ``--param timed_sobi.NAME=value``."""

    factor: Factor = 4.0
    """Least ratio of the mean ages of the two sides for an order; rounded to thousandths."""
    top_orders: AtLeastOne = 10
    """Number of the best orders of a side that count, with all orders at the price of the last one."""
    least_age_ms: AtLeastZero = 100
    """Least mean age of the older side, in milliseconds."""


class TimedSobi(Taker[TimedSobiParameters]):
    """Buys or sells at the other side's best price when one side's best orders are much older than the other's."""

    queries = MappingProxyType({AGES_VIEW: query_text(AGES_VIEW)})
    parameters_type = TimedSobiParameters

    def __init__(self, parameters: TimedSobiParameters) -> None:
        super().__init__(parameters)
        self._factor_thousandths = thousandths(parameters.factor)
        self._ladders = Ladders(("symbol", "side"), ("arrived", "orders"))
        self._now_ns: dict[str, int] = {}

    def on_start(self, context: Context) -> None:
        """Read the orders in the books."""
        rows = tuple(context.view(AGES_VIEW).rows())
        self._enter(ViewChange(AGES_VIEW, True, 0, 0, rows, ()))

    def on_view_change(self, change: ViewChange) -> None:
        """Evaluate every symbol whose book changed."""
        if change.view == AGES_VIEW:
            self._enter(change)
            self.evaluate(sorted({str(row["symbol"]) for row in (*change.added, *change.removed)}))

    def side_of(self, symbol: str) -> Side | None:
        """Return the side whose orders are younger by the factor, None for neither."""
        bids, bid_ages = self._ages(symbol, Side.BUY)
        asks, ask_ages = self._ages(symbol, Side.SELL)
        if not (bids and asks):
            return None
        # Numerators of the mean ages, bid_ages / bids and ask_ages / asks, over the denominator bids × asks.
        bid_age, ask_age = bid_ages * asks, ask_ages * bids
        if max(bid_age, ask_age) < self.parameters.least_age_ms * 1_000_000 * bids * asks:
            return None
        if ask_age > bid_age and ask_age * 1000 >= self._factor_thousandths * bid_age:
            return Side.BUY
        if bid_age > ask_age and bid_age * 1000 >= self._factor_thousandths * ask_age:
            return Side.SELL
        return None

    def _ages(self, symbol: str, side: Side) -> tuple[int, int]:
        """Return the number of the best orders of a side, and the sum of their ages in nanoseconds."""
        orders = arrived = 0
        for _, (level_arrived, level_orders) in self._ladders.best((symbol, side.value), side):
            arrived += level_arrived
            orders += level_orders
            if orders >= self.parameters.top_orders:
                break
        return orders, orders * self._now_ns.get(symbol, 0) - arrived

    def _enter(self, change: ViewChange) -> None:
        """Update the ladders and the latest time."""
        for row in change.added:
            symbol = str(row["symbol"])
            self._now_ns[symbol] = max(self._now_ns.get(symbol, 0), int(row["arrived"]) // int(row["orders"]))
        self._ladders.apply(change)

"""Pegged order: a resting order that follows the best price at a fixed distance."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType

from algo_engine.desk.order import Side
from algo_engine.execution.composite import ChildOrder, Composite
from algo_engine.strategy import Context
from algo_engine.views.quotes import Quote
from deltabook.wire.text import PLAIN, OrderOptions

__all__ = ["Peg", "PeggedOrder"]


class Peg(StrEnum):
    """Reference of a pegged price."""

    PRIMARY = "primary"
    """The best price of the order's own side."""
    MARKET = "market"
    """The best price of the other side."""
    MIDPOINT = "midpoint"
    """The middle of the two best prices, rounded towards the order's own side."""


class PeggedOrder(Composite):
    """A limit order that is moved when the best price moves; a moved order joins the end of the queue at its new price.

    An order that is alone at the best price of its side sets that price itself, and ``best_quote`` does not contain the
    next price. A primary or midpoint peg then keeps its price until another order joins or improves this price.
    """

    memory_fields = MappingProxyType(
        {
            **Composite.memory_fields, "_peg": Peg, "_offset_ticks": int, "_limit_ticks": int, "_step_ticks": int,
            "_options": OrderOptions, "price_ticks": int,
        }
    )  # fmt: skip

    def __init__(
        self,
        context: Context,
        side: Side,
        symbol: str,
        lots: int,
        peg: Peg = Peg.PRIMARY,
        *,
        offset_ticks: int = 0,
        limit_ticks: int = 0,
        step_ticks: int = 1,
        options: OrderOptions = PLAIN,
    ) -> None:
        """Create an order; raise `ValueError` for a step below 1 tick or a negative limit.

        * ``offset_ticks``: distance from the reference; above 0 is farther from the other side.
        * ``limit_ticks``: worst price, which a purchase never exceeds and a sale never falls below; 0 for none.
        * ``step_ticks``: smallest change of the price for which the order is moved.
        """
        if step_ticks < 1 or limit_ticks < 0:
            raise ValueError(
                f"expected a step of 1 tick or more and a limit of 0 or more, was {step_ticks}, {limit_ticks}"
            )
        super().__init__(context, side, symbol, lots)
        self._peg, self._offset_ticks, self._limit_ticks = peg, offset_ticks, limit_ticks
        self._step_ticks, self._options = step_ticks, options
        self.price_ticks = 0
        """Price of the child order, or of the next one if there is none now; 0 before the first quote."""

    def _quoted(self, quote: Quote) -> None:
        price = self._reference(quote)
        if price is None:
            return
        price = max(1, price - self.side.sign * self._offset_ticks)
        if self._limit_ticks:
            price = min(price, self._limit_ticks) if self.side is Side.BUY else max(price, self._limit_ticks)
        if not self.price_ticks or abs(price - self.price_ticks) >= self._step_ticks:
            self.price_ticks = price

    def _reference(self, quote: Quote) -> int | None:
        bid = quote.bid_price_ticks if quote.bid_volume_lots else None
        ask = quote.ask_price_ticks if quote.ask_volume_lots else None
        own, other = (bid, ask) if self.side is Side.BUY else (ask, bid)
        if self._peg is Peg.MARKET:
            return other
        if self._peg is Peg.PRIMARY:
            return None if self._is_alone(quote, own) else own
        if bid is None or ask is None or self._is_alone(quote, own):
            return None
        return (bid + ask) // 2 if self.side is Side.BUY else -(-(bid + ask) // 2)

    def _is_alone(self, quote: Quote, own: int | None) -> bool:
        order = self._context.order(self._child_id) if self._child_id else None
        if order is None or own is None or order.price_ticks != own or not order.order_id:
            return False
        lots = quote.bid_volume_lots if self.side is Side.BUY else quote.ask_volume_lots
        return lots <= order.remaining_lots

    def _wanted(self) -> ChildOrder | None:
        return ChildOrder(self.remaining_lots, self.price_ticks, self._options) if self.price_ticks else None

"""Market makers: ladders of quotes around what each believes the price to be."""

from __future__ import annotations

from random import Random
from typing import Final

from exchange_server.agents.settings import MakerSettings
from exchange_server.agents.trader import Trader
from exchange_server.agents.view import Batch, View
from exchange_server.matching.order import Order, Side

__all__ = ["Maker"]

_LOOKS: Final = 6
"""Quotes that are looked at in a turn, at most."""


class _Quote:
    """One rung of a ladder."""

    __slots__ = ("asked_ns", "away_steps", "lots", "order_id", "side")

    def __init__(self, side: Side, away_steps: float, lots: int) -> None:
        self.side = side
        self.away_steps = away_steps
        self.lots = lots
        self.order_id = 0
        self.asked_ns = 0
        """The batch in which it was last placed or moved: until that is done nobody knows where it is."""

    def rested(self, order_id: int) -> None:
        self.order_id = order_id


class Maker(Trader):
    """One market maker: it learns the price from trades, and brings one quote after the other to where it should be.

    It is never the one who takes: a quote stands behind the other side's best price. It looks at its quotes in turn,
    and at the best first when it has learnt something.
    """

    def __init__(self, settings: MakerSettings, broker_id: int, clip_lots: int) -> None:
        super().__init__(range(broker_id, broker_id + 1))
        self._settings = settings
        self._believed = 0.0
        away, self.quotes = settings.half_spread_steps, []
        """Its rungs, best first, bid and ask in turn."""
        for _ in range(settings.levels):
            lots = max(1, round(clip_lots * (settings.clips + settings.clips_per_step * away)))
            self.quotes += [_Quote("B", away, lots), _Quote("S", away, lots)]
            away *= settings.growth
        self._next = 0

    def adopt(self, order: Order) -> bool:
        """An order of a recovered book takes the first rung of its side that has none."""
        for quote in self.quotes:
            if quote.side == order.side and not quote.order_id:
                quote.order_id = order.order_id
                return True
        return False

    def act(self, view: View, random: Random, batch: Batch) -> None:
        """Move the next quote that stands wrong, or put it back if it was executed."""
        settings, step, orders, quotes = self._settings, view.step, view.book.orders, self.quotes
        self._learn(view)
        opinion = self._believed + random.gauss(0.0, settings.jitter_steps) * step
        settled_ns, count, tolerance = batch.settled_ns, len(quotes), settings.tolerance
        for _ in range(_LOOKS):
            quote = quotes[self._next]
            self._next = (self._next + 1) % count
            if quote.asked_ns > settled_ns:
                continue
            away = quote.away_steps * step
            if quote.side == "B":
                price = int(opinion - away) // step * step
                if view.ask and price >= view.ask:
                    price = view.ask - step
            else:
                price = -(int(-opinion - away) // step) * step
                if price <= view.bid:
                    price = view.bid + step
            price = max(price, step)
            order = orders.get(quote.order_id)
            if order is None:
                quote.asked_ns = batch.first_ns
                batch.enter(quote, self.brokers[0], quote.side, quote.lots, price)
                return
            if abs(order.price_ticks - price) > tolerance * away:
                quote.asked_ns = batch.first_ns
                batch.replace(quote, order, quote.lots, price)
                return

    def _learn(self, view: View) -> None:
        """Believe a trade that was farther away than its own best quotes: somebody knew more. One between them is the
        noise that a maker lives on. The middle is not believed: anybody can move it for nothing."""
        if not self._believed:
            self._believed = view.mid
        if view.last:
            known = self._settings.half_spread_steps * view.step
            surprise = view.last - self._believed
            if abs(surprise) > known:
                self._believed += self._settings.learning * (surprise - (known if surprise > 0 else -known))
                self._next = 0

"""Noise: orders that know nothing.

After Farmer, Patelli and Zovko, *The predictive power of zero intelligence in financial markets* (2005): limit orders
at random prices, cancels and market orders at random times make most of what a book looks like.
"""

from __future__ import annotations

from math import exp, log
from random import Random

from exchange_server.agents.settings import NoiseSettings
from exchange_server.agents.trader import Resting, Trader, some_lots
from exchange_server.agents.view import Batch, View
from exchange_server.matching.order import MARKET, Order

__all__ = ["Noise"]


class Noise(Trader):
    """Fleeting orders in front, patient ones behind, market orders between."""

    def __init__(self, settings: NoiseSettings, brokers: range, clip_lots: int) -> None:
        super().__init__(brokers)
        self._settings = settings
        self._clip_lots = clip_lots
        self._market_from = settings.fleeting
        self._patient_from = settings.fleeting + settings.market
        self._nearest, self._range = log(settings.nearest_steps), log(settings.farthest_steps / settings.nearest_steps)
        self.fleeting = Resting()
        """Its fleeting orders."""
        self.patient = Resting()
        """Its patient orders."""

    def adopt(self, order: Order) -> bool:
        """Count an order of a recovered book as patient, whatever trader entered it."""
        self.patient.rested(order.order_id)
        return True

    def act(self, view: View, random: Random, batch: Batch) -> None:
        """Place an order, or cancel one."""
        draw = random.random()
        if draw < self._market_from:
            self._flit(view, random, batch)
        elif draw < self._patient_from:
            lots = some_lots(random, self._settings.market_clips * self._clip_lots, self._settings.size_spread)
            batch.take(self.some_broker(random), "B" if random.random() < 0.5 else "S", lots, 0, MARKET)
        elif random.random() * 2 * self._settings.patient_orders < len(self.patient):
            self.patient.cancel_any(view, random, batch)
        else:
            self.wait(view, random, batch)

    def wait(self, view: View, random: Random, batch: Batch) -> None:
        """Place a patient order."""
        away = exp(self._nearest + random.random() * self._range) * view.step
        lots = some_lots(random, self._settings.patient_clips * self._clip_lots, self._settings.size_spread)
        broker_id = self.some_broker(random)
        if random.random() < 0.5:
            batch.enter(self.patient, broker_id, "B", lots, max(1, int(view.mid - away)))
        else:
            batch.enter(self.patient, broker_id, "S", lots, int(view.mid + away) + 1)

    def _flit(self, view: View, random: Random, batch: Batch) -> None:
        """Place a fleeting order at the touch or inside, or cancel the oldest one if there are enough."""
        if len(self.fleeting) >= self._settings.fleeting_orders:
            self.fleeting.cancel_oldest(view, batch)
            return
        bid, ask, step = view.bid, view.ask, view.step
        if not (bid and ask):
            return
        inside = 0
        if ask - bid > step and random.random() < self._settings.inside:
            inside = (1 + int(random.random() * ((ask - bid - 1) // step))) * step
        size = random.random()
        size = size * size if random.random() < self._settings.odd else 0.85 + 0.25 * size
        lots = max(1, int(self._clip_lots * size))
        broker_id = self.some_broker(random)
        if random.random() < 0.5:
            batch.enter(self.fleeting, broker_id, "B", lots, bid + inside)
        else:
            batch.enter(self.fleeting, broker_id, "S", lots, ask - inside)

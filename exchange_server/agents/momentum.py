"""Momentum traders, which buy after a rise and sell after a fall."""

from __future__ import annotations

from random import Random

from exchange_server.agents.settings import MomentumSettings
from exchange_server.agents.trader import Trader
from exchange_server.agents.view import Batch, View
from exchange_server.matching.order import MARKET

__all__ = ["Momentum"]


class Momentum(Trader):
    """Compares a fast average of the middle with a slow one, and follows the fast one with market orders."""

    def __init__(self, settings: MomentumSettings, brokers: range, clip_lots: int) -> None:
        super().__init__(brokers)
        self._settings = settings
        self._lots = max(1, round(settings.clips * clip_lots))
        self._fast = self._slow = 0.0

    def act(self, view: View, random: Random, batch: Batch) -> None:
        """Learn the price; trade if it runs."""
        if not self._slow:
            self._fast = self._slow = view.mid
        self._fast += (view.mid - self._fast) * self._settings.fast
        self._slow += (view.mid - self._slow) * self._settings.slow
        change = self._fast - self._slow
        if abs(change) > self._settings.threshold_steps * view.step:
            batch.take(self.some_broker(random), "B" if change > 0 else "S", self._lots, 0, MARKET)

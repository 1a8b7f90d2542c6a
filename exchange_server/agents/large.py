"""A large trader, who slices: TWAP over time, or POV, a part of the volume."""

from __future__ import annotations

from random import Random

from exchange_server.agents.settings import LargeSettings
from exchange_server.agents.trader import Trader
from exchange_server.agents.view import Batch, View
from exchange_server.matching.order import IOC

__all__ = ["Large"]


class Large(Trader):
    """Works one big order after another, slice by slice, each against the best price alone."""

    def __init__(self, settings: LargeSettings, brokers: range, clip_lots: int) -> None:
        super().__init__(brokers)
        self._settings = settings
        self._clip_lots = clip_lots
        self._side = "B"
        self._left = self._slice = 0
        self._every = max(1, settings.turns // settings.slices)
        self._wait = 0
        self._seen_lots = 0

    def act(self, view: View, random: Random, batch: Batch) -> None:
        """Send a slice if one is due; begin another order if the last is done and enough rest was had."""
        if self._wait > 0:
            self._wait -= 1
            return
        if not self._left:
            self._begin(random)
            self._seen_lots = view.taken_lots
            return
        price = view.ask if self._side == "B" else view.bid
        lots = min(self._left, self._slice if self._settings.style == "twap" else self._share(view))
        if not price or not lots:
            return
        self._left -= lots
        batch.take(self.some_broker(random), self._side, lots, price, IOC)
        self._wait = self._every - 1 if self._left else int(random.expovariate(1.0 / self._settings.turns)) + 1

    def _begin(self, random: Random) -> None:
        self._side = "B" if random.random() < 0.5 else "S"
        lots = random.expovariate(1.0 / (self._settings.clips * self._clip_lots))
        self._left = max(1, round(lots))
        self._slice = max(1, round(lots / self._settings.slices))

    def _share(self, view: View) -> int:
        """Its part of what others have sent to take since its last slice; nothing while that is less than a lot."""
        lots = int((view.taken_lots - self._seen_lots) * self._settings.participation)
        if lots:
            # Its own slice is counted as soon as it is sent.
            self._seen_lots = view.taken_lots + min(lots, self._left)
        return lots

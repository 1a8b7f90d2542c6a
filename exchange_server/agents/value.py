"""Informed traders, and the value that they alone know.

A price moves because somebody knows more: Glosten and Milgrom, *Bid, ask and transaction prices in a specialist market
with heterogeneously informed traders* (1985). That volatility comes in clusters is put into the value (a log-normal
stochastic volatility: Taylor, *Modelling financial time series*, 1986) and reaches prices through trades only.
"""

from __future__ import annotations

from math import exp, sqrt
from random import Random
from typing import Final

from exchange_server.agents.settings import ValueSettings
from exchange_server.agents.trader import Trader
from exchange_server.agents.view import Batch, View
from exchange_server.matching.order import IOC

__all__ = ["Informed", "Value"]

_FARTHEST: Final = 4.0
"""The value stays within the reference price divided and multiplied by this."""


class Value:
    """Value of an instrument, in ticks: a random walk whose volatility comes and goes, with jumps, drawn back to
    the reference price."""

    def __init__(self, settings: ValueSettings, ticks: float, reference_ticks: int, step_ticks: int) -> None:
        self.ticks = ticks
        """Now."""
        self._settings = settings
        self._reference = reference_ticks
        self._step = step_ticks
        self._least, self._most = reference_ticks / _FARTHEST, reference_ticks * _FARTHEST
        self._heat = 0.0
        """Logarithm of volatility over its median."""
        self._passing: dict[int, tuple[float, float, float, float]] = {}
        """By turns, which a batch bounds: how much heat stays and comes, the root of the turns, and the way back."""

    def advance(self, turns: int, random: Random) -> None:
        """So many turns pass."""
        s, gauss = self._settings, random.gauss
        passing = self._passing.get(turns)
        if passing is None:
            fade = exp(-turns / s.volatility_turns)
            spread = s.volatility_spread * sqrt(1 - fade * fade)
            passing = self._passing[turns] = fade, spread, sqrt(turns), 1 - exp(-turns / s.return_turns)
        fade, spread, root, way_back = passing
        self._heat = heat = self._heat * fade + spread * gauss(0.0, 1.0)
        move = gauss(0.0, 1.0) * s.volatility_steps * root * exp(heat)
        if random.random() < s.jumps * turns:
            move += random.expovariate(1.0 / s.jump_steps) * (1 if random.random() < 0.5 else -1)
        back = (self._reference - self.ticks) * way_back
        ticks = self.ticks + move * self._step + back
        self.ticks = min(self._most, max(self._least, ticks))


class Informed(Trader):
    """Takes what is offered below the value, and sells to bids above it; the greater the gain, the more."""

    def __init__(self, settings: ValueSettings, brokers: range, clip_lots: int, value: Value) -> None:
        super().__init__(brokers)
        self._edge = settings.edge_steps
        self._lots = settings.clips * clip_lots
        self._value = value

    def act(self, view: View, random: Random, batch: Batch) -> None:
        """Trade if there is something to gain at the touch."""
        edge = self._edge * view.step
        if view.ask and self._value.ticks - view.ask > edge:
            side, limit = "B", int(self._value.ticks - edge)
            gain = self._value.ticks - view.ask
        elif view.bid and view.bid - self._value.ticks > edge:
            side, limit = "S", max(1, int(self._value.ticks + edge) + 1)
            gain = view.bid - self._value.ticks
        else:
            return
        lots = max(1, int(random.random() * self._lots * gain / view.step))
        batch.take(self.some_broker(random), side, lots, limit, IOC)

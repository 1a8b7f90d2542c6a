"""Activity of a market: bursts of requests."""

from __future__ import annotations

from math import exp, sqrt
from random import Random

from exchange_server.agents.settings import ActivitySettings

__all__ = ["Activity"]


class Activity:
    """Pace of all agents together: log-normal, with a mean of 1, and a memory that fades.

    Has random numbers of its own: without bursts nothing is drawn, and what agents do is not changed by them.
    """

    def __init__(self, settings: ActivitySettings, random: Random) -> None:
        self._settings, self._random = settings, random
        self._heat = random.gauss(0.0, settings.spread) if settings.spread else 0.0

    def pace(self, turns: float) -> float:
        """The pace after so many turns of the usual pace have passed."""
        spread = self._settings.spread
        if not spread:
            return 1.0
        fade = exp(-turns / self._settings.turns)
        self._heat = self._heat * fade + spread * sqrt(1.0 - fade * fade) * self._random.gauss(0.0, 1.0)
        return exp(self._heat - spread * spread / 2.0)

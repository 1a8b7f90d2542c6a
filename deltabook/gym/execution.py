"""Sell a position within a time."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from deltabook.backtest.errors import ConfigurationError
from deltabook.gym.environment import MarketEnvironment

__all__ = ["Execution"]

_SETTLING_S = 1.0
"""Market time in which what is left is sold at the end."""


class Execution(MarketEnvironment):
    """Sell ``lots`` within ``seconds``, as near to the price at the beginning as can be (``deltabook/Execution-v0``).

    Each step cancels what rests and sends one order. The action is two numbers in [-1, 1]:

    * *pace*: how much of the even pace, 0 is as much as would end with the time, -1 nothing, 1 twice as much;
    * *urgency*: at which price. -1 joins the best ask, 1 is a market order, between them the price goes from the ask
      to the bid.

    What is left when the time is over is sold at the market.

    The reward of a step is what its executions earned against the middle at the beginning, in hundredths of a percent
    of the whole: ``10,000 × Σ lots × (price - middle) / (middle × all lots)``, fees taken off. Their sum is the
    implementation shortfall with its sign turned round. Lots that could not be sold at all, in a book without bids, are
    taken at half the middle.

    ``twap`` is the action of selling evenly at the market.
    """

    own: ClassVar[tuple[str, ...]] = ("left", "time_left", "behind")
    twap: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __init__(self, *, lots: int = 2_000, **options: Any) -> None:
        if lots < 1:
            raise ConfigurationError(f"expected 1 lot or more, was {lots}")
        self._lots = lots
        super().__init__(**options)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    @property
    def left_lots(self) -> int:
        """Lots that are still to be sold."""
        return self._lots + self._puppet.position_lots

    def _begin_episode(self) -> None:
        self._earned = 0.0

    def _act(self, action: NDArray[np.float64]) -> None:
        context = self._puppet.context
        context.cancel_all()
        pace, urgency = np.clip(action, -1.0, 1.0)
        even = self.left_lots / max(1, self._steps - self._step_number)
        lots = min(self.left_lots, math.ceil(even * (1.0 + pace)))
        if lots < 1:
            return
        bid, ask = self.touch_ticks
        price = 0 if urgency >= 1.0 else max(1, round(ask - (ask - bid) * (urgency + 1.0) / 2.0))
        context.sell(self._symbol, lots, price)

    def _finish(self) -> None:
        context, elapsed_s = self._puppet.context, self._seconds
        context.cancel_all()
        # The cancellations first: a lot must not be sold twice.
        self._advance(elapsed_s + _SETTLING_S)
        if self.left_lots > 0:
            context.sell(self._symbol, self.left_lots)
            self._advance(elapsed_s + 2 * _SETTLING_S)

    def _reward(self) -> float:
        middle, sold = self._arrival_ticks, -self._puppet.position_lots
        earned = self._puppet.cash - sold * middle
        if self._step_number >= self._steps and self.left_lots > 0:
            earned -= self.left_lots * middle / 2
        earned *= 10_000 / (middle * self._lots)
        reward, self._earned = earned - self._earned, earned
        return reward

    def _own_numbers(self) -> list[float]:
        left = self.left_lots / self._lots
        return [left, self._time_left, left - self._time_left]

    def _info(self) -> dict[str, Any]:
        return {"left_lots": self.left_lots, "middle_ticks": self.middle_ticks}

"""The environments: sell a position within a time, and quote both sides of a market."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from algo_engine import OrderOptions, Side
from deltabook.backtest.errors import ConfigurationError
from deltabook.gym.environment import MarketEnvironment, compressed

__all__ = ["Execution", "MarketMaking"]


class Execution(MarketEnvironment):
    """Sell ``lots`` within ``seconds``, as close as possible to the price at the beginning
    (``deltabook/Execution-v0``).

    Each step cancels the resting order and sends a new one. The action is two numbers in [-1, 1]:

    * *pace*: multiple of the even pace: -1 sends nothing, 0 as much as would end with the time, 1 twice as much;
    * *urgency*: price of the order: -1 joins the best ask, 1 is a market order, and between them the price goes from
      the ask to the bid.

    Lots that remain when the time is over are sold at the market.

    The reward of a step is the gain of its executions against the middle at the beginning, in hundredths of a percent
    of the whole: ``10,000 × Σ lots × (price - middle) / (middle × all lots)``, less fees. The sum of the rewards is the
    negative implementation shortfall. Lots that could not be sold at all, in a book without bids, are valued at half
    the middle.

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
        """Number of lots that remain to be sold."""
        return self._lots + self._puppet.position_lots

    def _begin_episode(self) -> None:
        self._earned = 0.0

    def _act(self, action: NDArray[np.float64]) -> None:
        bid, ask = self.touch_ticks
        self._cancel_all()
        pace, urgency = np.clip(action, -1.0, 1.0)
        even = self.left_lots / max(1, self._steps - self._step_number)
        # A lot must not be sold twice: an order may trade until its cancellation has arrived.
        lots = min(self.left_lots - self._open_lots(Side.SELL), math.ceil(even * (1.0 + pace)))
        if lots < 1:
            return
        price = 0 if urgency >= 1.0 else max(1, round(ask - (ask - bid) * (urgency + 1.0) / 2.0))
        self._puppet.context.sell(self._symbol, lots, price)

    def _finish(self) -> None:
        self._cancel_all()
        self._settle()
        lots = self.left_lots - self._open_lots(Side.SELL)
        if lots > 0:
            self._puppet.context.sell(self._symbol, lots)
            self._settle()

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


class MarketMaking(MarketEnvironment):
    """Quote a bid and an ask of ``lots`` each (``deltabook/MarketMaking-v0``).

    Each step cancels the quotes and sends new ones, which never take (post-only). The action is two numbers in [-1, 1],
    for the bid and for the ask: -1 is at the middle, 1 is ``farthest_ticks`` away from it. A side whose execution would
    make the position exceed ``most_lots`` is left out.

    The reward of a step is the change of wealth (cash and the position at the middle, after fees), in ticks per lot of
    the quotes, less ``inventory_cost`` for each multiple of ``lots`` in the position: ``Δ(cash + position × middle) /
    lots - inventory_cost × |position| / lots``. At the end the position is valued at the price that closes it.
    """

    own: ClassVar[tuple[str, ...]] = ("position", "time_left", "wealth")

    def __init__(
        self,
        *,
        lots: int = 50,
        farthest_ticks: int = 20,
        most_lots: int = 500,
        inventory_cost: float = 0.01,
        **options: Any,
    ) -> None:
        if not (lots >= 1 and farthest_ticks >= 1 and most_lots >= lots and inventory_cost >= 0):
            raise ConfigurationError(
                "expected 1 lot and 1 tick or more, most_lots of lots or more and a cost of 0 or more, was "
                f"{lots}, {farthest_ticks}, {most_lots} and {inventory_cost:g}"
            )
        self._lots, self._farthest, self._most, self._cost = lots, farthest_ticks, most_lots, inventory_cost
        super().__init__(**options)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def _begin_episode(self) -> None:
        self._wealth = 0.0

    def _act(self, action: NDArray[np.float64]) -> None:
        position, context = self._puppet.position_lots, self._puppet.context
        middle, lots = self.middle_ticks, self._lots
        self._cancel_all()
        away = (np.clip(action, -1.0, 1.0) + 1.0) / 2.0 * self._farthest
        options = OrderOptions(post_only=True)
        if position + self._open_lots(Side.BUY) + lots <= self._most:
            context.buy(self._symbol, lots, max(1, int(np.floor(middle - away[0]))), options=options)
        if position - self._open_lots(Side.SELL) - lots >= -self._most:
            context.sell(self._symbol, lots, max(1, int(np.ceil(middle + away[1]))), options=options)

    def _finish(self) -> None:
        self._cancel_all()
        self._settle()

    def _reward(self) -> float:
        puppet = self._puppet
        price = self.middle_ticks
        if self._step_number >= self._steps and puppet.position_lots:
            bid, ask = self.touch_ticks
            price = bid if puppet.position_lots > 0 else ask
        wealth = (puppet.cash + puppet.position_lots * price) / self._lots
        reward = wealth - self._wealth - self._cost * abs(puppet.position_lots) / self._lots
        self._wealth = wealth
        return reward

    def _own_numbers(self) -> list[float]:
        return [self._puppet.position_lots / self._lots, self._time_left, compressed(self._wealth)]

    def _info(self) -> dict[str, Any]:
        return {"position_lots": self._puppet.position_lots, "wealth": self._wealth}

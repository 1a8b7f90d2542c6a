"""Quote both sides of a market."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import gymnasium
import numpy as np
from numpy.typing import NDArray

from algo_engine import OrderOptions
from deltabook.backtest.errors import ConfigurationError
from deltabook.gym.environment import MarketEnvironment
from deltabook.gym.observation import compressed

__all__ = ["MarketMaking"]

_SETTLING_S: Final = 1.0
"""Market time in which quotes are cancelled at the end."""


class MarketMaking(MarketEnvironment):
    """Quote a bid and an ask of ``lots`` each (``deltabook/MarketMaking-v0``).

    Each step cancels the quotes and sends new ones, which never take (post-only). The action is two numbers in
    [-1, 1], for the bid and for the ask: -1 is at the middle, 1 is ``farthest_ticks`` away from it. A side on which the
    position would exceed ``most_lots`` is left out.

    The reward of a step is the change of wealth (cash and the position at the middle, fees taken off), in ticks a lot
    of the quotes, less ``inventory_cost`` for each multiple of ``lots`` that is held:
    ``Δ(cash + position × middle) / lots - inventory_cost × |position| / lots``. At the end the position is valued at
    the price that closes it.
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
        puppet, context = self._puppet, self._puppet.context
        context.cancel_all()
        away = (np.clip(action, -1.0, 1.0) + 1.0) / 2.0 * self._farthest
        options = OrderOptions(post_only=True)
        middle, lots = self.middle_ticks, self._lots
        if puppet.position_lots + lots <= self._most:
            context.buy(self._symbol, lots, max(1, int(np.floor(middle - away[0]))), options=options)
        if puppet.position_lots - lots >= -self._most:
            context.sell(self._symbol, lots, max(1, int(np.ceil(middle + away[1]))), options=options)

    def _finish(self) -> None:
        self._puppet.context.cancel_all()
        self._advance(self._seconds + _SETTLING_S)

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

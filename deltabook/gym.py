"""Learning environments in simulated markets, with the interface of Gymnasium; needs the extra ``gym``.

```
gymnasium.make("deltabook/Execution-v0")      sell some lots, reward: minus the implementation shortfall
gymnasium.make("deltabook/MarketMaking-v0")   quote both sides, reward: change of wealth less a cost of the position
                    │
                    ▼
MarketEnvironment  an episode: deltabook.simulation.Simulation, advanced step by step in market time
                    ├ Puppet       the strategy through which actions send orders
                    └ ViewNumbers  rows of named views as numbers
```

Importing this module registers both environments. docs/learning.md shows how to use them.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

try:
    import gymnasium
except ImportError as error:
    raise ImportError("expected gymnasium, was not installed: pip install 'deltabook[gym]' has it") from error

import msgspec
import numpy as np
from numpy.typing import NDArray

from algo_engine import OrderOptions
from algo_engine.desk.order import OrderEvent, Side
from algo_engine.desk.risk import RiskLimits
from algo_engine.loader import LoadedStrategy
from algo_engine.strategy import NoParameters, Strategy
from algo_engine.views.contents import Row, ViewContents
from algo_engine.views.quotes import QUOTE_VIEW
from deltabook.backtest.errors import ConfigurationError
from deltabook.simulation import Simulation, SimulationConfig, SimulationError
from runtime.plan import Column

__all__ = ["Execution", "MarketEnvironment", "MarketMaking"]


LARGEST: Final = 50.0
"""Largest absolute value of a number in an observation."""
_NUMBERS: Final = frozenset({"int64", "int128", "float64"})


def compressed(value: float) -> float:
    """Return the logarithm of 1 + the absolute value, with the sign of the value, between -`LARGEST` and `LARGEST`:
    lots and ticks of all magnitudes become a few units.

    >>> compressed(0.0), round(compressed(-100.0), 3)
    (0.0, -4.615)
    """
    return max(-LARGEST, min(LARGEST, math.copysign(math.log1p(abs(value)), value)))


class ViewNumbers:
    """The numbers of one symbol in some views: the columns of each view in their order; 0 if the symbol has no row.

    The number of a column whose name ends in ``price`` is a distance from an origin, in ticks; every number is
    `compressed`.
    """

    def __init__(self, symbol: str, views: Sequence[tuple[str, Sequence[Column]]]) -> None:
        self._symbol = symbol
        self._views = [(view, [column.name for column in columns if _is_number(column)]) for view, columns in views]
        self.names = tuple(f"{view}.{column}" for view, columns in self._views for column in columns)
        """Names of the numbers, as view.column."""

    def read(self, view: Callable[[str], ViewContents], origin_ticks: float) -> NDArray[np.float32]:
        """Return the present numbers."""
        values: list[float] = []
        for name, columns in self._views:
            row: Row = view(name).find(symbol=self._symbol) or {}
            values += [self._value(column, row.get(column), origin_ticks) for column in columns]
        return np.array(values, dtype=np.float32)

    @staticmethod
    def _value(column: str, value: Any, origin_ticks: float) -> float:
        if value is None:
            return 0.0
        return compressed(float(value) - origin_ticks if column.endswith("price") else float(value))


def _is_number(column: Column) -> bool:
    return column.type in _NUMBERS


class Puppet(Strategy[NoParameters]):
    """Strategy that keeps account of its fills; the environment sends orders through its context."""

    def __init__(self, views: tuple[str, ...], queries: Mapping[str, str]) -> None:
        super().__init__(NoParameters())
        self.views, self.queries = views, queries
        self.cash = 0
        """Ticks × lots received less ticks × lots paid, after fees."""
        self.position_lots = 0
        """Lots bought less lots sold."""
        self.filled_lots = 0
        """Lots bought and sold."""

    def on_order_event(self, event: OrderEvent) -> None:
        """Book an execution."""
        if event.is_fill:
            sign: Any = event.order.side.sign
            self.cash -= sign * event.volume_lots * event.price_ticks + event.fee
            self.position_lots += sign * event.volume_lots
            self.filled_lots += event.volume_lots


_SECOND_NS: Final = 1_000_000_000
_HOUR_S: Final = 3600.0
_REST_S: Final = 60.0
"""Market time, in seconds, by which trading hours exceed an episode, so that the market does not close within the
episode.
"""
_LONGEST_WAIT_S: Final = 60
"""Longest market time, in seconds, that a reset waits for a book with two sides."""
_SETTLING_S: Final = 1.0
"""Market time, in seconds, by which a finished episode is advanced until its orders are cancelled or executed."""
_MOST_SETTLINGS: Final = 20
"""Largest number of advances by `_SETTLING_S`; with long latencies several are needed."""
_UNLIMITED: Final = 10**9
_LIMITS: Final = RiskLimits(
    max_order_touches=_UNLIMITED, max_position_touches=_UNLIMITED, max_open_orders=1000, orders_per_s=_UNLIMITED,
    burst_orders=_UNLIMITED, price_band_bps=_UNLIMITED,
)  # fmt: skip

Floats = NDArray[np.float32]


class MarketEnvironment(gymnasium.Env):  # type: ignore[misc, type-arg, unused-ignore]  # Any where the extra is missing
    """Episodes of ``steps`` decisions within ``seconds`` of market time, each episode in a market with a seed of its
    own.

    An observation has the environment's `own` numbers, then those of the view ``best_quote`` and of ``views``, a
    mapping from names to SQL, or to None for views that ship with Deltabook. Its prices are relative to the middle of
    the best prices at the reset. ``market`` configures the simulation: agents, rate, latency, fees and all other
    fields, except strategies, views, seed and hours, which the environment sets.

    Raises `ConfigurationError` for an invalid configuration.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own declaration
    own: ClassVar[tuple[str, ...]] = ()
    """Names of the environment's own numbers."""

    def __init__(
        self,
        *,
        seconds: float = 60.0,
        steps: int = 30,
        views: Mapping[str, str | None] | None = None,
        market: SimulationConfig | None = None,
    ) -> None:
        if not (seconds > 0 and 1 <= steps <= 1_000_000):
            raise ConfigurationError(f"expected 1 to 1,000,000 steps in more than 0 s, was {steps} in {seconds:g} s")
        given = market or SimulationConfig(agents="day", warm_up_s=20.0)
        if given.strategies or given.views:
            raise ConfigurationError(
                "expected a market without strategies and views, which are the environment's, was one with "
                f"{', '.join([*given.strategies, *given.views])}"
            )
        self._config = msgspec.structs.replace(given, hours=(given.warm_up_s + seconds + _REST_S) / _HOUR_S)
        self._seconds, self._steps = seconds, steps
        wanted = dict(views or {})
        self._views = (QUOTE_VIEW, *(name.lower() for name in wanted if name.lower() != QUOTE_VIEW))
        self._queries = {name.lower(): sql for name, sql in wanted.items() if sql is not None}
        self._symbol = self._config.instruments[0].symbol
        self._simulation: Simulation | None = None
        self._reading = self._read_columns()
        self.names = (*self.own, *self._reading.names)
        """Names of the numbers of an observation."""
        self.observation_space = gymnasium.spaces.Box(-LARGEST, LARGEST, (len(self.names),), np.float32)

    def _read_columns(self) -> ViewNumbers:
        """Compile the views once to find their columns.

        Raise `ConfigurationError` for a view without a column ``symbol``.
        """
        simulation, _ = self._new_simulation(0)
        assert simulation.publication is not None
        types = simulation.publication.views.types
        views: list[tuple[str, tuple[Column, ...]]] = [(view, types[view]) for view in self._views]
        for view, columns in views:
            if all(column.name != "symbol" for column in columns):
                raise ConfigurationError(f"expected a view with a row for each symbol, was {view} without the column")
        return ViewNumbers(self._symbol, views)

    def _new_simulation(self, seed: int) -> tuple[Simulation, Puppet]:
        puppet = Puppet(tuple(view for view in self._views if view not in self._queries), self._queries)
        config = msgspec.structs.replace(self._config, seed=seed)
        return Simulation(config, strategies=[LoadedStrategy("gym", puppet, _LIMITS)]), puppet

    # -- Gymnasium's interface -----------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """Begin an episode in a new market with a random seed; the same ``seed`` gives the same market."""
        super().reset(seed=seed)
        del options
        self._simulation, self._puppet = self._new_simulation(int(self.np_random.integers(2**31)))
        self._simulation.begin()
        self._step_number, self._settled_s = 0, 0.0
        self._wait_for_quotes()
        self._arrival_ticks = self.middle_ticks
        self._begin_episode()
        return self._observe(), self._info()

    def step(self, action: Any) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Send the action's orders, advance market time by a step, and observe.

        An episode terminates when its time is over; the observation contains the remaining time. Raise
        `gymnasium.error.ResetNeeded` if the episode is over, and `SimulationError` if the environment's strategy has
        failed.
        """
        simulation = self.simulation
        if self._step_number >= self._steps:
            raise gymnasium.error.ResetNeeded(
                "expected an episode that goes on, was one that is over: reset begins one"
            )
        self._act(np.asarray(action, dtype=np.float64))
        self._step_number += 1
        self._advance(self._step_number * self._seconds / self._steps)
        is_over = self._step_number >= self._steps
        if is_over:
            self._finish()
        reward = self._reward()
        failure = simulation.hosts[0].failure
        if failure:
            raise SimulationError(f"expected the environment's strategy to continue, was {failure}")
        return self._observe(), float(reward), is_over, False, self._info()

    def close(self) -> None:
        """Close the market of the episode."""
        if self._simulation is not None:
            self._simulation.close()
            self._simulation = None

    # -- for the environments ------------------------------------------------------------------------------------

    @property
    def simulation(self) -> Simulation:
        """The market of this episode; raises `gymnasium.error.ResetNeeded` before the first episode."""
        if self._simulation is None:
            raise gymnasium.error.ResetNeeded("expected an episode, was none: reset begins one")
        return self._simulation

    @property
    def middle_ticks(self) -> float:
        """Middle of the best quote as the strategy sees it; if a side is empty, the last middle."""
        quote = self._puppet.context.quote(self._symbol)
        if quote is not None and quote.is_two_sided:
            self._middle = (quote.double_mid_ticks or 0) / 2
        return self._middle

    @property
    def touch_ticks(self) -> tuple[int, int]:
        """Best bid and ask as the strategy sees them; a missing price is placed beside the last middle."""
        quote = self._puppet.context.quote(self._symbol)
        bid = quote.bid_price_ticks if quote is not None else None
        ask = quote.ask_price_ticks if quote is not None else None
        middle = round(self.middle_ticks)
        return (middle - 1 if bid is None else bid), (middle + 1 if ask is None else ask)

    def _cancel_all(self) -> None:
        """Cancel all orders; without a latency no order is open when this returns."""
        self._puppet.context.cancel_all()
        self.simulation.clock.run_turn()

    def _open_lots(self, side: Side) -> int:
        """Return the lots of a side that may still trade; with a latency, cancelled orders may trade until the
        cancellation arrives.
        """
        orders = self._puppet.context.open_orders(self._symbol)
        return sum(order.remaining_lots for order in orders if order.side is side)

    def _advance(self, elapsed_s: float) -> None:
        """Advance market time, up to ``elapsed_s`` seconds of the episode."""
        self.simulation.clock.run_turn()
        self.simulation.advance(self._begin_ns + round(elapsed_s * _SECOND_NS))

    def _settle(self) -> None:
        """Advance market time at the end of an episode until no order is open."""
        for _ in range(_MOST_SETTLINGS):
            self._settled_s += _SETTLING_S
            self._advance(self._seconds + self._settled_s)
            if not self._puppet.context.open_orders():
                return

    def _wait_for_quotes(self) -> None:
        simulation, puppet = self.simulation, self._puppet
        self._middle = float(self._config.instruments[0].reference_price_ticks)
        for _ in range(_LONGEST_WAIT_S):
            quote = puppet.context.quote(self._symbol) if simulation.hosts[0].is_started else None
            if quote is not None and quote.is_two_sided:
                break
            simulation.advance(simulation.clock.now_ns + _SECOND_NS)
        else:
            raise SimulationError(f"expected a book of {self._symbol} with two sides, was none in {_LONGEST_WAIT_S} s")
        self._begin_ns = simulation.clock.now_ns

    def _observe(self) -> Floats:
        own = np.array(self._own_numbers(), dtype=np.float32)
        seen = self._reading.read(self._puppet.context.view, self._arrival_ticks)
        numbers: Floats = np.concatenate([own, seen]).clip(-LARGEST, LARGEST)
        return numbers

    @property
    def _time_left(self) -> float:
        """Remaining share of the episode."""
        return 1.0 - self._step_number / self._steps

    @abstractmethod
    def _begin_episode(self) -> None:
        """Reset the environment's own account at the beginning of an episode."""

    @abstractmethod
    def _act(self, action: NDArray[np.float64]) -> None:
        """Send orders."""

    @abstractmethod
    def _finish(self) -> None:
        """Settle open orders and the position at the end of an episode."""

    @abstractmethod
    def _reward(self) -> float:
        """Return the reward of the last step."""

    @abstractmethod
    def _own_numbers(self) -> list[float]:
        """Return the values of `own`."""

    @abstractmethod
    def _info(self) -> dict[str, Any]:
        """Return the ``info`` of an observation."""


class Execution(MarketEnvironment):
    """Sell ``lots`` within ``seconds``, as close as possible to the price at the beginning
    (``deltabook/Execution-v0``).

    Each step cancels the resting order and sends a new one. The action is two numbers in [-1, 1]:

    * *pace*: size of the order: -1 sends nothing, 0 the even share of the remaining lots in the remaining steps, and 1
      twice as much;
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

    Each step cancels the quotes and sends new ones, which never take liquidity (post-only). The action is two numbers
    in [-1, 1], for the bid and for the ask: -1 is at the middle, 1 is ``farthest_ticks`` away from it. A side whose
    execution would make the position exceed ``most_lots`` is left out.

    The reward of a step is ``Δ(cash + position × middle) / lots - inventory_cost × |position| / lots``: the change of
    wealth in ticks per lot of a quote, less a cost in proportion to the position. Wealth is the cash after fees plus
    the position at the middle. At the end the position is valued at the best price that closes it.
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


for _class in (Execution, MarketMaking):
    if f"deltabook/{_class.__name__}-v0" not in gymnasium.registry:
        gymnasium.register(f"deltabook/{_class.__name__}-v0", entry_point=f"{__name__}:{_class.__name__}")

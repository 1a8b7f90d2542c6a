"""Base class of the environments: an episode of a closed simulation, in steps of market time."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import gymnasium
import msgspec
import numpy as np
from numpy.typing import NDArray

from algo_engine.contents import Row, ViewContents
from algo_engine.loader import LoadedStrategy
from algo_engine.order import OrderEvent
from algo_engine.quotes import QUOTE_VIEW
from algo_engine.risk import RiskLimits
from algo_engine.strategy import NoParameters, Strategy
from deltabook.backtest.errors import ConfigurationError
from deltabook.simulation import Simulation, SimulationConfig, SimulationError
from runtime.plan import Column

__all__ = ["MarketEnvironment", "compressed"]

LARGEST: Final = 50.0
"""Largest absolute value of a number in an observation."""
_NUMBERS: Final = frozenset({"int64", "int128", "float64"})


def compressed(value: float) -> float:
    """Return the logarithm of 1 + the absolute value, with the sign: it maps lots and ticks of all magnitudes to a few
    units.

    >>> compressed(0.0), round(compressed(-100.0), 3)
    (0.0, -4.615)
    """
    return max(-LARGEST, min(LARGEST, math.copysign(math.log1p(abs(value)), value)))


class Observation:
    """The numbers of one symbol in some views: for each view its columns in their order, 0 if there is no row.

    A column whose name ends in ``price`` is relative to an origin, in steps; every number is `compressed`.
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
"""Market time, in seconds, for which trading continues after an episode, so that nothing closes within one."""
_LONGEST_WAIT_S: Final = 60
"""Longest market time, in seconds, that a reset waits for a book with two sides."""
_UNLIMITED: Final = 10**9
_LIMITS: Final = RiskLimits(
    max_order_touches=_UNLIMITED, max_position_touches=_UNLIMITED, max_open_orders=1000, orders_per_s=_UNLIMITED,
    burst_orders=_UNLIMITED, price_band_bps=_UNLIMITED,
)  # fmt: skip

Floats = NDArray[np.float32]


class MarketEnvironment(gymnasium.Env):  # type: ignore[misc, type-arg, unused-ignore]  # Any where the extra is missing
    """Episodes of ``steps`` decisions within ``seconds`` of market time, each in a market of its own seed.

    An observation is the environment's `own` numbers, then those of ``best_quote`` and of ``views``: names of shipped
    views, or views with their SQL; see `deltabook.gym.environment`. Prices in it are relative to the middle at the
    reset. ``market`` configures the simulation: agents, rate, latency, fees and all other fields, except strategies,
    seed and hours, which the environment chooses.

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
            raise ConfigurationError(f"expected 1 step or more in more than 0 s, was {steps} in {seconds:g} s")
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

    def _read_columns(self) -> Observation:
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
        return Observation(self._symbol, views)

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
        self._step_number = 0
        self._wait_for_quotes()
        self._arrival_ticks = self.middle_ticks
        self._begin_episode()
        return self._observe(), self._info()

    def step(self, action: Any) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Send the action's orders, advance market time by a step, and observe.

        An episode terminates when its time is over; the observation contains the remaining time. Raise
        `SimulationError` if the environment's strategy has failed.
        """
        simulation = self.simulation
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
        """Leave the market."""
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
        """Best bid and ask as the strategy sees them; a missing one is placed beside the last middle."""
        quote = self._puppet.context.quote(self._symbol)
        bid = quote.bid_price_ticks if quote is not None else None
        ask = quote.ask_price_ticks if quote is not None else None
        middle = round(self.middle_ticks)
        return (middle - 1 if bid is None else bid), (middle + 1 if ask is None else ask)

    def _advance(self, elapsed_s: float) -> None:
        """Advance market time, up to ``elapsed_s`` seconds of the episode."""
        self.simulation.clock.run_turn()
        self.simulation.advance(self._begin_ns + round(elapsed_s * _SECOND_NS))

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

"""Figures of an observed market: the stylised facts.

Cont, *Empirical properties of asset returns: stylized facts and statistical issues* (2001).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from deltabook.facts.observation import EDGES, Observation

__all__ = ["BANDS", "MORE_ROWS", "ROWS", "Band", "autocorrelation", "kurtosis"]

Floats = npt.NDArray[np.float64]


def kurtosis(values: Floats) -> float:
    """Fourth moment over squared variance; 3 of a normal distribution."""
    centred = values - values.mean()
    return float((centred**4).mean() / (centred**2).mean() ** 2)


def autocorrelation(values: Floats, lag: int) -> float:
    """Correlation of a series with itself, ``lag`` later."""
    centred = values - values.mean()
    return float((centred[:-lag] * centred[lag:]).mean() / (centred**2).mean())


def _within(edge: int) -> Callable[[Observation], float]:
    return lambda seen: float(seen.depth[EDGES.index(edge)])


def _size(percent: int) -> Callable[[Observation], float]:
    return lambda seen: float(np.percentile(seen.sizes, percent)) / seen.clip


ROWS: Final[Mapping[str, Callable[[Observation], float]]] = {
    "spread, median, steps": lambda seen: float(np.median(seen.spreads)),
    "spread, 5 %": lambda seen: float(np.percentile(seen.spreads, 5)),
    "spread, 95 %": lambda seen: float(np.percentile(seen.spreads, 95)),
    "depth of a side within 8 steps, clips": _within(8),
    "depth within 32 steps": _within(32),
    "depth within 128 steps": _within(128),
    "depth within 512 steps": _within(512),
    "orders for one trade": lambda seen: seen.orders / seen.trades,
    "orders cancelled, of those displayed": lambda seen: seen.deleted / seen.added,
    "size of an order, 10 %, clips": _size(10),
    "size, 90 %": _size(90),
    "size, 99 %": _size(99),
    "trades in a second, variance ÷ mean": lambda seen: float(seen.trades_per_s.var() / seen.trades_per_s.mean()),
    "move in 1 s, standard deviation, steps": lambda seen: float(seen.returns(1).std()),
    "move in 10 s, standard deviation": lambda seen: float(seen.returns(10).std()),
    "kurtosis of moves in 1 s": lambda seen: kurtosis(seen.returns(1)),
    "kurtosis of moves in 10 s": lambda seen: kurtosis(seen.returns(10)),
    "seconds without a move": lambda seen: float((seen.returns(1) == 0).mean()),
    "autocorrelation of moves, 1 s later": lambda seen: autocorrelation(seen.returns(1), 1),
    "autocorrelation of moves, 2 to 10 s later, greatest": lambda seen: max(
        (autocorrelation(seen.returns(1), lag) for lag in range(2, 11)), key=abs
    ),
    "autocorrelation of their size, 1 s later": lambda seen: autocorrelation(np.abs(seen.returns(1)), 1),
    "autocorrelation of their size, 2 to 5 s later, mean": lambda seen: statistics.fmean(
        autocorrelation(np.abs(seen.returns(1)), lag) for lag in range(2, 6)
    ),
}
"""By name, in the order of the table."""


def _impact(seen: Observation) -> float:
    """Slope of the second's move over the clips that were bought net in it."""
    bought, moves = seen.bought_per_s, seen.returns(1)
    spread = float(((bought - bought.mean()) ** 2).mean())
    return float(((bought - bought.mean()) * (moves - moves.mean())).mean()) / spread if spread else 0.0


def _explained(seen: Observation) -> float:
    bought, moves = seen.bought_per_s, seen.returns(1)
    return float(np.corrcoef(bought, moves)[0, 1]) if bought.std() and moves.std() else 0.0


MORE_ROWS: Final[Mapping[str, Callable[[Observation], float]]] = MappingProxyType(
    {
        "orders in a second, variance ÷ mean": lambda seen: float(seen.orders_per_s.var() / seen.orders_per_s.mean()),
        "time between orders, median ÷ mean": lambda seen: (
            float(np.median(seen.gaps_ns) / np.mean(seen.gaps_ns)) if seen.gaps_ns else 0.0
        ),
        "impact: move for each clip bought net in a second, steps": _impact,
        "correlation of lots bought net with the move": _explained,
    }
)
"""Beside `ROWS`: what needs the sides and the times of a real feed."""


class Band(msgspec.Struct, frozen=True):
    """How near a figure is to be to the recording's: by a factor, or by a difference where it may be 0 or below."""

    factor: float = 0.0
    """At most so many times, and at least that part; 0: by the difference."""
    difference: float = 0.0
    """At most so much more or less."""

    def holds(self, value: float, reference: float) -> bool:
        """Return True if a value is within the band around a reference."""
        if self.factor:
            return reference / self.factor <= value <= reference * self.factor
        return abs(value - reference) <= self.difference

    def __str__(self) -> str:
        return f"× or ÷ {self.factor:g}" if self.factor else f"± {self.difference:g}"


BANDS: Final[Mapping[str, Band]] = MappingProxyType(
    {
        name: (
            Band(difference=0.15)
            if name.startswith(("autocorrelation", "correlation", "seconds without", "orders cancelled"))
            else Band(factor=3.0)
            if name.startswith(("kurtosis", "size, 99", "orders in a second", "time between", "impact"))
            else Band(factor=1.5)
        )
        for name in (*ROWS, *MORE_ROWS)
    }
)
"""By name: wide for what a single event decides (kurtosis, the largest orders), a difference for shares and
correlations."""

"""What was seen of a market, in numbers: the stylised facts.

Cont, *Empirical properties of asset returns: stylized facts and statistical issues* (2001).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from bench.market.observing import EDGES, Observation

__all__ = ["ROWS", "autocorrelation", "kurtosis", "markdown"]

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


def markdown(columns: Mapping[str, Sequence[Observation]]) -> str:
    """The table: a column for each name, medians of its observations, with the lowest and the highest of several."""
    lines = ["| | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    for row, figure in ROWS.items():
        cells = []
        for observations in columns.values():
            values = [figure(seen) for seen in observations]
            cell = _short(statistics.median(values))
            if len(values) > 1:
                cell += f" ({_short(min(values))} to {_short(max(values))})"
            cells.append(cell)
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _short(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"

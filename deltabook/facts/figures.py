"""Figures of observed markets, the stylised facts: their computation, the figures of half an hour of BTC/USD, and a
plot.

Cont, *Empirical properties of asset returns: stylized facts and statistical issues* (2001).

`RECORDED` are the reference figures: half an hour of BTC/USD on Bitstamp, as `watch_capture` measures them.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from deltabook.backtest.errors import PlottingError
from deltabook.facts.observation import EDGES, Observation

__all__ = ["BANDS", "MORE_ROWS", "RECORDED", "ROWS", "Band", "Fact", "autocorrelation", "draw", "facts_of", "kurtosis"]

Floats = npt.NDArray[np.float64]


def kurtosis(values: Floats) -> float:
    """Return the fourth moment over the squared variance; 3 for a normal distribution."""
    centred = values - values.mean()
    return float((centred**4).mean() / (centred**2).mean() ** 2)


def autocorrelation(values: Floats, lag: int) -> float:
    """Return the correlation of a series with itself, ``lag`` entries later."""
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
"""Function of each figure, in the order of the table."""


def _impact(seen: Observation) -> float:
    """Return the slope of a second's price move over the net clips bought in that second."""
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
"""Further figures, which need the sides and times of a real feed."""


class Band(msgspec.Struct, frozen=True):
    """How close a figure must be to the recording's: within a factor, or within a difference if it may be 0 or
    negative.
    """

    factor: float = 0.0
    """Largest ratio, and inverse of the smallest one; 0: the difference applies."""
    difference: float = 0.0
    """Largest difference in either direction."""

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
"""Band of each figure: wide for figures that a single event decides (kurtosis, the largest orders), a difference for
shares and correlations.
"""


RECORDED: Final[Mapping[str, float]] = MappingProxyType(
    {
        "spread, median, steps": 3.0,
        "spread, 5 %": 1.0,
        "spread, 95 %": 7.0,
        "depth of a side within 8 steps, clips": 23.02,
        "depth within 32 steps": 130.5,
        "depth within 128 steps": 382.4,
        "depth within 512 steps": 866.1,
        "orders for one trade": 12.42,
        "orders cancelled, of those displayed": 0.9647,
        "size of an order, 10 %, clips": 0.2472,
        "size, 90 %": 2.143,
        "size, 99 %": 15.31,
        "trades in a second, variance ÷ mean": 8.69,
        "move in 1 s, standard deviation, steps": 2.088,
        "move in 10 s, standard deviation": 7.684,
        "kurtosis of moves in 1 s": 169.0,
        "kurtosis of moves in 10 s": 17.35,
        "seconds without a move": 0.7241,
        "autocorrelation of moves, 1 s later": 0.2551,
        "autocorrelation of moves, 2 to 10 s later, greatest": 0.02855,
        "autocorrelation of their size, 1 s later": 0.3395,
        "autocorrelation of their size, 2 to 5 s later, mean": 0.08839,
        "orders in a second, variance ÷ mean": 29.24,
        "time between orders, median ÷ mean": 0.7174,
        "impact: move for each clip bought net in a second, steps": 0.0261,
        "correlation of lots bought net with the move": 0.07008,
    }
)
"""Recorded value of each figure; a step is a dollar, a clip 0.07 BTC (docs/market.md)."""


class Fact(msgspec.Struct, frozen=True):
    """One figure of a market, with the recording's."""

    name: str
    """Name of the figure."""
    value: float
    """Figure of the market."""
    recorded: float
    """Figure of the recording."""
    band: str
    """Band around the recorded value."""
    is_within: bool
    """True if the value is in the band."""


def facts_of(seen: Observation) -> list[Fact]:
    """Return all figures of an observation."""
    facts = []
    for name, figure in {**ROWS, **MORE_ROWS}.items():
        value, band = figure(seen), BANDS[name]
        facts.append(Fact(name, value, RECORDED[name], str(band), band.holds(value, RECORDED[name])))
    return facts


_STYLES: Final = (("#000000", "-", "o"), ("#D55E00", "--", "s"), ("#0072B2", ":", "^"))
"""Colour, line and marker, distinguishable without colours too. The colours are Okabe and Ito's."""
_LAGS: Final = range(1, 16)


def draw(seen: Sequence[Observation], path: Path) -> None:
    """Draw six panels with one line for each market; raise `PlottingError` if matplotlib is not installed."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PlottingError("expected matplotlib, was not installed: pip install 'deltabook[plot]' has it") from error

    with rc_context({"font.size": 9, "axes.grid": True, "grid.alpha": 0.3}):
        _draw(Figure(figsize=(12, 6.6), layout="constrained"), seen, path)


def _draw(figure: Any, seen: Sequence[Observation], path: Path) -> None:
    axes = figure.subplots(2, 3)
    panels = (_depth, _sizes, _spread, _path, _tails, _memory)
    for axis, panel in zip(axes.flat, panels, strict=True):
        for each, style in zip(seen, _STYLES, strict=False):
            panel(axis, each, style)
    axes[0, 0].legend(loc="upper left", fontsize=9)
    figure.savefig(path, dpi=90)


def _line(style: tuple[str, str, str], *, marked: bool = False) -> dict[str, Any]:
    colour, line, marker = style
    return {"color": colour, "linestyle": line, "linewidth": 1.6, "marker": marker if marked else "", "markersize": 4}


def _depth(axis: Any, seen: Observation, style: tuple[str, str, str]) -> None:
    axis.loglog(EDGES, np.maximum(seen.depth, 0.1), label=seen.name, **_line(style, marked=True))
    axis.set(title="Depth of a side", xlabel="steps from the middle", ylabel="clips displayed up to there")


def _sizes(axis: Any, seen: Observation, style: tuple[str, str, str]) -> None:
    sizes = np.sort(np.array(seen.sizes) / seen.clip)
    shares = np.linspace(0, 1, len(sizes))
    places = np.unique(np.linspace(0, len(sizes) - 1, 400).astype(int))
    axis.semilogx(sizes[places], shares[places], **_line(style))
    axis.set(title="Sizes of orders", xlabel="clips", ylabel="share of orders that are smaller", xlim=(1e-2, 1e2))


def _spread(axis: Any, seen: Observation, style: tuple[str, str, str]) -> None:
    steps = np.arange(0, 13)
    axis.plot(steps, [(seen.spreads <= step).mean() for step in steps], **_line(style, marked=True))
    axis.set(title="Spread", xlabel="steps", ylabel="share of seconds with that or less", ylim=(0, 1.02))


def _path(axis: Any, seen: Observation, style: tuple[str, str, str]) -> None:
    axis.plot(np.arange(len(seen.mids)) / 60, seen.mids - seen.mids[0], **{**_line(style), "linewidth": 1.0})
    axis.set(title="Middle of the best prices", xlabel="minutes", ylabel="steps from where it began")


def _tails(axis: Any, seen: Observation, style: tuple[str, str, str]) -> None:
    moves = np.abs(seen.returns(1))
    moves = np.sort(moves / moves.std())[::-1]
    shares = np.arange(1, len(moves) + 1) / len(moves)
    axis.loglog(moves[moves > 0], shares[moves > 0], **_line(style))
    axis.set(title="Moves in a second: tails", xlabel="standard deviations", ylabel="share of seconds with more")
    axis.set_xlim(0.1, 40)


def _memory(axis: Any, seen: Observation, style: tuple[str, str, str]) -> None:
    moves = seen.returns(1)
    axis.plot(_LAGS, [autocorrelation(np.abs(moves), lag) for lag in _LAGS], **_line(style, marked=True))
    axis.plot(_LAGS, [autocorrelation(moves, lag) for lag in _LAGS], **{**_line(style), "linewidth": 0.9})
    axis.axhline(0, color="#666666", linewidth=0.8)
    axis.set(
        title="Memory: size of moves (thin: with sign)", xlabel="seconds later", ylabel="autocorrelation"
    )  # fmt: skip

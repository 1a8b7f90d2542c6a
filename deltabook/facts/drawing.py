"""Picture of observations of markets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from deltabook.backtest.errors import PlottingError
from deltabook.facts.figures import autocorrelation
from deltabook.facts.observation import EDGES, Observation

__all__ = ["draw"]

_STYLES: Final = (("#000000", "-", "o"), ("#D55E00", "--", "s"), ("#0072B2", ":", "^"))
"""Colour, line and marker: told apart without colours, too. Okabe and Ito's colours."""
_LAGS: Final = range(1, 16)


def draw(seen: Sequence[Observation], path: Path) -> None:
    """Six panels, one line in each for each market; raises `PlottingError` where matplotlib is not installed."""
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

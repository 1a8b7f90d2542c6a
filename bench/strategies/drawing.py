"""A case in one picture: its executions on the price, its profit, its position."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from bench.strategies.cases import Case
from deltabook.backtest import Result

__all__ = ["draw"]

_PRICE, _BOUGHT, _SOLD, _LINE = "#777777", "#0072B2", "#D55E00", "#000000"
"""Okabe and Ito's colours; purchases and sales differ in their markers, too."""
_MINUTE_NS: Final = 60_000_000_000


def draw(case: Case, result: Result, path: Path) -> None:
    """Three panels over the minutes of the recording."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from PIL import Image

    plt.rcParams.update({"font.size": 9, "axes.grid": True, "grid.alpha": 0.3})
    figure, axes = plt.subplots(3, 1, figsize=(9, 6.6), sharex=True, layout="constrained", height_ratios=(3, 2, 1.3))
    _price(axes[0], result)
    _profit(axes[1], result)
    _position(axes[2], result)
    axes[0].set_title(" ".join([case.strategy, *case.parameters]))
    axes[2].set_xlabel("minutes")
    figure.savefig(path, dpi=90)
    plt.close(figure)
    # A quarter of the bytes: few colours are enough.
    Image.open(path).convert("RGB").quantize(48).save(path, optimize=True)


def _minutes(result: Result, time_ns: int) -> float:
    return (time_ns - result.figures.begin_ns) / _MINUTE_NS


def _price(axis: Any, result: Result) -> None:
    tick = float(result.instruments[0].tick_size)
    quoted = [(s.time_ns, *s.quotes[0]) for s in result.curve if None not in s.quotes[0]]
    middles = [(_minutes(result, time_ns), (bid + ask) / 2 * tick) for time_ns, bid, ask in quoted]  # type: ignore[operator]
    axis.plot(*zip(*middles, strict=True), color=_PRICE, linewidth=0.8, label="middle of the touch")
    for side, colour, marker, label in (("B", _BOUGHT, "^", "bought"), ("S", _SOLD, "v", "sold")):
        fills = [(_minutes(result, t.time_ns), t.price_ticks * tick) for t in result.trades if t.side == side]
        if fills:
            axis.scatter(
                *zip(*fills, strict=True), s=12, color=colour, marker=marker, linewidths=0, label=label, zorder=3
            )
    axis.set(ylabel="price, $")
    axis.legend(loc="upper left", fontsize=8)


def _profit(axis: Any, result: Result) -> None:
    instrument = result.instruments[0]
    unit = float(instrument.tick_size) * float(instrument.lot_size)
    profits = [
        (_minutes(result, s.time_ns), (s.profits[0][0] + s.profits[0][1] - s.profits[0][2]) * unit)
        for s in result.curve
    ]
    axis.plot(*zip(*profits, strict=True), color=_LINE, linewidth=1.1)
    axis.axhline(0, color="#666666", linewidth=0.8)
    axis.set(ylabel="profit, $")


def _position(axis: Any, result: Result) -> None:
    lot = float(result.instruments[0].lot_size)
    held = [(_minutes(result, s.time_ns), s.positions[0][0] * lot) for s in result.curve]
    axis.step(*zip(*held, strict=True), color=_LINE, linewidth=1.1, where="post")
    axis.axhline(0, color="#666666", linewidth=0.8)
    axis.set(ylabel="position")

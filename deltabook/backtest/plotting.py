"""Pictures of a result and of a sweep, drawn by matplotlib (`pip install 'deltabook[plot]'`).

Figures are made without pyplot: no global state changes, no window opens, and a notebook shows a figure that a cell
returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from deltabook.backtest.errors import ConfigurationError, PlottingError
from deltabook.backtest.grid import Axis, Point
from deltabook.backtest.presentation import Money
from deltabook.backtest.run_data import RunData
from deltabook.backtest.tables import chart_data

try:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.figure import Figure
except ImportError as error:
    raise PlottingError(
        "expected matplotlib to draw with, was not installed; pip install 'deltabook[plot]' installs it"
    ) from error

if TYPE_CHECKING:
    from matplotlib.axes import Axes


__all__ = ["Drawing", "sweep_plot", "tearsheet"]

_PRICE, _BOUGHT, _SOLD, _LINE, _QUIET = "#777777", "#0072B2", "#D55E00", "#000000", "#666666"
"""Okabe and Ito's colours; purchases and sales also differ in their markers."""
_LINES: Final = ("#000000", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_SIDES: Final = (("B", _BOUGHT, "^", "bought"), ("S", _SOLD, "v", "sold"))
_FIGURES: Final = ("profit", "sharpe", "max_drawdown", "fees", "orders", "fills", "filled_lots")
_DOTS: Final = 100
"""Resolution of a picture in a notebook, in dots per inch."""


class Drawing(Figure):
    """A figure that a notebook shows, whether or not pyplot was imported."""

    def _repr_png_(self) -> bytes:
        data = BytesIO()
        self.savefig(data, format="png", dpi=_DOTS)
        return data.getvalue()


def tearsheet(result: RunData, symbol: str = "") -> Drawing:
    """Draw price with own fills, profit, drawdown and position over market time, as `Result.plot` describes.

    Raise `ConfigurationError` if the result has no such symbol.
    """
    symbols = [instrument.symbol for instrument in result.instruments]
    chosen = symbol or symbols[0]
    if chosen not in symbols:
        raise ConfigurationError(f"expected one of the symbols {', '.join(symbols)}, was {symbol!r}")
    data = chart_data(result)
    times = _times(data["time"])
    figure = Drawing(figsize=(9, 8), layout="constrained")
    axes = figure.subplots(4, 1, sharex=True, height_ratios=(3, 2, 1.2, 1.3))
    unit = Money(result.instruments).unit
    _draw_price(axes[0], times, data, chosen)
    _draw_profit(axes[1], times, data, unit)
    axes[2].fill_between(times, data["drawdown"], step="post", color=_SOLD, alpha=0.5, linewidth=0)
    axes[2].set_ylabel("drawdown")
    _draw_positions(axes[3], times, data, chosen)
    for axis in axes:
        axis.grid(alpha=0.3)
    locator = AutoDateLocator(tz=UTC)  # type: ignore[no-untyped-call]
    axes[3].xaxis.set_major_locator(locator)
    axes[3].xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))  # type: ignore[no-untyped-call]
    axes[3].set_xlabel("time, UTC")
    axes[0].set_title(_title(result), loc="left", fontsize=10)
    return figure


def _title(result: RunData) -> str:
    total = result.statistics.total
    words = [", ".join(strategy.name for strategy in result.strategies), f"profit {total.profit:,f}"]
    words += [] if total.sharpe is None else [f"Sharpe {total.sharpe:,.2f}"]
    return " · ".join([*words, f"drawdown {total.max_drawdown:,f}", f"{total.fills:,} fills"])


def _times(seconds: list[float]) -> Any:
    return np.round(np.asarray(seconds) * 1e6).astype("datetime64[us]")


def _draw_price(axis: Axes, times: Any, data: dict[str, Any], symbol: str) -> None:
    touch = data["symbols"][symbol]
    for side in ("bid", "ask"):
        price = np.asarray([np.nan if value is None else value for value in touch[side]], dtype=float)
        axis.step(times, price, where="post", color=_PRICE, linewidth=0.8, label="bid and ask" if side == "bid" else "")
    fills = data["fills"][symbol]
    for side, colour, marker, label in _SIDES:
        own = [(time_s, price) for time_s, price, its, _ in fills if its == side]
        if own:
            when, prices = zip(*own, strict=True)
            axis.scatter(_times(list(when)), prices, s=14, color=colour, marker=marker, linewidths=0, label=label,
                         zorder=3)  # fmt: skip
    axis.set_ylabel(f"price of {symbol}")
    axis.legend(loc="upper left", fontsize=8)


def _draw_profit(axis: Axes, times: Any, data: dict[str, Any], unit: str) -> None:
    names = data["strategies"] if len(data["strategies"]) == 1 else [*data["strategies"], "all"]
    for place, (name, profits) in enumerate(zip(names, data["profit"], strict=True)):
        axis.step(times, profits, where="post", color=_LINES[place % len(_LINES)], linewidth=1.1, label=name)
    axis.axhline(0, color=_QUIET, linewidth=0.8)
    axis.set_ylabel(f"profit, {unit}" if unit else "profit")
    if len(names) > 1:
        axis.legend(loc="upper left", fontsize=8)


def _draw_positions(axis: Axes, times: Any, data: dict[str, Any], symbol: str) -> None:
    for place, position in enumerate(data["symbols"][symbol]["position"]):
        axis.step(times, position, where="post", color=_LINES[place % len(_LINES)], linewidth=1.1)
    axis.axhline(0, color=_QUIET, linewidth=0.8)
    axis.set_ylabel("position")


def sweep_plot(parameters: Sequence[Axis], points: Sequence[Point], figure: str, across: str, down: str) -> Drawing:
    """Draw one figure of a sweep's points, as `deltabook.backtest.sweep.SweepResult.plot` describes.

    Raise `ConfigurationError` for unknown names.
    """
    keys = [key for key, _ in parameters]
    if figure not in _FIGURES:
        raise ConfigurationError(f"expected one of the figures {', '.join(_FIGURES)}, was {figure!r}")
    for key in filter(None, (across, down)):
        if key not in keys:
            raise ConfigurationError(f"expected one of the parameters {', '.join(keys)}, was {key!r}")
    x = keys.index(across) if across else next(n for n, key in enumerate(keys) if key != down or len(keys) == 1)
    others = [n for n in range(len(keys)) if n != x]
    y = keys.index(down) if down and down != keys[x] else (others[0] if others and not across else None)
    drawing = Drawing(figsize=(8, 5) if y is None else (8, 6), layout="constrained")
    if y is None:
        _draw_line(drawing.subplots(), parameters, points, figure, x)
    else:
        _draw_map(drawing, parameters, points, figure, x, y)
    return drawing


def _best(points: list[Point], figure: str) -> float:
    """Return the best value of a figure over the points that have it; NaN if none has."""
    values = [getattr(point, figure) for point in points if not point.error]
    known = [float(value) for value in values if value is not None]
    return (min if figure in {"max_drawdown", "fees"} else max)(known, default=float("nan"))


def _words(figure: str) -> str:
    unit = ", ticks × lots" if figure in {"profit", "max_drawdown", "fees"} else ""
    return figure.replace("_", " ") + unit


def _draw_line(axis: Axes, parameters: Sequence[Axis], points: Sequence[Point], figure: str, x: int) -> None:
    key, values = parameters[x]
    heights = [_best([point for point in points if point.values[x] == value], figure) for value in values]
    axis.plot(list(values), heights, color=_LINE, marker="o")
    axis.axhline(0, color=_QUIET, linewidth=0.8)
    axis.set(xlabel=key, ylabel=_words(figure))
    axis.grid(alpha=0.3)


def _draw_map(  # noqa: PLR0917 - the parts of a picture
    drawing: Drawing, parameters: Sequence[Axis], points: Sequence[Point], figure: str, x: int, y: int
) -> None:
    axis = drawing.subplots()
    (across, columns), (down, rows) = parameters[x], parameters[y]
    heights = np.asarray(
        [
            [_best([p for p in points if p.values[x] == column and p.values[y] == row], figure) for column in columns]
            for row in rows
        ]
    )
    known = np.abs(heights[np.isfinite(heights)])
    most = float(known.max()) if known.size and known.max() > 0 else 1.0
    image = axis.imshow(heights, cmap="RdBu", vmin=-most, vmax=most, aspect="auto")
    axis.set_xticks(range(len(columns)), columns)
    axis.set_yticks(range(len(rows)), rows)
    axis.set(xlabel=across, ylabel=down, title=_words(figure))
    for row, column in np.ndindex(heights.shape):
        value = heights[row, column]
        words = ("{:,.0f}" if abs(value) >= 1000 else "{:.4g}").format(value) if np.isfinite(value) else "none"
        axis.text(column, row, words, ha="center", va="center", fontsize=8,
                  color="white" if abs(value) > 0.6 * most else "black")  # fmt: skip
    drawing.colorbar(image, ax=axis)

"""Plot of a case: its executions on the price, its profit, its drawdown, its position."""

from __future__ import annotations

from pathlib import Path

from bench.strategies.cases import Case
from deltabook.backtest import Result

__all__ = ["draw"]

_DOTS = 90


def draw(case: Case, result: Result, path: Path) -> None:
    """Draw the tearsheet of a result with few colours, which takes a quarter of the bytes."""
    from PIL import Image

    figure = result.plot()
    figure.axes[0].set_title(" ".join([case.strategy, *case.parameters]))
    figure.savefig(path, dpi=_DOTS)
    Image.open(path).convert("RGB").quantize(48).save(path, optimize=True)

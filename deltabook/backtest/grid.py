"""The points of a sweep: every combination of some parameters' values, and the figures of each."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from deltabook.backtest.errors import ConfigurationError

__all__ = ["MOST_POINTS", "Axis", "Point", "best_of", "parse_axis", "points_of"]

MOST_POINTS: Final = 10_000
"""Largest number of points of a sweep, and of values of one range."""
_RANGE: Final = re.compile(r"(-?[0-9]{1,40})\.\.(-?[0-9]{1,40})(?:\.\.([0-9]{1,40}))?")

Axis = tuple[str, tuple[str, ...]]
"""A parameter and its values, as a command line has them."""


def parse_axis(text: str) -> Axis:
    """Return the axis in ``key=1,2,5`` or ``key=1..9..2`` (from, to, step); raise `ConfigurationError` for other text.

    >>> parse_axis("factor=2,4"), parse_axis("sobi.cooldown_ms=100..300..100")
    (('factor', ('2', '4')), ('sobi.cooldown_ms', ('100', '200', '300')))
    """
    key, equals, rest = text.partition("=")
    values: tuple[str, ...] = tuple(filter(None, rest.split(",")))
    match = _RANGE.fullmatch(rest)
    if match is not None:
        first, last, step = int(match[1]), int(match[2]), int(match[3] or 1)
        if not step or (last - first) // step >= MOST_POINTS:
            raise ConfigurationError(f"expected a range of at most {MOST_POINTS} values, was {text!r}")
        values = tuple(map(str, range(first, last + 1, step)))
    if not (key and equals and values) or len(set(values)) != len(values):
        raise ConfigurationError(f"expected a parameter with different values as in factor=2,4,8, was {text!r}")
    return key, values


def points_of(axes: Sequence[Axis]) -> list[tuple[str, ...]]:
    """Return the points as values in the order of the axes, the last axis varying fastest.

    Raise `ConfigurationError` for no axis, two axes of one parameter, or more than `MOST_POINTS` points.
    """
    keys = [key for key, _ in axes]
    if not axes or len(set(keys)) != len(keys):
        raise ConfigurationError(
            f"expected one grid or more, each of another parameter, was {', '.join(keys) or 'none'}"
        )
    number = math.prod(len(values) for _, values in axes)
    if number > MOST_POINTS:
        raise ConfigurationError(f"expected at most {MOST_POINTS} points, was {number}")
    return list(itertools.product(*(values for _, values in axes)))


class Point(msgspec.Struct, frozen=True):
    """Figures of one point, over all strategies; money is in ticks × lots."""

    number: int
    """Number of the point, from 1, the last axis varying fastest."""
    values: tuple[str, ...]
    """Values of the axes."""
    profit: int = 0
    """Profit after fees."""
    fees: int = 0
    """Fees paid."""
    max_drawdown: int = 0
    """Largest drawdown: see `Figures`."""
    orders: int = 0
    """Number of orders submitted."""
    fills: int = 0
    """Number of executions."""
    filled_lots: int = 0
    """Executed lots."""
    dropped: int = 0
    """Number of records that had no effect in the market."""
    sharpe: float | None = None
    """Annual Sharpe ratio, see `deltabook.backtest.measuring`; None if it is undefined."""
    sha256: str = ""
    """SHA-256 of the point's whole result as JSON."""
    error: str = ""
    """Error of a point without figures, otherwise empty."""


def best_of(points: Iterable[Point]) -> list[Point]:
    """Return the points that did not fail, sorted by profit, the best first."""
    return sorted((point for point in points if not point.error), key=lambda point: (-point.profit, point.number))

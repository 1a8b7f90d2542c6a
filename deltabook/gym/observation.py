"""Rows of named views as numbers of one size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algo_engine.contents import Row, ViewContents
from runtime.plan import Column

__all__ = ["LARGEST", "Observation", "compressed"]

LARGEST: Final = 50.0
"""No number of an observation is farther from 0."""
_NUMBERS: Final = frozenset({"int64", "int128", "float64"})


def compressed(value: float) -> float:
    """The logarithm of 1 + the size, with the sign: lots and ticks of all magnitudes as numbers of a few units.

    >>> compressed(0.0), round(compressed(-100.0), 3)
    (0.0, -4.615)
    """
    return max(-LARGEST, min(LARGEST, math.copysign(math.log1p(abs(value)), value)))


class Observation:
    """The numbers of one symbol in some views: for each view its columns in their order, 0 where there is no row.

    A column whose name ends in ``price`` counts from an origin, in steps; every number is `compressed`.
    """

    def __init__(self, symbol: str, views: Sequence[tuple[str, Sequence[Column]]]) -> None:
        self._symbol = symbol
        self._views = [(view, [column.name for column in columns if _is_number(column)]) for view, columns in views]
        self.names = tuple(f"{view}.{column}" for view, columns in self._views for column in columns)
        """Names of the numbers, as view.column."""

    def read(self, view: Callable[[str], ViewContents], origin_ticks: float) -> NDArray[np.float32]:
        """The numbers now."""
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

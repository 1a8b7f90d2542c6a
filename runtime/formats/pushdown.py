"""Columns and rows of an origin's tuples that later operators need, so that the rest is never parsed."""

from __future__ import annotations

import math
from typing import Any, Final, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Condition", "Pushdown"]

_COMPARISONS: Final[dict[str, Any]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


class Condition(msgspec.Struct, frozen=True):
    """Condition on wanted rows; NULL does not satisfy it."""

    column: str
    """Name of a field of the schema."""
    comparison: Literal["=", "<>", "<", "<=", ">", ">="]
    """Comparison operator."""
    value: int | float | str | bool
    """Value to compare with."""


class Pushdown(msgspec.Struct, frozen=True):
    """Projection and filter of the first operator, pushed into the formatter."""

    columns: tuple[str, ...] | None = None
    """Wanted fields, None for all. Other fields are counted, but not parsed: their content is not checked."""
    conditions: tuple[Condition, ...] = ()
    """Conditions that must all hold; their columns are parsed even if they are not wanted."""

    @property
    def parsed_columns(self) -> frozenset[str] | None:
        """Wanted columns and those of the conditions, None for all."""
        if self.columns is None:
            return None
        return frozenset(self.columns) | {condition.column for condition in self.conditions}

    def wanted(self, rows: Any) -> Any:
        """Return which rows of a batch satisfy all conditions, as a boolean Arrow array; None without conditions."""
        mask = None
        for condition in self.conditions:
            passed = pc.fill_null(_compared(rows.column(condition.column), condition), False)
            mask = passed if mask is None else pc.and_(mask, passed)
        return mask


def _compared(column: Any, condition: Condition) -> Any:
    """Return which values of a column satisfy the condition, NULL for NULL.

    Integers are compared exactly: Arrow would convert the condition's value to int64 or float64, and refuse a column
    with values beyond that type's range.
    """
    comparison: str = condition.comparison
    value = condition.value
    if not pa.types.is_integer(column.type) or isinstance(value, str):
        return _COMPARISONS[comparison](column, value)
    low, high = _bounds(column.type)
    if isinstance(value, float):
        if math.isnan(value):
            return pc.and_(pc.is_valid(column), comparison == "<>")
        if math.isinf(value):
            value = high + 1 if value > 0 else low - 1
        elif (whole := math.floor(value)) == value:
            value = whole
        else:  # between two integers: x < 1.5 is x <= 1, and nothing equals it
            comparison = {"<": "<=", ">=": ">"}.get(comparison, comparison)
            value = whole if comparison in {"<=", ">"} else high + 1
    if low <= value <= high:
        return _COMPARISONS[comparison](column, pa.scalar(int(value), column.type))
    always = comparison == "<>" or comparison.startswith("<" if value > high else ">")
    return pc.and_(pc.is_valid(column), always)


def _bounds(integer: Any) -> tuple[int, int]:
    if pa.types.is_signed_integer(integer):
        return -(1 << integer.bit_width - 1), (1 << integer.bit_width - 1) - 1
    return 0, (1 << integer.bit_width) - 1

"""Integers of a batch with bounds, computed without overflow checks where the bounds prove that none is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["NotPlainError", "Vector", "apply", "bounded", "is_known", "literal", "of_arrow"]

Integers = npt.NDArray[np.int64]

_LEAST: Final = -(2**63)
_MOST: Final = 2**63 - 1
_COMPARE: Final[dict[str, np.ufunc]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_LOGIC: Final[dict[str, np.ufunc]] = {"and": np.logical_and, "or": np.logical_or}


class NotPlainError(Exception):
    """Not computable on int64 alone: NULLs, another type, or numbers too large; the exact way is slower."""


class Vector(msgspec.Struct, frozen=True):
    """Integers or truths of a batch, one per row, without NULL."""

    values: Any
    """int64 or bool; a Python number where all are equal."""
    low: int
    """No value is less …"""
    high: int
    """… and none greater."""

    @property
    def largest(self) -> int:
        """No value is further from 0."""
        return max(-self.low, self.high)


def bounded(numbers: Integers) -> Vector:
    """Integers with their bounds."""
    if not len(numbers):
        return Vector(numbers, 0, 0)
    return Vector(numbers, int(np.minimum.reduce(numbers)), int(np.maximum.reduce(numbers)))


def literal(value: object) -> Vector:
    """A constant; raises `NotPlainError` for one that is no int64 or truth."""
    if isinstance(value, int) and _LEAST <= value <= _MOST:
        return Vector(value, int(value), int(value))
    raise NotPlainError


def of_arrow(array: pa.Array) -> Vector:
    """A column; raises `NotPlainError` for NULLs and other types."""
    if array.null_count:
        raise NotPlainError
    if pa.types.is_int64(array.type):
        return bounded(array.to_numpy(zero_copy_only=False))
    if pa.types.is_boolean(array.type):
        return Vector(array.to_numpy(zero_copy_only=False), 0, 1)
    raise NotPlainError


def _arithmetic(op: str, left: Vector, right: Vector) -> Vector:
    _refuse_truths(left, right)
    values: Any
    if op == "neg":
        low, high = -left.high, -left.low
    elif op == "add":
        low, high = left.low + right.low, left.high + right.high
    elif op == "sub":
        low, high = left.low - right.high, left.high - right.low
    else:
        corners = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]
        low, high = min(corners), max(corners)
    if low < _LEAST or high > _MOST:
        raise NotPlainError
    if op == "neg":
        values = -left.values
    elif op == "add":
        values = left.values + right.values
    elif op == "sub":
        values = left.values - right.values
    else:
        values = left.values * right.values
    return Vector(values, low, high)


def _division(op: str, left: Vector, right: Vector) -> Vector:
    """Of nothing below 0 by a positive constant, where rounding towards zero is rounding down."""
    _refuse_truths(left, right)
    if left.low < 0 or right.low <= 0 or isinstance(right.values, np.ndarray):
        raise NotPlainError
    if op == "floordiv":
        return Vector(left.values // right.values, left.low // right.low, left.high // right.low)
    values = left.values % right.values
    if not isinstance(values, np.ndarray):
        return literal(values)  # whoever groups by it takes different bounds for different values
    return Vector(values, 0, min(left.high, right.low - 1))


def _comparison(op: str, left: Vector, right: Vector) -> Vector:
    _refuse_truths(left, right)
    if not isinstance(left.values, np.ndarray) and not isinstance(right.values, np.ndarray):
        raise NotPlainError
    return Vector(_COMPARE[op](left.values, right.values), 0, 1)


def _logic(op: str, left: Vector, right: Vector) -> Vector:
    for side in (left, right):
        if getattr(side.values, "dtype", None) != np.bool_:
            raise NotPlainError
    return Vector(~left.values if op == "not" else _LOGIC[op](left.values, right.values), 0, 1)


def _refuse_truths(*sides: Vector) -> None:
    for side in sides:
        if isinstance(side.values, bool) or getattr(side.values, "dtype", np.int64) != np.int64:
            raise NotPlainError


def is_known(op: str) -> bool:
    """Whether `apply` computes it."""
    return op in _FUNCTIONS


def apply(op: str, args: Sequence[Vector]) -> Vector:
    """An operation on vectors; raises `NotPlainError` where the result may need more than 64 bits."""
    function = _FUNCTIONS[op]
    value = args[0] if len(args) > 1 else function(op, args[0], args[0])
    for other in args[1:]:
        value = function(op, value, other)
    return value


_FUNCTIONS: Final[dict[str, Callable[[str, Vector, Vector], Vector]]] = {
    **dict.fromkeys(("add", "sub", "mul", "neg"), _arithmetic),
    **dict.fromkeys(("floordiv", "mod"), _division),
    **dict.fromkeys(_COMPARE, _comparison),
    **dict.fromkeys(("and", "or", "not"), _logic),
}

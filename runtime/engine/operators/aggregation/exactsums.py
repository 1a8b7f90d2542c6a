"""Columns of exact integer sums: int64 while nothing can pass 64 bits, Python integers (dtype object) from then on.

numpy computes with both alike, so that code over such columns is written once and is exact in either case. Before an
addition, `fit` is called: it returns both operands in a type in which their sum cannot wrap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.state import WIDE, CorruptStateError, StateOverflowError, decimals_of_integers

__all__ = ["Exact", "arrow_of", "exact_of", "fit", "largest"]

Exact = npt.NDArray[Any]
"""An array of int64, or of Python integers with dtype object."""

_ROOM: Final = 2**62
_MOST: Final = 2**126
_FEW: Final = 32
"""Number of values up to which a Python loop is faster than numpy."""


def largest(values: Exact) -> int:
    """Return the largest magnitude."""
    if values.size <= _FEW:
        few = values.tolist()
        return max(*few, -min(few)) if few else 0
    return max(int(np.maximum.reduce(values)), -int(np.minimum.reduce(values)))


def fit(bound: int, *arrays: Exact) -> tuple[Exact, ...]:
    """Return the arrays unchanged if results up to magnitude ``bound`` cannot wrap, else as Python integers."""
    if bound < _ROOM:
        for array in arrays:
            if array.dtype == object:
                break
        else:
            return arrays
    return tuple(array.astype(object) for array in arrays)


def _checked(values: Exact) -> Exact:
    """Return the values; raise `StateOverflowError` if one has more than 126 bits."""
    if values.dtype == object and largest(values) >= _MOST:
        raise StateOverflowError(f"expected a sum of at most 126 bits, was {largest(values)}")
    return values


def arrow_of(values: Exact) -> pa.Array:
    """Return an int64 array, or decimal128(38, 0) for Python integers; raise `StateOverflowError` past 126 bits."""
    if values.dtype != object:
        return pa.array(np.ascontiguousarray(values))
    return decimals_of_integers(_checked(values).tolist())


def exact_of(array: pa.Array) -> Exact:
    """Return the integers of an array, the inverse of `arrow_of`.

    Raise `CorruptStateError` for an array of another type.
    """
    if array.type.equals(pa.int64()):
        plain: Exact = array.to_numpy(zero_copy_only=False)
        return plain
    if not array.type.equals(WIDE):
        raise CorruptStateError(f"expected int64 or {WIDE}, was {array.type}")
    return _of_integers([int(value) for value in array.to_pylist()])


def _of_integers(values: Sequence[int]) -> Exact:
    """Return Python integers as a column: int64 if all of them fit."""
    if all(-_ROOM < value < _ROOM for value in values):
        return np.array(values, np.int64)
    result = np.empty(len(values), object)
    result[:] = values
    return result

"""Sums past 64 bits in two int64 columns: ``value = high * 2**32 + low``, with ``0 <= low < 2**32`` when normal.

A sum stays exact up to 95 bits and is refused beyond. The low parts of up to 2**31 rows can be added up as they are;
the high ones where `may_overflow` says no, which is wherever the summands were of 64 bits.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.views.errors import ViewOverflowError

__all__ = ["HIGH_LIMIT", "join", "join_high", "may_overflow", "normalise", "split", "split_high", "times"]

Integers = npt.NDArray[np.int64]

_BITS: Final = 32
_MASK: Final = (1 << _BITS) - 1
HIGH_LIMIT: Final = 2**62
_NARROW: Final = 2**30


def split(values: pa.Array) -> tuple[Integers, Integers]:
    """High and low parts of int64 or decimal128(38, 0) values without NULL."""
    if not pa.types.is_decimal(values.type):
        plain = values.cast(pa.int64()).to_numpy(zero_copy_only=False)
        return plain >> _BITS, plain & _MASK
    raw = np.frombuffer(values.buffers()[1], np.int64).reshape(-1, 2)[values.offset : values.offset + len(values)]
    low64, high64 = raw[:, 0], raw[:, 1]
    if ((high64 > _NARROW) | (high64 < -_NARROW)).any():
        raise ViewOverflowError("expected a summand of at most 94 bits, was a longer one")
    return (high64 << _BITS) | ((low64 >> _BITS) & _MASK), low64 & _MASK


def normalise(high: Integers, low: Integers) -> tuple[Integers, Integers]:
    """Carry what is past the low part into the high one; raises `ViewOverflowError` at 95 bits."""
    high = high + (low >> _BITS)
    if ((high > HIGH_LIMIT) | (high < -HIGH_LIMIT)).any():
        raise ViewOverflowError("expected a sum of at most 94 bits, was a longer one")
    return high, low & _MASK


def times(high: Integers, low: Integers, weight: Integers) -> tuple[Integers, Integers]:
    """The parts, each row's multiplied by its weight; raises `ViewOverflowError` at 95 bits."""
    if _largest(high) * _largest(weight) > HIGH_LIMIT or _largest(weight) >= 2 ** (_BITS - 2):
        raise ViewOverflowError("expected a weighted summand of at most 94 bits, was a longer one")
    if _largest(weight) <= 1:
        return high * weight, low * weight
    return normalise(high * weight, low * weight)  # low parts that many rows can add up again


def may_overflow(high: Integers) -> bool:
    """Whether a sum of some of these high parts may pass 64 bits."""
    return _largest(high) * len(high) > HIGH_LIMIT


def split_high(high: Integers) -> tuple[Integers, Integers]:
    """High parts in two, each of which can be added up."""
    return high >> _BITS, high & _MASK


def join_high(top: Integers, rest: Integers) -> Integers:
    """High parts of the sums of what `split_high` made; raises `ViewOverflowError` at 95 bits."""
    top = top + (rest >> _BITS)
    if ((top >= _NARROW) | (top < -_NARROW)).any():
        raise ViewOverflowError("expected a sum of at most 94 bits, was a longer one")
    return (top << _BITS) | (rest & _MASK)


def _largest(values: Integers) -> int:
    return max(int(values.max()), -int(values.min())) if len(values) else 0


def join(high: Integers, low: Integers) -> pa.Array:
    """The values of normal parts: int64 where all fit, else decimal128(38, 0)."""
    low64 = (high << _BITS) | low
    if ((high >= -(2**31)) & (high < 2**31)).all():
        return pa.array(low64)
    raw = np.stack([low64, high >> _BITS], axis=1)
    return pa.Array.from_buffers(pa.decimal128(38, 0), len(raw), [None, pa.py_buffer(raw)])

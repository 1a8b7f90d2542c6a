"""Sums past 64 bits in two int64 columns: ``value = high * 2**32 + low``, with ``0 <= low < 2**32`` when normal.

Adding up the columns of up to 2**31 rows cannot overflow, so a sum stays exact up to 95 bits and is refused beyond.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.views.errors import ViewOverflowError
from runtime.views.evaluate import wide_array

__all__ = ["HIGH_LIMIT", "join", "normalise", "split"]

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


def join(high: Integers, low: Integers) -> pa.Array:
    """The values of normal parts: int64 where all fit, else decimal128(38, 0)."""
    if ((high >= -(2**31)) & (high < 2**31)).all():
        return pa.array((high << _BITS) | low)
    return wide_array([(h << _BITS) + l for h, l in zip(high.tolist(), low.tolist(), strict=True)])

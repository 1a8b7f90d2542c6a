"""Functions that expressions call: weighted values, integer division, membership, floats in SQL's order, dates."""

from __future__ import annotations

from math import nan, sqrt
from typing import Any

from runtime.native.plain import divide_wide, fits, jit, jit_inline, mul_wide, narrow, wide

DAY = 86400000000
"""Microseconds of a day."""


@jit
def weighted(value: int, weight: int) -> tuple[int, bool]:
    """Return a wide value times a weight, and whether the product is out of range; fast if the value has 64 bits.

    Nearly all weights are 1 or -1, but a test for these would take longer, as the processor cannot predict its result.
    """
    if fits(value):
        return wide(narrow(value)) * wide(weight), False
    return mul_wide(value, wide(weight))


@jit
def product(left: int, right: int) -> tuple[int, bool]:
    """Return the product of two wide values, and whether it is out of range; fast if both have 64 bits."""
    if fits(left) and fits(right):
        return wide(narrow(left)) * wide(narrow(right)), False
    return mul_wide(left, right)


@jit
def quotient(left: int, right: int) -> int:
    """Return SQL's ``//`` on wide values, rounded towards zero; the divisor must not be 0."""
    zero = wide(0)
    a = -left if left < zero else left
    b = -right if right < zero else right
    magnitude, _ = divide_wide(a, b)
    return magnitude if (left < zero) == (right < zero) else -magnitude


@jit
def remainder(left: int, right: int) -> int:
    """Return SQL's ``%`` on wide values, with the dividend's sign; the divisor must not be 0."""
    zero = wide(0)
    a = -left if left < zero else left
    b = -right if right < zero else right
    _, rest = divide_wide(a, b)
    return -rest if left < zero else rest


@jit
def is_member(cells: Any, count: int, key: int) -> bool:
    """Return whether a key is among the first ``count`` cells, which ascend."""
    low = 0
    high = count
    while low < high:
        middle = (low + high) // 2
        if cells[middle] < key:
            low = middle + 1
        else:
            high = middle
    if low == count:
        return False
    return cells[low] == key


@jit_inline
def float_equal(left: float, right: float) -> bool:
    """Return SQL's ``=`` on floats, where NaN is equal to itself."""
    return left == right or (left != left and right != right)  # noqa: PLR0124  # as NaN alone


@jit_inline
def float_less(left: float, right: float) -> bool:
    """Return SQL's ``<`` on floats, where NaN is greater than all other values."""
    return left < right or (left == left and right != right)  # noqa: PLR0124  # as NaN alone


@jit
def square_root(value: float) -> float:
    """Return the square root; NaN for a negative number."""
    return sqrt(value) if value >= 0.0 else nan


@jit
def day_of(moment: int) -> int:
    """Return the number of the day since 1970 of a time in microseconds since 1970."""
    return moment // DAY


@jit
def civil(day: int, part: int) -> int:
    """Return year (0), month (1) or day of the month (2) of a day since 1970, in the proleptic Gregorian calendar."""
    shifted = day + 719468
    era = shifted // 146097
    of_era = shifted - era * 146097
    year_of_era = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * of_year + 2) // 153
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    if part == 0:
        return year_of_era + era * 400 + (1 if month <= 2 else 0)
    if part == 1:
        return month
    return of_year - (153 * month_from_march + 2) // 5 + 1


@jit
def clock(moment: int, unit: int, count: int) -> int:
    """Return a part of the time of day of microseconds since 1970: the number of ``unit``, modulo ``count``."""
    return (moment // unit) % count

"""Arithmetic that expressions call: weighted values, integer division, floats in SQL's order, calendar parts."""

from __future__ import annotations

from math import nan, sqrt

from runtime.native.plain import fits, jit, jit_inline, mul_wide, narrow, outside, wide, wide_float

FLOAT_EXACT = 9007199254740992
"""2^53: integers up to it are floats exactly."""
DAY = 86400000000
"""Microseconds."""


@jit
def weighted(value: int, weight: int) -> tuple[int, bool]:
    """A wide value times a weight, and whether that is out of range; quick where the value has 64 bits.

    A test for weights of 1 and -1, which nearly all are, costs more: which one comes next cannot be guessed.
    """
    if fits(value):
        return wide(narrow(value)) * wide(weight), False
    return mul_wide(value, wide(weight))


@jit
def product(left: int, right: int) -> tuple[int, bool]:
    """The product of two wide values, and whether it is out of range; quick where both have 64 bits."""
    if fits(left) and fits(right):
        return wide(narrow(left)) * wide(narrow(right)), False
    return mul_wide(left, right)


@jit
def floor_quotient(value: int, by: int) -> tuple[int, int]:
    """Quotient and remainder of two wide values that are not negative, by long division; ``by`` is not 0."""
    if fits(value) and fits(by):
        a, b = narrow(value), narrow(by)
        return wide(a // b), wide(a % b)
    quotient, rest = wide(0), value
    shifted, bit = by, wide(1)
    while shifted <= rest and not outside(shifted):
        shifted, bit = shifted + shifted, bit + bit
    # Halving is not an operation of wide integers, so every step doubles anew from the divisor.
    while rest >= by:
        shifted, bit = by, wide(1)
        while shifted + shifted <= rest:
            shifted, bit = shifted + shifted, bit + bit
        rest = rest - shifted
        quotient = quotient + bit
    return quotient, rest


@jit
def quotient(left: int, right: int) -> int:
    """SQL's ``//`` on wide values: rounded towards zero; the divisor is not 0."""
    zero = wide(0)
    a = -left if left < zero else left
    b = -right if right < zero else right
    found, _ = floor_quotient(a, b)
    return found if (left < zero) == (right < zero) else -found


@jit
def remainder(left: int, right: int) -> int:
    """SQL's ``%`` on wide values: of the dividend's sign; the divisor is not 0."""
    zero = wide(0)
    a = -left if left < zero else left
    b = -right if right < zero else right
    _, rest = floor_quotient(a, b)
    return -rest if left < zero else rest


@jit
def float_quotient(left: int, right: int) -> float:
    """The float nearest to the quotient of two wide values; the divisor is not 0."""
    zero, exact = wide(0), wide(FLOAT_EXACT)
    a = -left if left < zero else left
    b = -right if right < zero else right
    sign = 1.0 if (left < zero) == (right < zero) else -1.0
    if a <= exact and b <= exact:
        return sign * (wide_float(a) / wide_float(b))
    whole, rest = floor_quotient(a, b)
    scale = 1.0
    # Long division until the quotient has 55 bits at least; what is left over only says whether it is exact.
    enough = wide(4 * FLOAT_EXACT)
    steps = 0
    while whole < enough and rest > zero and steps < 1200:
        whole, rest = whole + whole, rest + rest
        scale = scale * 0.5
        if rest >= b:
            rest = rest - b
            whole = whole + wide(1)
        steps += 1
    unit = wide(1)
    while whole >= enough + enough:
        whole, lost = floor_quotient(whole, wide(2))
        scale = scale * 2.0
        if lost > zero:
            rest = unit
    if rest > zero:
        _, odd = floor_quotient(whole, wide(2))
        if odd == zero:
            whole = whole + unit  # a sticky bit: the conversion below rounds once, as the exact value would be
    return sign * (_nearest(narrow(whole)) * scale)


@jit
def _nearest(value: int) -> float:
    return float(value)


@jit_inline
def float_equal(left: float, right: float) -> bool:
    """SQL's ``=`` on floats: NaN is equal to itself."""
    return left == right or (left != left and right != right)  # noqa: PLR0124  # as NaN alone


@jit_inline
def float_less(left: float, right: float) -> bool:
    """SQL's ``<`` on floats: NaN is greater than everything else."""
    return left < right or (left == left and right != right)  # noqa: PLR0124  # as NaN alone


@jit
def square_root(value: float) -> float:
    """The square root; of a negative number NaN."""
    return sqrt(value) if value >= 0.0 else nan


@jit
def day_of(moment: int) -> int:
    """The day, since 1970, of microseconds since 1970."""
    return moment // DAY


@jit
def civil(day: int, part: int) -> int:
    """Year (0), month (1) or day of the month (2) of a day since 1970, by the proleptic Gregorian calendar."""
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
    """A part of the time of day of microseconds since 1970: how many ``unit`` of them, modulo ``count``."""
    return (moment // unit) % count

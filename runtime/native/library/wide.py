"""Division of integers of 128 bits, and the floats nearest to them and to their quotients, as kernel source.

Compiled kernels use these functions in place of those of `runtime.native.plain` on Python's own integers; the results
are the same, and floats are rounded once, to the nearest. Bits are computed one by one, with shifts: LLVM's own
functions for this are in a library with which kernels are not linked.
"""

from __future__ import annotations

from runtime.native.plain import (
    bit_length,
    fits,
    float_of,
    jit,
    jit_apart,
    jit_inline,
    narrow,
    wide,
    wide_left,
    wide_right,
)

__all__ = ["divide_wide", "float_quotient", "wide_float"]

FLOAT_EXACT = 9007199254740992
"""2^53: integers up to this are exact as floats."""
SMALL = 2147483648
"""2^31: with a divisor below this, a remainder with 32 more bits fits into a word."""
LOW_HALF = 4294967295
"""The low 32 bits of a word."""
BITS = 57
"""Number of computed bits of a quotient: 53, one by which it is rounded, two more, and the last one, which is 1 if
there is a remainder.
"""


@jit
def divide_wide(value: int, by: int) -> tuple[int, int]:
    """Return quotient and remainder of two wide values that are not negative; ``by`` must not be 0."""
    if fits(value) and fits(by):
        a, b = narrow(value), narrow(by)
        return wide(a // b), wide(a % b)
    if by < wide(SMALL):
        return _divide_by_small(value, narrow(by))
    return _divide_by_bits(value, by)


@jit_apart
def _divide_by_small(value: int, by: int) -> tuple[int, int]:
    quotient, rest, place = wide(0), 0, 96
    while place >= 0:
        part = (rest << 32) + (narrow(wide_right(value, place)) & LOW_HALF)
        quotient = wide_left(quotient, 32) + wide(part // by)
        rest = part % by
        place -= 32
    return quotient, wide(rest)


@jit_apart
def _divide_by_bits(value: int, by: int) -> tuple[int, int]:
    place = bit_length(value) - bit_length(by)
    quotient, rest, shifted = wide(0), value, wide_left(by, max(0, place))
    while place >= 0:
        quotient = quotient + quotient
        if rest >= shifted:
            rest = rest - shifted
            quotient = quotient + wide(1)
        shifted = wide_right(shifted, 1)
        place -= 1
    return quotient, rest


@jit
def float_quotient(left: int, right: int) -> float:
    """Return the float nearest to the quotient of two wide values; the divisor must not be 0."""
    zero, exact = wide(0), wide(FLOAT_EXACT)
    a = -left if left < zero else left
    b = -right if right < zero else right
    magnitude = float(narrow(a)) / float(narrow(b)) if a <= exact and b <= exact else _long_quotient(a, b)
    return magnitude if (left < zero) == (right < zero) else -magnitude


@jit_apart
def _long_quotient(value: int, by: int) -> float:
    place = bit_length(value) - bit_length(by)
    rest, shifted = wide_left(value, -place if place < 0 else 0), wide_left(by, max(0, place))
    whole = 0
    if rest >= shifted:
        rest = rest - shifted
        whole = 1
    for _ in range(BITS - 1):
        whole = whole + whole
        missing = shifted - rest
        # Compares twice the rest with the divisor without computing it, because it may exceed 127 bits.
        if rest >= missing:
            rest = rest - missing
            whole = whole + 1
        else:
            rest = rest + rest
    if rest > wide(0):
        whole = whole | 1
    return float(whole) * _power_of_two(place - (BITS - 1))


@jit_inline
def wide_float(value: int) -> float:
    """Return the float nearest to a wide value."""
    return float(narrow(value)) if fits(value) else _long_float(value)


@jit_apart
def _long_float(value: int) -> float:
    zero = wide(0)
    magnitude = -value if value < zero else value
    by = bit_length(magnitude) - 62
    part = narrow(wide_right(magnitude, by))
    if wide_left(wide(part), by) != magnitude:
        part = part | 1
    absolute = float(part) * _power_of_two(by)
    return -absolute if value < zero else absolute


@jit_inline
def _power_of_two(exponent: int) -> float:
    return float_of((1023 + exponent) << 52)

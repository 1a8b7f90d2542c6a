"""Bounds of ranges, which may have 128 bits, as keys of an ordered index, which have 64."""

from __future__ import annotations

from runtime.native.plain import fits, jit, narrow, wide

LEAST = -(1 << 63)
GREATEST = (1 << 63) - 1


@jit
def bound_key(bound: int) -> int:
    """Return the key nearest to a bound."""
    if fits(bound):
        return narrow(bound)
    return LEAST if bound < wide(0) else GREATEST


@jit
def bound_inclusive(bound: int, inclusive: bool) -> bool:
    """Return whether `bound_key` counts among the keys below a bound; if ``inclusive``, or equal to it."""
    if fits(bound):
        return inclusive
    return bound > wide(0)

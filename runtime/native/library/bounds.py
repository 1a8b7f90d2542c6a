"""Bounds of ranges, which may be integers of 128 bits, as keys of an ordered index, which are of 64."""

from __future__ import annotations

from runtime.native.plain import fits, jit, narrow, wide

LEAST = -(1 << 63)
GREATEST = (1 << 63) - 1


@jit
def bound_key(bound: int) -> int:
    """The key nearest to a bound."""
    if fits(bound):
        return narrow(bound)
    return LEAST if bound < wide(0) else GREATEST


@jit
def bound_inclusive(bound: int, inclusive: bool) -> bool:
    """Whether `bound_key` is to be counted among the keys below a bound (``inclusive``: or equal to it)."""
    if fits(bound):
        return inclusive
    return bound > wide(0)

"""Sets of integers as disjoint closed intervals, in ascending order; None is an open end."""

from __future__ import annotations

from typing import Final

__all__ = ["EVERYTHING", "Intervals", "complement", "intersection", "mirrored", "union"]

Intervals = tuple[tuple[int | None, int | None], ...]

EVERYTHING: Final[Intervals] = ((None, None),)


def complement(of: Intervals) -> Intervals:
    """All other integers.

    >>> complement(((None, 3), (7, 9)))
    ((4, 6), (10, None))
    """
    gaps: list[tuple[int | None, int | None]] = []
    start: int | None = None
    for place, (low, high) in enumerate(of):
        if low is not None:
            gaps.append((start if place else None, low - 1))
        if high is None:
            return tuple(gaps)
        start = high + 1
    return (*gaps, (start, None))


def union(one: Intervals, other: Intervals) -> Intervals:
    """Integers in either; neighbours are joined.

    >>> union(((1, 3),), ((4, 5), (9, None)))
    ((1, 5), (9, None))
    """
    done: list[tuple[int | None, int | None]] = []
    for low, high in sorted((*one, *other), key=lambda part: (part[0] is not None, part[0] or 0)):
        if done and (done[-1][1] is None or low is None or low <= done[-1][1] + 1):
            before = done[-1]
            done[-1] = (before[0], None if before[1] is None or high is None else max(before[1], high))
        else:
            done.append((low, high))
    return tuple(done)


def intersection(one: Intervals, other: Intervals) -> Intervals:
    """Integers in both.

    >>> intersection(((None, 5),), ((3, None),))
    ((3, 5),)
    """
    return complement(union(complement(one), complement(other)))


def mirrored(of: Intervals) -> Intervals:
    """Minus each integer."""
    return tuple((None if high is None else -high, None if low is None else -low) for low, high in reversed(of))

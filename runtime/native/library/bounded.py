"""Rows on one side of a moving bound; see `runtime.views.nodes.bound`.

The rows are in `sorted_rows` by one order word, their value. The values that pass are a range without an end on one
side, so a move of the bound adds or removes the values of one range.
"""

# mypy: disable-error-code="no-any-return"
# (cells of a table are Any)

from __future__ import annotations

from typing import Any

from runtime.native.library.sorted_rows import (
    CHILDREN,
    FIRST,
    HEIGHT,
    INNER,
    INNERS,
    LEAF,
    LEAVES,
    META,
    ROOT,
    SIZE,
)
from runtime.native.plain import array, jit, jit_inline, narrow, rank, wide

LOW, HIGH, FROM, TO, SIGN = 0, 1, 2, 3, 4
"""Numbers: the values from ``LOW`` to ``HIGH`` pass (none if ``HIGH`` is less); the last move of the bound has added
(``SIGN`` 1) or removed (-1) the values from ``FROM`` to ``TO``.
"""
LENGTH = 5
"""Number of these numbers."""
LEAST = -(1 << 63)
GREATEST = (1 << 63) - 1


@jit_inline
def passes(s: Any, value: int) -> bool:
    """Return whether a value passes."""
    return s[LOW] <= value <= s[HIGH]


@jit
def move_bound(s: Any, is_lower: bool, there: bool, step: int, bound: int) -> None:
    """Set the passing values for a bound of 128 bits, and record the move.

    Values pass from ``bound + step`` up if ``is_lower``, otherwise from there down. ``there`` is False if there is no
    bound, or if it is NULL; then no value passes.
    """
    was, old_low, old_high = s[LOW] <= s[HIGH], s[LOW], s[HIGH]
    low, high, edge = LEAST, GREATEST, bound + wide(step)
    there = there and (edge <= wide(GREATEST) if is_lower else edge >= wide(LEAST))
    if not there:
        low, high = GREATEST, LEAST
    elif is_lower and edge > wide(LEAST):
        low = narrow(edge)
    elif not is_lower and edge < wide(GREATEST):
        high = narrow(edge)
    s[LOW], s[HIGH] = low, high
    s[FROM], s[TO], s[SIGN] = GREATEST, LEAST, 1
    if there and not was:
        s[FROM], s[TO] = low, high
    elif was and not there:
        s[FROM], s[TO], s[SIGN] = old_low, old_high, -1
    elif low < old_low:
        s[FROM], s[TO] = low, old_low - 1
    elif low > old_low:
        s[FROM], s[TO], s[SIGN] = old_low, low - 1, -1
    elif high > old_high:
        s[FROM], s[TO] = old_high + 1, high
    elif high < old_high:
        s[FROM], s[TO], s[SIGN] = high + 1, old_high, -1


@jit
def leaf_of(t: Any, value: int) -> int:
    """Return the leaf that contains, or precedes, the first record whose first order word is not less than a value."""
    meta, inners = array(t, META), array(t, INNERS)
    node = meta[ROOT]
    for _ in range(meta[HEIGHT]):
        at = node * INNER
        child = rank(inners, at + FIRST, inners[at + SIZE], value)
        node = inners[at + CHILDREN + max(child - 1, 0)]
    return node


@jit
def place_of(t: Any, leaf: int, value: int) -> int:
    """Return the number of records of a leaf whose first order word is less than a value."""
    leaves = array(t, LEAVES)
    return rank(leaves, leaf * LEAF + FIRST, leaves[leaf * LEAF + SIZE], value)

"""Rows on one side of a bound that moves; see `runtime.views.nodes.bound`.

The rows stand in `sorted_rows` by one order word, their value. The values that pass are a range without an end on one
side, so that a bound which moves lets the values of one range come or go.
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
"""Numbers: the values that pass, from ``LOW`` to ``HIGH`` (none if that is less); the values that a move lets come
(``SIGN`` 1) or go (-1)."""
LENGTH = 5
LEAST = -(1 << 63)
GREATEST = (1 << 63) - 1


@jit_inline
def passes(s: Any, value: int) -> bool:
    """Return whether a value is among those that pass."""
    return s[LOW] <= value <= s[HIGH]


@jit
def move_bound(s: Any, is_lower: bool, there: bool, step: int, bound: int) -> None:
    """Let the values from ``step`` behind a bound of 128 bits on pass, up or down, and note the move.

    None passes if the bound is not ``there``.
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
    """Return the leaf in which, or behind which, the first record stands whose first order word is not less."""
    meta, inners = array(t, META), array(t, INNERS)
    node = meta[ROOT]
    for _ in range(meta[HEIGHT]):
        at = node * INNER
        child = rank(inners, at + FIRST, inners[at + SIZE], value)
        node = inners[at + CHILDREN + max(child - 1, 0)]
    return node


@jit
def place_of(t: Any, leaf: int, value: int) -> int:
    """Return the number of records of a leaf whose first order word is less."""
    leaves = array(t, LEAVES)
    return rank(leaves, leaf * LEAF + FIRST, leaves[leaf * LEAF + SIZE], value)

"""Search in an ordered index for the least key of a group from which on a condition is true.

The condition has to be monotone: where it is true for a key, it is true for all greater ones. The caller evaluates it,
the search says for which positions::

    position = begin_search(t, group, hint)
    while position >= 0:
        position = continue_search(t, group, condition(key_at(t, group, position)))
    position = found_position(t)                # -1: the condition is true for none

The dense layout has a position for every key of its window, the tree only for keys of entries: a caller asks for sums
below or from the answer on, which are the same in both.

The search begins with jumps of 1, 2, 4, … from the hint and goes on by bisection: about 2 log2(d) questions for an
answer d positions away (Bentley and Yao, "An almost optimal algorithm for unbounded searching", Information Processing
Letters 5, 1976). In the tree layout only one leaf is searched in that way; where the answer is not in it, the search
goes down from the root.
"""

from __future__ import annotations

from typing import Any

from runtime.native.library.btree import (
    AFTER,
    BEFORE,
    CHILDREN,
    CHUNK_MASK,
    COUNT,
    FAN,
    chunk_of,
    first_of,
    last_position,
)
from runtime.native.library.entries import DEPTH, IS_TREE, META, ROOT, ROWS, SEARCH, SUMS, WINDOW, row_of
from runtime.native.library.ordered import key_at, place_of
from runtime.native.plain import array, jit, jit_inline

NODE, LEVEL, LOW, HIGH, MIDDLE, STEP, FOUND, HAS_FALSE, FALSE_KEY, HAS_TRUE, TRUE_KEY = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
"""Numbers in ``SEARCH``: the node and its level above the leaves; the last number in it that is known to be false (or
one less than the first; of a child, its first key is meant), the first that is known to be true (or one more than the
last), and the one that was asked for; the length of the next jump (0: no jumps); the least position known to be true
(-1: none); and the greatest key known to be false and the least known to be true, if there are such."""
NUMBERS = 11


@jit
def begin_search(t: Any, group: int, hint: int) -> int:
    """Begin a search near a key: the first position to ask for; -1: there is none."""
    meta, search = array(t, META), array(t, SEARCH)
    search[LEVEL], search[LOW], search[STEP], search[FOUND], search[HAS_FALSE], search[HAS_TRUE] = 0, -1, 1, -1, 0, 0
    position = place_of(t, group, hint)
    if meta[IS_TREE] == 0:
        search[NODE], search[HIGH] = 0, meta[WINDOW]
        if position < 0:
            position = meta[WINDOW] - 1
        search[MIDDLE] = position
        return position
    if position < 0:
        position = last_position(t, group)
        if position < 0:
            return -1
    leaf = position >> 6
    search[NODE], search[HIGH] = leaf, chunk_of(t, leaf)[(leaf & CHUNK_MASK) + COUNT]
    search[MIDDLE] = position & (FAN - 1)
    return position


@jit
def note(t: Any, group: int, position: int, is_true: bool) -> None:
    """Note what the condition is at the position that was asked for."""
    search, key = array(t, SEARCH), key_at(t, group, position)
    if is_true:
        search[HIGH] = search[MIDDLE]
        if search[HAS_TRUE] == 0 or key < search[TRUE_KEY]:
            search[HAS_TRUE], search[TRUE_KEY], search[FOUND] = 1, key, position
    else:
        search[LOW] = search[MIDDLE]
        if search[HAS_FALSE] == 0 or key > search[FALSE_KEY]:
            search[HAS_FALSE], search[FALSE_KEY] = 1, key


@jit
def next_number(search: Any) -> int:
    """The number between the bounds to ask for next: the end of a jump, or the middle."""
    low, high, step = search[LOW], search[HIGH], search[STEP]
    if step > 0 and search[HAS_FALSE] == 0:
        search[STEP] = 2 * step
        return max(high - step, low + 1)
    if step > 0 and search[HAS_TRUE] == 0:
        search[STEP] = 2 * step
        return min(low + step, high - 1)
    return (low + high) >> 1


@jit
def descend(t: Any, group: int) -> bool:
    """Go on in the next node where the bounds in this one have met; False: the search is over."""
    meta, search = array(t, META), array(t, SEARCH)
    if meta[IS_TREE] == 0:
        return False
    node, level = search[NODE], search[LEVEL]
    cells, at = chunk_of(t, node), node & CHUNK_MASK
    if level > 0:
        node, level = cells[at + CHILDREN + search[LOW]], level - 1
    else:
        is_before = search[LOW] < 0 and cells[at + BEFORE] != 0
        is_after = search[HIGH] == cells[at + COUNT] and cells[at + AFTER] != 0
        if search[STEP] == 0 or not (is_before or is_after):
            return False
        search[STEP] = 0
        rows, row = array(t, ROWS), row_of(group, meta[SUMS])
        node, level = rows[row + ROOT], rows[row + DEPTH] - 1
    search[NODE], search[LEVEL] = node, level
    search[LOW] = 0 if level > 0 else -1
    search[HIGH] = chunk_of(t, node)[(node & CHUNK_MASK) + COUNT]
    return True


@jit
def position_of(t: Any, number: int) -> int:
    """The position that a number in the present node stands for."""
    search = array(t, SEARCH)
    node, level = search[NODE], search[LEVEL]
    if level > 0:
        return first_of(t, chunk_of(t, node)[(node & CHUNK_MASK) + CHILDREN + number], level - 1)
    return node * FAN + number


@jit
def continue_search(t: Any, group: int, is_true: bool) -> int:
    """Note the answer for the last position and return the next one to ask for; -1: the search is over."""
    search = array(t, SEARCH)
    note(t, group, position_of(t, search[MIDDLE]), is_true)
    while True:
        if search[HIGH] - search[LOW] <= 1:
            if not descend(t, group):
                return -1
            continue
        search[MIDDLE] = next_number(search)
        position = position_of(t, search[MIDDLE])
        key = key_at(t, group, position)
        if search[HAS_TRUE] and key >= search[TRUE_KEY]:
            note(t, group, position, True)
        elif search[HAS_FALSE] and key <= search[FALSE_KEY]:
            note(t, group, position, False)
        else:
            return position


@jit_inline
def found_position(t: Any) -> int:
    """The least position for which the condition is true; -1: there is none."""
    return array(t, SEARCH)[FOUND]

"""Quantiles of the values of a group: a cursor on one of the values in order; see `runtime.views.nodes.aggregate`.

A cursor points to the value at a place among the values of its group, each repeated by its count. Its words are a flag
that is 1 if it points to a value, the number of values before that value, and the words of the value. Each value that
is added or removed before the cursor changes that number. If the place of the quantile moves, the cursor moves to it
from value to value. So a change costs O(log n), and O(log n) again for each value that the cursor passes.
"""

# mypy: disable-error-code="no-any-return"
# (cells of a table are Any)

from __future__ import annotations

from typing import Any

from runtime.native.library.hashing import CELLS, KEY, STRIDE, WIDTH, find
from runtime.native.library.hashing import META as TABLE
from runtime.native.library.sorted_rows import (
    AFTER,
    BEFORE,
    META,
    comes_before,
    is_first_of_group,
    is_last_of_group,
    row_after,
    row_before,
)
from runtime.native.plain import array, copy_words, jit, jit_inline

THERE, PASSED, VALUE = 0, 1, 2
"""Words of a cursor: whether it points to a value, the number of values before that value, and the words of the
value.
"""


@jit_inline
def count_of(values: Any, slot: int) -> int:
    """Return the count of a value."""
    meta = array(values, TABLE)
    return array(values, CELLS)[slot * meta[STRIDE] + meta[WIDTH]]


@jit
def place_cursor(values: Any, slot: int, cells: Any, at: int, words: int) -> None:
    """Point a cursor to a value; the number of values before it is not changed."""
    meta = array(values, TABLE)
    cells[at + THERE] = 1
    copy_words(cells, at + VALUE, array(values, CELLS), slot * meta[STRIDE] + meta[WIDTH] - words, words)


@jit
def slot_of_cursor(values: Any, cells: Any, at: int, words: int) -> int:
    """Return the slot of a cursor's value; the scratch key must begin with the key of its group."""
    copy_words(array(values, KEY), array(values, TABLE)[WIDTH] - words, cells, at + VALUE, words)
    return find(values)


@jit
def follow_value(values: Any, rows: Any, slot: int, change: int, cells: Any, at: int, words: int) -> None:
    """Update a cursor after the count of a value has changed by ``change``.

    If the value has just been inserted or removed, its neighbours in ``META`` are used. The scratch key must begin with
    the key of the group.
    """
    if change == 0:
        return
    if cells[at + THERE] == 0:
        place_cursor(values, slot, cells, at, words)
        return
    current = slot_of_cursor(values, cells, at, words)
    if current != slot:
        if comes_before(rows, slot, current, 0):
            cells[at + PASSED] += change
        return
    if count_of(values, slot) > 0:
        return
    if not is_last_of_group(rows, slot):
        place_cursor(values, array(rows, META)[AFTER], cells, at, words)
    elif not is_first_of_group(rows, slot):
        other = array(rows, META)[BEFORE]
        cells[at + PASSED] -= count_of(values, other)
        place_cursor(values, other, cells, at, words)
    else:
        for word in range(VALUE + words):
            cells[at + word] = 0


@jit
def move_cursor(values: Any, rows: Any, target: int, cells: Any, at: int, words: int) -> None:
    """Move a cursor to the value at a place, from 0; the scratch key must begin with the key of its group."""
    if cells[at + THERE] == 0:
        return
    slot, passed = slot_of_cursor(values, cells, at, words), cells[at + PASSED]
    while target < passed:
        slot = row_before(rows, slot)
        passed -= count_of(values, slot)
    moves = True
    while moves and target >= passed + count_of(values, slot):
        after = row_after(rows, slot)
        # Fewer values may be present than are counted while a deletion has arrived before its insertion.
        moves = after >= 0 and not is_last_of_group(rows, slot)
        if moves:
            passed += count_of(values, slot)
            slot = after
    cells[at + PASSED] = passed
    place_cursor(values, slot, cells, at, words)

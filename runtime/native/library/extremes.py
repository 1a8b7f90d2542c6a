"""Values with counts, and the first and the last value of each group; see `runtime.views.nodes.aggregate`.

A value is present while its count is positive. The present values are in `sorted_rows`; the first order word of a value
is the slot of its group, so that its neighbours show whether it is the first or the last of the group.
"""

# mypy: disable-error-code="no-any-return"
# (cells of a table are Any)

from __future__ import annotations

from typing import Any

from runtime.native.library.hashing import CELLS, STRIDE, WIDTH
from runtime.native.library.sorted_rows import AFTER, BEFORE, META, is_first_of_group, is_last_of_group
from runtime.native.plain import array, jit

NONE, SAME = -1, -2
"""Values in place of the slot of an extreme: the group has no values now; the extreme is the same as before."""


@jit
def count_value(values: Any, slot: int, weight: int) -> int:
    """Add to the count of a value; return 1 if the count has become positive, -1 if it no longer is, otherwise 0."""
    meta, cells = array(values, META), array(values, CELLS)
    place = slot * meta[STRIDE] + meta[WIDTH]
    before = cells[place]
    after = before + weight
    cells[place] = after
    if after > 0:
        return 1 if before <= 0 else 0
    return -1 if before > 0 else 0


@jit
def new_first(rows: Any, slot: int, moved: int) -> int:
    """Return the first value of a group after one was inserted (``moved`` 1) or removed (-1); `SAME` if unchanged."""
    if not is_first_of_group(rows, slot):
        return SAME
    if moved > 0:
        return slot
    return NONE if is_last_of_group(rows, slot) else array(rows, META)[AFTER]


@jit
def new_last(rows: Any, slot: int, moved: int) -> int:
    """Return the last value of a group after one was inserted (``moved`` 1) or removed (-1); `SAME` if unchanged."""
    if not is_last_of_group(rows, slot):
        return SAME
    if moved > 0:
        return slot
    return NONE if is_first_of_group(rows, slot) else array(rows, META)[BEFORE]


@jit
def copy_value(values: Any, slot: int, words: int, cells: Any, place: int) -> None:
    """Copy the last key words of a record to a place; write zeros for `NONE`, and nothing for `SAME`."""
    if slot == SAME:
        return
    meta, source = array(values, META), array(values, CELLS)
    begin = slot * meta[STRIDE] + meta[WIDTH] - words
    for word in range(words):
        cells[place + word] = source[begin + word] if slot >= 0 else 0

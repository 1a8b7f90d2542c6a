"""Window of sorted rows: the rows from an offset on, up to a limit, of a table of rows with counts.

A record with count n stands for n equal rows; with a count of 0 or less it stands for none. The rows in their order are
divided into three parts: those before the window (part 0), as many as the offset; those in the window (part 1), as many
as the limit; and the rest. A record has the number of its rows in part 0 and in part 1; only the last record of a part
may also have rows in the next part. When a count changes, rows at the end of a part move to the next part, or back. So
a change costs O(log n), and O(log n) again for each record whose rows move.
"""

# mypy: disable-error-code="no-any-return"
# (cells of a table are Any)

from __future__ import annotations

from typing import Any

from runtime.native.library import hashing
from runtime.native.library.sorted_rows import (
    comes_before,
    first_row,
    insert_row,
    remove_row,
    row_after,
    row_before,
)
from runtime.native.plain import array, jit, jit_inline, table

NUMBERS, ROWS, ORDER = 0, 1, 2
"""Places of the table: numbers, the hash table of rows (as a result), and its `sorted_rows`."""
TOTAL, LIMIT, HELD, LAST = 0, 1, 3, 5
"""Numbers: all rows; then for part 0 and part 1 the limit of rows, the present number of rows, and the slot of the
last record in the part, or -1.
"""
LENGTH = 7

COUNT, PARTS, WINDOW = 0, 1, 2
"""Value words of a row: its count; from ``PARTS`` on the numbers of its rows in part 0 and in part 1, the window."""


@jit_inline
def values_of(rows: Any, slot: int) -> int:
    """Return the place where the value words of a row begin."""
    meta = array(rows, hashing.META)
    return slot * meta[hashing.STRIDE] + meta[hashing.WIDTH]


@jit
def move_rows(w: Any, slot: int, part: int, by: int) -> None:
    """Add rows of a record to a part, or remove them if ``by`` is negative."""
    s, rows, order = array(w, NUMBERS), table(w, ROWS), table(w, ORDER)
    hashing.touch(rows, slot)
    cells, place, last = array(rows, hashing.CELLS), values_of(rows, slot) + PARTS + part, s[LAST + part]
    cells[place] += by
    s[HELD + part] += by
    if by > 0:
        if last < 0 or comes_before(order, last, slot, 0):
            s[LAST + part] = slot
    elif s[HELD + part] == 0:
        s[LAST + part] = -1
    elif last == slot and cells[place] == 0:
        s[LAST + part] = row_before(order, slot)


@jit
def first_behind(w: Any, part: int) -> int:
    """Return the first record with rows after a part; there must be one."""
    s, rows, order = array(w, NUMBERS), table(w, ROWS), table(w, ORDER)
    last = s[LAST + part] if s[LAST + part] >= 0 else s[LAST]
    if last < 0:
        return first_row(order)
    cells, place = array(rows, hashing.CELLS), values_of(rows, last)
    behind = cells[place + COUNT] - cells[place + PARTS] - part * cells[place + WINDOW]
    return last if behind > 0 else row_after(order, last)


@jit
def add_rows(w: Any, slot: int, count: int) -> None:
    """Add new rows of a record to the part into which they belong, and move as many rows at the end of each part."""
    s, rows, order = array(w, NUMBERS), table(w, ROWS), table(w, ORDER)
    cells, part = array(rows, hashing.CELLS), 0
    while s[HELD + part] == s[LIMIT + part] and (s[LAST + part] < 0 or comes_before(order, s[LAST + part], slot, 0)):
        part += 1
        if part == 2:
            return
    move_rows(w, slot, part, count)
    while part < 2:
        while s[HELD + part] > s[LIMIT + part]:
            last = s[LAST + part]
            number = min(s[HELD + part] - s[LIMIT + part], cells[values_of(rows, last) + PARTS + part])
            if part == 0:
                move_rows(w, last, 1, number)
            move_rows(w, last, part, -number)
        part += 1


@jit
def take_rows(w: Any, slot: int, count: int, left: int) -> None:
    """Remove rows of a record, of which ``left`` remain, from the parts that contain them, the last part first."""
    rows = table(w, ROWS)
    cells, place = array(rows, hashing.CELLS), values_of(rows, slot)
    count -= min(count, left + count - cells[place + PARTS] - cells[place + WINDOW])
    for before in range(2):
        number = min(count, cells[place + WINDOW - before])
        if number > 0:
            move_rows(w, slot, 1 - before, -number)
            count -= number


@jit
def refill(w: Any) -> None:
    """Move rows forward until each part has as many as it should."""
    s, rows = array(w, NUMBERS), table(w, ROWS)
    cells = array(rows, hashing.CELLS)
    for part in range(2):
        while s[HELD + part] < s[LIMIT + part] and s[HELD] + part * s[HELD + 1] < s[TOTAL]:
            slot, wanted = first_behind(w, part), s[LIMIT + part] - s[HELD + part]
            place = values_of(rows, slot)
            shown = cells[place + WINDOW]
            if part == 0 and shown > 0:
                number = min(wanted, shown)
                move_rows(w, slot, 1, -number)
            else:
                number = min(wanted, cells[place + COUNT] - cells[place + PARTS] - shown)
            move_rows(w, slot, part, number)


@jit
def weigh_row(w: Any, slot: int, weight: int) -> None:
    """Add to the count of a record.

    There must be room for the record in the order; its order words are written if it is added there.
    """
    s, rows, order = array(w, NUMBERS), table(w, ROWS), table(w, ORDER)
    hashing.touch(rows, slot)
    cells, place = array(rows, hashing.CELLS), values_of(rows, slot)
    before = max(cells[place + COUNT], 0)
    cells[place + COUNT] += weight
    after = max(cells[place + COUNT], 0)
    s[TOTAL] += after - before
    if after > before:
        if before == 0:
            insert_row(order, slot)
        add_rows(w, slot, after - before)
    elif after < before:
        take_rows(w, slot, before - after, after)
        if after == 0:
            remove_row(order, slot)
        refill(w)

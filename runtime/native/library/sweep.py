"""Traversal of whole groups of an ordered index: the number of entries, and the entries of a group in one array.

In the dense layout the cells of a group are already consecutive. The entries of a tree are copied to the arrays of a
`native.ordered.Entries`, which has the same words per entry, and the keys besides.
"""

from __future__ import annotations

from typing import Any

from runtime.native.library import hashing
from runtime.native.library.btree import AFTER, CAPACITY, CHUNK_MASK, COUNT, FAN, KEYS, chunk_of, entries_of, first_of
from runtime.native.library.entries import DEPTH, GROUPS, IS_TREE, LIVE, META, ROOT, ROWS, SUMS, WINDOW, row_of
from runtime.native.plain import array, copy_words, jit, table

NUMBERS, ENTRY_KEYS, ENTRY_VALUES, RUNNING = 0, 1, 2, 3
"""Places of a table of entries: numbers, keys, values, and running sums, with one more entry than there are values."""
ROOM, WANTED = 0, 1
"""Numbers: capacity in entries, and required capacity."""


@jit
def work_of(t: Any, most: int) -> int:
    """Return the number of entries that a traversal of an index reads, or a number above ``most`` if it is larger."""
    meta, rows = array(t, META), array(t, ROWS)
    used = array(table(t, GROUPS), hashing.META)[hashing.USED]
    if meta[IS_TREE] == 0:
        cells: int = used * meta[WINDOW]
        return cells
    work: int = used
    for group in range(used):
        if work > most:
            return work
        work += rows[row_of(group, meta[SUMS]) + LIVE]
    return work


@jit
def collect(t: Any, group: int, e: Any) -> int:
    """Return the number of entries of a group: cells of its window, or copies from its tree; -1 if there is no room.

    Some entries may be empty.
    """
    meta, numbers = array(t, META), array(e, NUMBERS)
    if meta[IS_TREE] == 0:
        cells_of_group: int = meta[WINDOW]
        if cells_of_group > numbers[ROOM]:
            numbers[WANTED] = cells_of_group
            return -1
        return cells_of_group
    rows, keys, values = array(t, ROWS), array(e, ENTRY_KEYS), array(e, ENTRY_VALUES)
    row, width = row_of(group, meta[SUMS]), 1 + 2 * meta[SUMS]
    if rows[row + DEPTH] == 0:
        return 0
    leaf = first_of(t, rows[row + ROOT], rows[row + DEPTH] - 1) // FAN
    total = 0
    while leaf >= 0:
        cells, at = chunk_of(t, leaf), leaf & CHUNK_MASK
        count = cells[at + COUNT]
        if total + count > numbers[ROOM]:
            numbers[WANTED] = max(total + count, rows[row + LIVE])
            return -1
        copy_words(keys, total, cells, at + KEYS, count)
        copy_words(values, total * width, cells, entries_of(at, cells[at + CAPACITY]), count * width)
        total += count
        leaf = cells[at + AFTER] - 1
    return total

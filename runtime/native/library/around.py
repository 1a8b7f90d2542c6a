"""One search in an ordered index for all sums that a row of a self join needs: below a key, of the key, and of all."""

from __future__ import annotations

from typing import Any

from runtime.native.library import dense
from runtime.native.library.btree import (
    CAPACITY,
    CHILD_SUMS,
    CHILDREN,
    CHUNK_MASK,
    COUNT,
    FAN,
    KEYS,
    chunk_of,
    entries_of,
)
from runtime.native.library.entries import (
    BASE,
    CELLS,
    DEPTH,
    IS_TREE,
    META,
    PREFIX,
    ROOT,
    ROWS,
    TOTAL,
    WINDOW,
    accumulate_few,
    clear,
    row_of,
)
from runtime.native.plain import array, constant, copy_words, jit, jit_inline, rank


@jit
def around(t: Any, group: int, key: int, found: Any, sums: int) -> None:
    """Write the sums of a group's entries below a key, the entry of the key, and the sums of all to ``found``."""
    sums = constant(sums)
    if array(t, META)[IS_TREE]:
        around_in_tree(t, group, key, found, sums)
    else:
        around_in_window(t, group, key, found, sums)


@jit_inline
def around_in_window(t: Any, group: int, key: int, found: Any, sums: int) -> None:
    """The same in the dense layout."""
    sums = constant(sums)
    meta, prefix, width = array(t, META), array(t, PREFIX), 1 + 2 * sums
    clear(found, width, sums)
    dense.below(t, group, key, False, sums)
    copy_words(found, 0, prefix, 0, width)
    base, window = meta[BASE], meta[WINDOW]
    if base <= key <= base + (window - 1):
        copy_words(found, width, array(t, CELLS), (group * window + key - base) * width, width)
    dense.total(t, group, sums)
    copy_words(found, 2 * width, prefix, 0, width)


@jit_inline
def around_in_tree(t: Any, group: int, key: int, found: Any, sums: int) -> None:
    """The same in the tree layout."""
    sums = constant(sums)
    meta, rows = array(t, META), array(t, ROWS)
    row, width = row_of(group, sums), 1 + 2 * sums
    clear(found, 0, sums)
    clear(found, width, sums)
    copy_words(found, 2 * width, rows, row + TOTAL, width)
    depth, leaf = rows[row + DEPTH], rows[row + ROOT]
    if depth == 0:
        return
    for _ in range(depth - 1):
        cells, at = chunk_of(t, leaf), leaf & CHUNK_MASK
        child = rank(cells, at + KEYS, FAN, key)
        leaf = cells[at + CHILDREN + child]
        accumulate_few(meta, found, cells, at + CHILD_SUMS, FAN, child, sums)
    cells, at = chunk_of(t, leaf), leaf & CHUNK_MASK
    capacity = cells[at + CAPACITY]
    place = rank(cells, at + KEYS, FAN, key) if capacity == FAN else rank(cells, at + KEYS, capacity, key)
    entry = entries_of(at, capacity) + place * width
    if place < cells[at + COUNT] and cells[at + KEYS + place] == key:
        copy_words(found, width, cells, entry, width)
    accumulate_few(meta, found, cells, entries_of(at, capacity), capacity, place, sums)

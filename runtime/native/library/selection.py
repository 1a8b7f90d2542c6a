"""Sums over an interval of the keys of an ordered index, and results that are recomputed in every step.

This is the kernel side of `runtime.views.nodes.threshold`. An interval includes both of its ends. ``sums`` is the
number of sums of an entry, which must be a literal as in `ordered`.
"""

from __future__ import annotations

from typing import Any

from runtime.native.library import btree, dense, hashing
from runtime.native.library.entries import (
    BAD,
    BASE,
    GROUPS,
    IS_TREE,
    LARGE,
    META,
    PREFIX,
    SUMS,
    WINDOW,
    fill,
    is_in_use,
    is_zero,
)
from runtime.native.library.ordered import below, first_position, key_at
from runtime.native.plain import (
    array,
    constant,
    copy_words,
    jit,
    load_wide,
    outside,
    store_wide,
    table,
    wide,
)

GREATEST = (1 << 63) - 1


@jit
def span(t: Any, numbers: Any, place: int) -> int:
    """Write an interval that contains all keys of an index to two places; return 0 if the index has no keys."""
    meta = array(t, META)
    if meta[IS_TREE] == 0:
        numbers[place], numbers[place + 1] = meta[BASE], meta[BASE] + (meta[WINDOW] - 1)
        return 1
    has_any = 0
    for group in range(array(table(t, GROUPS), hashing.META)[hashing.USED]):
        first = first_position(t, group)
        if first >= 0:
            low, high = key_at(t, group, first), key_at(t, group, btree.last_position(t, group))
            if has_any == 0 or low < numbers[place]:
                numbers[place] = low
            if has_any == 0 or high > numbers[place + 1]:
                numbers[place + 1] = high
            has_any = 1
    return has_any


@jit
def put_total(t: Any, target: Any, to: int, sums: int) -> None:
    """Write the sums of the only group's entries to a place."""
    sums = constant(sums)
    below(t, 0, GREATEST, True, sums)
    copy_words(target, to, array(t, PREFIX), 0, 1 + 2 * sums)


@jit
def add_sums(meta: Any, target: Any, to: int, cells: Any, sign: int) -> None:
    """Add the entry at the beginning of cells, times 1 or -1, to the entry at a place."""
    target[to] += sign * cells[0]
    for word in range(1, 1 + 2 * meta[SUMS], 2):
        total = load_wide(target, to + word) + wide(sign) * load_wide(cells, word)
        store_wide(target, to + word, total)
        if outside(total):
            meta[BAD] = 1


@jit
def put_sums(t: Any, is_some: bool, low: int, high: int, target: Any, sums: int) -> None:
    """Write the sums of every group's entries in an interval, group by group; write 0 unless ``is_some``."""
    sums = constant(sums)
    meta, prefix = array(t, META), array(t, PREFIX)
    used, width = array(table(t, GROUPS), hashing.META)[hashing.USED], 1 + 2 * sums
    fill(target, 0, used * width, 0)
    if not is_some:
        return
    is_short = meta[IS_TREE] == 0 and meta[LARGE] == 0 and meta[WINDOW] <= 1 << dense.TOP_SHIFT_MOST
    for group in range(used):
        if not is_in_use(t, group):
            continue
        if is_short:
            dense.between(t, group, low, high, sums)
            add_sums(meta, target, group * width, prefix, 1)
        else:
            for is_low in range(2):
                below(t, group, low if is_low else high, is_low == 0, sums)
                add_sums(meta, target, group * width, prefix, -1 if is_low else 1)


@jit
def take_entry(t: Any, group: int, position: int) -> bool:
    """Write the entry at a position to ``PREFIX``; return False if it is empty."""
    meta = array(t, META)
    if meta[IS_TREE]:
        btree.values_at(t, position, meta[SUMS])
    else:
        dense.values_at(t, group, position, meta[SUMS])
    return not is_zero(array(t, PREFIX), 0, 1 + 2 * meta[SUMS])


@jit
def add_entry(t: Any, group: int, position: int, target: Any) -> None:
    """Add the entry at a position to its group's sums."""
    take_entry(t, group, position)
    meta = array(t, META)
    add_sums(meta, target, group * (1 + 2 * meta[SUMS]), array(t, PREFIX), 1)


@jit
def assign(t: Any, slot: int, values: Any, is_marked: bool) -> None:
    """Set the values of a record of a result; with ``is_marked`` it counts as touched even if they do not change."""
    meta, cells = array(t, hashing.META), array(t, hashing.CELLS)
    place, words = slot * meta[hashing.STRIDE] + meta[hashing.WIDTH], meta[hashing.STRIDE] - meta[hashing.WIDTH]
    is_other = is_marked
    for word in range(words):
        if cells[place + word] != values[word]:
            is_other = True
    if is_other:
        hashing.touch(t, slot)
        copy_words(cells, place, values, 0, words)


@jit
def drop_unmarked(t: Any) -> None:
    """Set all records of a result to 0 that were not touched in this step."""
    meta, cells, stamps = array(t, hashing.META), array(t, hashing.CELLS), array(t, hashing.STAMPS)
    stride, width = meta[hashing.STRIDE], meta[hashing.WIDTH]
    for slot in range(meta[hashing.USED]):
        if stamps[slot] != meta[hashing.STEP] and not hashing.is_zero(t, slot):
            hashing.touch(t, slot)
            fill(cells, slot * stride + width, stride - width, 0)

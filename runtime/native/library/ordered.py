"""Ordered index: group × key → weight and sums, with exact prefix sums; kernel side of `native.ordered.OrderedIndex`.

The entries of all groups are in one of two layouts, `dense` or `btree`. Every function here branches on the layout,
which never changes within a call of a kernel. ``t`` is the table of the index. A group is found by the scratch key of
the directory (``GROUPS``), the entry to add is read from ``VALUES``, and sums are written to ``PREFIX``, both as the
words of an entry (`entries`). ``sums``, the number of sums of an entry, has to be a literal, so that loops over it
unroll.

A batch of rows::

    begin(t, rows)
    for every row:
        group = locate_group(t)                 # -1: stop; the owner makes room, and the row is repeated
        if add(t, group, key, 1) < 0: stop      # likewise; nothing has changed
    finish(t)

Between `begin` and `finish` no sums may be requested if ``rows`` was more than 1. A loop over all entries of a group::

    position = first_position(t, group)
    while position >= 0:
        key = key_at(t, group, position)
        values_at(t, group, position, 1)        # may be all 0
        position = next_position(t, group, position)

A position is valid until the next `add` or `finish`; -1 is none.
"""

from __future__ import annotations

from typing import Any

from runtime.native.library import btree, dense, hashing
from runtime.native.library.entries import (
    EMPTIES,
    EMPTY,
    GROUPS,
    IS_QUEUED,
    IS_TREE,
    META,
    ROOM,
    ROWS,
    SIGNS,
    SUMS,
    WANTED,
    WANTED_GROUP,
    queue_empty,
    row_of,
)
from runtime.native.plain import array, constant, fits, jit, jit_apart, jit_inline, narrow, table, wide

LEAST = -1 << 63
"""Least key."""

# ---- groups ---------------------------------------------------------------------------------------------------------


@jit_inline
def group_of(t: Any) -> int:
    """Return the number of the scratch key's group; -1 if there is no such group."""
    return hashing.find(table(t, GROUPS))


@jit_inline
def locate_group(t: Any) -> int:
    """Return the number of the scratch key's group, which is added if it is missing; -1 if there is no room."""
    group = hashing.find(table(t, GROUPS))
    return group if group >= 0 else add_group(t)


@jit_apart
def add_group(t: Any) -> int:
    """Add the group of the scratch key, which must be missing; return its number, or -1 if there is no room."""
    meta, groups = array(t, META), table(t, GROUPS)
    group = hashing.locate(groups)
    if group >= meta[ROOM]:
        hashing.remove(groups, group)
        group = -1
    if group < 0:
        meta[WANTED] = WANTED_GROUP
        return -1
    numbers = array(groups, hashing.META)
    array(groups, hashing.CELLS)[group * numbers[hashing.STRIDE] + numbers[hashing.WIDTH]] = 1
    queue_empty(t, group)
    return group


# ---- a batch --------------------------------------------------------------------------------------------------------


@jit
def begin(t: Any, rows: int) -> None:
    """Begin a batch of at most ``rows`` additions."""
    if array(t, META)[IS_TREE] == 0 and rows > 1:
        dense.begin(t, rows)


@jit_inline
def add(t: Any, group: int, key: int, sums: int) -> int:
    """Add the scratch values to the entry of a key; return -1, with nothing changed, if there is no room."""
    sums = constant(sums)
    if array(t, META)[IS_TREE]:
        return btree.add(t, group, key, sums)
    return dense.add(t, group, key, sums)


@jit_apart
def finish(t: Any) -> None:
    """End a batch: sums can be requested again, and groups without entries are removed."""
    meta = array(t, META)
    if meta[IS_TREE] == 0:
        dense.finish(t)
    if meta[EMPTIES] == 0:
        return
    rows, empty = array(t, ROWS), array(t, EMPTY)
    for number in range(meta[EMPTIES]):
        group = empty[number]
        rows[row_of(group, meta[SUMS]) + IS_QUEUED] = 0
        if meta[IS_TREE]:
            btree.drop_if_empty(t, group)
        else:
            dense.drop_if_empty(t, group)
    meta[EMPTIES] = 0


# ---- sums -----------------------------------------------------------------------------------------------------------


@jit_inline
def below(t: Any, group: int, key: int, inclusive: bool, sums: int) -> None:
    """Write the sums of a group's entries below a key, or with ``inclusive`` up to the key, to ``PREFIX``."""
    sums = constant(sums)
    if array(t, META)[IS_TREE]:
        btree.below(t, group, key, inclusive, sums)
    else:
        dense.below(t, group, key, inclusive, sums)


@jit_inline
def total(t: Any, group: int, sums: int) -> None:
    """Write the sums of all entries of a group to ``PREFIX``."""
    sums = constant(sums)
    if array(t, META)[IS_TREE]:
        btree.total(t, group, sums)
    else:
        dense.total(t, group, sums)


@jit_inline
def is_negative(t: Any, number: int) -> bool:
    """Return whether any entry has a negative weight (``number`` 0) or a negative sum (``number`` from 1)."""
    return array(t, SIGNS)[number] != 0


# ---- bounds of ranges, which may have 128 bits ----------------------------------------------------------------------


@jit
def bound_key(bound: int) -> int:
    """Return the key that is nearest to a bound."""
    if fits(bound):
        return narrow(bound)
    return LEAST if bound < wide(0) else btree.GREATEST


@jit
def bound_inclusive(bound: int, inclusive: bool) -> bool:
    """Return whether `bound_key` is below a bound, or with ``inclusive`` not above it."""
    if fits(bound):
        return inclusive
    return bound > wide(0)


# ---- positions ------------------------------------------------------------------------------------------------------


@jit_inline
def first_position(t: Any, group: int) -> int:
    """Return the position of the least key; -1 if there is none."""
    return place_of(t, group, LEAST)


@jit_inline
def place_of(t: Any, group: int, key: int) -> int:
    """Return the first position whose key is not less than a key; -1 if there is none."""
    if array(t, META)[IS_TREE]:
        return btree.place_of(t, group, key)
    return dense.place_of(t, group, key)


@jit_inline
def next_position(t: Any, group: int, position: int) -> int:
    """Return the position after a position; -1 if there is none."""
    if array(t, META)[IS_TREE]:
        return btree.next_position(t, position)
    return dense.next_position(t, group, position)


@jit_inline
def key_at(t: Any, group: int, position: int) -> int:
    """Return the key at a position."""
    if array(t, META)[IS_TREE]:
        return btree.key_at(t, position)
    return dense.key_at(t, group, position)


@jit_inline
def values_at(t: Any, group: int, position: int, sums: int) -> None:
    """Write the entry at a position to ``PREFIX``; all of it may be 0."""
    sums = constant(sums)
    if array(t, META)[IS_TREE]:
        btree.values_at(t, position, sums)
    else:
        dense.values_at(t, group, position, sums)

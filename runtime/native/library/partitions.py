"""Partitions of sorted rows: adding and removing rows, and finding the rows that must be evaluated again.

See `runtime.views.nodes.window`. Each of several equal rows has its own record in the order. The first order words of a
row are those of its partition; peers are equal in some further words. A row that is added, and the row after a removed
one, become *pending*: they are in a second order over the same order words until they are evaluated, from the first on.
If the state of no row follows from that of another, pending rows may be evaluated in any order, and are in a list
instead.

A row that is neither shown nor pending is beyond a limit. Changes after such a row do not affect shown rows, so no row
becomes pending there.
"""

# mypy: disable-error-code="no-any-return"
# (cells of a table are Any)

from __future__ import annotations

from typing import Any

from runtime.native.library import hashing
from runtime.native.library.sorted_rows import (
    AFTER,
    BEFORE,
    COUNT,
    HEIGHT,
    LEAF,
    LEAVES,
    META,
    NEXT,
    PREVIOUS,
    SIZE,
    SLOTS,
    SPARE,
    WIDTH,
    WORDS,
    descend,
    insert_row,
    position,
    remove_row,
    row_before,
)
from runtime.native.plain import array, copy_words, jit, jit_inline, table

NUMBERS, ROWS, ORDER, PENDING_ROWS, SCRATCH, LIST = 0, 1, 2, 3, 4, 5
"""Places of the table: numbers, the hash table of rows (as a result), their order, the order of the pending rows,
room for the state of one row, and the list of pending rows.
"""
PARTITION, PEERS, AHEAD, STATE_WORDS, SPREADS, CHAINED, LISTED, LIST_ROOM = 0, 1, 2, 3, 4, 5, 6, 7
"""Numbers: in how many first order words the rows of a partition, and peers, are equal; number of rows before a change
that depend on it; words of a state (which `replace` compares and writes); whether the last of some peers gives a
result to all of them (1); whether states follow from one another (1); number of entries of the list, and its capacity.
"""
LENGTH = 8

FLAGS, STATE = 1, 2
"""Value words of a row after its count: its flags, then its state."""
SHOWN, PENDING = 1, 2
"""Flags: the row is in the result; the row is pending."""


@jit_inline
def values_of(rows: Any, slot: int) -> int:
    """Return the place where the value words of a row begin."""
    meta = array(rows, hashing.META)
    return slot * meta[hashing.STRIDE] + meta[hashing.WIDTH]


@jit
def same_words(order: Any, left: int, right: int, count: int) -> bool:
    """Return whether the first ``count`` order words of two rows are equal."""
    words, width = array(order, WORDS), array(order, META)[WIDTH]
    for place in range(count):
        if words[left * width + place] != words[right * width + place]:
            return False
    return True


@jit
def has_room(w: Any) -> bool:
    """Return whether there is room for all rows that adding or removing one row may make pending."""
    s = array(w, NUMBERS)
    meta, count = array(table(w, PENDING_ROWS), META), s[AHEAD] + 3
    if s[CHAINED] == 0:
        return s[LISTED] + count <= s[LIST_ROOM]
    return meta[SPARE] >= count and meta[SPARE + 1] > count * (meta[HEIGHT] + 1)


@jit
def place_of(order: Any, slot: int) -> tuple[int, int]:
    """Return the leaf of a row, and its place in the leaf."""
    leaf = descend(order, slot)
    return leaf, position(order, array(order, LEAVES), leaf * LEAF, slot)


@jit
def step_by(order: Any, leaf: int, place: int, by: int) -> tuple[int, int]:
    """Return leaf and place of the row ``by`` places further (if negative, before); leaf -1 if there is none."""
    leaves, at = array(order, LEAVES), place + by
    while at < 0:
        leaf = leaves[leaf * LEAF + PREVIOUS] - 1
        if leaf < 0:
            return -1, 0
        at += leaves[leaf * LEAF + SIZE]
    while at >= leaves[leaf * LEAF + SIZE]:
        at -= leaves[leaf * LEAF + SIZE]
        leaf = leaves[leaf * LEAF + NEXT] - 1
        if leaf < 0:
            return -1, 0
    return leaf, at


@jit
def neighbour(w: Any, leaf: int, place: int, by: int) -> int:
    """Return the slot of the row of the same partition that is ``by`` places away, or -1."""
    order = table(w, ORDER)
    leaves = array(order, LEAVES)
    slot = leaves[leaf * LEAF + SLOTS + place]
    other_leaf, other_place = step_by(order, leaf, place, by)
    if other_leaf < 0:
        return -1
    other = leaves[other_leaf * LEAF + SLOTS + other_place]
    return other if same_words(order, slot, other, array(w, NUMBERS)[PARTITION]) else -1


@jit
def are_peers(w: Any, left: int, right: int) -> bool:
    """Return whether two rows are in one partition and equal in the criteria that order it."""
    return same_words(table(w, ORDER), left, right, array(w, NUMBERS)[PEERS])


# ---- pending rows ---------------------------------------------------------------------------------------------------


@jit
def mark(w: Any, slot: int) -> None:
    """Make a row of the order pending."""
    rows = table(w, ROWS)
    cells, place = array(rows, hashing.CELLS), values_of(rows, slot) + FLAGS
    if cells[place] & PENDING == 0:
        hashing.touch(rows, slot)
        cells[place] |= PENDING
        s = array(w, NUMBERS)
        if s[CHAINED] == 1:
            insert_row(table(w, PENDING_ROWS), slot)
        else:
            array(w, LIST)[s[LISTED]] = slot
            s[LISTED] += 1


@jit
def unmark(w: Any, slot: int) -> bool:
    """Mark a row as no longer pending; return whether it was pending."""
    rows = table(w, ROWS)
    cells, place = array(rows, hashing.CELLS), values_of(rows, slot) + FLAGS
    if cells[place] & PENDING == 0:
        return False
    cells[place] ^= PENDING
    if array(w, NUMBERS)[CHAINED] == 1:
        remove_row(table(w, PENDING_ROWS), slot)
    return True


@jit
def next_listed(w: Any) -> int:
    """Remove the last entry of the list; return its slot, or -1 if that row is no longer pending."""
    s, rows = array(w, NUMBERS), table(w, ROWS)
    s[LISTED] -= 1
    slot = array(w, LIST)[s[LISTED]]
    return slot if array(rows, hashing.CELLS)[values_of(rows, slot) + FLAGS] & PENDING != 0 else -1


@jit
def mark_before(w: Any, slot: int, other: int) -> None:
    """Make pending the rows of a row's partition that depend on later rows, from another row backwards."""
    s, order = array(w, NUMBERS), table(w, ORDER)
    for _ in range(s[AHEAD]):
        if other < 0 or not same_words(order, slot, other, s[PARTITION]):
            return
        mark(w, other)
        other = row_before(order, other)


@jit
def is_beyond(w: Any, slot: int, other: int) -> bool:
    """Return whether another row exists, in the same partition, and lies beyond the limit."""
    rows = table(w, ROWS)
    if other < 0 or array(rows, hashing.CELLS)[values_of(rows, other) + FLAGS] != 0:
        return False
    return same_words(table(w, ORDER), slot, other, array(w, NUMBERS)[PARTITION])


@jit
def enter_row(w: Any, slot: int, count: int) -> None:
    """Add a row whose order words are written and for which there is room.

    ``count`` becomes the count of its record.
    """
    rows, order = table(w, ROWS), table(w, ORDER)
    hashing.touch(rows, slot)
    array(rows, hashing.CELLS)[values_of(rows, slot)] = count
    insert_row(order, slot)
    before = array(order, META)[BEFORE]
    if not is_beyond(w, slot, before):
        mark(w, slot)
        mark_before(w, slot, before)


@jit
def leave_row(w: Any, slot: int, count: int) -> None:
    """Remove a row. ``count`` becomes the count of its record."""
    rows, order = table(w, ROWS), table(w, ORDER)
    hashing.touch(rows, slot)
    cells, place = array(rows, hashing.CELLS), values_of(rows, slot)
    was_beyond = cells[place + FLAGS] == 0
    unmark(w, slot)
    remove_row(order, slot)
    before, after = array(order, META)[BEFORE], array(order, META)[AFTER]
    cells[place] = count
    for word in range(place + FLAGS, (slot + 1) * array(rows, hashing.META)[hashing.STRIDE]):
        cells[word] = 0
    if was_beyond:
        return
    if after >= 0 and same_words(order, slot, after, array(w, NUMBERS)[PARTITION]):
        mark(w, after)
    if array(w, NUMBERS)[SPREADS] == 1 and before >= 0 and are_peers(w, slot, before):
        mark(w, before)
    mark_before(w, slot, before)


# ---- states ---------------------------------------------------------------------------------------------------------


@jit
def clear_scratch(w: Any) -> None:
    """Set all words of the scratch state to 0."""
    scratch = array(w, SCRATCH)
    for word in range(array(w, NUMBERS)[STATE_WORDS]):
        scratch[word] = 0


@jit
def take_value(scratch: Any, at: int, cells: Any, place: int, is_nullable: int, words: int) -> None:
    """Copy a value to a state, after a word 1; do nothing if it is NULL.

    ``place`` is that of its flag if it is nullable.
    """
    if is_nullable == 1 and cells[place] != 0:
        return
    scratch[at] = 1
    copy_words(scratch, at + 1, cells, place + is_nullable, words)


@jit
def same_value(cells: Any, left: int, right: int, words: int) -> bool:
    """Return whether two values are equal in every word."""
    for word in range(words):
        if cells[left + word] != cells[right + word]:
            return False
    return True


@jit
def replace(w: Any, slot: int, shown: int) -> int:
    """Copy the scratch state to a row, which is shown or not; return 1 if this is a change, otherwise 0."""
    rows, scratch = table(w, ROWS), array(w, SCRATCH)
    cells, place, words = array(rows, hashing.CELLS), values_of(rows, slot), array(w, NUMBERS)[STATE_WORDS]
    differs = cells[place + FLAGS] != shown
    word = 0
    while word < words and not differs:
        differs = cells[place + STATE + word] != scratch[word]
        word += 1
    if not differs:
        return 0
    hashing.touch(rows, slot)
    cells[place + FLAGS] = shown
    copy_words(cells, place + STATE, scratch, 0, words)
    return 1


@jit
def spread(w: Any, leaf: int, place: int, source: int, target: int, words: int) -> None:
    """Copy words of a row's state to another place in the states of all its peers, of which the row is the last."""
    rows, order = table(w, ROWS), table(w, ORDER)
    cells, leaves = array(rows, hashing.CELLS), array(order, LEAVES)
    last = leaves[leaf * LEAF + SLOTS + place]
    begin, slot = values_of(rows, last) + STATE + source, last
    while leaf >= 0 and are_peers(w, last, slot):
        at, differs = values_of(rows, slot) + STATE + target, False
        for word in range(words):
            if cells[at + word] != cells[begin + word]:
                differs = True
        if differs:
            hashing.touch(rows, slot)
            copy_words(cells, at, cells, begin, words)
        leaf, place = step_by(order, leaf, place, -1)
        if leaf >= 0:
            slot = leaves[leaf * LEAF + SLOTS + place]


@jit_inline
def pending_count(w: Any) -> int:
    """Return the number of rows that are pending or in the list."""
    return array(table(w, PENDING_ROWS), META)[COUNT] + array(w, NUMBERS)[LISTED]


@jit_inline
def slot_at(w: Any, leaf: int, place: int) -> int:
    """Return the slot of the row at a place of a leaf."""
    return array(table(w, ORDER), LEAVES)[leaf * LEAF + SLOTS + place]

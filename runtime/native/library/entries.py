"""Entries of an ordered index: their words, how they are added and summed, and the table that contains them.

An entry has 1 + 2 × sums words: a weight, then sums of 128 bits, low word first. An entry whose words are all 0 is
empty. Sums over entries have the same words.

Exactness: an entry, a stored sum or a prefix sum outside ±2^126 (a weight: ±2^62) sets ``BAD``. As long as every sum of
an entry is within ±2^96 and every weight within ±2^32, all sums over up to 2^30 entries are within those limits, and
are not checked. The first entry outside ±2^96 or ±2^32 sets ``LARGE``: from then on every addition to a sum is checked.
"""

from __future__ import annotations

from typing import Any

from runtime.native.library import hashing
from runtime.native.plain import array, jit, jit_apart, jit_inline, load_wide, narrow, outside, store_wide, table, wide

META, GROUPS, VALUES, PREFIX, ROWS, EMPTY, SIGNS = 0, 1, 2, 3, 4, 5, 6
"""Places of the table: numbers, directory of groups (a `hashing` table), the entry to add, the requested sums, a row
for each group, groups that may have become empty, and the number of entries with a negative weight, followed by that
of entries with a negative value for each sum.
"""
CELLS, BLOCKS, TOPS = 7, 8, 9
"""Places of the dense layout."""
CHUNKS, PATH = 10, 11
"""Places of the tree layout."""
PLACES = 12

IS_TREE, SUMS, BAD, LARGE, NEGATIVE, ROOM, EMPTIES, WANTED, WANTED_KEY = 0, 1, 2, 3, 4, 5, 6, 7, 8
"""Numbers in ``META``: whether the layout is that of trees, number of sums of an entry, whether a sum exceeded the
limit, whether sums must be checked, entries with a negative weight or sum, capacity of group rows, groups in
``EMPTY``, the kind of room that was lacking, and the key that needed it.
"""
BASE, WINDOW, BEYOND, TOP_SHIFT, DEFERRED = 9, 10, 11, 12, 13
"""Numbers of the dense layout: least key, keys of a group, minus that, log2 of the cells in a top, and which sums
additions leave to `ordered.finish` (0: none, 1: the tops, 2: the tops and the blocks).
"""
NEXT, END, FREE, SIZE = 14, 15, 16, 20
"""Numbers of the tree layout: first unused word, end of the words; for each of the four kinds of node the first free
node + 1, and the words of a node.
"""
NUMBERS = 24

WANTED_NOTHING, WANTED_GROUP, WANTED_WINDOW, WANTED_NODE = 0, 1, 2, 3

IS_QUEUED, ROOT, DEPTH, LIVE, TOTAL = 0, 1, 2, 3, 4
"""Words of a group's row: whether the group is in ``EMPTY``; for the tree layout the root node, number of levels,
number of entries that are not empty, and from ``TOTAL`` on the sums of the group.
"""

LARGE_SHIFT = 32
"""Number of bits that a weight, and the high word of a sum, may have without being large."""
WEIGHT_LIMIT = 1 << 62


@jit_inline
def row_of(group: int, sums: int) -> int:
    """Return the place where the row of a group begins."""
    return group * (TOTAL + 1 + 2 * sums)


@jit_inline
def add_values_twice(cells: Any, place: int, other: int, values: Any, sums: int) -> None:
    """Add the words of ``values`` to two entries of an array."""
    weight = wide(values[0])
    cells[place] = narrow(wide(cells[place]) + weight)
    cells[other] = narrow(wide(cells[other]) + weight)
    for word in range(1, 1 + 2 * sums, 2):
        value = load_wide(values, word)
        store_wide(cells, place + word, load_wide(cells, place + word) + value)
        store_wide(cells, other + word, load_wide(cells, other + word) + value)


@jit_inline
def add_values_at(target: Any, to: int, cells: Any, place: int, sums: int) -> None:
    """Add one entry to another."""
    target[to] = narrow(wide(target[to]) + wide(cells[place]))
    for word in range(1, 1 + 2 * sums, 2):
        store_wide(target, to + word, load_wide(target, to + word) + load_wide(cells, place + word))


@jit_inline
def subtract_values_at(target: Any, to: int, cells: Any, place: int, sums: int) -> None:
    """Subtract one entry from another."""
    target[to] = narrow(wide(target[to]) - wide(cells[place]))
    for word in range(1, 1 + 2 * sums, 2):
        store_wide(target, to + word, load_wide(target, to + word) - load_wide(cells, place + word))


@jit_inline
def clear(cells: Any, place: int, sums: int) -> None:
    """Set an entry to 0."""
    for word in range(place, place + 1 + 2 * sums):
        cells[word] = 0


@jit_inline
def bits(cells: Any, place: int, sums: int) -> int:
    """Return a word that is 0 if the entry is empty."""
    union = 0
    for word in range(place, place + 1 + 2 * sums):
        union |= cells[word]
    return union


@jit_inline
def signs(cells: Any, place: int, sums: int) -> int:
    """Return a word that is negative if the weight or a sum of the entry is."""
    union = cells[place]
    for number in range(sums):
        union |= cells[place + 2 + 2 * number]
    return union


@jit_inline
def magnitude(cells: Any, place: int, sums: int) -> int:
    """Return a word with as many bits as the longest of the weight and the high words of the sums."""
    union = cells[place] ^ (cells[place] >> 63)
    for number in range(sums):
        high = cells[place + 2 + 2 * number]
        union |= high ^ (high >> 63)
    return union


@jit_apart
def count_signs(t: Any, cells: Any, place: int) -> None:
    """Update the counts of negative numbers for the entry at a place, to which the scratch values have been added."""
    meta, values, signs = array(t, META), array(t, VALUES), array(t, SIGNS)
    was = now = 0
    for number in range(1 + meta[SUMS]):
        if number == 0:
            before = int(cells[place] < values[0])
        else:
            low = 2 * number - 1
            before = int(load_wide(cells, place + low) < load_wide(values, low))
        after = int(cells[place + 2 * number] < 0)
        signs[number] += after - before
        was |= before
        now |= after
    meta[NEGATIVE] += now - was


@jit_apart
def check_limits(meta: Any, cells: Any, place: int) -> None:
    """Record that there are large entries, and whether the sums at a place are outside the limits."""
    meta[LARGE] = 1
    weight = cells[place]
    if weight < -WEIGHT_LIMIT or weight >= WEIGHT_LIMIT:
        meta[BAD] = 1
    for number in range(meta[SUMS]):
        if outside(load_wide(cells, place + 1 + 2 * number)):
            meta[BAD] = 1


@jit_apart
def accumulate_checked(meta: Any, target: Any, to: int, cells: Any, place: int, count: int) -> None:
    """Add ``count`` consecutive entries to the entry at ``to``, and check the sum after each of them."""
    sums = meta[SUMS]
    for entry in range(count):
        add_values_at(target, to, cells, place + entry * (1 + 2 * sums), sums)
        check_limits(meta, target, to)


@jit_inline
def accumulate(meta: Any, target: Any, to: int, cells: Any, place: int, count: int, sums: int) -> None:
    """Add ``count`` consecutive entries to the entry at ``to``."""
    if meta[LARGE]:
        accumulate_checked(meta, target, to, cells, place, count)
        return
    width = 1 + 2 * sums
    weight = target[to]
    if sums == 1:
        # One loop for all words: its end is the branch that the processor mispredicts.
        total = load_wide(target, to + 1)
        for entry in range(count):
            weight += cells[place + entry * 3]
            total += load_wide(cells, place + entry * 3 + 1)
        store_wide(target, to + 1, total)
    elif sums == 2:
        first, second = load_wide(target, to + 1), load_wide(target, to + 3)
        for entry in range(count):
            weight += cells[place + entry * 5]
            first += load_wide(cells, place + entry * 5 + 1)
            second += load_wide(cells, place + entry * 5 + 3)
        store_wide(target, to + 1, first)
        store_wide(target, to + 3, second)
    else:
        for entry in range(count):
            weight += cells[place + entry * width]
        for word in range(1, width, 2):
            total = load_wide(target, to + word)
            for entry in range(count):
                total += load_wide(cells, place + entry * width + word)
            store_wide(target, to + word, total)
    target[to] = weight


@jit_inline
def accumulate_few(meta: Any, target: Any, cells: Any, first: int, capacity: int, count: int, sums: int) -> None:
    """Add the first ``count`` entries of a node, at most 64, to the first entry of ``target``.

    The entries of the node are followed by its octets and an entry that is 0. That entry is read in place of entries
    beyond the count, so that nothing branches on the count: in a tree of 3 levels a prefix sum takes three quarters of
    the time.
    """
    width, octets = 1 + 2 * sums, first + capacity * (1 + 2 * sums)
    nothing = octets + max(1, capacity >> 3) * width
    whole, rest, start = count >> 3, count & 7, first + (count & -8) * width
    if meta[LARGE]:
        accumulate_checked(meta, target, 0, cells, octets, whole)
        accumulate_checked(meta, target, 0, cells, start, rest)
        return
    weight = target[0]
    if sums == 1:
        total = load_wide(target, 1)
        for number in range(8):
            octet = octets + number * width if number < whole else nothing
            entry = start + number * width if number < rest else nothing
            weight += cells[octet] + cells[entry]
            total += load_wide(cells, octet + 1) + load_wide(cells, entry + 1)
        target[0] = weight
        store_wide(target, 1, total)
    elif sums == 2:
        total, other = load_wide(target, 1), load_wide(target, 3)
        for number in range(8):
            octet = octets + number * width if number < whole else nothing
            entry = start + number * width if number < rest else nothing
            weight += cells[octet] + cells[entry]
            total += load_wide(cells, octet + 1) + load_wide(cells, entry + 1)
            other += load_wide(cells, octet + 3) + load_wide(cells, entry + 3)
        target[0] = weight
        store_wide(target, 1, total)
        store_wide(target, 3, other)
    else:
        for number in range(8):
            octet = octets + number * width if number < whole else nothing
            entry = start + number * width if number < rest else nothing
            add_values_at(target, 0, cells, octet, sums)
            add_values_at(target, 0, cells, entry, sums)


@jit_apart
def accumulate_any(meta: Any, target: Any, to: int, cells: Any, place: int, count: int) -> None:
    """Do the same as `accumulate`, but not inlined into callers."""
    accumulate(meta, target, to, cells, place, count, meta[SUMS])


@jit_apart
def sum_up(meta: Any, target: Any, to: int, cells: Any, place: int, count: int) -> None:
    """Write the sum of ``count`` consecutive entries to ``to``."""
    fill(target, to, 1 + 2 * meta[SUMS], 0)
    accumulate_any(meta, target, to, cells, place, count)


@jit
def fill(cells: Any, place: int, count: int, value: int) -> None:
    """Set ``count`` consecutive cells to a value."""
    for at in range(place, place + count):
        cells[at] = value


@jit
def is_zero(cells: Any, place: int, count: int) -> bool:
    """Return whether ``count`` consecutive cells are all 0."""
    for at in range(place, place + count):
        if cells[at] != 0:
            return False
    return True


@jit_apart
def queue_empty(t: Any, group: int) -> None:
    """Let `ordered.finish` check whether a group is empty."""
    meta, rows = array(t, META), array(t, ROWS)
    row = row_of(group, meta[SUMS])
    if rows[row + IS_QUEUED] == 0:
        rows[row + IS_QUEUED] = 1
        array(t, EMPTY)[meta[EMPTIES]] = group
        meta[EMPTIES] += 1


@jit
def is_in_use(t: Any, group: int) -> bool:
    """Return whether a group number is in use."""
    groups = table(t, GROUPS)
    numbers = array(groups, hashing.META)
    if numbers[hashing.WIDTH] == 0:
        return True
    return array(groups, hashing.CELLS)[group * numbers[hashing.STRIDE] + numbers[hashing.WIDTH]] != 0


@jit_apart
def remove_group(t: Any, group: int) -> None:
    """Remove a group without entries from the directory; the only group of an index without group words stays."""
    groups = table(t, GROUPS)
    numbers = array(groups, hashing.META)
    if numbers[hashing.WIDTH] > 0:
        array(groups, hashing.CELLS)[group * numbers[hashing.STRIDE] + numbers[hashing.WIDTH]] = 0
        hashing.remove(groups, group)

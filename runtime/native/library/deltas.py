"""Deltas of an ordered index: the rows of a batch sorted by group and key, and added up where both are equal.

Deltas of near keys then follow one another, so that a search finds the nodes of a tree in the nearest cache, and the
deltas of one leaf are added with one search (`add_deltas`). The order does not affect results: if there are few rows,
or if the words to sort do not have enough bits, the order of the batch stays.

A word to sort has the group, the difference of the key to the least key, and the number of the row, from the highest
bits down. The words are sorted by their digits, the lowest digit first (Knuth, *The Art of Computer Programming*,
volume 3, section 5.2.5).
"""

from __future__ import annotations

from typing import Any

from runtime.native.library import ordered
from runtime.native.library.ahead import ENTRY_AHEAD, LEAF_AHEAD, begin_ahead, fetch_entry, fetch_leaf
from runtime.native.library.btree import (
    CHILD_SUMS,
    CHILDREN,
    CHUNK_MASK,
    COUNT,
    DEAD,
    DEAD_LEAST,
    FAN,
    GREATEST,
    KEYS,
    add_to_ancestors,
    check_added,
    chunk_of,
    entries_of,
    insert_entry,
    octets_of,
    shrink_leaf,
)
from runtime.native.library.entries import (
    DEPTH,
    IS_TREE,
    LARGE,
    LARGE_SHIFT,
    LIVE,
    META,
    PATH,
    PREFIX,
    ROOT,
    ROWS,
    TOTAL,
    VALUES,
    accumulate_few,
    add_values_at,
    add_values_twice,
    bits,
    clear,
    count_signs,
    magnitude,
    row_of,
    signs,
)
from runtime.native.plain import array, constant, copy_words, fits, jit, jit_apart, rank, wide

NUMBERS, ROW_GROUP, ROW_KEY, WORDS, SPARE, COUNTS, KEY, VALUE = 0, 1, 2, 3, 4, 5, 6, 7
FOUND, SCRATCH, RECENT, PLACES = 8, 9, 10, 11
"""Places of the table: numbers, group and key of each row, the words to sort, room for sorting them, counts of digits;
for each delta its key, the words of its entry, and the three entries that `around` writes; room for three entries, and
the ring of `ahead`. After sorting ``SPARE`` has the group of each delta.
"""
GROUP = SPARE
LENGTH, SHIFT, MASK, CURSOR = 0, 1, 2, 3
"""Numbers: number of words, or of deltas; bits of a row's number (0: rows are not sorted); mask of the row's number
in a word; and the number of the delta at which to resume + 1, or 0 before there are deltas.
"""
ROOM = 1 << 16
"""Number of rows for which there is room."""
DIGIT = 11
"""Greatest number of bits of a digit."""
_LEAST = 64
"""Number of rows from which sorting saves time."""
_WORD_BITS = 62


@jit
def bits_of_span(value: int) -> int:
    """Return the number of bits of a number, which must not be negative."""
    bits = 0
    while value >> bits != 0:
        bits += 1
    return bits


@jit_apart
def sort_rows(d: Any, rows: int, is_worth_it: bool) -> None:
    """Sort the rows whose numbers ``WORDS`` has, ascending, by group and key.

    They keep their order if they are few, if ``is_worth_it`` is False, or if a word does not have enough bits.
    """
    numbers, group, key, words = array(d, NUMBERS), array(d, ROW_GROUP), array(d, ROW_KEY), array(d, WORDS)
    numbers[LENGTH], numbers[SHIFT], numbers[MASK] = rows, 0, -1
    if rows < _LEAST or not is_worth_it:
        return
    low = high = key[words[0]]
    groups = 0
    for place in range(rows):
        row = words[place]
        low, high, groups = min(low, key[row]), max(high, key[row]), max(groups, group[row])
    if not fits(wide(high) - wide(low)):
        return
    shift, key_bits, group_bits = bits_of_span(words[rows - 1]), bits_of_span(high - low), bits_of_span(groups)
    if shift + key_bits + group_bits > _WORD_BITS:
        return
    for place in range(rows):
        row = words[place]
        words[place] = (((group[row] << key_bits) + (key[row] - low)) << shift) + row
    numbers[SHIFT], numbers[MASK] = shift, (1 << shift) - 1
    sort_words(d, rows, shift, key_bits + group_bits)


@jit_apart
def sort_words(d: Any, rows: int, shift: int, bits: int) -> None:
    """Sort the words by ``bits`` bits, after the lowest ``shift`` ones."""
    counts = array(d, COUNTS)
    source, target = array(d, WORDS), array(d, SPARE)
    passes = max(1, (bits + DIGIT - 1) // DIGIT)
    digit = (bits + passes - 1) // passes
    mask = (1 << digit) - 1
    for _ in range(passes):
        for place in range(mask + 1):
            counts[place] = 0
        for place in range(rows):
            counts[(source[place] >> shift) & mask] += 1
        total = 0
        for place in range(mask + 1):
            count = counts[place]
            counts[place] = total
            total += count
        for place in range(rows):
            word = source[place]
            at = (word >> shift) & mask
            target[counts[at]] = word
            counts[at] += 1
        source, target = target, source
        shift += digit
    if passes & 1:
        copy_words(array(d, WORDS), 0, array(d, SPARE), 0, rows)


@jit
def add_deltas(t: Any, d: Any, is_found: bool, sums: int) -> int:
    """Add the deltas from the cursor on to an index; return 0 if all are added, -1 if there is no room.

    With ``is_found`` the sums around each delta, before it is added, are written to ``FOUND``; see `around`.
    """
    sums = constant(sums)
    numbers, meta, ring = array(d, NUMBERS), array(t, META), array(d, RECENT)
    groups, keys, width, length = array(d, GROUP), array(d, KEY), 1 + 2 * sums, array(d, NUMBERS)[LENGTH]
    place = numbers[CURSOR] - 1
    looks_ahead, leaf, entry = begin_ahead(t, ring, length), place, place
    while place < length:
        if looks_ahead:
            leaf, entry = max(leaf, place), max(entry, place)
            while leaf < min(length, place + LEAF_AHEAD):
                fetch_leaf(t, ring, leaf, groups[leaf], keys[leaf])
                leaf += 1
            while entry < min(length, place + ENTRY_AHEAD):
                fetch_entry(t, ring, entry)
                entry += 1
        after = place
        if meta[IS_TREE] and not meta[LARGE]:
            after = add_to_leaf(t, d, place, is_found, sums)
        if after == place:
            if is_found:
                around(t, groups[place], keys[place], array(d, FOUND), place * 3 * width, sums)
            copy_words(array(t, VALUES), 0, array(d, VALUE), place * width, width)
            if ordered.add(t, groups[place], keys[place], sums) < 0:
                numbers[CURSOR] = place + 1
                return -1
            after += 1
        place = after
    return 0


@jit
def around(t: Any, group: int, key: int, results: Any, to: int, sums: int) -> None:
    """Write to a place the sums of a group's entries below a key, the entry of the key, and the sums of all entries."""
    sums = constant(sums)
    prefix, width = array(t, PREFIX), 1 + 2 * sums
    ordered.below(t, group, key, False, sums)
    copy_words(results, to, prefix, 0, width)
    position = ordered.place_of(t, group, key)
    clear(results, to + width, sums)
    if position >= 0 and ordered.key_at(t, group, position) == key:
        ordered.values_at(t, group, position, sums)
        copy_words(results, to + width, prefix, 0, width)
    ordered.total(t, group, sums)
    copy_words(results, to + 2 * width, prefix, 0, width)


@jit_apart
def add_to_leaf(t: Any, d: Any, place: int, is_found: bool, sums: int) -> int:
    """Add a delta and the next ones that have room in its leaf; return the place of the delta after them.

    If deltas are not sorted, a key less than the first one ends the run, as it may belong to an earlier leaf. The path
    to the leaf is searched once, and the sums on it are updated once. Dead and large entries end the run; see
    `btree.add`.
    """
    sums = constant(sums)
    meta, rows, values, total = array(t, META), array(t, ROWS), array(t, VALUES), array(t, PREFIX)
    keys, groups, added, results, below = (
        array(d, KEY),
        array(d, GROUP),
        array(d, VALUE),
        array(d, FOUND),
        array(d, SCRATCH),
    )
    width, group, key, length = 1 + 2 * sums, groups[place], keys[place], array(d, NUMBERS)[LENGTH]
    row, first = row_of(group, sums), place
    depth = rows[row + DEPTH]
    if depth < 2:
        return place
    clear(total, 0, sums)
    leaf, upper = descend(t, below, group, key, is_found, sums)
    cells, at = chunk_of(t, leaf), leaf & CHUNK_MASK
    entries, octets = entries_of(at, FAN), octets_of(at, FAN, width)
    large, is_small = -1, False
    while place < length and groups[place] == group and key <= keys[place] <= upper and large < 0 and not is_small:
        number = rank(cells, at + KEYS, FAN, keys[place])
        entry = entries + number * width
        if number == cells[at + COUNT] or cells[at + KEYS + number] != keys[place]:
            if cells[at + COUNT] == FAN:
                break
            insert_entry(cells, at, number, keys[place], sums)
        if is_found:
            copy_words(below, 0, below, width, width)
            accumulate_few(meta, below, cells, entries, FAN, number, sums)
            result = place * 3 * width
            copy_words(results, result, below, 0, width)
            copy_words(results, result + width, cells, entry, width)
            copy_words(results, result + 2 * width, rows, row + TOTAL, width)
            add_values_at(results, result + 2 * width, total, 0, sums)
        copy_words(values, 0, added, place * width, width)
        was, before = bits(cells, entry, sums), signs(cells, entry, sums)
        add_values_twice(cells, entry, octets + (number >> 3) * width, values, sums)
        add_values_at(total, 0, values, 0, sums)
        if (before | signs(cells, entry, sums)) < 0:
            count_signs(t, cells, entry)
        if magnitude(cells, entry, sums) >> LARGE_SHIFT:
            large = entry
        born = int(was == 0) - int(bits(cells, entry, sums) == 0)
        rows[row + LIVE] += born
        dead = cells[at + DEAD] - born
        cells[at + DEAD] = dead
        is_small = 4 * dead >= 3 * cells[at + COUNT] and (dead >= DEAD_LEAST or dead == cells[at + COUNT])
        place += 1
    if place > first:
        copy_words(values, 0, total, 0, width)
        add_values_at(rows, row + TOTAL, values, 0, sums)
        add_to_ancestors(t, depth, sums)
        if large >= 0:
            check_added(t, row, leaf, large)
        if is_small:
            shrink_leaf(t, group, row, leaf)
    return place


@jit
def descend(t: Any, below: Any, group: int, key: int, is_found: bool, sums: int) -> tuple[int, int]:
    """Return the leaf of a key, and the greatest key that it may contain; ``PATH`` then leads to the leaf.

    With ``is_found`` the sums of the leaves before it are written to the second entry of ``below``.
    """
    sums = constant(sums)
    meta, rows, path, row = array(t, META), array(t, ROWS), array(t, PATH), row_of(group, sums)
    leaf, upper, width = rows[row + ROOT], GREATEST, 1 + 2 * sums
    clear(below, width, sums)
    for level in range(rows[row + DEPTH] - 1):
        cells, at = chunk_of(t, leaf), leaf & CHUNK_MASK
        child = rank(cells, at + KEYS, FAN, key)
        path[2 * level], path[2 * level + 1] = leaf, child
        leaf, upper = cells[at + CHILDREN + child], min(upper, cells[at + KEYS + child])
        if is_found:
            clear(below, 0, sums)
            accumulate_few(meta, below, cells, at + CHILD_SUMS, FAN, child, sums)
            add_values_at(below, width, below, 0, sums)
    return leaf, upper

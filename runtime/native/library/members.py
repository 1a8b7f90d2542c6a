"""Table of records that are also found by a part of their key: the kernel side of `native.indexes.Members`.

A record is found by its whole key in ``RECORDS``; all records whose keys begin with the same words, their *head*, are a
doubly linked list, whose first record the table ``HEADS`` has. Both tables are `hashing` tables and are searched by
their scratch keys. The order of the list has no meaning.
"""

from __future__ import annotations

from typing import Any

from runtime.native.library import hashing
from runtime.native.plain import array, jit, table

META, RECORDS, HEADS, LINKS = 0, 1, 2, 3
"""Places of the table: numbers, the records, head → first record's slot + 1, and for each slot of ``RECORDS`` two
words: the next record's slot + 1 (0: none), and the previous record's slot + 1 (for the first record: -1 - slot
of the head).
"""
WANTED = 0
"""Number in ``META``: place of the table that had no room."""


@jit
def locate_member(t: Any) -> int:
    """Return the slot of the scratch key of ``RECORDS``, which is added if it is missing; -1 if there is no room."""
    records, heads, links = table(t, RECORDS), table(t, HEADS), array(t, LINKS)
    slot = hashing.find(records)
    if slot >= 0:
        return slot
    meta, key, head_key = array(t, META), array(records, hashing.KEY), array(heads, hashing.KEY)
    head_meta = array(heads, hashing.META)
    width, stride = head_meta[hashing.WIDTH], head_meta[hashing.STRIDE]
    for word in range(width):
        head_key[word] = key[word]
    head = hashing.locate(heads)
    if head < 0:
        meta[WANTED] = HEADS
        return -1
    slot = hashing.locate(records)
    if slot < 0:
        meta[WANTED] = RECORDS
        return -1
    first = array(heads, hashing.CELLS)
    place = head * stride + width
    links[2 * slot], links[2 * slot + 1] = first[place], -1 - head
    if first[place] > 0:
        links[2 * first[place] - 1] = slot + 1
    first[place] = slot + 1
    return slot


@jit
def drop_member_if_zero(t: Any, slot: int) -> None:
    """Remove a record if all of its values are 0."""
    records, heads, links = table(t, RECORDS), table(t, HEADS), array(t, LINKS)
    if not hashing.is_zero(records, slot):
        return
    after, before = links[2 * slot], links[2 * slot + 1]
    if after > 0:
        links[2 * after - 1] = before
    if before > 0:
        links[2 * before - 2] = after
    else:
        meta, cells, head = array(heads, hashing.META), array(heads, hashing.CELLS), -1 - before
        cells[head * meta[hashing.STRIDE] + meta[hashing.WIDTH]] = after
        if after == 0 and meta[hashing.WIDTH] > 0:
            hashing.remove(heads, head)
    hashing.remove(records, slot)


@jit
def first_member(t: Any) -> int:
    """Return the slot of the first record with the scratch key of ``HEADS``; -1 if there is none."""
    heads = table(t, HEADS)
    head = hashing.find(heads)
    if head < 0:
        return -1
    meta = array(heads, hashing.META)
    slot: int = array(heads, hashing.CELLS)[head * meta[hashing.STRIDE] + meta[hashing.WIDTH]] - 1
    return slot


@jit
def next_member(t: Any, slot: int) -> int:
    """Return the slot of the next record with the same head; -1 if there is none."""
    after: int = array(t, LINKS)[2 * slot] - 1
    return after

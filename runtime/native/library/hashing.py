"""Hash table of records: key words, then value words, addressed by slot; kernel side of `native.structures.HashTable`.

Open addressing with linear probing over an index of slot numbers, which is at most half full. Removal moves later
entries of the cluster back, so that there are no deleted entries to skip. A table whose key is one word in a narrow
window is indexed by the key itself (``DIRECT``). A record whose value words are all 0 is not live.

A table that is a result also has the values from before the current step: `touch` copies them before the first change.
"""

from __future__ import annotations

from typing import Any

from runtime.native.plain import array, jit, jit_inline, mix

META, CELLS, INDEX, KEY, STAMPS, TOUCHED, OLD = 0, 1, 2, 3, 4, 5, 6
"""Places of a table's arrays."""
USED, ROOM, FREE, LIVE, MASK, WIDTH, STRIDE, DIRECT, BASE, STEP, CHANGED, DROPS = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
"""Numbers in ``META``: slots ever used, capacity in slots, first free slot + 1, live records, size of the index - 1,
key words, words of a record, whether the index is direct, its least key, number of the step, records touched in
it, whether an empty record is removed at once.
"""


@jit
def hash_of(cells: Any, place: int, width: int) -> int:
    """Return the hash of the key words that begin at a place."""
    state = 0
    for word in range(width):
        state = mix(state, cells[place + word])
    return state


@jit
def same_key(cells: Any, place: int, key: Any, width: int) -> bool:
    """Return whether the key words at a place are those of the scratch key."""
    for word in range(width):
        if cells[place + word] != key[word]:
            return False
    return True


@jit_inline
def probe(t: Any) -> tuple[int, int]:
    """Return the place of the scratch key in the index, or where it belongs, and its slot.

    The place is -1 if the key is outside of a direct index; the slot is -1 if the key is missing.
    """
    meta, index, key = array(t, META), array(t, INDEX), array(t, KEY)
    if meta[DIRECT]:
        at = key[0] - meta[BASE]
        if at < 0 or at > meta[MASK]:
            return -1, -1
        return at, index[at] - 1
    cells, mask, width, stride = array(t, CELLS), meta[MASK], meta[WIDTH], meta[STRIDE]
    at = hash_of(key, 0, width) & mask
    while index[at] != 0 and not same_key(cells, (index[at] - 1) * stride, key, width):
        at = (at + 1) & mask
    return at, index[at] - 1


@jit
def find(t: Any) -> int:
    """Return the slot of the scratch key, or -1."""
    _, slot = probe(t)
    return slot


@jit
def locate(t: Any) -> int:
    """Return the slot of the scratch key, which is added if it is missing; -1 if the table has no room for it."""
    at, slot = probe(t)
    if slot >= 0 or at < 0:
        return slot
    meta, cells, key = array(t, META), array(t, CELLS), array(t, KEY)
    width, stride = meta[WIDTH], meta[STRIDE]
    slot = meta[FREE] - 1
    if slot >= 0:
        meta[FREE] = cells[slot * stride]
    else:
        slot = meta[USED]
        if slot == meta[ROOM]:
            return -1
        meta[USED] = slot + 1
    array(t, INDEX)[at] = slot + 1
    meta[LIVE] += 1
    for word in range(width):
        cells[slot * stride + word] = key[word]
    return slot


@jit
def remove(t: Any, slot: int) -> None:
    """Remove a record whose values are all 0."""
    meta, index, cells = array(t, META), array(t, INDEX), array(t, CELLS)
    width, stride, mask = meta[WIDTH], meta[STRIDE], meta[MASK]
    place = slot * stride
    if meta[DIRECT]:
        index[cells[place] - meta[BASE]] = 0
    else:
        at = hash_of(cells, place, width) & mask
        while index[at] != slot + 1:
            at = (at + 1) & mask
        after = (at + 1) & mask
        while index[after] != 0:
            home = hash_of(cells, (index[after] - 1) * stride, width) & mask
            if ((after - home) & mask) >= ((after - at) & mask):
                index[at] = index[after]
                at = after
            after = (after + 1) & mask
        index[at] = 0
    # Width 0 is a table without keys, whose one record is never removed.
    cells[place] = meta[FREE]
    meta[FREE] = slot + 1
    meta[LIVE] -= 1


@jit
def is_zero(t: Any, slot: int) -> bool:
    """Return whether all values of a record are 0."""
    meta, cells = array(t, META), array(t, CELLS)
    for place in range(slot * meta[STRIDE] + meta[WIDTH], (slot + 1) * meta[STRIDE]):
        if cells[place] != 0:
            return False
    return True


@jit
def drop_if_zero(t: Any, slot: int) -> None:
    """Remove a record if all of its values are 0; a table without keys keeps its one record."""
    if array(t, META)[WIDTH] > 0 and is_zero(t, slot):
        remove(t, slot)


@jit
def touch(t: Any, slot: int) -> None:
    """Save the values of a record before its first change in this step."""
    meta, stamps = array(t, META), array(t, STAMPS)
    if stamps[slot] == meta[STEP]:
        return
    stamps[slot] = meta[STEP]
    number = meta[CHANGED]
    meta[CHANGED] = number + 1
    array(t, TOUCHED)[number] = slot
    cells, old, width, stride = array(t, CELLS), array(t, OLD), meta[WIDTH], meta[STRIDE]
    words = stride - width
    for word in range(words):
        old[number * words + word] = cells[slot * stride + width + word]


@jit
def settle(t: Any) -> None:
    """End a step: remove the touched records that are empty, and mark no record as touched."""
    meta, touched = array(t, META), array(t, TOUCHED)
    for number in range(meta[CHANGED]):
        drop_if_zero(t, touched[number])
    meta[CHANGED] = 0
    meta[STEP] += 1

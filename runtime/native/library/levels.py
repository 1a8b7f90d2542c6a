"""Totals by group and key, and the least key of each group: the kernel side of `native.indexes.Levels`.

A key whose total is not 0 is a record of a `hashing` table. The records of a group are the nodes of a pairing heap as
well, linked by their slots, whose root has the least key. A new key is compared only with the root; a key whose total
becomes 0 leaves the heap at once, from any place, in amortised time logarithmic in the keys of its group. Keys that are
added and removed near the least one, like prices in an order book, have few children or none.

See Fredman, Sedgewick, Sleator and Tarjan, "The Pairing Heap: A New Form of Self-Adjusting Heap", Algorithmica 1,
1986.
"""

# mypy: disable-error-code="no-any-return"
# (cells of a table are Any)

from __future__ import annotations

from typing import Any

from runtime.native.library import hashing
from runtime.native.plain import array, jit, jit_inline, load_wide, store_wide, table, wide

RECORDS, ROOTS = 0, 1
"""Places of the table: the records; for each group the root of its heap. A node is the slot of its record + 1; 0 is
none."""
GROUP, KEY, TOTAL, CHILD, AFTER, BEFORE = 0, 1, 2, 4, 5, 6
"""Words of a record: its group and key; its total, of two words; the first of its children, the next child of its
parent, and the child before it, or the parent of the first child."""
WORDS = 8
"""Words of a record: one more than needed, so that a record is as long as a line of the processor's cache."""


@jit_inline
def place_of(node: int) -> int:
    """Return the place where the words of a node begin."""
    return (node - 1) * WORDS


@jit_inline
def least(t: Any, group: int) -> int:
    """Return the node of the least key of a group; 0 if the group has no keys."""
    return array(t, ROOTS)[group]


@jit_inline
def join(cells: Any, left: int, right: int) -> int:
    """Make the root with the greater key the first child of the other root; return the latter."""
    if cells[place_of(right) + KEY] < cells[place_of(left) + KEY]:
        left, right = right, left
    parent, child = place_of(left), place_of(right)
    first = cells[parent + CHILD]
    cells[child + AFTER], cells[child + BEFORE] = first, left
    if first > 0:
        cells[place_of(first) + BEFORE] = right
    cells[parent + CHILD] = right
    return left


@jit
def join_all(cells: Any, first: int) -> int:
    """Join the heaps of siblings, from the first on: in pairs, then the pairs from last to first; return the root."""
    pairs = 0
    while first > 0:
        root, other = first, cells[place_of(first) + AFTER]
        first = 0
        if other > 0:
            first = cells[place_of(other) + AFTER]
            root = join(cells, root, other)
        cells[place_of(root) + AFTER] = pairs
        pairs = root
    root = 0
    while pairs > 0:
        following = cells[place_of(pairs) + AFTER]
        root = join(cells, root, pairs) if root > 0 else pairs
        pairs = following
    if root > 0:
        cells[place_of(root) + AFTER], cells[place_of(root) + BEFORE] = 0, 0
    return root


@jit
def remove_node(t: Any, group: int, node: int) -> None:
    """Remove a node whose total is 0 from its heap, and its record from the table."""
    records, roots = table(t, RECORDS), array(t, ROOTS)
    cells, place, root = array(records, hashing.CELLS), place_of(node), roots[group]
    rest = join_all(cells, cells[place + CHILD])
    if node == root:
        roots[group] = rest
    else:
        after, before = cells[place + AFTER], cells[place + BEFORE]
        if cells[place_of(before) + CHILD] == node:
            cells[place_of(before) + CHILD] = after
        else:
            cells[place_of(before) + AFTER] = after
        if after > 0:
            cells[place_of(after) + BEFORE] = before
        if rest > 0:
            roots[group] = join(cells, root, rest)
    for word in range(CHILD, WORDS):
        cells[place + word] = 0
    hashing.remove(records, node - 1)


@jit_inline
def add(t: Any, group: int, key: int, amount: int) -> None:
    """Add an amount that is not 0 to the total of a key; there must be room for one more key."""
    records, roots = table(t, RECORDS), array(t, ROOTS)
    scratch = array(records, hashing.KEY)
    scratch[GROUP], scratch[KEY] = group, key
    node = hashing.locate(records) + 1
    cells, place = array(records, hashing.CELLS), place_of(node)
    total = load_wide(cells, place + TOTAL)
    if not total:
        roots[group] = join(cells, roots[group], node) if roots[group] > 0 else node
    total += wide(amount)
    store_wide(cells, place + TOTAL, total)
    if not total:
        remove_node(t, group, node)

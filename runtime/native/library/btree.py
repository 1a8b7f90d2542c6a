"""Tree layout of an ordered index: for every group a B+-tree whose inner nodes contain the sums of their children.

Nodes are words in chunks of 2^16 words, addressed by the number of their first word over all chunks. A node never
crosses a chunk, and the owner adds chunks, so that no node is ever moved to make room. A leaf has up to 64 entries by
ascending key; the only leaf of a group may be a smaller one, for 4 or 16. An inner node has up to 64 children with
their sums, and between any two of them a key: the greatest that the left one may contain. Unused keys are 2^63 - 1, the
greatest of all, so that a search may always compare all 64. After its entries or children a node has the sums of its
*octets*, groups of 8 of these, so that a prefix sum adds at most 8 octets and 7 entries in each level. Its last entry
is always 0, which `entries.accumulate_few` needs.

An entry whose words have become 0 stays in its leaf; it is *dead*. When three quarters of a leaf are dead, the leaf is
*squeezed*: the dead entries are removed. It is then merged with a neighbour of the same parent if both together fill at
most three quarters of a leaf. A leaf whose entries are all dead is freed at once.

In the functions below ``t`` is the index's table (`entries`), ``cells`` the array of a chunk, ``at`` the place of a
node in its chunk, and ``row`` the place of a group's row. ``PATH`` has for each level above the leaves the inner node
and the number of the child that a search has descended to; ``PREFIX`` is the entry into which results are written.

See Comer, "The Ubiquitous B-Tree", ACM Computing Surveys 11 (2), 1979; the sums are those of an order-statistic tree.
"""

from __future__ import annotations

from typing import Any

from runtime.native.library.entries import (
    CHUNKS,
    DEPTH,
    END,
    FREE,
    LARGE,
    LARGE_SHIFT,
    LIVE,
    META,
    NEXT,
    PATH,
    PREFIX,
    ROOT,
    ROWS,
    SIZE,
    SUMS,
    TOTAL,
    VALUES,
    WANTED,
    WANTED_KEY,
    WANTED_NODE,
    accumulate_few,
    add_values_at,
    add_values_twice,
    bits,
    check_limits,
    clear,
    count_signs,
    fill,
    is_zero,
    magnitude,
    queue_empty,
    remove_group,
    row_of,
    signs,
    subtract_values_at,
    sum_up,
)
from runtime.native.plain import (
    array,
    constant,
    copy_words,
    jit,
    jit_apart,
    jit_inline,
    rank,
    table,
)

CHUNK_SHIFT = 16
CHUNK = 1 << CHUNK_SHIFT
"""Words of a chunk."""
CHUNK_MASK = CHUNK - 1
FAN = 64
"""Greatest number of children of an inner node, and of entries of a leaf."""
LEVELS = 16
"""Greatest number of levels of a tree: more than fit into any memory."""

COUNT, DEAD, AFTER, BEFORE, CAPACITY, KEYS = 0, 1, 2, 3, 4, 8
"""Words at the beginning of a node: number of children or entries, number of dead entries, the next leaf and the leaf
before (each + 1; 0 for none), and capacity. The keys follow; then in a leaf the entries, and in an inner node the
children and their sums; the octets are last."""
CHILDREN = KEYS + FAN
CHILD_SUMS = CHILDREN + FAN

TINY, SMALL, LEAF, INNER = 0, 1, 2, 3
"""Kinds of nodes: leaves for 4, 16 and 64 entries, and inner nodes."""
GREATEST = (1 << 63) - 1
DEAD_LEAST = 8
"""Number of dead entries from which they are removed from a leaf that is neither full nor entirely dead."""
MERGED = 48
"""Greatest number of children or entries of a merged node."""
SPARSE = 16
"""Number of children up to which an inner node is merged if possible."""


@jit_inline
def chunk_of(t: Any, node: int) -> Any:
    """Return the array that contains a node."""
    return array(table(t, CHUNKS), node >> CHUNK_SHIFT)


@jit_inline
def entries_of(at: int, capacity: int) -> int:
    """Return the place at which the entries of a leaf begin."""
    return at + KEYS + capacity


@jit_inline
def octets_of(at: int, capacity: int, width: int) -> int:
    """Return the place at which the octets of a leaf begin; it has at least one."""
    return at + KEYS + capacity * (1 + width)


@jit_inline
def child_octets_of(at: int, width: int) -> int:
    """Return the place at which the octets of an inner node begin."""
    return at + CHILD_SUMS + FAN * width


# ---- nodes ----------------------------------------------------------------------------------------------------------


@jit_apart
def allocate(t: Any, kind: int, capacity: int) -> int:
    """Return a new node without children or entries; -1 if there is no room."""
    meta = array(t, META)
    node, size = meta[FREE + kind] - 1, meta[SIZE + kind]
    if node >= 0:
        cells = chunk_of(t, node)
        meta[FREE + kind] = cells[node & CHUNK_MASK]
    else:
        node = meta[NEXT]
        if (node & CHUNK_MASK) + size > CHUNK:
            node = (node | CHUNK_MASK) + 1
        if node + size > meta[END]:
            return -1
        meta[NEXT] = node + size
        cells = chunk_of(t, node)
    at = node & CHUNK_MASK
    fill(cells, at, size, 0)
    fill(cells, at + KEYS, capacity, GREATEST)
    cells[at + CAPACITY] = capacity
    return node


@jit_apart
def release(t: Any, kind: int, node: int) -> None:
    """Free a node."""
    meta = array(t, META)
    chunk_of(t, node)[node & CHUNK_MASK] = meta[FREE + kind]
    meta[FREE + kind] = node + 1


@jit_inline
def kind_of(capacity: int) -> int:
    """Return the kind of a leaf with this capacity."""
    if capacity == FAN:
        return LEAF
    return SMALL if capacity == 16 else TINY


@jit_apart
def squeeze(t: Any, leaf: int) -> None:
    """Remove the dead entries of a leaf."""
    cells, at, width = chunk_of(t, leaf), leaf & CHUNK_MASK, 1 + 2 * array(t, META)[SUMS]
    capacity, count = cells[at + CAPACITY], cells[at + COUNT]
    entries, kept = entries_of(at, capacity), 0
    for entry in range(count):
        if not is_zero(cells, entries + entry * width, width):
            if kept < entry:
                cells[at + KEYS + kept] = cells[at + KEYS + entry]
                copy_words(cells, entries + kept * width, cells, entries + entry * width, width)
            kept += 1
    fill(cells, at + KEYS + kept, count - kept, GREATEST)
    cells[at + COUNT] = kept
    cells[at + DEAD] = 0
    make_octets(t, leaf, True)


@jit_apart
def make_octets(t: Any, node: int, is_leaf: bool) -> None:
    """Compute the octets of a node."""
    meta, cells, at = array(t, META), chunk_of(t, node), node & CHUNK_MASK
    width, capacity, count = 1 + 2 * meta[SUMS], cells[at + CAPACITY], cells[at + COUNT]
    first = entries_of(at, capacity) if is_leaf else at + CHILD_SUMS
    for number in range(max(1, capacity >> 3)):
        size = min(8, max(0, count - number * 8))
        sum_up(meta, cells, first + (capacity + number) * width, cells, first + number * 8 * width, size)


@jit_apart
def sum_node(t: Any, node: int, is_leaf: bool, target: Any, to: int) -> None:
    """Write the sum of a node's octets to a place."""
    meta, cells, at = array(t, META), chunk_of(t, node), node & CHUNK_MASK
    width, capacity = 1 + 2 * meta[SUMS], cells[at + CAPACITY]
    octets = octets_of(at, capacity, width) if is_leaf else child_octets_of(at, width)
    sum_up(meta, target, to, cells, octets, max(1, capacity >> 3))


@jit_apart
def insert_child(t: Any, parent: int, child: int, key: int, node: int, is_leaf: bool) -> None:
    """Insert a node into a parent, which has room, after one of its children, from which the node was split off.

    ``key`` becomes the greatest key of that child. The octets and sums of both are computed again."""
    sums, cells, at = array(t, META)[SUMS], chunk_of(t, parent), parent & CHUNK_MASK
    width, after = 1 + 2 * sums, cells[at + COUNT] - child - 1
    copy_words(cells, at + KEYS + child + 1, cells, at + KEYS + child, after)
    copy_words(cells, at + CHILDREN + child + 2, cells, at + CHILDREN + child + 1, after)
    sums_at = at + CHILD_SUMS + child * width
    copy_words(cells, sums_at + 2 * width, cells, sums_at + width, after * width)
    cells[at + KEYS + child] = key
    cells[at + CHILDREN + child + 1] = node
    cells[at + COUNT] += 1
    make_octets(t, cells[at + CHILDREN + child], is_leaf)
    make_octets(t, node, is_leaf)
    sum_node(t, cells[at + CHILDREN + child], is_leaf, cells, sums_at)
    sum_node(t, node, is_leaf, cells, sums_at + width)
    make_octets(t, parent, False)


@jit_apart
def delete_child(t: Any, parent: int, child: int) -> int:
    """Remove a child from its parent, whose other children keep their sums; return how many are left."""
    sums, cells, at = array(t, META)[SUMS], chunk_of(t, parent), parent & CHUNK_MASK
    width, left = 1 + 2 * sums, cells[at + COUNT] - 1
    after = left - child
    copy_words(cells, at + KEYS + child, cells, at + KEYS + child + 1, after)
    copy_words(cells, at + CHILDREN + child, cells, at + CHILDREN + child + 1, after)
    sums_at = at + CHILD_SUMS + child * width
    copy_words(cells, sums_at, cells, sums_at + width, after * width)
    cells[at + KEYS + left] = GREATEST
    if left > 0:
        cells[at + KEYS + left - 1] = GREATEST
    cells[at + COUNT] = left
    make_octets(t, parent, False)
    return left


# ---- growth ---------------------------------------------------------------------------------------------------------


@jit_apart
def grow_leaf(t: Any, row: int, leaf: int) -> bool:
    """Move the entries of a group's only leaf into a larger leaf; return False if there is no room."""
    sums, rows, source, at = array(t, META)[SUMS], array(t, ROWS), chunk_of(t, leaf), leaf & CHUNK_MASK
    width, capacity, count = 1 + 2 * sums, source[at + CAPACITY], source[at + COUNT]
    larger = allocate(t, kind_of(capacity * 4), capacity * 4)
    if larger < 0:
        return False
    cells, to = chunk_of(t, larger), larger & CHUNK_MASK
    copy_words(cells, to + KEYS, source, at + KEYS, count)
    copy_words(cells, entries_of(to, capacity * 4), source, entries_of(at, capacity), count * width)
    cells[to + COUNT] = count
    cells[to + DEAD] = source[at + DEAD]
    make_octets(t, larger, True)
    rows[row + ROOT] = larger
    release(t, kind_of(capacity), leaf)
    return True


@jit_apart
def split_leaf(t: Any, parent: int, child: int, leaf: int, key: int) -> bool:
    """Split a full leaf, whose parent has room, to insert a key; return False if there is no room for a leaf.

    If the key is greater than all keys of the group, no entry moves to the new leaf, so that leaves which are filled in
    order stay full."""
    width, source, at = 1 + 2 * array(t, META)[SUMS], chunk_of(t, leaf), leaf & CHUNK_MASK
    node = allocate(t, LEAF, FAN)
    if node < 0:
        return False
    cells, to = chunk_of(t, node), node & CHUNK_MASK
    count, half = source[at + COUNT], FAN // 2
    if source[at + AFTER] == 0 and key > source[at + KEYS + count - 1]:
        half = count
    copy_words(cells, to + KEYS, source, at + KEYS + half, count - half)
    copy_words(cells, entries_of(to, FAN), source, entries_of(at, FAN) + half * width, (count - half) * width)
    fill(source, at + KEYS + half, count - half, GREATEST)
    cells[to + COUNT] = count - half
    source[at + COUNT] = half
    after = source[at + AFTER]
    cells[to + AFTER], cells[to + BEFORE] = after, leaf + 1
    source[at + AFTER] = node + 1
    if after != 0:
        chunk_of(t, after - 1)[((after - 1) & CHUNK_MASK) + BEFORE] = node + 1
    insert_child(t, parent, child, source[at + KEYS + half - 1], node, True)
    return True


@jit_apart
def split_inner(t: Any, parent: int, child: int, inner: int, is_last: bool) -> bool:
    """Split a full inner node, whose parent has room; return False if there is no room for a node.

    With ``is_last`` the key to be inserted belongs to the last child, and only that child moves to the new node."""
    width, source, at = 1 + 2 * array(t, META)[SUMS], chunk_of(t, inner), inner & CHUNK_MASK
    node = allocate(t, INNER, FAN)
    if node < 0:
        return False
    cells, to = chunk_of(t, node), node & CHUNK_MASK
    half = FAN - 1 if is_last else FAN // 2
    rest = FAN - half
    copy_words(cells, to + KEYS, source, at + KEYS + half, rest)
    copy_words(cells, to + CHILDREN, source, at + CHILDREN + half, rest)
    copy_words(cells, to + CHILD_SUMS, source, at + CHILD_SUMS + half * width, rest * width)
    key = source[at + KEYS + half - 1]
    fill(source, at + KEYS + half - 1, rest + 1, GREATEST)
    cells[to + COUNT] = rest
    source[at + COUNT] = half
    insert_child(t, parent, child, key, node, False)
    return True


@jit_apart
def grow_root(t: Any, row: int) -> bool:
    """Add a new root above the root, which becomes its only child; return False if there is no room."""
    rows, meta = array(t, ROWS), array(t, META)
    root = allocate(t, INNER, FAN)
    if root < 0:
        return False
    cells, at = chunk_of(t, root), root & CHUNK_MASK
    cells[at + COUNT] = 1
    cells[at + CHILDREN] = rows[row + ROOT]
    copy_words(cells, at + CHILD_SUMS, rows, row + TOTAL, 1 + 2 * meta[SUMS])
    make_octets(t, root, False)
    rows[row + ROOT] = root
    rows[row + DEPTH] += 1
    return True


@jit_apart
def make_place(t: Any, row: int, leaf: int, key: int) -> bool:
    """Do one step towards room for a key in its full leaf, to which ``PATH`` leads; return False if there is no room.

    `add` repeats its search after each step. No step changes an entry."""
    rows, path, cells, at = array(t, ROWS), array(t, PATH), chunk_of(t, leaf), leaf & CHUNK_MASK
    if cells[at + DEAD] >= DEAD_LEAST or (cells[at + DEAD] > 0 and cells[at + CAPACITY] < FAN):
        squeeze(t, leaf)
        return True
    if cells[at + CAPACITY] < FAN:
        return grow_leaf(t, row, leaf)
    if cells[at + DEAD] > 0:
        squeeze(t, leaf)
    # The lowest inner node on the path that has room gets another child: half of its child on the path, which is full.
    level, is_last = rows[row + DEPTH] - 2, True
    while level >= 0:
        parent, child = path[2 * level], path[2 * level + 1]
        count = chunk_of(t, parent)[(parent & CHUNK_MASK) + COUNT]
        if count < FAN:
            break
        is_last = is_last and child == count - 1
        level -= 1
    if level < 0:
        # If dead entries were removed, the leaf has room now, and a new root would have a single child.
        return cells[at + COUNT] < FAN or grow_root(t, row)
    if level == rows[row + DEPTH] - 2:
        return split_leaf(t, parent, child, leaf, key)
    return split_inner(t, parent, child, path[2 * level + 2], is_last)


# ---- shrinking ------------------------------------------------------------------------------------------------------


@jit_apart
def merge(t: Any, parent: int, child: int, is_leaf: bool) -> bool:
    """Merge a child with the next one of the same parent if both are small enough; return whether they were merged."""
    cells, at, width = chunk_of(t, parent), parent & CHUNK_MASK, 1 + 2 * array(t, META)[SUMS]
    if child < 0 or child + 1 >= cells[at + COUNT]:
        return False
    left, right = cells[at + CHILDREN + child], cells[at + CHILDREN + child + 1]
    target, to, source, start = chunk_of(t, left), left & CHUNK_MASK, chunk_of(t, right), right & CHUNK_MASK
    if target[to + COUNT] - target[to + DEAD] + source[start + COUNT] - source[start + DEAD] > MERGED:
        return False
    values = entries_of(0, FAN) if is_leaf else CHILD_SUMS
    if is_leaf:
        squeeze(t, left)
        squeeze(t, right)
    count, more = target[to + COUNT], source[start + COUNT]
    if not is_leaf:
        target[to + KEYS + count - 1] = cells[at + KEYS + child]
        copy_words(target, to + CHILDREN + count, source, start + CHILDREN, more)
    copy_words(target, to + KEYS + count, source, start + KEYS, more)
    copy_words(target, to + values + count * width, source, start + values, more * width)
    target[to + COUNT] = count + more
    make_octets(t, left, is_leaf)
    if is_leaf:
        unlink(t, right)
    else:
        release(t, INNER, right)
    join_children(t, parent, child)
    return True


@jit_apart
def join_children(t: Any, parent: int, child: int) -> None:
    """Give a child the upper key of the next child and the sums of both, and remove the next child."""
    meta, cells, at = array(t, META), chunk_of(t, parent), parent & CHUNK_MASK
    place = at + CHILD_SUMS + child * (1 + 2 * meta[SUMS])
    cells[at + KEYS + child] = cells[at + KEYS + child + 1]
    sum_up(meta, array(t, PREFIX), 0, cells, place, 2)
    copy_words(cells, place, array(t, PREFIX), 0, 1 + 2 * meta[SUMS])
    delete_child(t, parent, child + 1)


@jit_apart
def unlink(t: Any, leaf: int) -> None:
    """Free a leaf and remove it from the list of leaves."""
    cells, at = chunk_of(t, leaf), leaf & CHUNK_MASK
    after, before = cells[at + AFTER], cells[at + BEFORE]
    if after != 0:
        chunk_of(t, after - 1)[((after - 1) & CHUNK_MASK) + BEFORE] = before
    if before != 0:
        chunk_of(t, before - 1)[((before - 1) & CHUNK_MASK) + AFTER] = after
    release(t, kind_of(cells[at + CAPACITY]), leaf)


@jit_apart
def shrink_leaf(t: Any, group: int, row: int, leaf: int) -> None:
    """Remove the dead entries of a leaf, to which ``PATH`` leads, and merge it if possible; free it if all are dead.

    Inner nodes above the leaf that become small are then merged or freed too."""
    rows, path, cells, at = array(t, ROWS), array(t, PATH), chunk_of(t, leaf), leaf & CHUNK_MASK
    level = rows[row + DEPTH] - 2
    is_empty = cells[at + COUNT] == cells[at + DEAD]
    if is_empty:
        unlink(t, leaf)
        if level < 0:
            drop_root(t, group, row)
        else:
            delete_child(t, path[2 * level], path[2 * level + 1])
            shrink_inner(t, group, row)
        return
    squeeze(t, leaf)
    if level >= 0:
        parent, child = path[2 * level], path[2 * level + 1]
        if merge(t, parent, child, True) or merge(t, parent, child - 1, True):
            shrink_inner(t, group, row)


@jit_apart
def shrink_inner(t: Any, group: int, row: int) -> None:
    """Merge or free the inner nodes on ``PATH`` that have become small, from the lowest to the root."""
    rows, path = array(t, ROWS), array(t, PATH)
    for level in range(rows[row + DEPTH] - 2, 0, -1):
        inner, parent, child = path[2 * level], path[2 * level - 2], path[2 * level - 1]
        count = chunk_of(t, inner)[(inner & CHUNK_MASK) + COUNT]
        if count == 0:
            release(t, INNER, inner)
            delete_child(t, parent, child)
        elif count > SPARSE or not (merge(t, parent, child, False) or merge(t, parent, child - 1, False)):
            return
    root = path[0]
    count = chunk_of(t, root)[(root & CHUNK_MASK) + COUNT]
    if count == 0:
        release(t, INNER, root)
        drop_root(t, group, row)
    while count == 1 and rows[row + DEPTH] > 1:
        # A root with one child is replaced by the child.
        rows[row + ROOT] = chunk_of(t, root)[(root & CHUNK_MASK) + CHILDREN]
        rows[row + DEPTH] -= 1
        release(t, INNER, root)
        root = rows[row + ROOT]
        count = chunk_of(t, root)[(root & CHUNK_MASK) + COUNT]


@jit_apart
def drop_root(t: Any, group: int, row: int) -> None:
    """Mark a group as having no tree."""
    rows = array(t, ROWS)
    rows[row + ROOT] = 0
    rows[row + DEPTH] = 0
    queue_empty(t, group)


# ---- entries --------------------------------------------------------------------------------------------------------


@jit_inline
def insert_entry(cells: Any, at: int, place: int, key: int, sums: int) -> None:
    """Insert an entry of zeros into a leaf with room, and correct the octets, as later entries move by one place."""
    count, capacity, width = cells[at + COUNT], cells[at + CAPACITY], 1 + 2 * sums
    first, octets = entries_of(at, capacity), octets_of(at, capacity, width)
    if place < count:
        copy_words(cells, at + KEYS + place + 1, cells, at + KEYS + place, count - place)
        copy_words(cells, first + (place + 1) * width, cells, first + place * width, (count - place) * width)
        for number in range((place >> 3) + 1, (count >> 3) + 1):
            add_values_at(cells, octets + number * width, cells, first + number * 8 * width, sums)
            subtract_values_at(cells, octets + (number - 1) * width, cells, first + number * 8 * width, sums)
    cells[at + KEYS + place] = key
    clear(cells, first + place * width, sums)
    cells[at + COUNT] = count + 1
    cells[at + DEAD] += 1


@jit_inline
def add_to_ancestors(t: Any, depth: int, sums: int) -> None:
    """Add the words in ``VALUES`` to the sums of the inner nodes on ``PATH``."""
    path, values, width = array(t, PATH), array(t, VALUES), 1 + 2 * sums
    for level in range(depth - 1):
        inner, child = path[2 * level], path[2 * level + 1]
        cells, at = chunk_of(t, inner), inner & CHUNK_MASK
        octet = child_octets_of(at, width) + (child >> 3) * width
        add_values_twice(cells, at + CHILD_SUMS + child * width, octet, values, sums)


@jit
def add(t: Any, group: int, key: int, sums: int) -> int:
    """Add the words in ``VALUES`` to the entry of a key; return 0, or -1 if there is no room for a node."""
    sums = constant(sums)
    meta, rows, values, path = array(t, META), array(t, ROWS), array(t, VALUES), array(t, PATH)
    width, row = 1 + 2 * sums, row_of(group, sums)
    while True:
        depth, leaf = rows[row + DEPTH], rows[row + ROOT]
        for level in range(depth - 1):
            cells, at = chunk_of(t, leaf), leaf & CHUNK_MASK
            child = rank(cells, at + KEYS, FAN, key)
            path[2 * level], path[2 * level + 1] = leaf, child
            leaf = cells[at + CHILDREN + child]
        if depth == 0:
            leaf = allocate(t, TINY, 4)
            if leaf < 0:
                meta[WANTED], meta[WANTED_KEY] = WANTED_NODE, key
                return -1
            rows[row + ROOT] = leaf
            rows[row + DEPTH] = depth = 1
        cells, at = chunk_of(t, leaf), leaf & CHUNK_MASK
        capacity, count = cells[at + CAPACITY], cells[at + COUNT]
        place = rank(cells, at + KEYS, FAN, key) if capacity == FAN else rank(cells, at + KEYS, capacity, key)
        entry = entries_of(at, capacity) + place * width
        is_new = place == count or cells[at + KEYS + place] != key
        if not is_new or count < capacity:
            break
        if not make_place(t, row, leaf, key):
            meta[WANTED], meta[WANTED_KEY] = WANTED_NODE, key
            return -1
    octets = octets_of(at, capacity, width)
    if is_new:
        insert_entry(cells, at, place, key, sums)
        count += 1
    was, before = bits(cells, entry, sums), signs(cells, entry, sums)
    add_values_twice(cells, entry, octets + (place >> 3) * width, values, sums)
    now, after = bits(cells, entry, sums), signs(cells, entry, sums)
    if (before | after) < 0:
        count_signs(t, cells, entry)
    add_values_at(rows, row + TOTAL, values, 0, sums)
    add_to_ancestors(t, depth, sums)
    if (magnitude(cells, entry, sums) >> LARGE_SHIFT) | meta[LARGE]:
        check_added(t, row, leaf, entry)
    born = int(was == 0) - int(now == 0)
    rows[row + LIVE] += born
    dead = cells[at + DEAD] - born
    cells[at + DEAD] = dead
    if 4 * dead >= 3 * count and (dead >= DEAD_LEAST or dead == count):
        shrink_leaf(t, group, row, leaf)
    return 0


@jit_apart
def check_added(t: Any, row: int, leaf: int, entry: int) -> None:
    """Check the limits of an entry that was added to, and of all sums above it; ``PATH`` leads to its leaf."""
    meta, rows, path = array(t, META), array(t, ROWS), array(t, PATH)
    width = 1 + 2 * meta[SUMS]
    check_limits(meta, chunk_of(t, leaf), entry)
    check_limits(meta, rows, row + TOTAL)
    make_octets(t, leaf, True)
    for level in range(rows[row + DEPTH] - 1):
        inner, child = path[2 * level], path[2 * level + 1]
        check_limits(meta, chunk_of(t, inner), (inner & CHUNK_MASK) + CHILD_SUMS + child * width)
        make_octets(t, inner, False)


@jit
def below(t: Any, group: int, key: int, inclusive: bool, sums: int) -> None:
    """Write the sums of a group's entries below a key to ``PREFIX``."""
    sums = constant(sums)
    meta, rows, prefix = array(t, META), array(t, ROWS), array(t, PREFIX)
    row = row_of(group, sums)
    clear(prefix, 0, sums)
    depth, leaf = rows[row + DEPTH], rows[row + ROOT]
    if depth == 0:
        return
    for _ in range(depth - 1):
        cells, at = chunk_of(t, leaf), leaf & CHUNK_MASK
        child = rank(cells, at + KEYS, FAN, key)
        leaf = cells[at + CHILDREN + child]
        accumulate_few(meta, prefix, cells, at + CHILD_SUMS, FAN, child, sums)
    cells, at = chunk_of(t, leaf), leaf & CHUNK_MASK
    capacity = cells[at + CAPACITY]
    place = rank(cells, at + KEYS, FAN, key) if capacity == FAN else rank(cells, at + KEYS, capacity, key)
    if inclusive and place < cells[at + COUNT] and cells[at + KEYS + place] == key:
        place += 1
    accumulate_few(meta, prefix, cells, entries_of(at, capacity), capacity, place, sums)


@jit
def total(t: Any, group: int, sums: int) -> None:
    """Write the sums of a group's entries to ``PREFIX``."""
    sums = constant(sums)
    copy_words(array(t, PREFIX), 0, array(t, ROWS), row_of(group, sums) + TOTAL, 1 + 2 * sums)


@jit
def drop_if_empty(t: Any, group: int) -> None:
    """Remove a group if it has no entry."""
    if array(t, ROWS)[row_of(group, array(t, META)[SUMS]) + DEPTH] == 0:
        remove_group(t, group)


# ---- positions: leaf × 64 + entry -----------------------------------------------------------------------------------


@jit
def last_position(t: Any, group: int) -> int:
    """Return the position of the greatest key; -1 if there is none."""
    rows, row = array(t, ROWS), row_of(group, array(t, META)[SUMS])
    depth, node = rows[row + DEPTH], rows[row + ROOT]
    if depth == 0:
        return -1
    for _ in range(depth - 1):
        cells, at = chunk_of(t, node), node & CHUNK_MASK
        node = cells[at + CHILDREN + cells[at + COUNT] - 1]
    return node * FAN + chunk_of(t, node)[(node & CHUNK_MASK) + COUNT] - 1


@jit
def first_of(t: Any, node: int, levels: int) -> int:
    """Return the first position under a node, which is not empty; ``levels`` is its height above the leaves."""
    for _ in range(levels):
        node = chunk_of(t, node)[(node & CHUNK_MASK) + CHILDREN]
    return node * FAN


@jit
def place_of(t: Any, group: int, key: int) -> int:
    """Return the first position whose key is not less than a key; -1 if there is none."""
    rows, row = array(t, ROWS), row_of(group, array(t, META)[SUMS])
    depth, leaf = rows[row + DEPTH], rows[row + ROOT]
    if depth == 0:
        return -1
    for _ in range(depth - 1):
        cells, at = chunk_of(t, leaf), leaf & CHUNK_MASK
        leaf = cells[at + CHILDREN + rank(cells, at + KEYS, FAN, key)]
    cells, at = chunk_of(t, leaf), leaf & CHUNK_MASK
    place = rank(cells, at + KEYS, cells[at + CAPACITY], key)
    if place < cells[at + COUNT]:
        return leaf * FAN + place
    return (cells[at + AFTER] - 1) * FAN if cells[at + AFTER] else -1


@jit_inline
def next_position(t: Any, position: int) -> int:
    """Return the position after a position; -1 if there is none."""
    leaf = position >> 6
    cells, at = chunk_of(t, leaf), leaf & CHUNK_MASK
    if (position & (FAN - 1)) + 1 < cells[at + COUNT]:
        return position + 1
    return (cells[at + AFTER] - 1) * FAN if cells[at + AFTER] else -1


@jit_inline
def key_at(t: Any, position: int) -> int:
    """Return the key at a position."""
    leaf = position >> 6
    return chunk_of(t, leaf)[(leaf & CHUNK_MASK) + KEYS + (position & (FAN - 1))]


@jit_inline
def values_at(t: Any, position: int, sums: int) -> None:
    """Write the entry at a position to ``PREFIX``."""
    leaf = position >> 6
    cells, at = chunk_of(t, leaf), leaf & CHUNK_MASK
    place = entries_of(at, cells[at + CAPACITY]) + (position & (FAN - 1)) * (1 + 2 * sums)
    copy_words(array(t, PREFIX), 0, cells, place, 1 + 2 * sums)

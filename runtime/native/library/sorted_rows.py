"""B+-tree of records of a hash table, in the order of their order words: kernel side of `native.indexes.SortedRows`.

The order words of a record are int64 words whose lexicographic order is the order of the records. The caller writes
them to ``WORDS`` before `insert_row`, and they stay as they are until `remove_row`. Records with equal words are in
the order of their slots. A node holds copies of the first two words of its entries, so that a search reads two arrays
of up to 64 ascending words and looks at whole records only where both words are equal.

A leaf holds entries; an inner node holds children, each with the first entry below it. Leaves of one parent are merged
when they become sparse; inner nodes are freed when they are empty, which costs little room (Johnson, Shasha: *B-trees
with inserts and deletes: why free-at-empty is better than merge-at-half*, Journal of Computer and System Sciences 47,
1993). `insert_row` and `remove_row` cost O(log n); a node is never moved.
"""

# mypy: disable-error-code="no-any-return"
# (cells of a table are Any)

from __future__ import annotations

from typing import Any

from runtime.native.plain import array, copy_words, jit, jit_apart, jit_inline, rank

META, WORDS, LEAVES, INNERS, PATH = 0, 1, 2, 3, 4
"""Places of the table: numbers, order words by slot, the two kinds of nodes, and the path to a leaf: for each level
the node and the number of its child.
"""
WIDTH, ROOM, COUNT, ROOT, HEIGHT, BEFORE, AFTER, FREE, SPARE, GENERATION = 0, 1, 2, 3, 4, 5, 6, 7, 9, 11
"""Numbers in ``META``: words of a record (at least 2), capacity of ``WORDS`` in slots, entries, the root, levels of
inner nodes, slots of the neighbours that `insert_row`, `remove_row` and `find_row` have found (-1: none); for
leaves and for inner nodes the first free node + 1, and the number of free nodes; a number for the owner.
"""
NUMBERS = 12

FAN = 64
"""Greatest number of entries of a leaf, or children of an inner node."""
SIZE, NEXT, PREVIOUS, FIRST, SECOND, SLOTS, CHILDREN = 0, 1, 2, 8, 72, 136, 200
"""Words of a node: number of entries, the next leaf and the previous leaf (+ 1; 0: none; in a free node the next
free node), then four arrays: first words, second words and slots of the entries, and children of an inner node.
"""
ARRAY = 64
"""Words of each of these four arrays."""
LEAF, INNER = 200, 264
"""Words of a leaf and of an inner node."""
LEVELS = 16
"""Greatest number of levels of inner nodes: more than fit into any memory."""
SPARSE, MERGED = 16, 48
"""A leaf that shrinks to ``SPARSE`` entries is merged with a neighbour if both together have at most ``MERGED``."""
GREATEST = (1 << 63) - 1


# ---- order ----------------------------------------------------------------------------------------------------------


@jit
def comes_before(t: Any, left: int, right: int, word: int) -> bool:
    """Return whether a record precedes another one; words before ``word`` are known to be equal."""
    words, width = array(t, WORDS), array(t, META)[WIDTH]
    for place in range(word, width):
        a, b = words[left * width + place], words[right * width + place]
        if a != b:
            return a < b
    return left < right


@jit_inline
def equal_range(cells: Any, place: int, low: int, high: int, key: int) -> tuple[int, int]:
    """Return the range of cells equal to a key among ascending cells: its begin and its end."""
    low += rank(cells, place + low, high - low, key)
    if low == high or cells[place + low] != key:
        return low, low
    if low + 1 == high or cells[place + low + 1] != key:
        return low, low + 1
    if cells[place + high - 1] == key:
        return low, high
    return low, low + rank(cells, place + low, high - low, key + 1)


@jit
def position(t: Any, cells: Any, at: int, slot: int) -> int:
    """Return the number of entries of a node that precede a record."""
    words, width = array(t, WORDS), array(t, META)[WIDTH]
    first, second, low, high = words[slot * width], words[slot * width + 1], 0, cells[at + SIZE]
    if high > 0 and (cells[at + FIRST] != first or cells[at + FIRST + high - 1] != first):
        low, high = equal_range(cells, at + FIRST, low, high, first)
    if low < high:
        low, high = equal_range(cells, at + SECOND, low, high, second)
    while low < high:
        middle = (low + high) >> 1
        if comes_before(t, cells[at + SLOTS + middle], slot, 2):
            low = middle + 1
        else:
            high = middle
    return low


@jit
def descend(t: Any, slot: int) -> int:
    """Return the leaf that contains a record, or into which it belongs, and write the path to ``PATH``."""
    meta, inners, path = array(t, META), array(t, INNERS), array(t, PATH)
    node = meta[ROOT]
    for level in range(meta[HEIGHT]):
        at = node * INNER
        child = position(t, inners, at, slot)
        if child > 0 and (child == inners[at + SIZE] or inners[at + SLOTS + child] != slot):
            child -= 1
        path[2 * level], path[2 * level + 1] = node, child
        node = inners[at + CHILDREN + child]
    return node


@jit
def see_neighbours(t: Any, leaf: int, place: int, after: int) -> None:
    """Write to ``META`` the slots of the entry before a place of a leaf, and of the entry at another place."""
    meta, leaves = array(t, META), array(t, LEAVES)
    at = leaf * LEAF
    if place > 0:
        meta[BEFORE] = leaves[at + SLOTS + place - 1]
    elif leaves[at + PREVIOUS] > 0:
        previous = (leaves[at + PREVIOUS] - 1) * LEAF
        meta[BEFORE] = leaves[previous + SLOTS + leaves[previous + SIZE] - 1]
    else:
        meta[BEFORE] = -1
    if after < leaves[at + SIZE]:
        meta[AFTER] = leaves[at + SLOTS + after]
    elif leaves[at + NEXT] > 0:
        meta[AFTER] = leaves[(leaves[at + NEXT] - 1) * LEAF + SLOTS]
    else:
        meta[AFTER] = -1


# ---- nodes ----------------------------------------------------------------------------------------------------------


@jit
def allocate(t: Any, kind: int, cells: Any, size: int) -> int:
    """Take a free leaf (kind 0) or inner node (kind 1), which must exist; return its number."""
    meta = array(t, META)
    node = meta[FREE + kind] - 1
    meta[FREE + kind] = cells[node * size + NEXT]
    meta[SPARE + kind] -= 1
    cells[node * size + SIZE], cells[node * size + NEXT], cells[node * size + PREVIOUS] = 0, 0, 0
    return node


@jit
def release(t: Any, kind: int, cells: Any, size: int, node: int) -> None:
    """Free a node."""
    meta = array(t, META)
    cells[node * size + NEXT] = meta[FREE + kind]
    meta[FREE + kind] = node + 1
    meta[SPARE + kind] += 1


@jit
def shift(cells: Any, at: int, place: int, by: int, arrays: int) -> None:
    """Move the entries of a node from a place on by 1 or -1, and change its number of entries by as much."""
    count = cells[at + SIZE] - place
    for number in range(arrays):
        base = at + FIRST + ARRAY * number + place
        copy_words(cells, base + by, cells, base, count)
    cells[at + SIZE] += by


@jit
def transfer(cells: Any, at: int, place: int, to: int, arrays: int) -> None:
    """Move the entries of a node from a place on to the end of another node of its kind."""
    count, size = cells[at + SIZE] - place, cells[to + SIZE]
    for number in range(arrays):
        base = FIRST + ARRAY * number
        copy_words(cells, to + base + size, cells, at + base + place, count)
    cells[at + SIZE] = place
    cells[to + SIZE] = size + count


@jit
def write(t: Any, cells: Any, at: int, place: int, slot: int) -> None:
    """Make a record the entry at a place of a node."""
    words, width = array(t, WORDS), array(t, META)[WIDTH]
    cells[at + FIRST + place] = words[slot * width]
    cells[at + SECOND + place] = words[slot * width + 1]
    cells[at + SLOTS + place] = slot


@jit
def raise_first(t: Any, level: int, slot: int) -> None:
    """Set a record as the first entry below the node at a level of ``PATH``, and below ancestors that begin there."""
    inners, path = array(t, INNERS), array(t, PATH)
    while level >= 0:
        write(t, inners, path[2 * level] * INNER, path[2 * level + 1], slot)
        level = level - 1 if path[2 * level + 1] == 0 else -1


@jit_apart
def insert_child(t: Any, node: int, slot: int) -> None:
    """Insert a node, given its first entry, after the leaf to which ``PATH`` leads; full nodes above it are split."""
    meta, leaves, inners, path = array(t, META), array(t, LEAVES), array(t, INNERS), array(t, PATH)
    for above in range(1, meta[HEIGHT] + 1):
        level = meta[HEIGHT] - above
        at, place = path[2 * level] * INNER, path[2 * level + 1] + 1
        if inners[at + SIZE] < FAN:
            shift(inners, at, place, 1, 4)
            write(t, inners, at, place, slot)
            inners[at + CHILDREN + place] = node
            return
        other = allocate(t, 1, inners, INNER)
        to, half = other * INNER, FAN if place == FAN else FAN // 2
        transfer(inners, at, half, to, 4)
        target = at
        if place > half or half == FAN:
            target, place = to, place - half
        shift(inners, target, place, 1, 4)
        write(t, inners, target, place, slot)
        inners[target + CHILDREN + place] = node
        node, slot = other, inners[to + SLOTS]
    root = allocate(t, 1, inners, INNER)
    at, old = root * INNER, meta[ROOT]
    first = inners[old * INNER + SLOTS] if meta[HEIGHT] > 0 else leaves[old * LEAF + SLOTS]
    inners[at + SIZE] = 2
    write(t, inners, at, 0, first)
    write(t, inners, at, 1, slot)
    inners[at + CHILDREN], inners[at + CHILDREN + 1] = old, node
    meta[ROOT] = root
    meta[HEIGHT] += 1


@jit_apart
def unlink(t: Any, leaf: int) -> None:
    """Remove a leaf from the list of leaves and free it."""
    leaves = array(t, LEAVES)
    before, after = leaves[leaf * LEAF + PREVIOUS], leaves[leaf * LEAF + NEXT]
    if before > 0:
        leaves[(before - 1) * LEAF + NEXT] = after
    if after > 0:
        leaves[(after - 1) * LEAF + PREVIOUS] = before
    release(t, 0, leaves, LEAF, leaf)


@jit_apart
def remove_child(t: Any) -> None:
    """Remove the leaf to which ``PATH`` leads from its parent; inner nodes that become empty are freed."""
    meta, inners, path = array(t, META), array(t, INNERS), array(t, PATH)
    level = meta[HEIGHT] - 1
    at = path[2 * level] * INNER
    # The root has at least two children, so this loop ends at the root or below it.
    while inners[at + SIZE] == 1:
        release(t, 1, inners, INNER, path[2 * level])
        level -= 1
        at = path[2 * level] * INNER
    child = path[2 * level + 1]
    shift(inners, at, child + 1, -1, 4)
    if child == 0:
        raise_first(t, level - 1, inners[at + SLOTS])


@jit
def lower_root(t: Any) -> None:
    """Replace a root with one child by that child."""
    meta, inners = array(t, META), array(t, INNERS)
    while meta[HEIGHT] > 0 and inners[meta[ROOT] * INNER + SIZE] == 1:
        root = meta[ROOT]
        meta[ROOT] = inners[root * INNER + CHILDREN]
        meta[HEIGHT] -= 1
        release(t, 1, inners, INNER, root)


@jit
def merge(t: Any) -> None:
    """Merge the leaf to which ``PATH`` leads with a neighbour of the same parent if both have few entries."""
    meta, leaves, inners, path = array(t, META), array(t, LEAVES), array(t, INNERS), array(t, PATH)
    level = meta[HEIGHT] - 1
    at, last = path[2 * level] * INNER, path[2 * level + 1]
    for child in range(last, last - 2, -1):
        if 0 <= child < inners[at + SIZE] - 1:
            left, right = inners[at + CHILDREN + child], inners[at + CHILDREN + child + 1]
            if leaves[left * LEAF + SIZE] + leaves[right * LEAF + SIZE] <= MERGED:
                transfer(leaves, right * LEAF, 0, left * LEAF, 3)
                unlink(t, right)
                shift(inners, at, child + 2, -1, 4)
                return


# ---- records --------------------------------------------------------------------------------------------------------


@jit_inline
def has_row_room(t: Any, slot: int) -> bool:
    """Return whether there is room to insert a record with this slot."""
    meta = array(t, META)
    return slot < meta[ROOM] and meta[SPARE] > 0 and meta[SPARE + 1] > meta[HEIGHT]


@jit
def insert_row(t: Any, slot: int) -> None:
    """Insert a record, for which there must be room; its neighbours are in ``META`` afterwards."""
    meta, leaves = array(t, META), array(t, LEAVES)
    leaf = descend(t, slot)
    at = leaf * LEAF
    place = position(t, leaves, at, slot)
    see_neighbours(t, leaf, place, place)
    meta[COUNT] += 1
    if place == 0:
        raise_first(t, meta[HEIGHT] - 1, slot)
    if leaves[at + SIZE] < FAN:
        shift(leaves, at, place, 1, 3)
        write(t, leaves, at, place, slot)
        return
    other, after = allocate(t, 0, leaves, LEAF), leaves[at + NEXT]
    # A leaf that is added after the last entry of all begins empty, so that leaves filled in order are full.
    to, half = other * LEAF, FAN if place == FAN and after == 0 else FAN // 2
    transfer(leaves, at, half, to, 3)
    leaves[to + NEXT], leaves[to + PREVIOUS] = after, leaf + 1
    leaves[at + NEXT] = other + 1
    if after > 0:
        leaves[(after - 1) * LEAF + PREVIOUS] = other + 1
    if place > half or half == FAN:
        at, place = to, place - half
    shift(leaves, at, place, 1, 3)
    write(t, leaves, at, place, slot)
    insert_child(t, other, leaves[to + SLOTS])


@jit
def remove_row(t: Any, slot: int) -> None:
    """Remove a record; its former neighbours are in ``META`` afterwards."""
    meta, leaves = array(t, META), array(t, LEAVES)
    leaf = descend(t, slot)
    at = leaf * LEAF
    place = position(t, leaves, at, slot)
    see_neighbours(t, leaf, place, place + 1)
    shift(leaves, at, place + 1, -1, 3)
    meta[COUNT] -= 1
    if meta[HEIGHT] == 0:
        return
    if leaves[at + SIZE] == 0:
        unlink(t, leaf)
        remove_child(t)
        lower_root(t)
        return
    if place == 0:
        raise_first(t, meta[HEIGHT] - 1, leaves[at + SLOTS])
    if leaves[at + SIZE] <= SPARSE:
        merge(t)
        lower_root(t)


@jit
def find_row(t: Any, slot: int) -> None:
    """Write the neighbours of a record, which must be present, to ``META``."""
    leaf = descend(t, slot)
    place = position(t, array(t, LEAVES), leaf * LEAF, slot)
    see_neighbours(t, leaf, place, place + 1)


@jit
def row_before(t: Any, slot: int) -> int:
    """Return the slot of the record before another one, or -1."""
    find_row(t, slot)
    return array(t, META)[BEFORE]


@jit
def row_after(t: Any, slot: int) -> int:
    """Return the slot of the record after another one, or -1."""
    find_row(t, slot)
    return array(t, META)[AFTER]


@jit
def first_row(t: Any) -> int:
    """Return the slot of the first record, or -1."""
    meta, inners, leaves = array(t, META), array(t, INNERS), array(t, LEAVES)
    if meta[COUNT] == 0:
        return -1
    node = meta[ROOT]
    for _ in range(meta[HEIGHT]):
        node = inners[node * INNER + CHILDREN]
    return leaves[node * LEAF + SLOTS]


@jit_inline
def is_first_of_group(t: Any, slot: int) -> bool:
    """Return whether a record that was just inserted or removed is the first with its first order word."""
    meta, words = array(t, META), array(t, WORDS)
    width, other = meta[WIDTH], meta[BEFORE]
    return other < 0 or words[other * width] != words[slot * width]


@jit_inline
def is_last_of_group(t: Any, slot: int) -> bool:
    """Return whether a record that was just inserted or removed is the last with its first order word."""
    meta, words = array(t, META), array(t, WORDS)
    width, other = meta[WIDTH], meta[AFTER]
    return other < 0 or words[other * width] != words[slot * width]

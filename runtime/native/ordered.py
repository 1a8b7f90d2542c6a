"""Owner of an ordered index: it makes room, chooses the layout, and reads and restores entries.

`Deltas` and `Entries` are the working memory of kernels that change or traverse an index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from runtime.native.library import ahead, btree, deltas, dense, entries, hashing, sweep
from runtime.native.plain import outside
from runtime.native.structures import HashTable, RecordStructure, Structure, rows_with_words

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Deltas", "Entries", "OrderedIndex"]


Words = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.intp]

_DENSE_CELLS: Final = 1 << 16
_DENSE_SPREAD: Final = 8
_DENSE_MOST: Final = 1 << 20
"""Greatest number of cells of the dense layout, however many entries there are. With few entries the layout may have
`_DENSE_CELLS` cells; with more entries, up to `_DENSE_SPREAD` cells for each entry. The number is limited because one
call of `make_room` may move all cells.
"""
_SLACK: Final = 64
"""A window is wider than the span of its keys by at least a 64th of the span, so that drifting keys cause few moves."""
_FILL: Final = 56
"""Greatest number of entries of a leaf, and of children of an inner node, when trees are built from entries."""
_LOW: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)
_SUMS_MOST: Final = 256
_FIRST_WORDS: Final = 1 << 12
"""Initial size of the first chunk of nodes, in words."""


class OrderedIndex(RecordStructure):
    """Group × key → weight and sums, with exact prefix sums: see `library.ordered`.

    An index begins in the dense layout. It changes to trees when its keys and groups need more cells than the dense
    layout may have; only `load` returns to the dense layout.
    """

    def __init__(self, group_words: int, sums: int, *, dense_cells: int = _DENSE_CELLS) -> None:
        """Begin with no entries.

        ``dense_cells`` is the number of cells that the dense layout may have with any number of entries; with 0 the
        index has only trees.
        """
        assert 0 <= sums <= _SUMS_MOST
        super().__init__(entries.PLACES)
        self.group_words, self.sums = group_words, sums
        self.entry_words = 1 + 2 * sums
        """Number of words of an entry's values."""
        self.groups = HashTable(group_words, 1, is_direct=True)
        """Directory of the groups; its scratch key is the index's scratch group."""
        self.link(entries.GROUPS, self.groups)
        self.put(entries.META, np.zeros(entries.NUMBERS, np.int64))
        self._meta: Any = self.views[entries.META]
        self._meta[entries.SUMS] = sums
        self.put(entries.VALUES, np.zeros(self.entry_words, np.int64))
        self.put(entries.PREFIX, np.zeros(self.entry_words, np.int64))
        self.put(entries.SIGNS, np.zeros(1 + sums, np.int64))
        self.put(entries.PATH, np.zeros(2 * btree.LEVELS, np.int64))
        self._dense_cells = dense_cells
        self._chunks = Structure(1)
        nothing = np.zeros(0, np.int64)
        self._build(np.zeros(0, np.intp), nothing, np.zeros((0, self.entry_words), np.int64))

    @property
    def is_tree(self) -> bool:
        """True if the entries are in trees."""
        return bool(self._meta[entries.IS_TREE])

    # ---- room -------------------------------------------------------------------------------------------------------

    def make_room(self) -> None:
        """Make the room that was missing when a kernel function last returned -1."""
        meta = self._meta
        wanted, key = int(meta[entries.WANTED]), int(meta[entries.WANTED_KEY])
        meta[entries.WANTED] = entries.WANTED_NOTHING
        if wanted == entries.WANTED_GROUP:
            self.groups.make_room()
            self._add_groups()
        elif wanted == entries.WANTED_WINDOW and not self.is_tree:
            self._move_window(key)
        elif wanted == entries.WANTED_NODE:
            self._add_chunk()

    def _add_groups(self) -> None:
        """Add a row and cells for one more group."""
        meta, numbers = self._meta, self.groups.views[hashing.META]
        room = int(meta[entries.ROOM])
        wanted = int(numbers[hashing.USED]) + (0 if numbers[hashing.FREE] else 1)
        if room >= wanted:
            return
        while room < wanted:
            room *= 2
        self._extend_rows(room)
        if self.is_tree:
            return
        if not self._fits_dense(room * int(meta[entries.WINDOW]), lambda: int(self._cells().any(axis=1).sum())):
            self._grow_trees(*self._dense_entries())
            return
        for place, cells in self._dense_sizes(room, int(meta[entries.WINDOW])):
            self.extend(place, cells * self.entry_words)

    def _extend_rows(self, room: int) -> None:
        self._meta[entries.ROOM] = room
        self.extend(entries.ROWS, room * (entries.TOTAL + self.entry_words))
        self.extend(entries.EMPTY, room)

    def _fits_dense(self, cells: int, count: Callable[[], int]) -> bool:
        """Return True if the dense layout may have this many cells; ``count`` returns the number of entries."""
        if not self._dense_cells or cells > max(self._dense_cells, _DENSE_MOST):
            return False
        return cells <= self._dense_cells or cells <= _DENSE_SPREAD * count()

    def _add_chunk(self) -> None:
        """Make room for more nodes: double the only chunk until it has its full size, then add chunks."""
        last = self._chunk_count() - 1
        words = len(self._chunks.array(last))
        if words < btree.CHUNK:
            self._chunks.extend(last, min(2 * words, btree.CHUNK))
            self._meta[entries.END] = len(self._chunks.array(last))
        else:
            self._put_chunks(np.zeros(btree.CHUNK, np.int64), last + 1)

    def _chunk_count(self) -> int:
        return -(-int(self._meta[entries.END]) // btree.CHUNK)

    def _put_chunks(self, words: Words, first: int) -> None:
        """Write words into the table of chunks, from a chunk on; the table is replaced when it is full."""
        count = first + -(-len(words) // btree.CHUNK)
        room = len(self._chunks.views)
        if count > room:
            while room < count:
                room *= 2
            chunks = Structure(room)
            for number in range(first):
                chunks.put(number, self._chunks.array(number))
            self._chunks = chunks
            self.link(entries.CHUNKS, chunks)
        for number in range(first, count):
            at = (number - first) * btree.CHUNK
            self._chunks.put(number, words[at : at + btree.CHUNK])
        self._meta[entries.END] = first * btree.CHUNK + len(words)

    # ---- building ---------------------------------------------------------------------------------------------------

    def _build(self, numbers: Numbers, keys: Words, values: Words) -> None:
        """Replace the entries by these, sorted by group number and key; the directory must have all their groups."""
        meta = self._meta
        for place in (entries.BAD, entries.LARGE, entries.NEGATIVE, entries.EMPTIES, entries.WANTED, entries.DEFERRED):
            meta[place] = 0
        used, room = int(self.groups.views[hashing.META][hashing.USED]), 1
        while room < used:
            room *= 2
        for place in (entries.ROWS, entries.EMPTY):
            self.put(place, np.zeros(0, np.int64))
        self._extend_rows(room)
        base, window = self._window_for(keys)
        if self._fits_dense(window * room, lambda: len(keys)):
            self._fill_window(base, window, numbers, keys, values)
        else:
            self._grow_trees(numbers, keys, values)

    def _note_entries(self, values: Words) -> None:
        """Record whether any entry is large, and how many negative entries there are."""
        heads = values[:, np.r_[0, 2 : self.entry_words : 2]]
        self._meta[entries.NEGATIVE] = int((heads < 0).any(axis=1).sum())
        self.array(entries.SIGNS)[:] = (heads < 0).sum(axis=0)
        if ((heads ^ (heads >> 63)) >> entries.LARGE_SHIFT).any():
            self._meta[entries.LARGE] = 1

    def _summed(self, words: Words, starts: Numbers) -> Words:
        """Return the sums of entries from each start up to the next start; check the sums if any entry is large."""
        if self._meta[entries.LARGE] and len(starts):
            exact = np.array([_exact(row) for row in words], object)
            sums = np.add.reduceat(exact, starts)
            weights, limit = sums[:, :1], entries.WEIGHT_LIMIT
            if (weights < -limit).any() or (weights >= limit).any() or any(map(outside, sums[:, 1:].ravel())):
                self._meta[entries.BAD] = 1
        return _sums_of(words, starts)

    # ---- dense ------------------------------------------------------------------------------------------------------

    def _cells(self) -> Words:
        """Return the cells, shape (cells, words of an entry), not copied."""
        return self.array(entries.CELLS).reshape(-1, self.entry_words)

    def _dense_sizes(self, room: int, window: int) -> tuple[tuple[int, int], ...]:
        """Return the arrays of the dense layout with their numbers of cells."""
        cells = room * window
        return (
            (entries.CELLS, cells),
            (entries.BLOCKS, cells >> dense.BLOCK_SHIFT),
            (entries.TOPS, cells >> _top_shift(window)),
        )

    def _window_for(self, keys: Words) -> tuple[int, int]:
        """Return base and width of a window that contains all keys in its middle."""
        low, high = (int(keys.min()), int(keys.max())) if len(keys) else (0, 0)
        span = high - low + 1
        window = dense.BLOCK
        while window < span + span // _SLACK:
            window *= 2
        base = low - (window - span) // 2
        return max(-(2**63), min(base, 2**63 - window)), window

    def _move_window(self, key: int) -> None:
        """Move the window so that it also contains this key, or change to trees."""
        numbers, keys, values = self._dense_entries()
        base, window = self._window_for(np.append(keys, key))
        if self._fits_dense(window * int(self._meta[entries.ROOM]), lambda: len(keys)):
            is_lazy = self._meta[entries.DEFERRED]
            self._fill_window(base, window, numbers, keys, values)
            self._meta[entries.DEFERRED] = is_lazy
        else:
            self._grow_trees(numbers, keys, values)

    def _fill_window(self, base: int, window: int, numbers: Numbers, keys: Words, values: Words) -> None:
        meta, shift = self._meta, _top_shift(window)
        for place, cells in self._dense_sizes(int(meta[entries.ROOM]), window):
            self.put(place, np.zeros(cells * self.entry_words, np.int64))
        meta[entries.IS_TREE], meta[entries.BASE], meta[entries.WINDOW] = 0, base, window
        meta[entries.BEYOND], meta[entries.TOP_SHIFT] = -window, shift
        self._cells()[numbers * window + (keys - base)] = values
        self._note_entries(values)
        blocks = self._summed(self._cells(), np.arange(0, len(self._cells()), dense.BLOCK))
        tops = self._summed(blocks, np.arange(0, len(blocks), 1 << (shift - dense.BLOCK_SHIFT)))
        self.array(entries.BLOCKS)[:], self.array(entries.TOPS)[:] = blocks.ravel(), tops.ravel()
        self._chunks = Structure(1)
        self.link(entries.CHUNKS, self._chunks)
        meta[entries.NEXT] = meta[entries.END] = 0

    def _dense_entries(self) -> tuple[Numbers, Words, Words]:
        cells = self._cells()
        places = rows_with_words(cells)
        window = int(self._meta[entries.WINDOW])
        return places // window, places % window + int(self._meta[entries.BASE]), cells[places]

    # ---- trees ------------------------------------------------------------------------------------------------------

    def _node_words(self, kind: int) -> int:
        """Return the number of words of a kind of node: a multiple of 8."""
        if kind == btree.INNER:
            return -(-(btree.CHILD_SUMS + (btree.FAN + btree.FAN // 8 + 1) * self.entry_words) // 8) * 8
        capacity = (4, 16, btree.FAN)[kind]
        words = btree.KEYS + capacity + (capacity + max(1, capacity // 8) + 1) * self.entry_words
        return -(-words // 8) * 8

    def _grow_trees(self, numbers: Numbers, keys: Words, values: Words) -> None:
        """Build trees of these entries, which are sorted by group number and key."""
        meta, children = self._meta, np.zeros(0, np.intp)
        meta[entries.IS_TREE], meta[entries.DEFERRED], meta[entries.NEXT] = 1, 0, 0
        for kind in range(4):
            meta[entries.FREE + kind], meta[entries.SIZE + kind] = 0, self._node_words(kind)
        for place in (entries.CELLS, entries.BLOCKS, entries.TOPS):
            self.put(place, np.zeros(0, np.int64))
        groups, sizes = np.unique(numbers, return_counts=True)
        active = np.arange(len(groups))
        plans: list[tuple[Numbers, Numbers, Numbers, Numbers]] = []
        while len(active):
            parts, counts = _parts(sizes)
            plans.append((active, parts, counts, self._reserve(parts, counts, is_leaf=not plans)))
            active, sizes = active[parts > 1], parts[parts > 1]
        words = _FIRST_WORDS
        while words < min(int(meta[entries.NEXT]), btree.CHUNK):
            words *= 2
        if meta[entries.NEXT] > words:
            words = -(-int(meta[entries.NEXT]) // btree.CHUNK) * btree.CHUNK
        flat = np.zeros(words, np.int64)
        self._chunks = Structure(1)
        self.link(entries.CHUNKS, self._chunks)
        self._put_chunks(flat, 0)
        self._note_entries(values)
        rows = self.array(entries.ROWS).reshape(-1, entries.TOTAL + self.entry_words)
        for depth, (active, parts, counts, nodes) in enumerate(plans, 1):
            starts = np.cumsum(counts) - counts
            if depth == 1:
                self._fill_leaves(flat, parts, counts, nodes, keys, values)
            else:
                self._fill_inner(flat, counts, nodes, children, keys, values)
            keys, values = keys[starts + counts - 1], self._summed(values, starts)
            is_root = np.repeat(parts == 1, parts)
            done = groups[active[parts == 1]]
            rows[done, entries.ROOT], rows[done, entries.DEPTH] = nodes[is_root], depth
            rows[done, entries.TOTAL :] = values[is_root]
            keys, values, children = keys[~is_root], values[~is_root], nodes[~is_root]
        rows[groups, entries.LIVE] = np.bincount(np.searchsorted(groups, numbers), minlength=len(groups))
        used = self.groups.slots()
        for group in used[(rows[used, entries.LIVE] == 0) & (rows[used, entries.IS_QUEUED] == 0)].tolist():
            entries.queue_empty(self.views, group)

    def _reserve(self, parts: Numbers, counts: Numbers, *, is_leaf: bool) -> Numbers:
        """Return the places of new nodes with these numbers of entries or children; the caller makes the chunks."""
        kinds = np.full(len(counts), btree.INNER)
        if is_leaf:
            kinds = np.digitize(counts, (5, 17))
            kinds[np.repeat(parts > 1, parts)] = btree.LEAF
        nodes = np.zeros(len(counts), np.intp)
        for kind in range(4):
            size, count, first = self._node_words(kind), int((kinds == kind).sum()), int(self._meta[entries.NEXT])
            if not count:
                continue
            number, whole = np.arange(count), btree.CHUNK // size
            here = (btree.CHUNK - (first & btree.CHUNK_MASK)) // size
            there = number - here
            after = ((first | btree.CHUNK_MASK) + 1) + there // whole * btree.CHUNK + there % whole * size
            places = np.where(number < here, first + number * size, after)
            nodes[kinds == kind] = places
            self._meta[entries.NEXT] = int(places[-1]) + size
        return nodes

    def _fill_leaves(
        self, flat: Words, parts: Numbers, counts: Numbers, leaves: Numbers, keys: Words, values: Words
    ) -> None:
        capacity = np.array((4, 16, btree.FAN))[np.digitize(counts, (5, 17))]
        capacity[np.repeat(parts > 1, parts)] = btree.FAN
        for size in np.unique(capacity):
            flat[leaves[capacity == size][:, None] + (btree.KEYS + np.arange(size))] = btree.GREATEST
        flat[leaves + btree.COUNT], flat[leaves + btree.CAPACITY] = counts, capacity
        # Leaves of one group are linked in order.
        group = np.repeat(np.arange(len(parts)), parts)
        has_next = group[:-1] == group[1:]
        left, right = leaves[:-1][has_next], leaves[1:][has_next]
        flat[left + btree.AFTER], flat[right + btree.BEFORE] = right + 1, left + 1
        owner, number = _members(counts)
        flat[leaves[owner] + (btree.KEYS + number)] = keys
        self._fill_sums(flat, leaves + btree.KEYS + capacity, capacity, owner, number, values)

    def _fill_inner(
        self, flat: Words, counts: Numbers, nodes: Numbers, children: Numbers, keys: Words, sums: Words
    ) -> None:
        flat[nodes[:, None] + (btree.KEYS + np.arange(btree.FAN))] = btree.GREATEST
        flat[nodes + btree.COUNT], flat[nodes + btree.CAPACITY] = counts, btree.FAN
        owner, number = _members(counts)
        flat[nodes[owner] + (btree.KEYS + number)] = keys
        flat[nodes + btree.KEYS + counts - 1] = btree.GREATEST
        flat[nodes[owner] + (btree.CHILDREN + number)] = children
        capacity = np.full(len(nodes), btree.FAN)
        self._fill_sums(flat, nodes + btree.CHILD_SUMS, capacity, owner, number, sums)

    def _fill_sums(
        self, flat: Words, places: Numbers, capacity: Numbers, owner: Numbers, number: Numbers, values: Words
    ) -> None:
        """Write entries, or the sums of children, to nodes, followed by the sums of their octets."""
        word = np.arange(self.entry_words)
        flat[(places[owner] + number * self.entry_words)[:, None] + word] = values
        starts = np.flatnonzero(number % 8 == 0)
        octets = (places + capacity * self.entry_words)[owner[starts]] + number[starts] // 8 * self.entry_words
        flat[octets[:, None] + word] = self._summed(values, starts)

    def _tree_entries(self) -> tuple[Numbers, Words, Words]:
        flat = np.concatenate([self._chunks.array(number) for number in range(self._chunk_count())])
        rows = self.array(entries.ROWS).reshape(-1, entries.TOTAL + self.entry_words)
        numbers = np.flatnonzero(rows[:, entries.DEPTH])
        nodes, depth = rows[numbers, entries.ROOT], rows[numbers, entries.DEPTH]
        while (depth > 1).any():
            owner, number = _members(np.where(depth > 1, flat[nodes + btree.COUNT], 1))
            is_inner = depth[owner] > 1
            nodes, numbers, depth = nodes[owner], numbers[owner], depth[owner] - is_inner
            nodes = np.where(is_inner, flat[nodes + np.where(is_inner, btree.CHILDREN + number, 0)], nodes)
        owner, number = _members(flat[nodes + btree.COUNT])
        nodes, numbers = nodes[owner], numbers[owner]
        places = nodes + btree.KEYS + flat[nodes + btree.CAPACITY] + number * self.entry_words
        values = flat[places[:, None] + np.arange(self.entry_words)]
        is_live = values.any(axis=1)
        return numbers[is_live], flat[nodes + btree.KEYS + number][is_live], values[is_live]

    # ---- reading and restoring --------------------------------------------------------------------------------------

    def dump(self) -> Words:
        """Return the entries by group number and key, shape (entries, group words + 1 + words of an entry)."""
        numbers, keys, values = self._tree_entries() if self.is_tree else self._dense_entries()
        groups = self.groups.records()[numbers, : self.group_words]
        return np.concatenate((groups, keys[:, None], values), axis=1)

    def load(self, matrix: Words) -> None:
        """Replace the entries; ``matrix`` may be in any order, with no key twice in a group. Groups get new numbers."""
        matrix = matrix[matrix[:, self.group_words + 1 :].any(axis=1)]
        groups, numbers = np.unique(matrix[:, : self.group_words], axis=0, return_inverse=True)
        if not self.group_words:
            groups, numbers = groups[: min(1, len(matrix))], np.zeros(len(matrix), np.intp)
        self.groups.load(np.concatenate((groups, np.ones((len(groups), 1), np.int64)), axis=1))
        keys = matrix[:, self.group_words]
        order = np.lexsort((keys, numbers.ravel()))
        self._build(numbers.ravel()[order], keys[order], matrix[order, self.group_words + 1 :])

    def nbytes(self) -> int:
        """Return the size of all arrays in bytes, including the directory."""
        return super().nbytes() + self.groups.nbytes() + self._chunks.nbytes()

    # ---- invariants -------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        """Assert every invariant that holds between batches."""
        meta = self._meta
        self.groups._check()
        assert meta[entries.EMPTIES] == 0
        assert not meta[entries.DEFERRED]
        rows = self.array(entries.ROWS).reshape(-1, entries.TOTAL + self.entry_words)
        assert len(rows) == len(self.array(entries.EMPTY)) == meta[entries.ROOM]
        assert not rows[:, entries.IS_QUEUED].any()
        numbers, _, values = self._tree_entries() if self.is_tree else self._dense_entries()
        groups = np.unique(numbers)
        if self.group_words:
            assert groups.tolist() == self.groups.slots().tolist()
        heads = values[:, np.r_[0, 2 : self.entry_words : 2]]
        assert meta[entries.NEGATIVE] == (heads < 0).any(axis=1).sum()
        assert self.array(entries.SIGNS).tolist() == (heads < 0).sum(axis=0).tolist()
        if self.is_tree:
            self._check_trees(rows, numbers)
            return
        window = int(meta[entries.WINDOW])
        assert window >= dense.BLOCK
        assert window & (window - 1) == 0
        for place, cells in self._dense_sizes(int(meta[entries.ROOM]), window):
            assert len(self.array(place)) == cells * self.entry_words
        blocks = _sums_of(self._cells(), np.arange(0, len(self._cells()), dense.BLOCK))
        assert np.array_equal(blocks.ravel(), self.array(entries.BLOCKS))
        tops = _sums_of(blocks, np.arange(0, len(blocks), 1 << (meta[entries.TOP_SHIFT] - dense.BLOCK_SHIFT)))
        assert np.array_equal(tops.ravel(), self.array(entries.TOPS))

    def _check_trees(self, rows: Words, numbers: Numbers) -> None:
        meta = self._meta
        flat = np.concatenate([self._chunks.array(number) for number in range(self._chunk_count())])
        taken: list[tuple[int, int]] = []
        for kind in range(4):
            node = int(meta[entries.FREE + kind]) - 1
            while node >= 0:
                taken.append((node, node + self._node_words(kind)))
                node = int(flat[node]) - 1
        for group, row in enumerate(rows):
            depth = int(row[entries.DEPTH])
            leaves: list[int] = []
            assert row[entries.LIVE] == (numbers == group).sum()
            if not depth:
                assert not row.any()
                continue
            root = int(row[entries.ROOT])
            total = self._check_node(flat, root, depth, -(2**63), 2**63 - 1, leaves, taken)
            assert total == _exact(row[entries.TOTAL :])
            assert depth == 1 or flat[root + btree.COUNT] > 1
            for left, right in zip([-1, *leaves], [*leaves, -1], strict=True):
                if left >= 0:
                    assert flat[left + btree.AFTER] == right + 1
                if right >= 0:
                    assert flat[right + btree.BEFORE] == left + 1
        taken.sort()
        ends = [0, *(end for _, end in taken)]
        assert all(end <= start for end, (start, _) in zip(ends, taken, strict=False))
        assert ends[-1] <= meta[entries.NEXT] <= meta[entries.END] == len(flat)

    def _check_node(
        self, flat: Words, node: int, depth: int, low: int, high: int, leaves: list[int], taken: list[tuple[int, int]]
    ) -> list[int]:
        """Assert the invariants of a node with keys in a range, and of all nodes below it; return its exact sums."""
        count, capacity = int(flat[node + btree.COUNT]), int(flat[node + btree.CAPACITY])
        keys = flat[node + btree.KEYS : node + btree.KEYS + capacity].tolist()
        assert keys[:count] == sorted(keys[:count])
        assert set(keys[count:]) <= {btree.GREATEST}
        total = [0] * (1 + self.sums)
        if depth == 1:
            assert 0 < count <= capacity
            assert len(set(keys[:count])) == count
            assert low <= keys[0] <= keys[count - 1] <= high
            leaves.append(node)
            taken.append((node, node + self._node_words({4: btree.TINY, 16: btree.SMALL}.get(capacity, btree.LEAF))))
            first, dead = node + btree.KEYS + capacity, 0
            for place in range(first, first + count * self.entry_words, self.entry_words):
                words = _exact(flat[place : place + self.entry_words])
                dead += not any(words)
                total = [left + right for left, right in zip(total, words, strict=True)]
            assert dead == flat[node + btree.DEAD] < count
            self._check_octets(flat[first:], count, capacity)
            return total
        assert capacity == btree.FAN
        assert 0 < count <= capacity
        assert keys[count - 1] == btree.GREATEST
        taken.append((node, node + self._node_words(btree.INNER)))
        for child in range(count):
            upper = high if child == count - 1 else keys[child]
            place = node + btree.CHILD_SUMS + child * self.entry_words
            below = int(flat[node + btree.CHILDREN + child])
            words = self._check_node(flat, below, depth - 1, low, upper, leaves, taken)
            assert words == _exact(flat[place : place + self.entry_words])
            total = [left + right for left, right in zip(total, words, strict=True)]
            low = upper + 1
        self._check_octets(flat[node + btree.CHILD_SUMS :], count, capacity)
        return total

    def _check_octets(self, words: Words, count: int, capacity: int) -> None:
        """Assert that ``words`` begins with entries, followed by the sums of their octets."""
        octets = max(1, capacity // 8)
        values = words[: (capacity + octets) * self.entry_words].reshape(-1, self.entry_words)
        for octet in range(octets):
            parts = [_exact(value) for value in values[octet * 8 : min(octet * 8 + 8, count)]]
            assert _exact(values[capacity + octet]) == [sum(part) for part in zip(*parts, strict=True)] or not parts
            assert parts or not values[capacity + octet].any()
        assert not words[(capacity + octets) * self.entry_words :][: self.entry_words].any()


def _top_shift(window: int) -> int:
    return min(dense.TOP_SHIFT_MOST, window.bit_length() - 1)


def _exact(words: Words) -> list[int]:
    """Return weight and sums of an entry."""
    pairs = words[1:].tolist()
    return [int(words[0]), *((pairs[at + 1] << 64) + pairs[at] % 2**64 for at in range(0, len(pairs), 2))]


def _members(counts: Numbers) -> tuple[Numbers, Numbers]:
    """Return for each member of sets of these sizes the number of its set, and its own number within the set."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]


def _parts(sizes: Numbers) -> tuple[Numbers, Numbers]:
    """Return into how many nodes sequences of these sizes are split, and the number of entries of each node."""
    parts = np.where(sizes <= btree.FAN, 1, -(-sizes // _FILL))
    owner, number = _members(parts)
    return parts, (number + 1) * sizes[owner] // parts[owner] - number * sizes[owner] // parts[owner]


def _sums_of(words: Words, starts: Numbers) -> Words:
    """Return the sums of entries from each start up to the next start."""
    if not len(starts):
        return np.zeros((0, words.shape[1]), np.int64)
    sums = np.empty((len(starts), words.shape[1]), np.int64)
    sums[:, 0] = np.add.reduceat(words[:, 0], starts)
    low, high = words[:, 1::2].view(np.uint64), words[:, 2::2].view(np.uint64)
    first, second = np.add.reduceat(low & _LOW, starts), np.add.reduceat(low >> _HALF, starts)
    second += first >> _HALF
    sums[:, 1::2] = ((first & _LOW) | (second << _HALF)).view(np.int64)
    sums[:, 2::2] = (np.add.reduceat(high, starts) + (second >> _HALF)).view(np.int64)
    return sums


class Deltas(Structure):
    """At most `deltas.ROOM` rows of a batch, and their deltas, sorted and added up: see `library.deltas`."""

    def __init__(self, entry_words: int) -> None:
        super().__init__(deltas.PLACES)
        for place, words in {
            deltas.NUMBERS: 4,
            **dict.fromkeys((deltas.ROW_GROUP, deltas.ROW_KEY, deltas.WORDS, deltas.SPARE, deltas.KEY), deltas.ROOM),
            deltas.COUNTS: 1 << deltas.DIGIT,
            deltas.VALUE: deltas.ROOM * entry_words,
            deltas.FOUND: deltas.ROOM * 3 * entry_words,
            deltas.SCRATCH: 3 * entry_words,
            deltas.RECENT: ahead.RING_WORDS,
        }.items():
            # Pages that are never written to take no memory.
            self.put(place, np.zeros(words, np.int64))


class Entries(Structure):
    """Keys, values and running sums of the entries of one group: see `library.sweep`."""

    def __init__(self, entry_words: int) -> None:
        super().__init__(4)
        self._entry_words = entry_words
        self.put(sweep.NUMBERS, np.zeros(2, np.int64))
        self._reserve(0)

    def make_room(self) -> None:
        """Make room after `sweep.collect` found none."""
        self._reserve(2 * int(self.views[sweep.NUMBERS][sweep.WANTED]))

    def _reserve(self, room: int) -> None:
        self.put(sweep.ENTRY_KEYS, np.zeros(room, np.int64))
        self.put(sweep.ENTRY_VALUES, np.zeros(room * self._entry_words, np.int64))
        # Running weights may have 128 bits, like sums: one word more than the weight of an entry.
        self.put(sweep.RUNNING, np.zeros((room + 1) * (self._entry_words + 1), np.int64))
        self.views[sweep.NUMBERS][sweep.ROOM] = room

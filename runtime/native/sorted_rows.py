"""Sorted rows: records of a hash table in an order, without their values; see `library.sorted_rows`.

The order is derived from the records, so it is never saved: the code that loads the records builds it again.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from runtime.native.library import sorted_rows as kernel
from runtime.native.structures import Structure

__all__ = ["SortedRows"]

Words = npt.NDArray[np.int64]

_FILLED: Final = 48
"""Entries of a leaf, or children of an inner node, after `SortedRows.build`: the next insertions split no node."""
_LEAST_LEAVES: Final = 4
_LEAST_INNERS: Final = kernel.LEVELS


class SortedRows(Structure):
    """Slots in the order of their order words. Not thread-safe: one owner at a time.

    >>> rows = SortedRows(1)
    >>> rows.build(np.array([0, 1, 2]), np.array([[30], [10], [20]]))
    >>> rows.slots().tolist()
    [1, 2, 0]
    """

    place_names = ("meta", "words", "leaves", "inners", "path")

    def __init__(self, words: int) -> None:
        """``words``: order words of a record, at least 1."""
        super().__init__(5)
        self.words = words
        self.width = max(2, words)
        """Cells of a record in ``WORDS``; with one order word the second cell stays 0."""
        self.put(kernel.META, np.zeros(kernel.NUMBERS, np.int64))
        self.put(kernel.PATH, np.zeros(2 * kernel.LEVELS, np.int64))
        self._meta = self.views[kernel.META]
        self._begin(0, _LEAST_LEAVES, _LEAST_INNERS)

    def _begin(self, rows: int, leaves: int, inners: int) -> None:
        """Make everything empty, with so many free nodes, and take a leaf as the root."""
        meta = self._meta
        for place in range(kernel.NUMBERS):
            meta[place] = 0
        meta[kernel.WIDTH], meta[kernel.ROOM] = self.width, rows
        self.put(kernel.WORDS, np.zeros(rows * self.width, np.int64))
        for kind, count in enumerate((leaves, inners)):
            self.put(kernel.LEAVES + kind, np.zeros(0, np.int64))
            self._add_nodes(kind, count)
        meta[kernel.ROOT] = kernel.allocate(self.views, 0, self.views[kernel.LEAVES], kernel.LEAF)

    def _nodes(self, kind: int) -> Words:
        """Return all nodes of a kind, shape (nodes, words of a node), not copied."""
        return self.array(kernel.LEAVES + kind).reshape(-1, kernel.INNER if kind else kernel.LEAF)

    def _add_nodes(self, kind: int, count: int) -> None:
        """Add so many nodes of a kind to the free ones."""
        begin = len(self._nodes(kind))
        self.extend(kernel.LEAVES + kind, (begin + count) * (kernel.INNER if kind else kernel.LEAF))
        links = np.arange(begin + 2, begin + count + 2)
        links[-1] = self._meta[kernel.FREE + kind]
        self._nodes(kind)[begin:, kernel.NEXT] = links
        self._meta[kernel.FREE + kind] = begin + 1
        self._meta[kernel.SPARE + kind] += count

    def __len__(self) -> int:
        """Return the number of records."""
        return int(self._meta[kernel.COUNT])

    def make_room(self, rows: int) -> None:
        """Make room for records with slots below ``rows``, and for the nodes that one insertion may need."""
        meta = self._meta
        if rows > meta[kernel.ROOM]:
            self.extend(kernel.WORDS, rows * self.width)
            meta[kernel.ROOM] = rows
        if meta[kernel.SPARE] < 1:
            self._add_nodes(0, len(self._nodes(0)))
        if meta[kernel.SPARE + 1] < kernel.LEVELS:
            self._add_nodes(1, len(self._nodes(1)))

    def order_words(self) -> Words:
        """Return the order words by slot, shape (room, words), not copied."""
        return self.array(kernel.WORDS).reshape(-1, self.width)[:, : self.words]

    def slots(self) -> Words:
        """Return the slots in their order."""
        meta, nodes = self._meta, self._nodes(0)
        leaf = int(meta[kernel.ROOT])
        for _ in range(meta[kernel.HEIGHT]):
            leaf = int(self._nodes(1)[leaf, kernel.CHILDREN])
        parts = [np.zeros(0, np.int64)]
        while leaf >= 0:
            parts.append(nodes[leaf, kernel.SLOTS : kernel.SLOTS + int(nodes[leaf, kernel.SIZE])])
            leaf = int(nodes[leaf, kernel.NEXT]) - 1
        return np.concatenate(parts)

    def build(self, slots: Words, words: Words, *, rows: int = 0, is_sorted: bool = False) -> None:
        """Make these the records.

        ``words``: the order words of each, shape (records, words); ``rows``: make room for slots below that;
        ``is_sorted``: they are given in their order.
        """
        if not is_sorted:
            order = np.lexsort((slots, *words.T[::-1]))
            slots, words = slots[order], words[order]
        leaves = max(1, -(-len(slots) // _FILLED))
        self._begin(max(rows, int(slots.max(initial=-1)) + 1), 2 * leaves, _LEAST_INNERS + leaves // (_FILLED - 1))
        if not len(slots):
            return
        meta = self._meta
        self.order_words()[slots] = words
        meta[kernel.COUNT] = len(slots)
        nodes, numbers = self._nodes(0)[:leaves], np.arange(leaves)
        firsts, used = self._fill(nodes, slots), 0
        nodes[:, kernel.NEXT], nodes[:, kernel.PREVIOUS] = numbers + 2, numbers
        nodes[-1, kernel.NEXT] = 0
        while len(numbers) > 1:
            parents = -(-len(numbers) // _FILLED)
            nodes = self._nodes(1)[used : used + parents]
            firsts = self._fill(nodes, firsts)
            _put(nodes, kernel.CHILDREN, numbers)
            numbers = np.arange(used, used + parents)
            used += parents
            meta[kernel.HEIGHT] += 1
        meta[kernel.ROOT] = int(numbers[0])
        for kind, taken in enumerate((leaves, used)):
            spare = len(self._nodes(kind)) - taken
            meta[kernel.FREE + kind], meta[kernel.SPARE + kind] = taken + 1 if spare else 0, spare

    def _fill(self, nodes: Words, slots: Words) -> Words:
        """Write entries to nodes; return the slots of their first ones."""
        words = self.array(kernel.WORDS).reshape(-1, self.width)
        for place, values in (
            (kernel.FIRST, words[slots, 0]),
            (kernel.SECOND, words[slots, 1]),
            (kernel.SLOTS, slots),
        ):
            _put(nodes, place, values)
        nodes[:, kernel.SIZE] = _FILLED
        nodes[-1, kernel.SIZE] = len(slots) - _FILLED * (len(nodes) - 1)
        return slots[::_FILLED]

    def _check(self) -> None:
        """Assert every invariant."""
        meta = self._meta
        used: tuple[list[int], list[int]] = ([], [])
        before = 0

        def check_node(kind: int, number: int, height: int) -> list[int]:
            """Check what is below a node; return the slots there."""
            nonlocal before
            used[kind].append(number)
            node = self._nodes(kind)[number]
            size = int(node[kernel.SIZE])
            slots: list[int] = node[kernel.SLOTS : kernel.SLOTS + size].tolist()
            words = self.array(kernel.WORDS).reshape(-1, self.width)[slots]
            assert (node[kernel.FIRST : kernel.FIRST + size] == words[:, 0]).all()
            assert (node[kernel.SECOND : kernel.SECOND + size] == words[:, 1]).all()
            if kind == 0:
                assert node[kernel.PREVIOUS] == before
                assert not before or self._nodes(0)[before - 1, kernel.NEXT] == number + 1
                before = number + 1
                return slots
            descendants = []
            for slot, child in zip(slots, node[kernel.CHILDREN : kernel.CHILDREN + size].tolist(), strict=True):
                below = check_node(int(height > 1), child, height - 1)
                assert below[0] == slot
                descendants += below
            return descendants

        root, height = int(meta[kernel.ROOT]), int(meta[kernel.HEIGHT])
        slots = check_node(int(height > 0), root, height)
        assert self._nodes(0)[before - 1, kernel.NEXT] == 0
        assert height == 0 or self._nodes(1)[root, kernel.SIZE] > 1
        assert len(slots) == len(set(slots)) == len(self)
        words = self.order_words()[slots]
        assert (np.lexsort((np.array(slots, np.int64), *words.T[::-1])) == np.arange(len(slots))).all()
        for kind in (0, 1):
            nodes, free = self._nodes(kind), int(meta[kernel.FREE + kind])
            free_nodes = []
            while free:
                free_nodes.append(free - 1)
                free = int(nodes[free - 1, kernel.NEXT])
            assert sorted(used[kind] + free_nodes) == list(range(len(nodes)))
            assert len(free_nodes) == meta[kernel.SPARE + kind]


def _put(nodes: Words, place: int, values: Words) -> None:
    """Write values to nodes from a place on, so many to each as `SortedRows.build` fills them with."""
    whole = len(nodes) - 1
    nodes[:whole, place : place + _FILLED] = values[: whole * _FILLED].reshape(whole, _FILLED)
    rest = values[whole * _FILLED :]
    nodes[whole, place : place + len(rest)] = rest

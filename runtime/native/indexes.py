"""Owners of indexes over the records of hash tables: by a part of the key, by the least key of a group, in an order.

An owner makes room in its index for kernels, and reads and restores the records of the index. The functions that the
kernels call are in `library.members`, `library.levels` and `library.sorted_rows`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from runtime.native.library import hashing, levels, members, sorted_rows
from runtime.native.structures import HashTable, RecordStructure, Structure

__all__ = ["Levels", "Members", "SortedRows"]


Words = npt.NDArray[np.int64]


class Members(RecordStructure):
    """Key → values; the records with the same head (the first words of a key) are linked. See `library.members`."""

    def __init__(self, head_words: int, key_words: int, value_words: int, *, is_direct: bool = False) -> None:
        """Begin with no records.

        With ``is_direct`` the head is one word, an integer whose values may be dense.
        """
        super().__init__(4)
        assert 0 <= head_words <= key_words > 0
        self.put(members.META, np.zeros(1, np.int64))
        self.records = HashTable(key_words, value_words)
        """Records; the scratch key of this table is a whole key."""
        self.heads = HashTable(head_words, 1, is_direct=is_direct)
        """Head → slot of the first record + 1; the scratch key of this table is a head."""
        self.link(members.RECORDS, self.records)
        self.link(members.HEADS, self.heads)
        self._extend_links()

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.records)

    def make_room(self) -> None:
        """Make room after `members.locate_member` found none."""
        if self.views[members.META][members.WANTED] == members.HEADS:
            self.heads.make_room()
        else:
            self.records.make_room()
            self._extend_links()

    def _extend_links(self) -> None:
        words = 2 * int(self.records.views[hashing.META][hashing.ROOM])
        links = self._arrays[members.LINKS]
        if links is None:
            self.put(members.LINKS, np.zeros(words, np.int64))
        elif len(self.array(members.LINKS)) < words:
            self.extend(members.LINKS, words)

    def dump(self) -> Words:
        """Return the records, shape (records, words of a record)."""
        return self.records.dump()

    def load(self, records: Words) -> None:
        """Replace the records; keys must not repeat."""
        self.records.load(records)
        head_words = self.heads.key_words
        heads = records[:, :head_words]
        # Records with equal heads become neighbours; the list of each head then links their slots in this order.
        order = np.lexsort(heads.T) if head_words else np.arange(len(records))
        ordered = heads[order]
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
        first = order[begins]
        self.heads.load(np.column_stack([heads[first], first + 1]).astype(np.int64))
        self.put(members.LINKS, np.zeros(2 * int(self.records.views[hashing.META][hashing.ROOM]), np.int64))
        links = self.array(members.LINKS).reshape(-1, 2)
        follows = ~begins[1:]
        links[order[:-1][follows], 0] = order[1:][follows] + 1
        links[order[1:][follows], 1] = order[:-1][follows] + 1
        links[first, 1] = -1 - np.arange(len(first))

    def nbytes(self) -> int:
        """Return the size of the arrays and tables in bytes."""
        return super().nbytes() + self.records.nbytes() + self.heads.nbytes()

    def _check(self) -> None:
        """Assert every invariant."""
        self._check_nulls()
        self.records._check()
        self.heads._check()
        links = self.array(members.LINKS).reshape(-1, 2)
        cells, head_cells = self.records.records(), self.heads.records()
        seen: set[int] = set()
        heads = self.heads.slots().tolist() if self.heads.key_words else [0]
        assert len(heads) == len(self.heads)
        for head in heads:
            before, slot = -1 - head, int(head_cells[head, -1]) - 1
            while slot >= 0:
                assert slot not in seen
                seen.add(slot)
                assert links[slot, 1] == before
                assert (cells[slot, : self.heads.key_words] == head_cells[head, :-1]).all()
                before, slot = slot + 1, int(links[slot, 0]) - 1
        assert seen == set(self.records._live().tolist())
        assert len(seen) == len(self.records)


_HALF = 32
_LOW_HALF = (1 << _HALF) - 1


class Levels(Structure):
    """(group, key) → total, an integer of 128 bits, with the least key of each group: see `library.levels`.

    Groups are small numbers, from 0. Not thread-safe: one owner at a time.
    """

    place_names = ("records", "roots")

    def __init__(self) -> None:
        super().__init__(2)
        self.records = HashTable(2, levels.WORDS - 2)
        """Keys that have a total; each record also has the key's place in the heap of the group."""
        self.link(levels.RECORDS, self.records)
        self.put(levels.ROOTS, np.zeros(0, np.int64))

    def __len__(self) -> int:
        """Return the number of keys that have a total."""
        return len(self.records)

    def reserve(self, groups: int, keys: int) -> None:
        """Make room for this many groups, and for this many keys in addition to the present ones."""
        if groups > len(self.array(levels.ROOTS)):
            self.extend(levels.ROOTS, max(groups, 2 * len(self.array(levels.ROOTS))))
        self.records.make_room(keys)

    def load(self, groups: Words, keys: Words, amounts: Words) -> None:
        """Replace the totals by sums of these amounts: at most 2^31 - 1 amounts, none of them negative.

        At first, the heap of each group is a path of its keys in ascending order.
        """
        order = np.lexsort((keys, groups))
        order = order[amounts[order] != 0]
        groups, keys, amounts = groups[order], keys[order], amounts[order]
        is_first = np.ones(len(order), np.bool_)
        is_first[1:] = (groups[1:] != groups[:-1]) | (keys[1:] != keys[:-1])
        starts = np.flatnonzero(is_first)
        groups, keys = groups[starts], keys[starts]
        records = np.zeros((len(starts), levels.WORDS), np.int64)
        records[:, levels.GROUP], records[:, levels.KEY] = groups, keys
        if len(starts):
            # The amounts are added in halves of 32 bits; the sum of each half fits into 64 bits.
            low = np.add.reduceat(amounts & _LOW_HALF, starts)
            high = np.add.reduceat(amounts >> _HALF, starts) + (low >> _HALF)
            records[:, levels.TOTAL] = (high << _HALF) | (low & _LOW_HALF)
            records[:, levels.TOTAL + 1] = high >> _HALF
        nodes = np.arange(1, len(starts) + 1)
        is_root = np.ones(len(starts), np.bool_)
        is_root[1:] = groups[1:] != groups[:-1]
        records[:, levels.BEFORE] = np.where(is_root, 0, nodes - 1)
        records[:-1, levels.CHILD] = np.where(is_root[1:], 0, nodes[1:])
        self.records.load(records)
        roots = np.zeros(max(len(self.array(levels.ROOTS)), int(groups.max(initial=-1)) + 1), np.int64)
        roots[groups[is_root]] = nodes[is_root]
        self.put(levels.ROOTS, roots)

    def least(self, group: int) -> tuple[int, int] | None:
        """Return the least key of a group with its total; None if the group has no keys."""
        node = levels.least(self.views, group)
        if not node:
            return None
        words = self.records.records()[node - 1]
        return int(words[levels.KEY]), _total(words)

    def totals(self) -> dict[tuple[int, int], int]:
        """Return all totals by group and key; for tests."""
        return {(int(words[levels.GROUP]), int(words[levels.KEY])): _total(words) for words in self.records.dump()}

    def _check(self) -> None:
        """Assert every invariant."""
        self.records._check()
        records = self.records.records()
        seen = 0
        for group, root in enumerate(self.array(levels.ROOTS).tolist()):
            pending = [(root, 0)] if root else []
            while pending:
                node, parent = pending.pop()
                seen += 1
                words = records[node - 1].tolist()
                assert words[levels.GROUP] == group
                assert _total(records[node - 1]) > 0
                if parent:
                    assert words[levels.KEY] > records[parent - 1, levels.KEY]
                else:
                    assert words[levels.AFTER] == words[levels.BEFORE] == 0
                before, child = node, words[levels.CHILD]
                while child:
                    assert records[child - 1, levels.BEFORE] == before
                    pending.append((child, node))
                    before, child = child, int(records[child - 1, levels.AFTER])
        assert seen == len(self.records)
        for slot in self.records.slots():
            self.records.views[hashing.KEY][0] = int(records[slot, levels.GROUP])
            self.records.views[hashing.KEY][1] = int(records[slot, levels.KEY])
            assert hashing.find(self.records.views) == slot


def _total(words: Words) -> int:
    return int(words[levels.TOTAL + 1]) << 64 | int(words[levels.TOTAL]) & (1 << 64) - 1


_FILLED: Final = 48
"""Number of entries or children that `SortedRows.build` puts into a node; room remains for further insertions."""
_LEAST_LEAVES: Final = 4
_LEAST_INNERS: Final = sorted_rows.LEVELS


class SortedRows(Structure):
    """Slots, sorted by their order words. Not thread-safe: one owner at a time.

    >>> rows = SortedRows(1)
    >>> rows.build(np.array([0, 1, 2]), np.array([[30], [10], [20]]))
    >>> rows.slots().tolist()
    [1, 2, 0]
    """

    place_names = ("meta", "words", "leaves", "inners", "path")

    def __init__(self, words: int) -> None:
        """Begin with no records. ``words`` is the number of order words of a record, at least 1."""
        super().__init__(5)
        self.words = words
        self.width = max(2, words)
        """Number of cells of a record in ``WORDS``; with one order word the second cell stays 0."""
        self.put(sorted_rows.META, np.zeros(sorted_rows.NUMBERS, np.int64))
        self.put(sorted_rows.PATH, np.zeros(2 * sorted_rows.LEVELS, np.int64))
        self._meta = self.views[sorted_rows.META]
        self._begin(0, _LEAST_LEAVES, _LEAST_INNERS)

    def _begin(self, rows: int, leaves: int, inners: int) -> None:
        """Remove all records and make this many nodes: one leaf becomes the root, all other nodes are free."""
        meta = self._meta
        for place in range(sorted_rows.NUMBERS):
            meta[place] = 0
        meta[sorted_rows.WIDTH], meta[sorted_rows.ROOM] = self.width, rows
        self.put(sorted_rows.WORDS, np.zeros(rows * self.width, np.int64))
        for kind, count in enumerate((leaves, inners)):
            self.put(sorted_rows.LEAVES + kind, np.zeros(0, np.int64))
            self._add_nodes(kind, count)
        meta[sorted_rows.ROOT] = sorted_rows.allocate(self.views, 0, self.views[sorted_rows.LEAVES], sorted_rows.LEAF)

    def _nodes(self, kind: int) -> Words:
        """Return all nodes of a kind, shape (nodes, words of a node), not copied."""
        return self.array(sorted_rows.LEAVES + kind).reshape(-1, sorted_rows.INNER if kind else sorted_rows.LEAF)

    def _add_nodes(self, kind: int, count: int) -> None:
        """Add ``count`` free nodes of a kind."""
        begin = len(self._nodes(kind))
        self.extend(sorted_rows.LEAVES + kind, (begin + count) * (sorted_rows.INNER if kind else sorted_rows.LEAF))
        links = np.arange(begin + 2, begin + count + 2)
        links[-1] = self._meta[sorted_rows.FREE + kind]
        self._nodes(kind)[begin:, sorted_rows.NEXT] = links
        self._meta[sorted_rows.FREE + kind] = begin + 1
        self._meta[sorted_rows.SPARE + kind] += count

    def __len__(self) -> int:
        """Return the number of records."""
        return int(self._meta[sorted_rows.COUNT])

    def make_room(self, rows: int) -> None:
        """Make room for records with slots below ``rows``, and for the nodes that one insertion may need."""
        meta = self._meta
        if rows > meta[sorted_rows.ROOM]:
            self.extend(sorted_rows.WORDS, rows * self.width)
            meta[sorted_rows.ROOM] = rows
        if meta[sorted_rows.SPARE] < 1:
            self._add_nodes(0, len(self._nodes(0)))
        if meta[sorted_rows.SPARE + 1] < sorted_rows.LEVELS:
            self._add_nodes(1, len(self._nodes(1)))

    def order_words(self) -> Words:
        """Return the order words by slot, shape (room, words), not copied."""
        return self.array(sorted_rows.WORDS).reshape(-1, self.width)[:, : self.words]

    def slots(self) -> Words:
        """Return the slots in order."""
        meta, nodes = self._meta, self._nodes(0)
        leaf = int(meta[sorted_rows.ROOT])
        for _ in range(meta[sorted_rows.HEIGHT]):
            leaf = int(self._nodes(1)[leaf, sorted_rows.CHILDREN])
        parts = [np.zeros(0, np.int64)]
        while leaf >= 0:
            parts.append(nodes[leaf, sorted_rows.SLOTS : sorted_rows.SLOTS + int(nodes[leaf, sorted_rows.SIZE])])
            leaf = int(nodes[leaf, sorted_rows.NEXT]) - 1
        return np.concatenate(parts)

    def build(self, slots: Words, words: Words, *, rows: int = 0, is_sorted: bool = False) -> None:
        """Replace the records.

        ``words`` has the order words of each record, shape (records, words). Room is made for slots below ``rows``.
        With ``is_sorted`` the records are given in order.
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
        meta[sorted_rows.COUNT] = len(slots)
        nodes, numbers = self._nodes(0)[:leaves], np.arange(leaves)
        firsts, used = self._fill(nodes, slots), 0
        nodes[:, sorted_rows.NEXT], nodes[:, sorted_rows.PREVIOUS] = numbers + 2, numbers
        nodes[-1, sorted_rows.NEXT] = 0
        while len(numbers) > 1:
            parents = -(-len(numbers) // _FILLED)
            nodes = self._nodes(1)[used : used + parents]
            firsts = self._fill(nodes, firsts)
            _put(nodes, sorted_rows.CHILDREN, numbers)
            numbers = np.arange(used, used + parents)
            used += parents
            meta[sorted_rows.HEIGHT] += 1
        meta[sorted_rows.ROOT] = int(numbers[0])
        for kind, taken in enumerate((leaves, used)):
            spare = len(self._nodes(kind)) - taken
            meta[sorted_rows.FREE + kind], meta[sorted_rows.SPARE + kind] = taken + 1 if spare else 0, spare

    def _fill(self, nodes: Words, slots: Words) -> Words:
        """Write the entries of slots to nodes; return the first slot of each node."""
        words = self.array(sorted_rows.WORDS).reshape(-1, self.width)
        for place, values in (
            (sorted_rows.FIRST, words[slots, 0]),
            (sorted_rows.SECOND, words[slots, 1]),
            (sorted_rows.SLOTS, slots),
        ):
            _put(nodes, place, values)
        nodes[:, sorted_rows.SIZE] = _FILLED
        nodes[-1, sorted_rows.SIZE] = len(slots) - _FILLED * (len(nodes) - 1)
        return slots[::_FILLED]

    def _check(self) -> None:
        """Assert every invariant."""
        meta = self._meta
        used: tuple[list[int], list[int]] = ([], [])
        before = 0

        def check_node(kind: int, number: int, height: int) -> list[int]:
            """Check a node and all nodes below it; return their slots."""
            nonlocal before
            used[kind].append(number)
            node = self._nodes(kind)[number]
            size = int(node[sorted_rows.SIZE])
            slots: list[int] = node[sorted_rows.SLOTS : sorted_rows.SLOTS + size].tolist()
            words = self.array(sorted_rows.WORDS).reshape(-1, self.width)[slots]
            assert (node[sorted_rows.FIRST : sorted_rows.FIRST + size] == words[:, 0]).all()
            assert (node[sorted_rows.SECOND : sorted_rows.SECOND + size] == words[:, 1]).all()
            if kind == 0:
                assert node[sorted_rows.PREVIOUS] == before
                assert not before or self._nodes(0)[before - 1, sorted_rows.NEXT] == number + 1
                before = number + 1
                return slots
            descendants = []
            children = node[sorted_rows.CHILDREN : sorted_rows.CHILDREN + size].tolist()
            for slot, child in zip(slots, children, strict=True):
                below = check_node(int(height > 1), child, height - 1)
                assert below[0] == slot
                descendants += below
            return descendants

        root, height = int(meta[sorted_rows.ROOT]), int(meta[sorted_rows.HEIGHT])
        slots = check_node(int(height > 0), root, height)
        assert self._nodes(0)[before - 1, sorted_rows.NEXT] == 0
        assert height == 0 or self._nodes(1)[root, sorted_rows.SIZE] > 1
        assert len(slots) == len(set(slots)) == len(self)
        words = self.order_words()[slots]
        assert (np.lexsort((np.array(slots, np.int64), *words.T[::-1])) == np.arange(len(slots))).all()
        for kind in (0, 1):
            nodes, free = self._nodes(kind), int(meta[sorted_rows.FREE + kind])
            free_nodes = []
            while free:
                free_nodes.append(free - 1)
                free = int(nodes[free - 1, sorted_rows.NEXT])
            assert sorted(used[kind] + free_nodes) == list(range(len(nodes)))
            assert len(free_nodes) == meta[sorted_rows.SPARE + kind]


def _put(nodes: Words, place: int, values: Words) -> None:
    """Write values to nodes from a place on: `_FILLED` values to each node, and the rest to the last node."""
    whole = len(nodes) - 1
    nodes[:whole, place : place + _FILLED] = values[: whole * _FILLED].reshape(whole, _FILLED)
    rest = values[whole * _FILLED :]
    nodes[whole, place : place + len(rest)] = rest

"""Owner of totals by group and key, from which kernels read the least key of each group."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from runtime.native.library import hashing
from runtime.native.library import levels as kernel
from runtime.native.structures import HashTable, Structure

__all__ = ["Levels"]

Words = npt.NDArray[np.int64]

_HALF = 32
_LOW_HALF = (1 << _HALF) - 1


class Levels(Structure):
    """(group, key) → total, an integer of 128 bits, with the least key of each group: see `library.levels`.

    Groups are small numbers, from 0. Not thread-safe: one owner at a time.
    """

    place_names = ("records", "roots")

    def __init__(self) -> None:
        super().__init__(2)
        self.records = HashTable(2, kernel.WORDS - 2)
        """The keys that have a total, each with its place in the heap of its group."""
        self.link(kernel.RECORDS, self.records)
        self.put(kernel.ROOTS, np.zeros(0, np.int64))

    def __len__(self) -> int:
        """Return the number of keys that have a total."""
        return len(self.records)

    def reserve(self, groups: int, keys: int) -> None:
        """Make room for so many groups, and for so many keys besides those that are there."""
        if groups > len(self.array(kernel.ROOTS)):
            self.extend(kernel.ROOTS, max(groups, 2 * len(self.array(kernel.ROOTS))))
        self.records.make_room(keys)

    def load(self, groups: Words, keys: Words, amounts: Words) -> None:
        """Make these all that was added; amounts are not negative, and there are fewer than 2^31.

        The heap of a group begins as a path in the order of its keys.
        """
        order = np.lexsort((keys, groups))
        order = order[amounts[order] != 0]
        groups, keys, amounts = groups[order], keys[order], amounts[order]
        is_first = np.ones(len(order), np.bool_)
        is_first[1:] = (groups[1:] != groups[:-1]) | (keys[1:] != keys[:-1])
        starts = np.flatnonzero(is_first)
        groups, keys = groups[starts], keys[starts]
        records = np.zeros((len(starts), kernel.WORDS), np.int64)
        records[:, kernel.GROUP], records[:, kernel.KEY] = groups, keys
        if len(starts):
            # In halves of 32 bits, whose sums have room in 64.
            low = np.add.reduceat(amounts & _LOW_HALF, starts)
            high = np.add.reduceat(amounts >> _HALF, starts) + (low >> _HALF)
            records[:, kernel.TOTAL] = (high << _HALF) | (low & _LOW_HALF)
            records[:, kernel.TOTAL + 1] = high >> _HALF
        nodes = np.arange(1, len(starts) + 1)
        is_root = np.ones(len(starts), np.bool_)
        is_root[1:] = groups[1:] != groups[:-1]
        records[:, kernel.BEFORE] = np.where(is_root, 0, nodes - 1)
        records[:-1, kernel.CHILD] = np.where(is_root[1:], 0, nodes[1:])
        self.records.load(records)
        roots = np.zeros(max(len(self.array(kernel.ROOTS)), int(groups.max(initial=-1)) + 1), np.int64)
        roots[groups[is_root]] = nodes[is_root]
        self.put(kernel.ROOTS, roots)

    def least(self, group: int) -> tuple[int, int] | None:
        """Return the least key of a group with its total; None if the group has no keys."""
        node = kernel.least(self.views, group)
        if not node:
            return None
        words = self.records.records()[node - 1]
        return int(words[kernel.KEY]), _total(words)

    def totals(self) -> dict[tuple[int, int], int]:
        """Return all totals by group and key. For tests."""
        return {(int(words[kernel.GROUP]), int(words[kernel.KEY])): _total(words) for words in self.records.dump()}

    def _check(self) -> None:
        """Assert every invariant."""
        self.records._check()
        records = self.records.records()
        seen = 0
        for group, root in enumerate(self.array(kernel.ROOTS).tolist()):
            pending = [(root, 0)] if root else []
            while pending:
                node, parent = pending.pop()
                seen += 1
                words = records[node - 1].tolist()
                assert words[kernel.GROUP] == group
                assert _total(records[node - 1]) > 0
                if parent:
                    assert words[kernel.KEY] > records[parent - 1, kernel.KEY]
                else:
                    assert words[kernel.AFTER] == words[kernel.BEFORE] == 0
                before, child = node, words[kernel.CHILD]
                while child:
                    assert records[child - 1, kernel.BEFORE] == before
                    pending.append((child, node))
                    before, child = child, int(records[child - 1, kernel.AFTER])
        assert seen == len(self.records)
        for slot in self.records.slots():
            self.records.views[hashing.KEY][0] = int(records[slot, kernel.GROUP])
            self.records.views[hashing.KEY][1] = int(records[slot, kernel.KEY])
            assert hashing.find(self.records.views) == slot


def _total(words: Words) -> int:
    return int(words[kernel.TOTAL + 1]) << 64 | int(words[kernel.TOTAL]) & (1 << 64) - 1

"""Sorted rows under test: a kernel that inserts and removes records, in either tier, compared with a sorted list."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from unittest.mock import patch

import numpy as np

from runtime.native import indexes
from runtime.native.cache import KernelCache
from runtime.native.indexes import SortedRows
from runtime.native.library import sorted_rows as kernel
from runtime.native.structures import Structure
from runtime.native.tiers import plain_kernel

__all__ = ["Change", "SortedRowsRig", "small_nodes"]

Change = tuple[int, tuple[int, ...] | None]
"""Slot, and the order words of the record inserted there; None: the record is removed."""

_SEEN: Final = 7
_SOURCE: Final = '''"""Inserts and removes records, and writes what it sees of each."""

from runtime.native.library.sorted_rows import (
    first_row, has_row_room, insert_row, is_first_of_group, is_last_of_group, remove_row, row_after, row_before,
)
from runtime.native.plain import array, jit, root, table


@jit
def step(address):
    p = root(address)
    s, t, slots = array(p, 0), table(p, 1), array(p, 2)
    words, seen = array(p, 3), array(p, 4)
    meta, own = array(t, 0), array(t, 1)
    while s[0] < s[1]:
        at, slot = s[0], slots[s[0]]
        is_new = slot >= 0
        slot = slot if is_new else -1 - slot
        if is_new:
            if not has_row_room(t, slot):
                return 1
            for word in range(s[2]):
                own[slot * meta[0] + word] = words[at * s[2] + word]
            insert_row(t, slot)
        else:
            remove_row(t, slot)
        place = 7 * at
        seen[place] = meta[5]
        seen[place + 1] = meta[6]
        seen[place + 2] = 1 if is_first_of_group(t, slot) else 0
        seen[place + 3] = 1 if is_last_of_group(t, slot) else 0
        seen[place + 4] = row_before(t, slot) if is_new else -1
        seen[place + 5] = row_after(t, slot) if is_new else -1
        seen[place + 6] = first_row(t)
        s[0] = at + 1
    return 0
'''


@contextmanager
def small_nodes(fan: int = 3) -> Iterator[None]:
    """Limit nodes of the interpreted tier to few entries, so that few records make a tree of many levels."""
    with ExitStack() as stack:
        for module, name, value in (
            (kernel, "FAN", fan),
            (kernel, "SPARSE", 1),
            (kernel, "MERGED", fan - 1),
            (indexes, "_FILLED", fan - 1),
            (indexes, "_LEAST_LEAVES", 1),
        ):
            stack.enter_context(patch.object(module, name, value))
        yield


class SortedRowsRig:
    """`SortedRows`, and a sorted list of (order words…, slot)."""

    def __init__(self, words: int, kernels: KernelCache | None = None) -> None:
        """Create both; ``kernels`` is the cache of compiled kernels, None to interpret them."""
        self.rows = SortedRows(words)
        self.model: list[tuple[int, ...]] = []
        self._table = Structure(5)
        self._table.link(1, self.rows)
        self._call: Any = plain_kernel(_SOURCE)
        self._argument: Any = self._table.views
        if kernels is not None:
            kernels.compile_now([_SOURCE])
            self._call, self._argument = kernels.get(_SOURCE), self._table.address
            assert self._call is not None, kernels.failures

    def apply(self, changes: Sequence[Change]) -> None:
        """Apply changes, and assert that the kernel agrees with the list."""
        expected = [self._expected(*change) for change in changes]
        width = self.rows.words
        words = [word for _, given in changes for word in given or (0,) * width]
        self._table.put(0, np.array([0, len(changes), width]))
        self._table.put(2, np.array([-1 - slot if given is None else slot for slot, given in changes], np.int64))
        self._table.put(3, np.array([*words, 0], np.int64))
        self._table.put(4, np.zeros(_SEEN * len(changes), np.int64))
        while self._call(self._argument):
            self.rows.make_room(1 + max(slot for slot, _ in changes))
        assert self._table.array(4).reshape(-1, _SEEN).tolist() == expected

    def _expected(self, slot: int, words: tuple[int, ...] | None) -> list[int]:
        """Return the expected output of a change.

        It has the slots of both neighbours, 1 for the first and for the last record of a group, the neighbours again
        (-1 after a removal), and the slot of the first record.
        """
        if words is None:
            record = next(record for record in self.model if record[-1] == slot)
            place = bisect_left(self.model, record)
            del self.model[place]
            after = place
        else:
            record = (*words, slot)
            place = bisect_left(self.model, record)
            self.model.insert(place, record)
            after = place + 1
        left = self.model[place - 1] if place > 0 else None
        right = self.model[after] if after < len(self.model) else None
        near = [-1 if record is None else record[-1] for record in (left, right)]
        ends = [int(other is None or other[0] != record[0]) for other in (left, right)]
        again = [-1, -1] if words is None else near
        return [*near, *ends, *again, self.model[0][-1] if self.model else -1]

    def check(self) -> None:
        """Assert every invariant, and the order."""
        self.rows._check()
        assert self.rows.slots().tolist() == [record[-1] for record in self.model]

"""Index from keys to slots that is looked up and changed a batch at a time.

Keys are rows of int64 words; a slot is a small integer under which a caller stores the data of the key. A call is a
fixed number of numpy operations, so that its cost follows the batch and not the number of live keys.

Tried and rejected: a Python dict (a loop per key, 10 times slower at batches of 10,000) and sorted arrays with
`searchsorted` (a merge of all keys for each batch).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from runtime.state.columnar.hashedslots import HashedSlots

__all__ = ["KeyIndex"]

Words = npt.NDArray[np.int64]
Slots = npt.NDArray[np.int64]

_SMALLEST: Final = 64


class KeyIndex:
    """Index from keys of ``width`` words to slots; freed slots are reused.

    Not thread-safe: one owner at a time.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._keys = np.zeros((_SMALLEST, width), np.int64)  # slot → key
        self._is_live = np.zeros(_SMALLEST, np.bool_)  # by slot
        self._used = 0  # slots handed out so far, live or free
        self._free = np.zeros(_SMALLEST, np.int64)  # a stack of freed slots, to be reused
        self._free_count = 0
        self._layout = HashedSlots()

    def __len__(self) -> int:
        return self._used - self._free_count

    @property
    def capacity(self) -> int:
        """One more than the highest slot that may be allocated without growing; callers size their columns by it."""
        return len(self._keys)

    def keys_of(self, slots: Slots) -> Words:
        """Return the keys of live slots, shape (n, width)."""
        return self._keys.take(slots, axis=0)

    def live_slots(self) -> Slots:
        """Return all live slots, ascending."""
        return np.flatnonzero(self._is_live[: self._used])

    def live_slots_in(self, start: int, stop: int) -> Slots:
        """Return the live slots of a range, ascending; there are none from `capacity` on."""
        return np.flatnonzero(self._is_live[start : min(stop, self._used)]) + start

    def lookup(self, keys: Words) -> Slots:
        """Return the slot of each key, -1 for a missing one; keys may repeat."""
        return self._layout.lookup(keys, self._keys)

    def insert(self, keys: Words) -> tuple[Slots, npt.NDArray[np.bool_]]:
        """Return the slot of each key, allocated if missing, and which were allocated; keys must not repeat."""
        slots = self.lookup(keys)
        made = slots < 0
        if made.any():
            slots[made] = self.add(keys[made])
        return slots, made

    def add(self, keys: Words) -> Slots:
        """Return a new slot for each of these keys, which must be missing and must not repeat."""
        slots = self._take_slots(len(keys))
        self._keys[slots] = keys
        self._is_live[slots] = True
        self._layout.enter(slots, self._keys)
        return slots

    def remove(self, slots: Slots) -> None:
        """Remove the keys of these live slots; slots must not repeat."""
        is_live = self._is_live.take(slots)
        if not is_live.all():
            raise KeyError(f"expected live slots, was {slots[~is_live][:5].tolist()}")
        self._layout.leave(slots)
        self._is_live[slots] = False
        top = self._free_count + len(slots)
        if top > len(self._free):
            free = np.zeros(max(2 * len(self._free), top), np.int64)
            free[: self._free_count] = self._free[: self._free_count]
            self._free = free
        self._free[self._free_count : top] = slots
        self._free_count = top

    def _take_slots(self, count: int) -> Slots:
        reused = min(count, self._free_count)
        self._free_count -= reused
        taken = self._free[self._free_count : self._free_count + reused].copy()
        if reused == count:
            return taken
        first, self._used = self._used, self._used + count - reused
        self._reserve()
        return np.concatenate([taken, np.arange(first, self._used)])

    def _reserve(self) -> None:
        if self._used > len(self._keys):
            size = max(2 * len(self._keys), self._used)
            keys = np.zeros((size, self._width), np.int64)
            keys[: len(self._keys)] = self._keys
            is_live = np.zeros(size, np.bool_)
            is_live[: len(self._is_live)] = self._is_live
            self._keys, self._is_live = keys, is_live

    def _check(self) -> None:
        """Assert every invariant; for tests."""
        live = self.live_slots()
        assert len(live) == len(self)
        assert (self.lookup(self._keys[live]) == live).all()
        free = self._free[: self._free_count]
        assert len(np.unique(free)) == len(free)
        assert not self._is_live[free].any()
        self._layout._check(live)

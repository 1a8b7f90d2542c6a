"""Hash index from keys to slots, looked up and changed a batch at a time.

Keys are rows of int64 words; a slot is a small integer under which a caller stores the data of the key. The hash table
has linear probing. A probe consists of a few numpy operations over all unresolved keys of the batch, so the cost of a
call depends on the size of the batch, not on the number of live keys.

Tried and rejected: a Python dict (a loop over the keys, 10 times slower at batches of 10,000) and sorted arrays with
`searchsorted` (a merge of all keys for each batch).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["KeyIndex"]

Words = npt.NDArray[np.int64]
Slots = npt.NDArray[np.int64]

_EMPTY: Final = -1
_TOMBSTONE: Final = -2
_SMALLEST: Final = 64


def _hash(words: Words) -> npt.NDArray[np.uint64]:
    """Return a hash of 64 bits for each key, computed by applying the finaliser of splitmix64 to each word."""
    mixed = np.full(len(words), 0x9E3779B97F4A7C15, np.uint64)
    for column in range(words.shape[1]):
        mixed ^= words[:, column].view(np.uint64)
        mixed ^= mixed >> np.uint64(30)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(27)
        mixed *= np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return mixed


def _equal(some: Words, others: Words) -> npt.NDArray[np.bool_]:
    """Return which rows are equal, compared column by column because `all` over such short rows takes longer."""
    equal = np.ones(len(some), np.bool_)
    for column in range(some.shape[1]):
        equal &= some[:, column] == others[:, column]
    return equal


class HashedSlots:
    """Hash table of a `KeyIndex`. The argument ``keys`` of its methods is the index's array of keys by slot."""

    def __init__(self) -> None:
        self._positions = np.full(_SMALLEST, _EMPTY, np.int64)  # position → slot, _EMPTY or _TOMBSTONE
        self._position_of = np.full(_SMALLEST, _EMPTY, np.int64)  # slot → position, _EMPTY when the slot is free
        self._live = 0
        self._tombstones = 0

    def lookup(self, wanted: Words, keys: Words) -> Slots:
        """Return the slot of each wanted key, -1 for a missing key."""
        slots = np.full(len(wanted), -1, np.int64)
        mask = len(self._positions) - 1
        position = (_hash(wanted) & np.uint64(mask)).view(np.int64)
        pending = np.arange(len(wanted))
        while len(pending):
            slot = self._positions[position[pending]]
            match = slot >= 0
            match[match] = _equal(keys[slot[match]], wanted[pending[match]])
            slots[pending[match]] = slot[match]
            pending = pending[~match & (slot != _EMPTY)]
            position[pending] = (position[pending] + 1) & mask
        return slots

    def insert(self, slots: Slots, keys: Words) -> None:
        """Insert slots whose keys must be missing."""
        self._reserve(len(slots), keys)
        self._place(slots, keys)
        self._live += len(slots)

    def remove(self, slots: Slots) -> None:
        """Remove these slots, which must be live."""
        self._positions[self._position_of[slots]] = _TOMBSTONE
        self._position_of[slots] = _EMPTY
        self._live -= len(slots)
        self._tombstones += len(slots)

    def _place(self, slots: Slots, keys: Words) -> None:
        """Write slots at free positions; if two slots collide at a position, one of them probes the next position."""
        mask = len(self._positions) - 1
        position = (_hash(keys[slots]) & np.uint64(mask)).view(np.int64)
        pending = np.arange(len(slots))
        while len(pending):
            there = self._positions[position[pending]]
            free = pending[there < 0]
            self._tombstones -= int((there == _TOMBSTONE).sum())
            self._positions[position[free]] = slots[free]
            won = self._positions[position[free]] == slots[free]
            self._position_of[slots[free[won]]] = position[free[won]]
            lost = free[~won]
            # A tombstone on which two slots collided was subtracted twice.
            if len(lost):
                self._tombstones += int(np.isin(lost, pending[there == _TOMBSTONE]).sum())
            pending = np.concatenate([pending[there >= 0], lost])
            position[pending] = (position[pending] + 1) & mask

    def _reserve(self, count: int, keys: Words) -> None:
        if len(keys) > len(self._position_of):
            position_of = np.full(len(keys), _EMPTY, np.int64)
            position_of[: len(self._position_of)] = self._position_of
            self._position_of = position_of
        if 2 * (self._live + self._tombstones + count) <= len(self._positions):
            return
        size = _SMALLEST
        while size < 4 * (self._live + count):
            size *= 2
        self._positions = np.full(size, _EMPTY, np.int64)
        self._tombstones = 0
        self._place(np.flatnonzero(self._position_of >= 0), keys)

    def _check(self, live: Slots) -> None:
        """Assert every invariant, given all live slots; for tests."""
        assert (self._positions[self._position_of[live]] == live).all()
        assert int((self._positions >= 0).sum()) == len(live) == self._live
        assert int((self._position_of >= 0).sum()) == len(live)
        assert int((self._positions == _TOMBSTONE).sum()) == self._tombstones


class KeyIndex:
    """Index from keys of ``width`` words to slots; freed slots are reused.

    Not thread-safe: one owner at a time.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._keys = np.zeros((_SMALLEST, width), np.int64)  # slot → key
        self._is_live = np.zeros(_SMALLEST, np.bool_)  # by slot
        self._used = 0  # slots allocated so far, live or free
        self._free = np.zeros(_SMALLEST, np.int64)  # a stack of freed slots, to be reused
        self._free_count = 0
        self._hashed = HashedSlots()

    def __len__(self) -> int:
        return self._used - self._free_count

    @property
    def capacity(self) -> int:
        """Number of slots for which the arrays of the index have room; callers make their own columns as long."""
        return len(self._keys)

    def keys_of(self, slots: Slots) -> Words:
        """Return the keys of live slots, shape (n, width)."""
        return self._keys.take(slots, axis=0)

    def live_slots(self) -> Slots:
        """Return all live slots, ascending."""
        return np.flatnonzero(self._is_live[: self._used])

    def live_slots_in(self, start: int, stop: int) -> Slots:
        """Return the live slots of a range, ascending; no slot from `capacity` on is live."""
        return np.flatnonzero(self._is_live[start : min(stop, self._used)]) + start

    def lookup(self, keys: Words) -> Slots:
        """Return the slot of each key, -1 for a missing key; keys may repeat."""
        return self._hashed.lookup(keys, self._keys)

    def insert(self, keys: Words) -> Slots:
        """Return the slot of each key, and allocate a slot for a missing key; keys must not repeat."""
        slots = self.lookup(keys)
        is_new = slots < 0
        if is_new.any():
            slots[is_new] = self.add(keys[is_new])
        return slots

    def add(self, keys: Words) -> Slots:
        """Return a new slot for each of these keys, which must be missing and must not repeat."""
        slots = self._take_slots(len(keys))
        self._keys[slots] = keys
        self._is_live[slots] = True
        self._hashed.insert(slots, self._keys)
        return slots

    def remove(self, slots: Slots) -> None:
        """Remove the keys of these live slots; slots must not repeat. Raise `KeyError` for a slot that is not live."""
        is_live = self._is_live.take(slots)
        if not is_live.all():
            raise KeyError(f"expected live slots, was {slots[~is_live][:5].tolist()}")
        self._hashed.remove(slots)
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
        self._hashed._check(live)

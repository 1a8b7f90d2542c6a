"""An index from keys to slots that is looked up and changed a batch at a time.

Keys are rows of int64 words; a slot is a small integer under which a caller keeps what belongs to the key. Open
addressing with linear probing, but every probe is one numpy operation over all keys of the batch that are still
unresolved, so that the cost follows the batch and not the number of keys held.

Tried and rejected: a Python dict (a loop per key, 10 times slower at batches of 10,000) and sorted arrays with
`searchsorted` (a merge of everything held for each batch).
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
_CLOSE: Final = 1 << 16
"""Single words within so many of each other are looked up in an array, five times as quickly as by their hash."""


def _hash(words: Words) -> npt.NDArray[np.uint64]:
    """Mix the words of each key into 64 bits (the finaliser of splitmix64 per word)."""
    mixed = np.full(len(words), 0x9E3779B97F4A7C15, np.uint64)
    for column in range(words.shape[1]):
        mixed ^= words[:, column].view(np.uint64)
        mixed ^= mixed >> np.uint64(30)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(27)
        mixed *= np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return mixed


class KeyIndex:
    """Keys of ``width`` words → slots; freed slots are used again.

    Not thread-safe: one owner at a time.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._positions = np.full(_SMALLEST, _EMPTY, np.int64)  # position → slot, _EMPTY or _TOMBSTONE
        self._tombstones = 0
        self._keys = np.zeros((_SMALLEST, width), np.int64)  # slot → key
        self._position_of = np.full(_SMALLEST, _EMPTY, np.int64)  # slot → position, _EMPTY when the slot is free
        self._used = 0  # slots handed out so far, live or free
        self._free = np.zeros(0, np.int64)  # freed slots, to be used again
        self._direct: Slots | None = None  # key - _lowest → slot, while all keys that ever were lie close together
        self._lowest = 0
        self._is_close = True

    def __len__(self) -> int:
        return self._used - len(self._free)

    @property
    def capacity(self) -> int:
        """One more than the highest slot that may be handed out without growing; callers size their columns by it."""
        return len(self._keys)

    def keys_of(self, slots: Slots) -> Words:
        """The keys of live slots, shape (n, width)."""
        return self._keys[slots]

    def live_slots(self) -> Slots:
        """All live slots, ascending."""
        return np.flatnonzero(self._position_of[: self._used] >= 0)

    def lookup(self, keys: Words) -> Slots:
        """The slot of each key, -1 where there is none; keys may repeat."""
        if self._width == 1 and self._direct is not None:
            return self._looked_up(keys[:, 0])
        found = np.full(len(keys), -1, np.int64)
        mask = len(self._positions) - 1
        position = (_hash(keys) & np.uint64(mask)).astype(np.int64)
        pending = np.arange(len(keys))
        while len(pending):
            slot = self._positions[position[pending]]
            match = slot >= 0
            match[match] = (self._keys[slot[match]] == keys[pending[match]]).all(axis=1)
            found[pending[match]] = slot[match]
            pending = pending[~match & (slot != _EMPTY)]
            position[pending] = (position[pending] + 1) & mask
        return found

    def _looked_up(self, keys: Slots) -> Slots:
        assert self._direct is not None
        places = keys - self._lowest
        if len(places) and (int(places.min()) < 0 or int(places.max()) >= len(self._direct)):
            # An offset that wrapped is out of range like any other: both ends are looked at.
            inside = (places >= 0) & (places < len(self._direct))
            return np.where(inside, self._direct[np.where(inside, places, 0)], -1)
        return self._direct[places]

    def _enter_direct(self, slots: Slots) -> None:
        """Keep the array from keys to slots, as long as the keys lie close together."""
        if self._width != 1 or not self._is_close or not len(slots):
            return
        keys = self._keys[slots, 0]
        low, high = int(keys.min()), int(keys.max())
        if self._direct is not None:
            low, high = min(low, self._lowest), max(high, self._lowest + len(self._direct) - 1)
        if high - low >= _CLOSE:
            self._direct, self._is_close = None, False
            return
        if self._direct is None or high - low >= len(self._direct) or low < self._lowest:
            spare = min(high - low + 1, _CLOSE - (high - low + 1))
            direct = np.full(high - low + 1 + spare, _EMPTY, np.int64)
            if self._direct is not None:
                start = self._lowest - low
                direct[start : start + len(self._direct)] = self._direct[: len(direct) - start]
            self._direct, self._lowest = direct, low
        self._direct[keys - self._lowest] = slots

    def insert(self, keys: Words) -> tuple[Slots, npt.NDArray[np.bool_]]:
        """The slot of each key, made where there was none, and which were made; keys must not repeat."""
        slots = self.lookup(keys)
        made = slots < 0
        new = int(made.sum())
        if new:
            self._reserve(new)
            fresh = self._take_slots(new)
            self._keys[fresh] = keys[made]
            self._place(fresh)
            self._enter_direct(fresh)
            slots[made] = fresh
        return slots, made

    def remove(self, slots: Slots) -> None:
        """Forget the keys of these live slots; slots must not repeat."""
        positions = self._position_of[slots]
        if (positions < 0).any():
            raise KeyError(f"expected live slots, was {slots[positions < 0][:5].tolist()}")
        if self._direct is not None:
            self._direct[self._keys[slots, 0] - self._lowest] = _EMPTY
        self._positions[positions] = _TOMBSTONE
        self._position_of[slots] = _EMPTY
        self._tombstones += len(slots)
        self._free = np.concatenate([self._free, slots])

    def _take_slots(self, count: int) -> Slots:
        reused = min(count, len(self._free))
        cut = len(self._free) - reused
        taken = self._free[cut:]
        self._free = self._free[:cut]
        fresh = np.arange(self._used, self._used + count - reused)
        self._used += count - reused
        return np.concatenate([taken, fresh])

    def _place(self, slots: Slots) -> None:
        """Enter slots whose keys are known to be absent; where two want one position, one of them moves on."""
        mask = len(self._positions) - 1
        position = (_hash(self._keys[slots]) & np.uint64(mask)).astype(np.int64)
        pending = np.arange(len(slots))
        while len(pending):
            there = self._positions[position[pending]]
            free = pending[there < 0]
            self._tombstones -= int((there == _TOMBSTONE).sum())
            self._positions[position[free]] = slots[free]
            won = self._positions[position[free]] == slots[free]
            self._position_of[slots[free[won]]] = position[free[won]]
            lost = free[~won]
            # A tombstone that two slots wanted was counted off twice.
            if len(lost):
                self._tombstones += int(np.isin(lost, pending[there == _TOMBSTONE]).sum())
            pending = np.concatenate([pending[there >= 0], lost])
            position[pending] = (position[pending] + 1) & mask

    def _reserve(self, count: int) -> None:
        needed = self._used + max(0, count - len(self._free))
        if needed > len(self._keys):
            size = max(2 * len(self._keys), needed)
            keys = np.zeros((size, self._width), np.int64)
            keys[: len(self._keys)] = self._keys
            position_of = np.full(size, _EMPTY, np.int64)
            position_of[: len(self._position_of)] = self._position_of
            self._keys, self._position_of = keys, position_of
        filled = len(self) + self._tombstones + count
        if 2 * filled > len(self._positions):
            self._rebuild(len(self) + count)

    def _rebuild(self, count: int) -> None:
        live = self.live_slots()
        size = _SMALLEST
        while size < 4 * count:
            size *= 2
        self._positions = np.full(size, _EMPTY, np.int64)
        self._tombstones = 0
        self._place(live)

    def _check(self) -> None:
        """Assert every invariant; for tests."""
        live = self.live_slots()
        assert len(live) == len(self)
        assert (self._positions[self._position_of[live]] == live).all()
        assert int((self._positions >= 0).sum()) == len(live)
        assert int((self._positions == _TOMBSTONE).sum()) == self._tombstones
        assert (self.lookup(self._keys[live]) == live).all()
        assert len(np.unique(self._free)) == len(self._free)
        assert (self._position_of[self._free] == _EMPTY).all()
        if self._direct is not None:
            assert int((self._direct >= 0).sum()) == len(live)

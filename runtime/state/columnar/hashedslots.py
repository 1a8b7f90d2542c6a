"""Hash table with linear probing from keys of any words to slots, which is looked up a batch at a time.

Every probe is one numpy operation over all keys of the batch that are still unresolved.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["HashedSlots"]

Words = npt.NDArray[np.int64]
Slots = npt.NDArray[np.int64]

_EMPTY: Final = -1
_TOMBSTONE: Final = -2
_SMALLEST: Final = 64


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


def _equal(some: Words, others: Words) -> npt.NDArray[np.bool_]:
    """Return which rows are equal, column by column: `all` over such short rows takes longer."""
    equal = np.ones(len(some), np.bool_)
    for column in range(some.shape[1]):
        equal &= some[:, column] == others[:, column]
    return equal


class HashedSlots:
    """Layout of a key index; ``keys`` are those of the index by slot. Its owner is the index's."""

    def __init__(self) -> None:
        self._positions = np.full(_SMALLEST, _EMPTY, np.int64)  # position → slot, _EMPTY or _TOMBSTONE
        self._position_of = np.full(_SMALLEST, _EMPTY, np.int64)  # slot → position, _EMPTY when the slot is free
        self._live = 0
        self._tombstones = 0

    def lookup(self, wanted: Words, keys: Words) -> Slots:
        """Return the slot of each wanted key, -1 for a missing one."""
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

    def enter(self, slots: Slots, keys: Words) -> None:
        """Insert slots whose keys are known to be absent."""
        self._reserve(len(slots), keys)
        self._place(slots, keys)
        self._live += len(slots)

    def leave(self, slots: Slots) -> None:
        """Remove these slots, which must be live."""
        self._positions[self._position_of[slots]] = _TOMBSTONE
        self._position_of[slots] = _EMPTY
        self._live -= len(slots)
        self._tombstones += len(slots)

    def _place(self, slots: Slots, keys: Words) -> None:
        """Place slots; where two collide on a position, one of them moves on."""
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

"""Slots of linked lists, sets and dictionaries: any slot may be free, and freed slots are reused.

A change is recorded as the bytes to write, so a save writes each value as it was when it was set. This module also has
the methods that the sorted set and the sorted dictionary share.
"""

from __future__ import annotations

import heapq
from abc import abstractmethod
from collections.abc import Iterable, Iterator, MutableMapping
from functools import cached_property
from typing import Any, Generic, TypeVar

from sortedcontainers import SortedDict

from runtime.state.errors import CorruptStateError
from runtime.state.objects.slots import Home, PersistedObject, Schema, Slots
from runtime.state.stores import Edit

__all__ = ["Changes", "FreeSlots", "Keyed", "Ordered", "Scattered"]


class FreeSlots:
    """Allocator of slots, the lowest free one first. Not thread-safe: one owner at a time."""

    def __init__(self) -> None:
        self.end = 0
        """One more than the highest slot ever allocated."""
        self._free: list[int] = []  # a heap

    def take(self) -> int:
        """Mark a free slot as taken, and return it."""
        if self._free:
            return heapq.heappop(self._free)
        self.end += 1
        return self.end - 1

    def give_back(self, slot: int) -> None:
        """Free a slot."""
        heapq.heappush(self._free, slot)

    def clear(self) -> None:
        """Free all slots."""
        self.end, self._free = 0, []

    def restore(self, taken: Iterable[int]) -> None:
        """Mark exactly these slots, which must be in ascending order, as taken."""
        self.clear()
        for slot in taken:
            self._free += range(self.end, slot)
            self.end = slot + 1

    def check(self, taken: set[int]) -> None:
        """Assert that exactly these slots are taken; for tests."""
        free = set(self._free)
        assert len(free) == len(self._free)
        assert taken.isdisjoint(free)
        assert taken | free == set(range(self.end))


class Changes:
    """Slots that changed since the last save, each with the bytes to write; None for a freed slot.

    A slot that was taken and freed again without having been stored is dropped. The slots of a save count as stored
    until the outcome of the save is known. Not thread-safe: its only owner is the owner of the slots.
    """

    def __init__(self) -> None:
        self._changed: dict[int, bytes | None] = {}
        self._absent: set[int] = set()  # changed slots that are certainly not in the store
        self._flight: dict[int, bytes | None] | None = None

    def put(self, slot: int, data: bytes, *, is_new: bool) -> None:
        """Record the new bytes of a slot; ``is_new`` is True if the slot was free."""
        if is_new and slot not in self._changed and slot not in (self._flight or ()):
            self._absent.add(slot)
        self._changed[slot] = data

    def drop(self, slot: int) -> None:
        """Record that a slot was freed."""
        if slot in self._absent:
            self._absent.discard(slot)
            del self._changed[slot]
        else:
            self._changed[slot] = None

    def take_off(self) -> list[tuple[int, bytes | None]]:
        """Return the changes for a save, by ascending slot, and mark them as in flight."""
        self._flight, self._changed = self._changed, {}
        self._absent = set()
        return sorted(self._flight.items())

    def on_saved(self) -> None:
        """Mark the changes in flight as durable."""
        flight, self._flight = self._flight or {}, None
        for slot in self._changed.keys() & flight.keys():
            if flight[slot] is not None:
                continue
            if self._changed[slot] is None:
                del self._changed[slot]
            else:
                self._absent.add(slot)

    def on_failed(self) -> None:
        """Mark the changes in flight as lost or unknown: any of their slots may be stored."""
        flight, self._flight = self._flight or {}, None
        self._changed = flight | self._changed


class Scattered(Slots):
    """Slots in any order. Not thread-safe: one owner at a time."""

    def __init__(self, home: Home, schema: Schema) -> None:
        super().__init__(home, schema)
        self.free = FreeSlots()
        self.changes = Changes()

    @abstractmethod
    def encoded(self) -> Iterator[tuple[int, bytes]]:
        """Yield all taken slots in ascending order, with the bytes to write."""

    def renew(self) -> None:
        """Mark all slots as changed."""
        for slot, data in self.encoded():
            self.changes.put(slot, data, is_new=False)

    def on_saved(self) -> None:
        self.changes.on_saved()

    def on_failed(self) -> None:
        self.changes.on_failed()

    def _edits(self, full: bool) -> list[Edit]:
        changed = self.changes.take_off()
        if full:
            everything: dict[int, bytes | None] = {slot: None for slot, data in changed if data is None}
            everything.update(self.encoded())
            changed = list(everything.items())
        return self.item_edits(changed)


class Keyed(Scattered):
    """Slots that are looked up by a key: a member of a set, or the key of an entry. One owner at a time."""

    _loaded = "slot_of"

    def __init__(self, home: Home, schema: Schema, *, is_sorted: bool) -> None:
        super().__init__(home, schema)
        self._is_sorted = is_sorted

    @cached_property
    @abstractmethod
    def slot_of(self) -> Any:
        """Slot of each key; a `SortedDict` in a sorted object, else a dict."""

    def begin(self) -> None:
        self.slot_of = self._mapping()

    def clear(self) -> None:
        """Remove all keys."""
        for slot in sorted(self.slot_of.values()):
            self.changes.drop(slot)
        self.slot_of.clear()
        self.free.clear()

    def _mapping(self) -> Any:
        """Return an empty map from keys to slots; it is sorted if the object is sorted."""
        return SortedDict() if self._is_sorted else {}

    def _enter(self, slots: MutableMapping[Any, int], key: Any, slot: int) -> None:
        """Add a stored key; raise `CorruptStateError` if it is repeated, or cannot be hashed or sorted."""
        try:
            if slots.setdefault(key, slot) == slot:
                return
        except TypeError as error:
            raise CorruptStateError(
                f"object {self.home.name}: expected a key in slot {slot}, was {key!r}: {error}"
            ) from None
        raise CorruptStateError(
            f"object {self.home.name}: expected keys that differ, was {key!r} in slots {slots[key]} and {slot}"
        )


K = TypeVar("K")


class Ordered(PersistedObject, Generic[K]):
    """Base of the sorted set and the sorted dictionary: their members or keys, by value and by place in the order."""

    _slots: Any  # the subclass of `Keyed` that belongs to the kind of the object

    @property
    def _sorted(self) -> SortedDict:
        return self._slots.slot_of

    def index(self, key: K, start: int | None = None, stop: int | None = None) -> int:
        """Return the place of a key; raise `ValueError` if the key is not in the range of places."""
        place: int = self._sorted.index(key, start, stop)
        return place

    def bisect_left(self, key: K) -> int:
        """Return the place of the first key that is not below ``key``."""
        place: int = self._sorted.bisect_left(key)
        return place

    def bisect_right(self, key: K) -> int:
        """Return the place of the first key above ``key``."""
        place: int = self._sorted.bisect_right(key)
        return place

    def irange(
        self,
        minimum: K | None = None,
        maximum: K | None = None,
        inclusive: tuple[bool, bool] = (True, True),
        reverse: bool = False,
    ) -> Iterator[K]:
        """Yield the keys of a range of values."""
        keys: Iterator[K] = self._sorted.irange(minimum, maximum, inclusive, reverse)
        return keys

    def islice(self, start: int | None = None, stop: int | None = None, reverse: bool = False) -> Iterator[K]:
        """Yield the keys of a range of places."""
        keys: Iterator[K] = self._sorted.islice(start, stop, reverse)
        return keys

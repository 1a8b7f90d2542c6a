"""Slots of which any may be free, in which linked lists, sets and dictionaries are stored. Freed slots are reused.

Changes are stored as the bytes to be written, so that a value is saved as it was when it was set.
"""

from __future__ import annotations

import heapq
from abc import abstractmethod
from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any

from sortedcontainers import SortedDict

from runtime.state.errors import CorruptStateError
from runtime.state.objects.slots import Home, Schema, Slots
from runtime.state.stores import Edit

__all__ = ["Changes", "FreeSlots", "Keyed", "Scattered"]


class FreeSlots:
    """Allocator of slots, the lowest free one first. Not thread-safe: one owner at a time."""

    def __init__(self) -> None:
        self.end = 0
        """One more than the highest slot ever allocated."""
        self._free: list[int] = []  # a heap

    def take(self) -> int:
        """Return a free slot, which is then taken."""
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
        """Mark exactly these slots as taken; they ascend."""
        self.clear()
        for slot in taken:
            self._free += range(self.end, slot)
            self.end = slot + 1

    def check(self, taken: set[int]) -> None:
        """Assert that these are the slots that are taken; for tests."""
        free = set(self._free)
        assert len(free) == len(self._free)
        assert taken.isdisjoint(free)
        assert taken | free == set(range(self.end))


class Changes:
    """Slots that changed since the last save, with the bytes to write there, or None for a removed one.

    A slot that was taken and freed again without having been stored is dropped. A save whose outcome is open settles
    its slots when the outcome is known: until then they count as stored. Not thread-safe: one owner at a time, that of
    the slots.
    """

    def __init__(self) -> None:
        self._changed: dict[int, bytes | None] = {}
        self._absent: set[int] = set()  # changed slots that the store surely lacks
        self._flight: dict[int, bytes | None] | None = None

    def put(self, slot: int, data: bytes, *, is_new: bool) -> None:
        """Write a slot; ``is_new`` if it was free."""
        if is_new and slot not in self._changed and slot not in (self._flight or ()):
            self._absent.add(slot)
        self._changed[slot] = data

    def drop(self, slot: int) -> None:
        """Mark a slot as freed."""
        if slot in self._absent:
            self._absent.discard(slot)
            del self._changed[slot]
        else:
            self._changed[slot] = None

    def take_off(self) -> list[tuple[int, bytes | None]]:
        """Return the changes for a save, by slot; they are in flight from now on."""
        self._flight, self._changed = self._changed, {}
        self._absent = set()
        return sorted(self._flight.items())

    def on_saved(self) -> None:
        """Mark the changes in flight as durable."""
        flight, self._flight = self._flight or {}, None
        for slot in list(self._changed.keys() & flight.keys()):
            if flight[slot] is None:
                self._not_stored(slot)

    def on_failed(self) -> None:
        """Mark the changes in flight as lost or unknown: a slot among them may be stored."""
        flight, self._flight = self._flight or {}, None
        self._changed = flight | self._changed

    def _not_stored(self, slot: int) -> None:
        if self._changed[slot] is None:
            del self._changed[slot]
        else:
            self._absent.add(slot)


class Scattered(Slots):
    """Slots in any order. Not thread-safe: one owner at a time."""

    def __init__(self, home: Home, schema: Schema) -> None:
        super().__init__(home, schema)
        self.free = FreeSlots()
        self.changes = Changes()

    @abstractmethod
    def encoded(self) -> Iterator[tuple[int, bytes]]:
        """Yield all taken slots in ascending order, as they are to be stored."""

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
    """Slots that are found by a key: a member of a set, or the key of an entry. One owner at a time."""

    _loaded = "slot_of"

    def __init__(self, home: Home, schema: Schema, *, is_sorted: bool) -> None:
        super().__init__(home, schema)
        self._is_sorted = is_sorted

    def _mapping(self) -> Any:
        """Return an empty map from keys to slots, sorted if the object is."""
        return SortedDict() if self._is_sorted else {}

    def _enter(self, slots: MutableMapping[Any, int], key: Any, slot: int) -> None:
        """Add a stored key; raise `CorruptStateError` for one that is repeated, or that no map can have."""
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

"""Contiguous slots [head, tail), in which values, arrays, lists, queues and stacks are stored.

The edits of a save follow from three things: the range that the store may have, the slot from which on all are new,
and single slots changed below it. So adding to an end costs nothing but the item, and an item that was added and
removed between two saves is never written.

An item that is `bytes` is one that was not decoded, or a value that is itself `bytes`, which stays encoded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, MutableSequence
from functools import cached_property
from itertools import chain
from typing import Any, Final

import msgspec

from runtime.state.codec import Codec
from runtime.state.errors import CorruptStateError
from runtime.state.objects.slots import Home, Schema, Slots
from runtime.state.stores.store import Edit

__all__ = ["HEAD", "LENGTH", "TAIL", "Contiguous"]

LENGTH: Final = 0
HEAD: Final = 0
TAIL: Final = 1


class _Flight(msgspec.Struct, frozen=True):
    """Save whose outcome is open."""

    head: int
    tail: int
    new_from: int
    changed: set[int]
    metadata: dict[int, int]


class Contiguous(Slots):
    """Items in slots [head, head + number of items). Not thread-safe: one owner at a time."""

    _loaded = "items"

    def __init__(self, home: Home, schema: Schema, metadata: tuple[int, ...], *, is_queue: bool = False) -> None:
        """``metadata`` are the entries with the ends; without any there is always one item."""
        super().__init__(home, schema)
        self._entries = metadata
        self._is_queue = is_queue
        self.head = 0
        self.new_from = 0
        """Items in this slot and above go out with the next save, changed or not."""
        self.changed: set[int] = set()
        """Changed slots below that."""
        self._stored = (0, 0)  # range that the store may have
        self._stored_metadata: dict[int, int] = {}
        self._flight: _Flight | None = None

    @cached_property
    def items(self) -> MutableSequence[Any]:
        """Items, encoded or not: a list, or a deque for a queue."""
        stored = self.metadata()
        head, tail = self._ends(stored)
        items = self._made(self._read(head, tail))
        self.head, self.new_from = head, tail
        self._stored, self._stored_metadata = (head, tail), stored
        return items

    @property
    def tail(self) -> int:
        """Slot after the last."""
        length = len(self.items)  # which may have to be read, and the head with it
        return self.head + length

    def begin(self) -> None:
        self.items = self._made(())

    def value(self, place: int) -> Any:
        """Return the item at a place (from 0), and keep it decoded."""
        item = self.items[place]
        if type(item) is bytes:
            item = self.codec.decode(item)
            if type(item) is not bytes and not self._is_queue:
                self.items[place] = item
        return item

    def values(self) -> Iterator[Any]:
        """Yield all items, decoded."""
        decode = self.codec.decode
        for item in self.items:
            yield decode(item) if type(item) is bytes else item

    def checked(self, value: object) -> object:
        """Return a value as an item; raise `TypeError` or `ValueError` for one that could not be saved."""
        if type(value) is bytes:
            return self.codec.encode(value)
        self.codec.check(value)
        return value

    def change(self, place: int, value: object) -> None:
        """Set the value at a place (from 0)."""
        self.items[place] = self.checked(value)
        slot = self.head + place
        if slot < self.new_from:
            self.changed.add(slot)

    def renew(self, place: int) -> None:
        """Mark all items from this place on as moved."""
        self.new_from = min(self.new_from, self.head + place)

    def migrate(self, version: int, migrate: Callable[[int, Any], Any]) -> None:
        decode = Codec(Any, self.home.name).decode
        self.items = self._made([self.checked(migrate(version, decode(item))) for item in self.items])
        self.new_from = self.head

    def on_saved(self) -> None:
        if self._flight is not None:
            self._stored = self._flight.head, self._flight.tail
            self._stored_metadata = self._flight.metadata
            self._flight = None

    def on_failed(self) -> None:
        flight = self._flight
        if flight is None:
            return
        self._flight = None
        self.new_from = min(self.new_from, flight.new_from)
        self.changed |= flight.changed
        # The store may have committed without reporting it: the range that it may have is deleted once it is removed.
        low, high = self._stored
        self._stored = (min(low, flight.head), max(high, flight.tail)) if low < high else (flight.head, flight.tail)
        self._stored_metadata = {k: v for k, v in self._stored_metadata.items() if flight.metadata.get(k) == v}

    def check(self) -> None:
        if not self.is_in_memory:
            return
        assert 0 <= self.head <= self.tail
        assert self.new_from <= self.tail
        low, high = self._stored
        assert low <= high
        if self._flight is None:
            missing = set(range(self.head, min(self.tail, self.new_from))) - set(range(low, high))
            assert not missing, "slots that are neither new nor stored"
        for item in self.items:
            self.codec.encode(self.codec.decode(item) if type(item) is bytes else item)

    def _edits(self, full: bool) -> list[Edit]:
        head, tail = self.head, self.tail
        low = head if full else max(self.new_from, head)
        metadata = self._described(head, tail)
        edits = [
            Edit(self.home.metadata, entry, msgspec.msgpack.encode(value))
            for entry, value in metadata.items()
            if full or self._stored_metadata.get(entry) != value
        ]
        changed = sorted(slot for slot in self.changed if head <= slot < low)
        edits += self.item_edits((slot, self._encoded(slot)) for slot in chain(changed, range(low, tail)))
        first, last = self._stored
        gone = chain(range(first, min(head, last)), range(max(tail, first), last))
        edits += self.item_edits((slot, None) for slot in gone)
        self._flight = _Flight(head, tail, self.new_from, self.changed, metadata)
        self.new_from, self.changed = tail, set()
        return edits

    def _encoded(self, slot: int) -> bytes:
        item = self.items[slot - self.head]
        return item if type(item) is bytes else self.codec.encode(item)

    def _made(self, items: Iterable[Any]) -> MutableSequence[Any]:
        return deque(items) if self._is_queue else list(items)

    def _read(self, head: int, tail: int) -> Iterator[bytes]:
        expected = head
        for slot, data in self.scan():
            self.home.expect(slot == expected and slot < tail, f"items in slots {head} to {tail - 1}", f"slot {slot}")
            yield data
            expected += 1
        self.home.expect(expected == tail, f"items in slots {head} to {tail - 1}", f"none in slot {expected}")

    def _described(self, head: int, tail: int) -> dict[int, int]:
        """Return the metadata of these ends."""
        if not self._entries:
            return {}
        return {HEAD: head, TAIL: tail} if self._is_queue else {LENGTH: tail}

    def _ends(self, stored: dict[int, int]) -> tuple[int, int]:
        if sorted(stored) != sorted(self._entries):
            raise CorruptStateError(
                f"object {self.home.name}: expected metadata {sorted(self._entries)}, was {sorted(stored)}"
            )
        head, tail = (stored[HEAD], stored[TAIL]) if self._is_queue else (0, stored.get(LENGTH, 1))
        self.home.expect(0 <= head <= tail < 2**63, "ends in order", (head, tail))
        return head, tail

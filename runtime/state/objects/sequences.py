"""Persisted value, array, list, queue and stack, in contiguous slots [head, tail).

Three facts determine the edits of a save: the range of slots that the store may have, the slot from which on all slots
are new, and the changed slots below that slot. So adding an item at an end writes only this item, and an item that was
added and removed between two saves is never written.

An item of type `bytes` is an encoded value: either it has not been decoded yet, or the value itself is `bytes` and
stays encoded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, MutableSequence, Sequence
from functools import cached_property
from itertools import chain
from operator import index
from typing import Any, ClassVar, Final, Generic, TypeVar, overload

import msgspec

from runtime.state.codec import Codec
from runtime.state.errors import CorruptStateError
from runtime.state.objects.slots import Home, PersistedObject, Schema, Slots
from runtime.state.stores import Edit

__all__ = ["Contiguous", "PersistedArray", "PersistedList", "PersistedQueue", "PersistedStack", "PersistedValue"]

LENGTH: Final = 0
"""Metadata entry of an array, list or stack: its length."""
HEAD: Final = 0
"""Metadata entry of a queue: the slot of its first item."""
TAIL: Final = 1
"""Metadata entry of a queue: the slot after its last item."""


class _Flight(msgspec.Struct, frozen=True):
    """Save whose outcome is not known yet."""

    head: int
    """Slot of the first item at the save."""
    tail: int
    """Slot after the last item at the save."""
    new_from: int
    """Slot from which on the save wrote all items."""
    changed: set[int]
    """Slots below ``new_from`` that the save wrote."""
    metadata: dict[int, int]
    """Metadata of the object at the save."""


class Contiguous(Slots):
    """Items in slots [head, head + number of items). Not thread-safe: one owner at a time."""

    _loaded = "items"

    def __init__(self, home: Home, schema: Schema, metadata: tuple[int, ...], *, is_queue: bool = False) -> None:
        """Prepare empty slots.

        ``metadata`` has the numbers of the metadata entries that store the ends; an object without metadata always has
        exactly one item.
        """
        super().__init__(home, schema)
        self._entries = metadata
        self._is_queue = is_queue
        self.head = 0
        self.new_from = 0
        """Slot from which on the next save writes all items, changed or not."""
        self.changed: set[int] = set()
        """Slots of changed items below ``new_from``."""
        self._stored = (0, 0)  # range of slots that the store may have
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
        """Slot after the last item."""
        length = len(self.items)  # computed first: reading the items also sets the head
        return self.head + length

    def begin(self) -> None:
        self.items = self._made(())

    def value(self, place: int) -> Any:
        """Return the item at a place (from 0), decoded; it stays decoded, except in a queue."""
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
        """Return a value as an item; raise `TypeError` or `ValueError` for a value that cannot be saved."""
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
        # The store may have committed this save without reporting it, so it may have the slots of both saves.
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
        """Return the metadata entries for these ends."""
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


T = TypeVar("T")


class _AnySequence(PersistedObject, Sequence[T]):
    """Base of the array, the list, the queue and the stack: read access to items by place."""

    _slots: Contiguous

    def __len__(self) -> int:
        return len(self._slots.items)

    def __iter__(self) -> Iterator[T]:
        return self._slots.values()

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> list[T]: ...
    def __getitem__(self, place: int | slice) -> T | list[T]:
        if isinstance(place, slice):
            return [self._slots.value(number) for number in range(*place.indices(len(self)))]
        value: T = self._slots.value(place)
        return value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {list(self)!r})"


class PersistedValue(PersistedObject, Generic[T]):
    """Persisted single value, in the attribute `value`."""

    kind: ClassVar[str] = "value"
    _slots: Contiguous

    @classmethod
    def slots_of(cls, home: Home, schema: Schema) -> Contiguous:
        return Contiguous(home, schema, ())

    def begin(self, length: int, initial: object) -> None:
        self._slots.items.append(self._slots.checked(initial))

    @property
    def value(self) -> T:
        """The value; the initial value until another one is set."""
        value: T = self._slots.value(0)
        return value

    @value.setter
    def value(self, value: T) -> None:
        self._slots.change(0, value)

    def __repr__(self) -> str:
        return f"PersistedValue({self.name!r}, {self.value!r})"


class PersistedArray(_AnySequence[T]):
    """Persisted `collections.abc.Sequence` of fixed length; items can be replaced, as in ``array[3] = 42``."""

    kind: ClassVar[str] = "array"

    @classmethod
    def slots_of(cls, home: Home, schema: Schema) -> Contiguous:
        return Contiguous(home, schema, (LENGTH,))

    def begin(self, length: int, initial: object) -> None:
        if length < 0:
            raise ValueError(f"expected a length of at least 0 for array {self.name}, was {length}")
        self._slots.items.extend([self._slots.checked(initial)] * length)

    def __setitem__(self, place: int, value: T) -> None:
        """Set an item; raise `IndexError` outside of the array."""
        number = index(place)
        length = len(self)
        if not -length <= number < length:
            raise IndexError(f"expected an index of array {self.name} of {length}, was {number}")
        self._slots.change(number % length, value)


class PersistedList(_AnySequence[T], MutableSequence[T]):
    """Persisted `list`, without comparison by order (``<``), ``copy`` and ``*``.

    The slot of an item is its place in the list, so an insertion or a removal writes all later items again.
    """

    kind: ClassVar[str] = "list"

    @classmethod
    def slots_of(cls, home: Home, schema: Schema) -> Contiguous:
        return Contiguous(home, schema, (LENGTH,))

    def __iter__(self) -> Iterator[T]:
        """Iterate over the items, also over items that are appended during the iteration, as with a `list`."""
        place = 0
        while place < len(self._slots.items):
            yield self._slots.value(place)
            place += 1

    @overload
    def __setitem__(self, place: int, value: T) -> None: ...
    @overload
    def __setitem__(self, place: slice, value: Iterable[T]) -> None: ...
    def __setitem__(self, place: int | slice, value: Any) -> None:
        slots = self._slots
        if isinstance(place, slice):
            places = range(*place.indices(len(self)))
            checked = [slots.checked(item) for item in value]
            before = len(self)
            slots.items[place] = checked
            if len(self) != before or len(checked) != len(places):
                slots.renew(places.start)
            else:
                slots.changed.update(slots.head + number for number in places if slots.head + number < slots.new_from)
            return
        slots.change(self._place(place, "assignment"), value)

    def __delitem__(self, place: int | slice) -> None:
        if isinstance(place, slice):
            places = range(*place.indices(len(self)))
            if places:
                del self._slots.items[place]
                self._slots.renew(min(places))
            return
        number = self._place(place, "deletion")
        del self._slots.items[number]
        self._slots.renew(number)

    def insert(self, place: int, value: T) -> None:
        length = len(self)
        number = index(place)
        number = max(0, number + length) if number < 0 else min(number, length)
        self._slots.items.insert(number, self._slots.checked(value))
        self._slots.renew(number)

    def append(self, value: T) -> None:
        self._slots.items.append(self._slots.checked(value))

    def extend(self, values: Iterable[T]) -> None:
        """Append all of the values, or none if one of them cannot be stored."""
        self._slots.items.extend([self._slots.checked(value) for value in values])

    def clear(self) -> None:
        self._slots.items.clear()
        self._slots.renew(0)

    def reverse(self) -> None:
        self._slots.items.reverse()
        self._slots.renew(0)

    def sort(self, *, key: Callable[[T], Any] | None = None, reverse: bool = False) -> None:
        """Sort stably; if the items have no order, raise `TypeError` and change nothing."""
        ordered: list[Any] = sorted(self, key=key, reverse=reverse)
        kept = [self._slots.checked(value) for value in ordered]
        self._slots.items[:] = kept
        self._slots.renew(0)

    def _place(self, place: int, what: str) -> int:
        number, length = index(place), len(self)
        if not -length <= number < length:
            raise IndexError(f"expected an index of list {self.name} of {length} for an {what}, was {number}")
        return number % length

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (list, PersistedList)):
            return list(self) == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]


class _Ends(_AnySequence[T]):
    """Base of the queue and the stack, which change only at their ends."""

    def extend(self, values: Iterable[T]) -> None:
        """Add the values at the end, in this order; if one of them cannot be stored, none is added."""
        self._slots.items.extend([self._slots.checked(value) for value in values])

    def _expect_items(self) -> None:
        if not self._slots.items:
            raise IndexError(f"expected an item in {self.kind} {self.name}, was empty")


class PersistedQueue(_Ends[T]):
    """Persisted queue (first in, first out); in memory its items are in a `collections.deque`.

    The first item that the queue ever had is in slot 0; later items have higher slots, and no slot is reused.
    """

    kind: ClassVar[str] = "queue"

    @classmethod
    def slots_of(cls, home: Home, schema: Schema) -> Contiguous:
        return Contiguous(home, schema, (HEAD, TAIL), is_queue=True)

    def enqueue(self, value: T) -> None:
        """Append a value."""
        self._slots.items.append(self._slots.checked(value))

    def dequeue(self) -> T:
        """Remove and return the front item; raise `IndexError` if the queue is empty."""
        value = self.peek()
        del self._slots.items[0]
        self._slots.head += 1
        return value

    def peek(self) -> T:
        """Return the front item without removing it; raise `IndexError` if the queue is empty."""
        self._expect_items()
        value: T = self._slots.value(0)
        return value

    def clear(self) -> None:
        """Remove all items."""
        tail = self._slots.tail
        self._slots.items.clear()
        self._slots.head = tail


class PersistedStack(_Ends[T]):
    """Persisted stack (last in, first out); as a sequence, it begins with the bottom item."""

    kind: ClassVar[str] = "stack"

    @classmethod
    def slots_of(cls, home: Home, schema: Schema) -> Contiguous:
        return Contiguous(home, schema, (LENGTH,))

    def push(self, value: T) -> None:
        """Push a value."""
        self._slots.items.append(self._slots.checked(value))

    def pop(self) -> T:
        """Remove and return the top item; raise `IndexError` if the stack is empty."""
        value = self.peek()
        self._slots.items.pop()
        self._slots.renew(len(self._slots.items))
        return value

    def peek(self) -> T:
        """Return the top item without removing it; raise `IndexError` if the stack is empty."""
        self._expect_items()
        value: T = self._slots.value(len(self._slots.items) - 1)
        return value

    def clear(self) -> None:
        """Remove all items."""
        self._slots.items.clear()
        self._slots.renew(0)

"""Persisted sets and dictionaries, in slots that are looked up by a key.

In memory a key costs its place in a dict, its slot and, in a dictionary, its value, which stays encoded until it is
first read; some 150 bytes an entry of small values.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, MutableMapping, MutableSet, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from operator import itemgetter
from typing import Any, ClassVar, Final, TypeVar, overload

import msgspec
from sortedcontainers import SortedDict, SortedSet

from runtime.state.codec import Codec
from runtime.state.errors import CorruptStateError
from runtime.state.objects.scattered import Scattered
from runtime.state.objects.slots import Home, PersistedObject, Schema

__all__ = [
    "Entries",
    "Members",
    "PersistedDictionary",
    "PersistedSet",
    "PersistedSortedDictionary",
    "PersistedSortedSet",
]

_ENTRY: Final = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw, msgspec.Raw])
_THREE: Final = b"\x93"
"""First byte of a MessagePack array of three."""


class _Keyed(Scattered):
    """Base of slots by key."""

    _loaded = "slot_of"

    def __init__(self, home: Home, schema: Schema, *, is_sorted: bool) -> None:
        super().__init__(home, schema)
        self._is_sorted = is_sorted

    def _mapping(self) -> Any:
        return SortedDict() if self._is_sorted else {}

    def _enter(self, slots: MutableMapping[Any, int], key: Any, slot: int) -> None:
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


class Members(_Keyed):
    """Members of a set, each in a slot. Not thread-safe: one owner at a time."""

    @cached_property
    def slot_of(self) -> Any:
        """Slot of each member; a `SortedDict` in a sorted set."""
        slots = self._mapping()
        for slot, data in self.scan():
            self._enter(slots, self.codec.decode(data), slot)
        self.free.restore(sorted(slots.values()))
        return slots

    def begin(self) -> None:
        self.slot_of = self._mapping()

    def add(self, member: object) -> None:
        """Add a missing member."""
        data = self.codec.encode(member)
        slots = self.slot_of
        slots[member] = -1  # raises for an invalid member before anything is changed
        slot = slots[member] = self.free.take()
        self.changes.put(slot, data, is_new=True)

    def discard(self, member: object) -> None:
        """Remove a member; raise `KeyError` if it is missing."""
        slot = self.slot_of.pop(member)
        self.free.give_back(slot)
        self.changes.drop(slot)

    def clear(self) -> None:
        """Remove all members."""
        for slot in sorted(self.slot_of.values()):
            self.changes.drop(slot)
        self.slot_of.clear()
        self.free.clear()

    def encoded(self) -> Iterator[tuple[int, bytes]]:
        for slot, member in sorted(((slot, member) for member, slot in self.slot_of.items()), key=itemgetter(0)):
            yield slot, self.codec.encode(member)

    def migrate(self, version: int, migrate: Callable[[int, Any], Any]) -> None:
        codec, self.codec = self.codec, Codec(Any, self.home.name)
        try:
            members = list(self.slot_of)
        finally:
            self.codec = codec
        self.clear()
        for member in members:
            changed = migrate(version, member)
            if changed not in self.slot_of:
                self.add(changed)

    def check(self) -> None:
        if self.is_in_memory:
            slots = set(self.slot_of.values())
            assert len(slots) == len(self.slot_of)
            self.free.check(slots)
            if self._is_sorted:
                self.slot_of._check()


class Entries(_Keyed):
    """Entries of a dictionary, each in a slot, in insertion order of their keys. One owner at a time."""

    def __init__(self, home: Home, schema: Schema, *, is_sorted: bool) -> None:
        super().__init__(home, schema, is_sorted=is_sorted)
        self.key_codec = Codec(schema.key, home.name)
        self._keys: list[Any] = []  # by slot; an equal key that is set later does not replace it
        self._values: list[Any] = []  # by slot, encoded if it is bytes
        self._stamps = array("q")  # by slot: the newer a key, the higher
        self._stamp = 0

    @cached_property
    def slot_of(self) -> Any:
        """Slot of each key; a `SortedDict` in a sorted dictionary, else in insertion order of the keys."""
        keys: list[Any] = []
        values: list[Any] = []
        stamps = array("q")
        taken = []
        for slot, data in self.scan():
            for _ in range(slot - len(keys)):
                keys.append(None)
                values.append(None)
                stamps.append(-1)
            stamp, key, value = self._parts(slot, data)
            keys.append(key)
            values.append(value)
            stamps.append(stamp)
            taken.append(slot)
        slots = self._mapping()
        for slot in taken if self._is_sorted else sorted(taken, key=stamps.__getitem__):
            self._enter(slots, keys[slot], slot)
        self._keys, self._values, self._stamps = keys, values, stamps
        self._stamp = max(stamps, default=-1) + 1
        self.free.restore(taken)
        return slots

    def _parts(self, slot: int, data: bytes) -> tuple[int, Any, bytes]:
        try:
            stamp, key, value = _ENTRY.decode(data)
        except msgspec.DecodeError as error:
            raise CorruptStateError(
                f"object {self.home.name}: expected an entry in slot {slot}, was {data[:40]!r}: {error}"
            ) from None
        return stamp, self.key_codec.decode(bytes(key)), bytes(value)

    def begin(self) -> None:
        self.slot_of = self._mapping()

    def value(self, key: object) -> Any:
        """Return the value of a key, and keep it decoded; raise `KeyError` if it is missing."""
        slot = self.slot_of[key]
        value = self._values[slot]
        if type(value) is bytes:
            value = self.codec.decode(value)
            if type(value) is not bytes:
                self._values[slot] = value
        return value

    def put(self, key: object, value: object) -> None:
        """Set the value of a key, which may be new."""
        data = self.codec.encode(value)
        kept = data if type(value) is bytes else value
        slots = self.slot_of
        slot = slots.get(key)
        is_new = slot is None
        if is_new:
            self.key_codec.check(key)
            slots[key] = -1  # raises for an invalid key before anything is changed
            slot = slots[key] = self.free.take()
            if slot == len(self._keys):
                self._keys.append(key)
                self._values.append(kept)
                self._stamps.append(self._stamp)
            else:
                self._keys[slot], self._stamps[slot] = key, self._stamp
            self._stamp += 1
        self._values[slot] = kept
        self.changes.put(slot, self._entry(slot, data), is_new=is_new)

    def _entry(self, slot: int, data: bytes) -> bytes:
        stamp = msgspec.msgpack.encode(self._stamps[slot])
        return _THREE + stamp + self.key_codec.encode(self._keys[slot]) + data

    def remove(self, key: object) -> None:
        """Remove an entry; raise `KeyError` if it is missing."""
        slot = self.slot_of.pop(key)
        self._keys[slot] = self._values[slot] = None
        self.free.give_back(slot)
        self.changes.drop(slot)

    def clear(self) -> None:
        """Remove all entries."""
        for slot in sorted(self.slot_of.values()):
            self.changes.drop(slot)
        self.slot_of.clear()
        self._forget_all()

    def encoded(self) -> Iterator[tuple[int, bytes]]:
        for slot in sorted(self.slot_of.values()):
            value = self._values[slot]
            yield slot, self._entry(slot, value if type(value) is bytes else self.codec.encode(value))

    def migrate(self, version: int, migrate: Callable[[int, Any], Any]) -> None:
        plain, key_codec = Codec(Any, self.home.name), self.key_codec
        self.key_codec = plain
        try:
            items = [(key, plain.decode(self._values[slot])) for key, slot in self.slot_of.items()]
        finally:
            self.key_codec = key_codec
        self.clear()
        for item in items:
            self.put(*migrate(version, item))

    def check(self) -> None:
        if not self.is_in_memory:
            return
        slots = set(self.slot_of.values())
        assert len(slots) == len(self.slot_of)
        self.free.check(slots)
        assert len(self._keys) == len(self._values) == len(self._stamps) == self.free.end
        assert all(self.slot_of[self._keys[slot]] == slot for slot in slots)
        if self._is_sorted:
            self.slot_of._check()
        else:
            stamps = [self._stamps[slot] for slot in self.slot_of.values()]
            assert stamps == sorted(set(stamps))
            assert not stamps or stamps[-1] < self._stamp

    def _forget_all(self) -> None:
        self.free.clear()
        self._keys, self._values, self._stamps = [], [], array("q")


T = TypeVar("T")


class _AnySet(PersistedObject, MutableSet[T]):
    """Base of both sets: `collections.abc.MutableSet` and the methods of `set` that change it.

    Operators that return a new set return one that is not persisted.
    """

    _slots: Members

    def __len__(self) -> int:
        return len(self._slots.slot_of)

    def __iter__(self) -> Iterator[T]:
        return iter(self._slots.slot_of)

    def __contains__(self, member: object) -> bool:
        return member in self._slots.slot_of

    def add(self, value: T) -> None:
        if value not in self._slots.slot_of:
            self._slots.add(value)

    def discard(self, value: T) -> None:
        if value in self._slots.slot_of:
            self._slots.discard(value)

    def remove(self, value: T) -> None:
        """Remove a member; raise `KeyError` if it is missing."""
        self._slots.discard(value)

    def clear(self) -> None:
        self._slots.clear()

    def update(self, *others: Iterable[T]) -> None:
        """Add all members of the others."""
        for other in others:
            for member in list(other):
                self.add(member)

    def difference_update(self, *others: Iterable[T]) -> None:
        """Remove all members of the others."""
        for other in others:
            for member in list(other):
                self.discard(member)

    def intersection_update(self, *others: Iterable[T]) -> None:
        """Keep the members that are in all the others."""
        kept = set(self).intersection(*others)
        for member in [member for member in self if member not in kept]:
            self.discard(member)

    def symmetric_difference_update(self, other: Iterable[T]) -> None:
        """Keep the members that are in exactly one of the two."""
        for member in set(other):
            self.discard(member) if member in self else self.add(member)

    def union(self, *others: Iterable[T]) -> AbstractSet[T]:
        """Return a set, not persisted, of the members of all."""
        return self._from_iterable(set(self).union(*others))

    def intersection(self, *others: Iterable[T]) -> AbstractSet[T]:
        """Return a set, not persisted, of the members that are in all."""
        return self._from_iterable(set(self).intersection(*others))

    def difference(self, *others: Iterable[T]) -> AbstractSet[T]:
        """Return a set, not persisted, of the members that are in none of the others."""
        return self._from_iterable(set(self).difference(*others))

    def symmetric_difference(self, other: Iterable[T]) -> AbstractSet[T]:
        """Return a set, not persisted, of the members of exactly one of the two."""
        return self._from_iterable(set(self).symmetric_difference(other))

    def issubset(self, other: Iterable[T]) -> bool:
        """Return True if the other has every member."""
        return set(self).issubset(other)

    def issuperset(self, other: Iterable[T]) -> bool:
        """Return True if every member of the other is here."""
        return all(member in self for member in other)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {list(self)!r})"


class PersistedSet(_AnySet[T]):
    """Persisted `set`."""

    kind: ClassVar[str] = "set"

    @classmethod
    def slots_of(cls, home: Home, schema: Schema) -> Members:
        return Members(home, schema, is_sorted=False)

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> set[Any]:
        return set(it)

    def pop(self) -> T:
        """Remove and return any member; raise `KeyError` if there is none."""
        if not self._slots.slot_of:
            raise KeyError(f"expected a member in set {self.name}, was empty")
        member: T = next(reversed(self._slots.slot_of))
        self._slots.discard(member)
        return member


class PersistedSortedSet(_AnySet[T], Sequence[T]):
    """Persisted `sortedcontainers.SortedSet` without a key function: members by order, and by their place in it."""

    kind: ClassVar[str] = "sorted_set"

    @classmethod
    def slots_of(cls, home: Home, schema: Schema) -> Members:
        return Members(home, schema, is_sorted=True)

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> Any:
        return SortedSet(it)

    @property
    def _sorted(self) -> SortedDict:
        return self._slots.slot_of

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> list[T]: ...
    def __getitem__(self, place: int | slice) -> T | list[T]:
        members: T | list[T] = self._sorted.keys()[place]
        return members

    def __delitem__(self, place: int | slice) -> None:
        members = self[place] if isinstance(place, slice) else [self[place]]
        for member in members:
            self._slots.discard(member)

    def __reversed__(self) -> Iterator[T]:
        return iter(reversed(self._sorted))

    def pop(self, place: int = -1) -> T:
        """Remove and return the member at a place, by default the last; raise `IndexError` if there is none."""
        member = self[place]
        self._slots.discard(member)
        return member

    def index(self, value: T, start: int | None = None, stop: int | None = None) -> int:
        """Return the place of a member; raise `ValueError` if it is not in the range."""
        place: int = self._sorted.index(value, start, stop)
        return place

    def count(self, value: T) -> int:
        """Return 1 for a member, else 0."""
        return int(value in self)

    def bisect_left(self, value: T) -> int:
        """Return the place of the first member that is not below the value."""
        place: int = self._sorted.bisect_left(value)
        return place

    def bisect_right(self, value: T) -> int:
        """Return the place of the first member above the value."""
        place: int = self._sorted.bisect_right(value)
        return place

    def irange(
        self,
        minimum: T | None = None,
        maximum: T | None = None,
        inclusive: tuple[bool, bool] = (True, True),
        reverse: bool = False,
    ) -> Iterator[T]:
        """Yield the members of a range of values."""
        members: Iterator[T] = self._sorted.irange(minimum, maximum, inclusive, reverse)
        return members

    def islice(self, start: int | None = None, stop: int | None = None, reverse: bool = False) -> Iterator[T]:
        """Yield the members of a range of places."""
        members: Iterator[T] = self._sorted.islice(start, stop, reverse)
        return members


K = TypeVar("K")
V = TypeVar("V")


class _AnyDictionary(PersistedObject, MutableMapping[K, V]):
    """Base of both dictionaries: `collections.abc.MutableMapping`."""

    _slots: Entries

    def __len__(self) -> int:
        return len(self._slots.slot_of)

    def __iter__(self) -> Iterator[K]:
        return iter(self._slots.slot_of)

    def __reversed__(self) -> Iterator[K]:
        return iter(reversed(self._slots.slot_of))

    def __contains__(self, key: object) -> bool:
        return key in self._slots.slot_of

    def __getitem__(self, key: K) -> V:
        value: V = self._slots.value(key)
        return value

    def __setitem__(self, key: K, value: V) -> None:
        self._slots.put(key, value)

    def __delitem__(self, key: K) -> None:
        self._slots.remove(key)

    def clear(self) -> None:
        self._slots.clear()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {dict(self)!r})"


class PersistedDictionary(_AnyDictionary[K, V]):
    """Persisted `dict`; its keys keep their insertion order, also over a restart."""

    kind: ClassVar[str] = "dictionary"

    @classmethod
    def slots_of(cls, home: Home, schema: Schema) -> Entries:
        return Entries(home, schema, is_sorted=False)

    def popitem(self) -> tuple[K, V]:
        """Remove and return the newest entry; raise `KeyError` if there is none."""
        if not self._slots.slot_of:
            raise KeyError(f"expected an entry in dictionary {self.name}, was empty")
        key: K = next(reversed(self._slots.slot_of))
        return key, self.pop(key)


class PersistedSortedDictionary(_AnyDictionary[K, V]):
    """Persisted `sortedcontainers.SortedDict` without a key function: keys by order, and by their place in it."""

    kind: ClassVar[str] = "sorted_dictionary"

    @classmethod
    def slots_of(cls, home: Home, schema: Schema) -> Entries:
        return Entries(home, schema, is_sorted=True)

    @property
    def _sorted(self) -> SortedDict:
        return self._slots.slot_of

    def peekitem(self, place: int = -1) -> tuple[K, V]:
        """Return the entry at a place, by default the last; raise `IndexError` if there is none."""
        key: Any = self._sorted.keys()[place]
        return key, self[key]

    def popitem(self, place: int = -1) -> tuple[K, V]:
        """Remove and return the entry at a place, by default the last; raise `KeyError` if there is none."""
        if not self._slots.slot_of:
            raise KeyError(f"expected an entry in sorted dictionary {self.name}, was empty")
        key, _ = self.peekitem(place)
        return key, self.pop(key)

    def index(self, key: K, start: int | None = None, stop: int | None = None) -> int:
        """Return the place of a key; raise `ValueError` if it is not in the range."""
        place: int = self._sorted.index(key, start, stop)
        return place

    def bisect_left(self, key: K) -> int:
        """Return the place of the first key that is not below this one."""
        place: int = self._sorted.bisect_left(key)
        return place

    def bisect_right(self, key: K) -> int:
        """Return the place of the first key above this one."""
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

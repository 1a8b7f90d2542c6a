"""Persisted sets, whose members are in slots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableSet, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from operator import itemgetter
from typing import Any, ClassVar, TypeVar, overload

from sortedcontainers import SortedSet

from runtime.state.codec import Codec
from runtime.state.objects.scattered import Keyed, Ordered
from runtime.state.objects.slots import Home, PersistedObject, Schema

__all__ = ["Members", "PersistedSet", "PersistedSortedSet"]


class Members(Keyed):
    """Members of a set, each in a slot. Not thread-safe: one owner at a time."""

    @cached_property
    def slot_of(self) -> Any:
        """Slot of each member: a `SortedDict` in a sorted set, else a dict."""
        slots = self._mapping()
        for slot, data in self.scan():
            self._enter(slots, self.codec.decode(data), slot)
        self.free.restore(sorted(slots.values()))
        return slots

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


T = TypeVar("T")


class _AnySet(PersistedObject, MutableSet[T]):
    """Base of both sets: `collections.abc.MutableSet` and the other methods of `set`.

    Operators that return a new set return a set that is not persisted.
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
        """Add all members of the other sets."""
        for other in others:
            for member in list(other):
                self.add(member)

    def difference_update(self, *others: Iterable[T]) -> None:
        """Remove all members of the other sets."""
        for other in others:
            for member in list(other):
                self.discard(member)

    def intersection_update(self, *others: Iterable[T]) -> None:
        """Remove the members that are not in all of the other sets."""
        kept = set(self).intersection(*others)
        for member in [member for member in self if member not in kept]:
            self.discard(member)

    def symmetric_difference_update(self, other: Iterable[T]) -> None:
        """Change the set to the members that are in exactly one of the two sets."""
        for member in set(other):
            self.discard(member) if member in self else self.add(member)

    def union(self, *others: Iterable[T]) -> AbstractSet[T]:
        """Return a set, not persisted, of the members of all sets."""
        return self._from_iterable(set(self).union(*others))

    def intersection(self, *others: Iterable[T]) -> AbstractSet[T]:
        """Return a set, not persisted, of the members that are in all sets."""
        return self._from_iterable(set(self).intersection(*others))

    def difference(self, *others: Iterable[T]) -> AbstractSet[T]:
        """Return a set, not persisted, of the members that are in none of the other sets."""
        return self._from_iterable(set(self).difference(*others))

    def symmetric_difference(self, other: Iterable[T]) -> AbstractSet[T]:
        """Return a set, not persisted, of the members that are in exactly one of the two sets."""
        return self._from_iterable(set(self).symmetric_difference(other))

    def issubset(self, other: Iterable[T]) -> bool:
        """Return True if the other set has every member of this set."""
        return set(self).issubset(other)

    def issuperset(self, other: Iterable[T]) -> bool:
        """Return True if this set has every member of the other set."""
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


class PersistedSortedSet(_AnySet[T], Ordered[T], Sequence[T]):
    """Persisted `sortedcontainers.SortedSet` without a key function; it is also a sequence of its members."""

    kind: ClassVar[str] = "sorted_set"

    @classmethod
    def slots_of(cls, home: Home, schema: Schema) -> Members:
        return Members(home, schema, is_sorted=True)

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> Any:
        return SortedSet(it)

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

    def count(self, value: T) -> int:
        """Return 1 for a member, else 0."""
        return int(value in self)

"""Persisted dictionary and sorted dictionary."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any, ClassVar, TypeVar

from sortedcontainers import SortedDict

from runtime.state.objects.keyed import Entries
from runtime.state.objects.persisted import PersistedObject
from runtime.state.objects.slots import Home, Schema

__all__ = ["PersistedDictionary", "PersistedSortedDictionary"]

K = TypeVar("K")
V = TypeVar("V")


class _AnyDictionary(PersistedObject, MutableMapping[K, V]):
    """Base of both: `collections.abc.MutableMapping`."""

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

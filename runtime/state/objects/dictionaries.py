"""Persisted dictionaries, whose entries are in slots.

In memory an entry with a small key and a small value takes about 150 bytes, for the key in a dict, the slot and the
value. The value stays encoded until it is first read.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, MutableMapping
from functools import cached_property
from typing import Any, ClassVar, Final, TypeVar

import msgspec

from runtime.state.codec import Codec
from runtime.state.errors import CorruptStateError
from runtime.state.objects.scattered import Keyed, Ordered
from runtime.state.objects.slots import Home, PersistedObject, Schema

__all__ = ["Entries", "PersistedDictionary", "PersistedSortedDictionary"]

_ENTRY: Final = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw, msgspec.Raw])
_THREE: Final = b"\x93"
"""First byte of a MessagePack array of three."""


class Entries(Keyed):
    """Entries of a dictionary, each in a slot, in insertion order of their keys. One owner at a time."""

    def __init__(self, home: Home, schema: Schema, *, is_sorted: bool) -> None:
        super().__init__(home, schema, is_sorted=is_sorted)
        self.key_codec = Codec(schema.key, home.name)
        self._keys: list[Any] = []  # by slot; setting an equal key later does not replace the first key
        self._values: list[Any] = []  # by slot, encoded if it is bytes
        self._stamps = array("q")  # by slot: a newer key has a higher stamp
        self._stamp = 0

    @cached_property
    def slot_of(self) -> Any:
        """Slot of each key: a `SortedDict` in a sorted dictionary, else a dict in insertion order of the keys."""
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
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CorruptStateError(
                f"object {self.home.name}: expected an entry in slot {slot}, was {data[:40]!r}: {error}"
            ) from None
        return stamp, self.key_codec.decode(bytes(key)), bytes(value)

    def value(self, key: object) -> Any:
        """Return the value of a key; the value stays decoded. Raise `KeyError` if the key is missing."""
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
        super().clear()
        self._keys, self._values, self._stamps = [], [], array("q")

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
    """Persisted `dict`; its keys are in insertion order, also after a restart."""

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


class PersistedSortedDictionary(_AnyDictionary[K, V], Ordered[K]):
    """Persisted `sortedcontainers.SortedDict` without a key function."""

    kind: ClassVar[str] = "sorted_dictionary"

    @classmethod
    def slots_of(cls, home: Home, schema: Schema) -> Entries:
        return Entries(home, schema, is_sorted=True)

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

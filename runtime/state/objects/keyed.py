"""Slots that are looked up by a key, in which sets and dictionaries are stored.

In memory a key costs its place in a dict, its slot and, in a dictionary, its value, which stays encoded until it is
first read; some 150 bytes an entry of small values.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, MutableMapping
from functools import cached_property
from operator import itemgetter
from typing import Any, Final

import msgspec
from sortedcontainers import SortedDict

from runtime.state.codec import Codec
from runtime.state.errors import CorruptStateError
from runtime.state.objects.scattered import Scattered
from runtime.state.objects.slots import Home, Schema

__all__ = ["Entries", "Members"]

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

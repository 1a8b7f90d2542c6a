"""The index of an object space: the names, and what each object is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from runtime.state.errors import CorruptStateError
from runtime.state.objects.scattered import Changes, FreeSlots
from runtime.state.stores.store import Edit, Store

__all__ = ["Entry", "Index"]

_TABLE: Final = "index"


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an object is."""

    kind: str
    """One of the ten types, or a columnar kind with its layout."""
    name: str
    """By which it is found."""
    version: int = 1
    """Of its schema."""
    value: str = "Any"
    """The type of its values."""
    key: str = "Any"
    """The type of its keys."""


class Index:
    """Name → entry, each in a slot of its own. Not thread-safe: one owner at a time, the object space's."""

    def __init__(self, store: Store) -> None:
        """Read it; raises `CorruptStateError`."""
        self._entries: dict[str, tuple[int, Entry]] = {}
        self._free = FreeSlots()
        self._changes = Changes()
        for slot, data in store.scan(_TABLE):
            entry = _decoded(slot, data)
            if entry.name in self._entries:
                raise CorruptStateError(f"expected object {entry.name} once in the object index, was there twice")
            self._entries[entry.name] = slot, entry
        self._free.restore(slot for slot, _ in self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return (entry for _, entry in self._entries.values())

    def get(self, name: str) -> Entry | None:
        """What an object is, None if there is none of this name."""
        found = self._entries.get(name)
        return None if found is None else found[1]

    def put(self, entry: Entry) -> None:
        """An object is new, or something else from now on."""
        found = self._entries.get(entry.name)
        slot = self._free.take() if found is None else found[0]
        self._entries[entry.name] = slot, entry
        self._changes.put(slot, msgspec.msgpack.encode(entry), is_new=found is None)

    def remove(self, name: str) -> None:
        """An object is gone."""
        slot, _ = self._entries.pop(name)
        self._free.give_back(slot)
        self._changes.drop(slot)

    def save(self, *, full: bool) -> list[Edit]:
        """The entries that changed, or all."""
        edits = dict(self._changes.take_off())
        if full:
            edits |= {slot: msgspec.msgpack.encode(entry) for slot, entry in self._entries.values()}
        return [Edit(_TABLE, slot, data) for slot, data in edits.items()]

    def on_saved(self) -> None:
        """The last save is durable."""
        self._changes.on_saved()

    def on_failed(self) -> None:
        """The last save is lost, or nobody knows."""
        self._changes.on_failed()

    def check(self) -> None:
        """Assert every invariant; for tests."""
        slots = {slot for slot, _ in self._entries.values()}
        assert len(slots) == len(self._entries)
        self._free.check(slots)


def _decoded(slot: int, data: bytes) -> Entry:
    try:
        return msgspec.msgpack.decode(data, type=Entry)
    except msgspec.DecodeError as error:
        raise CorruptStateError(f"expected entry {slot} of the object index, was {data[:40]!r}: {error}") from None

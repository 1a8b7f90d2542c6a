"""Index of an object space: the names, and the kind of each object."""

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
    """Description of an object."""

    kind: str
    """Kind: one of the ten types, or a columnar kind with its layout."""
    name: str
    """Name of the object."""
    version: int = 1
    """Version of its schema."""
    value: str = "Any"
    """Type of its values."""
    key: str = "Any"
    """Type of its keys."""


class Index:
    """Map from names to entries, each in a slot. Not thread-safe: one owner at a time, the object space's."""

    def __init__(self, store: Store) -> None:
        """Read the index; raise `CorruptStateError` for damage."""
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
        """Return the entry of an object, None if there is none of this name."""
        record = self._entries.get(name)
        return None if record is None else record[1]

    def put(self, entry: Entry) -> None:
        """Add an object, or replace its entry."""
        record = self._entries.get(entry.name)
        slot = self._free.take() if record is None else record[0]
        self._entries[entry.name] = slot, entry
        self._changes.put(slot, msgspec.msgpack.encode(entry), is_new=record is None)

    def remove(self, name: str) -> None:
        """Remove an object."""
        slot, _ = self._entries.pop(name)
        self._free.give_back(slot)
        self._changes.drop(slot)

    def save(self, *, full: bool) -> list[Edit]:
        """Return the edits of the changed entries, or of all."""
        edits = dict(self._changes.take_off())
        if full:
            edits |= {slot: msgspec.msgpack.encode(entry) for slot, entry in self._entries.values()}
        return [Edit(_TABLE, slot, data) for slot, data in edits.items()]

    def on_saved(self) -> None:
        """Note that the last save is durable."""
        self._changes.on_saved()

    def on_failed(self) -> None:
        """Note that the last save is lost or unknown."""
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

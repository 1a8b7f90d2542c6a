"""Stores of state: binary values under (table, key), committed in sets; in memory, and with checksums."""

from __future__ import annotations

import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from runtime.state.errors import CorruptStateError

__all__ = ["Edit", "LateEdit", "MemoryStore", "Store", "encoded", "opened", "place_seed", "sealed"]

_CHECKSUM: Final = struct.Struct("<I")
_KEY: Final = struct.Struct("<q")


class Edit(msgspec.Struct, frozen=True, gc=False):
    """Write, or delete if ``data`` is None."""

    table: str
    """Table of the value."""
    key: int
    """Slot of the table, of 64 bits."""
    data: bytes | None
    """New value."""


class LateEdit(msgspec.Struct, frozen=True, gc=False):
    """Write whose bytes are made when it is committed, which may be on another thread."""

    table: str
    """Table of the value."""
    key: int
    """Slot of the table, of 64 bits."""
    encode: Callable[[], bytes]
    """Function that returns the new value, which is fixed."""


def encoded(edits: Sequence[Edit | LateEdit]) -> list[Edit]:
    """Return the edits with their bytes."""
    return [Edit(each.table, each.key, each.encode()) if isinstance(each, LateEdit) else each for each in edits]


class Store(ABC):
    """Binary values under (table, key); reads see the last commit only.

    `commit` is all or nothing and returns when the edits would survive a crash of the machine; if it raises it has
    done nothing, or at worst all, and the same edits can be committed again. A deleted key may be missing. One
    writer at a time. Reads and commits raise `CorruptStateError` for bytes that differ from what was stored, with the
    table and the key, or the file.
    """

    @abstractmethod
    def commit(self, edits: Sequence[Edit]) -> None:
        """Make these edits durable, together; if two are for one place, the later one applies."""

    @abstractmethod
    def get(self, table: str, key: int) -> bytes | None:
        """Return the value, or None."""

    @abstractmethod
    def scan(self, table: str) -> Iterator[tuple[int, bytes]]:
        """Yield all (key, value) of a table by ascending key."""

    def keys(self, table: str) -> Iterator[int]:
        """Yield all keys of a table, ascending; faster than a scan if values need not be read."""
        for key, _ in self.scan(table):
            yield key

    @abstractmethod
    def close(self) -> None:
        """Release files; idempotent."""


class MemoryStore(Store):
    """Store in memory, for tests and for temporary state. Not thread-safe: one owner at a time."""

    def __init__(self) -> None:
        self._tables: dict[str, dict[int, bytes]] = {}

    def commit(self, edits: Sequence[Edit]) -> None:
        for edit in edits:
            table = self._tables.setdefault(edit.table, {})
            if edit.data is None:
                table.pop(edit.key, None)
            else:
                table[edit.key] = edit.data

    def get(self, table: str, key: int) -> bytes | None:
        return self._tables.get(table, {}).get(key)

    def scan(self, table: str) -> Iterator[tuple[int, bytes]]:
        yield from sorted(self._tables.get(table, {}).items())

    def close(self) -> None:
        return


def place_seed(table: str) -> int:
    """Return the seed of the checksums of a table's values; worth caching over a scan."""
    return zlib.crc32(table.encode())


def sealed(seed: int, key: int, data: bytes) -> bytes:
    """Return a value preceded by its checksum; raise `OverflowError` for a key of more than 64 bits."""
    try:
        place = _KEY.pack(key)
    except struct.error:
        raise OverflowError(f"expected a key of 64 bits, was {key}") from None
    return _CHECKSUM.pack(zlib.crc32(data, zlib.crc32(place, seed))) + data


def opened(seed: int, table: str, key: int, data: bytes) -> bytes:
    """Return the value; raise `CorruptStateError` that names the place."""
    value = data[_CHECKSUM.size :]
    checksum = zlib.crc32(value, zlib.crc32(_KEY.pack(key), seed))
    if len(data) < _CHECKSUM.size or _CHECKSUM.unpack_from(data)[0] != checksum:
        raise CorruptStateError(
            f"{table}, key {key}: expected the value that was stored, was {value[:16]!r}… with another checksum"
        )
    return value

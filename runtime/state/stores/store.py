"""Where state becomes durable: binary values under (table, key), and sets of writes and deletes committed as one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

import msgspec

__all__ = ["Edit", "LateEdit", "Store", "encoded"]


class Edit(msgspec.Struct, frozen=True, gc=False):
    """One write, or one delete where ``data`` is None."""

    table: str
    """Which table."""
    key: int
    """Which slot of it, of 64 bits."""
    data: bytes | None
    """What it holds from now on."""


class LateEdit(msgspec.Struct, frozen=True, gc=False):
    """A write whose bytes are made when it is committed, which may be on another thread."""

    table: str
    """Which table."""
    key: int
    """Which slot of it, of 64 bits."""
    encode: Callable[[], bytes]
    """What it holds from now on; it does not change any more."""


def encoded(edits: Sequence[Edit | LateEdit]) -> list[Edit]:
    """The edits with their bytes."""
    return [Edit(each.table, each.key, each.encode()) if isinstance(each, LateEdit) else each for each in edits]


class Store(ABC):
    """Binary values under (table, key); reads see the last commit only.

    `commit` is all or nothing and returns when the edits would survive a crash of the machine; where it raises it has
    done nothing, or at worst all, and the same edits can be committed again. A deleted key need not be there. One
    writer at a time. Reads and commits raise `CorruptStateError` for bytes that are not what was stored, with the
    table and the key, or the file.
    """

    @abstractmethod
    def commit(self, edits: Sequence[Edit]) -> None:
        """Make these edits durable, together; of two for one place the later one holds."""

    @abstractmethod
    def get(self, table: str, key: int) -> bytes | None:
        """The value, or None."""

    @abstractmethod
    def scan(self, table: str) -> Iterator[tuple[int, bytes]]:
        """All (key, value) of a table by ascending key."""

    def keys(self, table: str) -> Iterator[int]:
        """All keys of a table, ascending; quicker than a scan where values need not be read."""
        for key, _ in self.scan(table):
            yield key

    @abstractmethod
    def close(self) -> None:
        """Release files; idempotent."""

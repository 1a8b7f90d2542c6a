"""String pool in a store."""

from __future__ import annotations

import msgspec

from runtime.state.columnar.columns import StringPool
from runtime.state.errors import CorruptStateError
from runtime.state.stores.store import Edit, Store

__all__ = ["StoredPool"]


class StoredPool:
    """Persisted string pool; strings are only ever added, so a save writes the new ones under the number of the first.

    Not thread-safe: one owner at a time, the object space's.
    """

    def __init__(self, table: str, name: str, store: Store) -> None:
        """Read the pool; raise `CorruptStateError` that names the object."""
        self.pool = StringPool()
        self._table = table
        self._parts: list[int] = []  # keys in the store
        for first, data in store.scan(table):
            if first != len(self.pool):
                raise CorruptStateError(f"object {name}: expected strings from {len(self.pool)} on, was {first}")
            self.pool.extend(_decoded(data, name))
            self._parts.append(first)
        self._saved = len(self.pool)
        self._planned: tuple[list[int], int] | None = None

    def save(self, *, full: bool = False) -> list[Edit]:
        """Return the edits of the new strings, or of all as one part; `on_saved` or `on_failed` must follow."""
        first = 0 if full else self._saved
        if len(self.pool) == first:
            return []
        gone = [Edit(self._table, part, None) for part in self._parts if part] if full else []
        self._planned = ([0] if full else [*self._parts, first]), len(self.pool)
        return [*gone, Edit(self._table, first, msgspec.msgpack.encode(self.pool.added_since(first)))]

    def on_saved(self) -> None:
        """Note that the last save is durable."""
        if self._planned is not None:
            (self._parts, self._saved), self._planned = self._planned, None

    def on_failed(self) -> None:
        """Note that the last save is lost: its strings go out with the next, under the same number."""
        self._planned = None


def _decoded(data: bytes, name: str) -> list[str]:
    try:
        return msgspec.msgpack.decode(data, type=list[str])
    except msgspec.DecodeError as error:
        raise CorruptStateError(f"expected strings of object {name}, was {data[:16]!r}…: {error}") from None

"""State that need not outlive the process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runtime.state.stores.store import Edit, Store

__all__ = ["MemoryStore"]


class MemoryStore(Store):
    """For tests, and for state that need not outlive the process. Not thread-safe: one owner at a time."""

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

"""Store of the object space in memory: commits are atomic, may fail, and are lost if a crash comes first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runtime.state import Edit, Store
from runtime.state.errors import StateError
from tests.simulation.faults import Faults

__all__ = ["Shelf", "SimulatedStore"]


class Shelf:
    """Committed values, which survive processes."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[int, bytes]] = {}
        self.is_open = False
        """True while a process has opened it; a second open at the same time is an error."""
        self.commits = 0


class SimulatedStore(Store):
    """Shelf as seen by one process."""

    def __init__(self, shelf: Shelf, faults: Faults) -> None:
        if shelf.is_open:
            raise StateError("expected to open the store alone, was open already")
        shelf.is_open = True
        self._shelf = shelf
        self._faults = faults
        self._is_closed = False

    def commit(self, edits: Sequence[Edit]) -> None:
        assert not self._is_closed, "expected an open store"
        self._faults.point("commit")
        refusal = self._faults.refusal("commit", grows=True)
        if refusal is None or self._faults.chance.random() < 0.3:  # an error does not prove that nothing was written
            self._apply(edits)
        if refusal is not None:
            raise refusal
        self._faults.point("behind commit")

    def _apply(self, edits: Sequence[Edit]) -> None:
        self._shelf.commits += 1
        for edit in edits:
            table = self._shelf.tables.setdefault(edit.table, {})
            if edit.data is None:
                table.pop(edit.key, None)
            else:
                table[edit.key] = bytes(edit.data)

    def get(self, table: str, key: int) -> bytes | None:
        return self._shelf.tables.get(table, {}).get(key)

    def scan(self, table: str) -> Iterator[tuple[int, bytes]]:
        yield from sorted(self._shelf.tables.get(table, {}).items())

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._shelf.is_open = False

"""Store whose commits fail on request; it keeps the other commits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from runtime.state import Edit, Store

__all__ = ["BrokenDiskError", "UnreliableStore"]

Failure = Literal["lost", "unknown"]


class BrokenDiskError(OSError):
    """Error that an unreliable store raises."""


class UnreliableStore(Store):
    """Wraps a store. Its next commits raise an error: each is lost, or is carried out nevertheless."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.failures: list[Failure] = []
        self.edits: list[Edit] = []

    def commit(self, edits: Sequence[Edit]) -> None:
        self.edits = []
        failure = self.failures.pop(0) if self.failures else None
        if failure == "lost":
            raise BrokenDiskError
        self.inner.commit(edits)
        if failure == "unknown":
            raise BrokenDiskError
        self.edits = list(edits)

    @property
    def written_bytes(self) -> int:
        """Number of bytes of the last commit that succeeded."""
        return sum(len(edit.data or b"") for edit in self.edits)

    def get(self, table: str, key: int) -> bytes | None:
        return self.inner.get(table, key)

    def scan(self, table: str) -> Iterator[tuple[int, bytes]]:
        return self.inner.scan(table)

    def close(self) -> None:
        self.inner.close()

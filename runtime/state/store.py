"""Where state becomes durable: a small interface and its two embedded forms.

A store holds binary values under (table, key) and commits a set of writes and deletes as one.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from runtime.state.errors import StateError

__all__ = ["Edit", "MemoryStore", "SqliteStore", "Store"]


class Edit(msgspec.Struct, frozen=True):
    """One write, or one delete where ``data`` is None."""

    table: str
    """Which table."""
    key: int
    """Which slot of it."""
    data: bytes | None
    """What it holds from now on."""


class Store(ABC):
    """Binary values under (table, key); reads see the last commit only.

    `commit` is all or nothing and returns when the edits would survive a crash of the machine. One writer at a time.
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

    @abstractmethod
    def close(self) -> None:
        """Release files; idempotent."""


class MemoryStore(Store):
    """For tests, and for state that need not outlive the process."""

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


class SqliteStore(Store):
    """SQLite in WAL mode with full synchronisation: a commit is one fsync of the log.

    The file is locked for the life of the store, so that a second process on the same directory is refused.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
        except sqlite3.Error as error:
            raise StateError(f"expected a state database at {path}, was: {error}") from None
        try:
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS slots (name TEXT, key INTEGER, data BLOB NOT NULL, PRIMARY KEY (name, key))"
                " WITHOUT ROWID"
            )
            self._db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            self._db.close()
            raise StateError(f"expected to open {path} alone, was: {error} (does another process run on it?)") from None
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise StateError(f"expected a state database at {path}, was: {error}") from None

    def commit(self, edits: Sequence[Edit]) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            for edit in edits:
                if edit.data is None:
                    self._db.execute("DELETE FROM slots WHERE name = ? AND key = ?", (edit.table, edit.key))
                else:
                    self._db.execute("INSERT OR REPLACE INTO slots VALUES (?, ?, ?)", (edit.table, edit.key, edit.data))
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # SQLite has rolled back by itself where the disk failed
                self._db.execute("ROLLBACK")
            raise

    def get(self, table: str, key: int) -> bytes | None:
        row = self._db.execute("SELECT data FROM slots WHERE name = ? AND key = ?", (table, key)).fetchone()
        return None if row is None else bytes(row[0])

    def scan(self, table: str) -> Iterator[tuple[int, bytes]]:
        for key, data in self._db.execute("SELECT key, data FROM slots WHERE name = ? ORDER BY key", (table,)):
            yield key, bytes(data)

    def close(self) -> None:
        self._db.close()

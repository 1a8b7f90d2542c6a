"""Stores of durable binary values under (table, key), with atomic commits of edits.

```
edits ──▶ Store ──┬── MemoryStore: tests, state that need not outlive the process
                  └── SqliteStore: a file; each value has a checksum of the value and its place
```

SQLite was compared with LMDB (py-lmdb 3.0): 10 million values of 24 bytes, checksums in both stores, an fsync for each
commit, on 2 shared cores. The times are medians:

| | SQLite | LMDB |
|---|---|---|
| commit of 10, 1,000, 100,000 scattered edits, ms | 0.26, 13, 1,730 | 0.71, 24, 740 |
| commit of 10, 1,000, 100,000 appended values, ms | 0.19, 4.1, 258 | 0.30, 2.8, 124 |
| scan, million values per second | 0.89 | 0.94 |
| read of one value, µs | 6.5 | 4.5 |
| size on disk at the end, MB | 454 | 1,088 |

SQLite is faster at the small commits of an epoch, comes with Python, needs no limit of its size in advance, and takes
half the disk space. LMDB is not used: it is faster at commits of 100,000 edits and at single reads, but both are rare
here. Pages of 1 to 8 KiB made no difference to the times of SQLite's commits.
"""

from __future__ import annotations

import sqlite3
import struct
import threading
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from runtime.state.errors import CorruptStateError, StateError, StoreError

__all__ = ["Edit", "LateEdit", "MemoryStore", "SqliteStore", "Store", "check_store", "encoded"]


_CHECKSUM: Final = struct.Struct("<I")
_KEY: Final = struct.Struct("<q")


class Edit(msgspec.Struct, frozen=True, gc=False):
    """Write of a value, or deletion of the value if ``data`` is None."""

    table: str
    """Table of the value."""
    key: int
    """Key in the table, a signed integer of 64 bits."""
    data: bytes | None
    """New value; None to delete the value."""


class LateEdit(msgspec.Struct, frozen=True, gc=False):
    """Write whose bytes are encoded later, at the commit, possibly on another thread."""

    table: str
    """Table of the value."""
    key: int
    """Key in the table, a signed integer of 64 bits."""
    encode: Callable[[], bytes]
    """Function that returns the new value; later changes of the state have no effect on this value."""


def encoded(edits: Sequence[Edit | LateEdit]) -> list[Edit]:
    """Return the edits with their bytes."""
    return [Edit(each.table, each.key, each.encode()) if isinstance(each, LateEdit) else each for each in edits]


class Store(ABC):
    """Binary values under (table, key). A read returns committed values only.

    `commit` is atomic, and returns when the edits would survive a crash of the machine. If it raises, either none or
    all of the edits have been made, and the same edits can be committed again. An edit may delete a missing key. There
    may be one writer at a time. Reads and commits raise `CorruptStateError` for bytes that differ from the stored
    bytes; the message names the table and the key, or the file.
    """

    @abstractmethod
    def commit(self, edits: Sequence[Edit]) -> None:
        """Make all these edits durable; of several edits with the same table and key, only the last one counts."""

    @abstractmethod
    def get(self, table: str, key: int) -> bytes | None:
        """Return the value, or None."""

    @abstractmethod
    def scan(self, table: str) -> Iterator[tuple[int, bytes]]:
        """Yield all (key, value) of a table by ascending key."""

    def keys(self, table: str) -> Iterator[int]:
        """Yield all keys of a table, ascending; this may be faster than `scan`, because no value has to be read."""
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
    """Return the seed of the checksums of a table's values; a scan computes it once."""
    return zlib.crc32(table.encode())


def sealed(seed: int, key: int, data: bytes) -> bytes:
    """Return a value preceded by its checksum; raise `OverflowError` for a key of more than 64 bits."""
    try:
        place = _KEY.pack(key)
    except struct.error:
        raise OverflowError(f"expected a key of 64 bits, was {key}") from None
    return _CHECKSUM.pack(zlib.crc32(data, zlib.crc32(place, seed))) + data


def opened(seed: int, table: str, key: int, data: bytes) -> bytes:
    """Return the value without its checksum; raise `CorruptStateError`, with table and key, for a wrong checksum."""
    value = data[_CHECKSUM.size :]
    checksum = zlib.crc32(value, zlib.crc32(_KEY.pack(key), seed))
    if len(data) < _CHECKSUM.size or _CHECKSUM.unpack_from(data)[0] != checksum:
        raise CorruptStateError(
            f"{table}, key {key}: expected the value that was stored, was {value[:16]!r}… with another checksum"
        )
    return value


_APPLICATION: Final = 0x64626B73  # "dbks"
_FORMAT: Final = 3
"""Format of the file. In format 1, expiring rows were in keyed tables, which `runtime.relations.retention` converts. In
format 2, the runs of expiring rows began with a base. A release that supports only an earlier format must refuse the
file, because it would not find the expiring rows, or would miss some of their deletions.
"""
_OLDEST: Final = 1
"""Oldest format that can be read."""
_LOG_PAGES: Final = 16_384
"""Length, in pages of 4 KiB, at which the write-ahead log is copied into the database. With a long log, a page that
many commits write is copied only once. With SQLite's default of 1,000, a copy follows every commit of 1,000 scattered
edits.
"""
_CACHE_KIB: Final = 64 * 1024
"""Size of SQLite's page cache in KiB."""
_PAGE_ROWS: Final = 64
"""Number of values that a scan reads at once. The number is small, because a value may have megabytes."""
_PUT: Final = "INSERT OR REPLACE INTO slots VALUES (?, ?, ?)"
_DELETE: Final = "DELETE FROM slots WHERE table_id = ? AND key = ?"


def check_store(path: Path) -> None:
    """Read a whole state database that no process has open, and compare every checksum; no value is changed.

    Raise `StateError` if the database cannot be opened, `CorruptStateError` for damage.
    """
    store = SqliteStore(path)
    try:
        for table in store.tables():
            for _ in store.scan(table):
                pass
    finally:
        store.close()


class SqliteStore(Store):
    """Store in an SQLite file, in WAL mode with full synchronisation: a commit is one fsync of the log.

    The file is locked while the store exists, so that a second process cannot open the same directory. Every value has
    a checksum. Several threads may read and commit; a lock makes each wait for the others.
    """

    def __init__(self, path: Path) -> None:
        """Open or create the file; raise `StateError` for a file of another application or format."""
        self._path = path
        self._lock = threading.Lock()
        self._tables: dict[str, tuple[int, int]] = {}  # name → number of the table, seed of its checksums
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
        except sqlite3.Error as error:
            raise StateError(f"expected a state database at {path}, was: {error}") from None
        try:
            self._open()
        except sqlite3.OperationalError as error:
            self._db.close()
            hint = " (does another process run on it?)" if "locked" in str(error) else ""
            raise StateError(f"expected to open {path} alone, was: {error}{hint}") from None
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise CorruptStateError(f"expected a state database at {path}, was: {error}") from None
        except BaseException:
            self._db.close()
            raise

    def _open(self) -> None:
        run = self._db.execute
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        run(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
        run(f"PRAGMA cache_size = -{_CACHE_KIB}")
        run("BEGIN IMMEDIATE")
        (application,), (version,) = run("PRAGMA application_id").fetchone(), run("PRAGMA user_version").fetchone()
        (tables,) = run("SELECT count(*) FROM sqlite_schema").fetchone()
        if (application, version, tables) == (0, 0, 0):
            run(f"PRAGMA application_id = {_APPLICATION}")
            run(f"PRAGMA user_version = {_FORMAT}")
            run("CREATE TABLE tables (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)")
            run(
                "CREATE TABLE slots (table_id INTEGER, key INTEGER, data BLOB NOT NULL, PRIMARY KEY (table_id, key))"
                " WITHOUT ROWID"
            )
        elif application == _APPLICATION and _OLDEST <= version < _FORMAT:
            run(f"PRAGMA user_version = {_FORMAT}")
        elif (application, version) != (_APPLICATION, _FORMAT):
            raise StateError(
                f"expected a state database of format {_FORMAT} at {self._path}, "
                f"was a database of application {application:#x}, format {version}"
            )
        run("DELETE FROM tables WHERE NOT EXISTS (SELECT 1 FROM slots WHERE table_id = tables.id)")
        for number, name in run("SELECT id, name FROM tables"):
            self._tables[name] = number, place_seed(name)
        run("COMMIT")
        # SQLite may read too few values from a damaged page, and checksums do not detect missing values.
        (verdict,) = run("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise CorruptStateError(f"expected a sound database at {self._path}, was: {' '.join(verdict.split())}")

    def commit(self, edits: Sequence[Edit]) -> None:
        """Commit the edits; raise `StoreError`, and change nothing, if the disk is full or fails."""
        if not edits:
            return
        with self._lock:
            self._commit(edits)

    def _commit(self, edits: Sequence[Edit]) -> None:
        count = len(self._tables)
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for is_put, rows in self._rows(edits):
                self._db.executemany(_PUT if is_put else _DELETE, rows)
            self._db.execute("COMMIT")
        except BaseException as error:
            if self._db.in_transaction:  # SQLite rolls back by itself if the disk fails
                self._db.execute("ROLLBACK")
            self._tables = dict(list(self._tables.items())[:count])  # drop the tables that the commit added
            if isinstance(error, sqlite3.DatabaseError):
                raise self._state_error(error) from None
            raise

    def _rows(self, edits: Iterable[Edit]) -> Iterator[tuple[bool, list[tuple[Any, ...]]]]:
        """Yield (True, rows to write) and then (False, rows to delete).

        Of several edits with the same table and key, only the last one is yielded.
        """
        last: dict[tuple[str, int], bytes | None] = {(edit.table, edit.key): edit.data for edit in edits}
        puts: list[tuple[Any, ...]] = []
        deletes: list[tuple[Any, ...]] = []
        for (table, key), data in last.items():
            if data is None:
                if table in self._tables:
                    deletes.append((self._tables[table][0], key))
            else:
                number, seed = self._tables.get(table) or self._add_table(table)
                puts.append((number, key, sealed(seed, key, data)))
        yield True, puts
        yield False, deletes

    def _add_table(self, table: str) -> tuple[int, int]:
        cursor = self._db.execute("INSERT INTO tables (name) VALUES (?)", (table,))
        assert cursor.lastrowid is not None
        added = self._tables[table] = cursor.lastrowid, place_seed(table)
        return added

    def get(self, table: str, key: int) -> bytes | None:
        with self._lock:
            number, seed = self._tables.get(table, (0, 0))
            rows = self._read("SELECT data FROM slots WHERE table_id = ? AND key = ?", number, key)
        return opened(seed, table, key, rows[0][0]) if rows else None

    def scan(self, table: str) -> Iterator[tuple[int, bytes]]:
        _, seed = self._tables.get(table, (0, 0))
        for key, data in self._pages("key, data", table):
            yield key, opened(seed, table, key, data)

    def keys(self, table: str) -> Iterator[int]:
        for (key,) in self._pages("key", table):
            yield key

    def _pages(self, columns: str, table: str) -> Iterator[tuple[Any, ...]]:
        """Yield rows by ascending key; the lock is held while a page of rows is read, but not between pages."""
        page = f"SELECT {columns} FROM slots WHERE table_id = ? AND key > ? ORDER BY key LIMIT {_PAGE_ROWS}"
        last = -1 << 63
        first = page.replace("key >", "key >=")
        while True:
            with self._lock:
                number, _ = self._tables.get(table, (0, 0))
                rows = self._read(first, number, last)
            yield from rows
            if len(rows) < _PAGE_ROWS:
                return
            first, last = page, rows[-1][0]

    def _read(self, query: str, *values: int) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise self._state_error(error) from None

    def close(self) -> None:
        self._db.close()

    def tables(self) -> list[str]:
        """Return the names of the tables that had a value when the store was opened, or have got one since."""
        return sorted(self._tables)

    def _state_error(self, error: sqlite3.DatabaseError) -> StateError:
        """Return an error of SQLite as an error of the disk or of the file's content; its message names the file."""
        if isinstance(error, sqlite3.OperationalError):
            return StoreError(f"{self._path}: expected a commit or a read to succeed, was: {error}")
        return CorruptStateError(f"{self._path}: expected a sound database, was: {error}")

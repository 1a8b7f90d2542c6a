"""The write-ahead journal of one broker's orders: append-only, checked, compacted.

A record is ``u32 length, u32 crc32`` (big-endian) and its bytes. The first is a checkpoint. A crash may tear the end of
the file: reading stops at the first invalid record and cuts the file there. Nothing essential is lost. A request was
written before it was sent. The exchange resends its messages, including those about requests that a power loss has
removed (`order_sync`).
"""

from __future__ import annotations

import fcntl
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import IO, Final, Protocol

import msgspec

from algo_engine.desk.records import Checkpoint, Record, decode_record, encode_record
from algo_engine.errors import JournalDamaged, JournalInUse
from deltabook.wire.directories import CLAIM_LIMIT_BYTES, claimed_by, this_process

__all__ = ["JOURNAL", "FileJournal", "Journal", "MemoryJournal", "read_journal"]

_PREFIX: Final = struct.Struct("!II")
JOURNAL: Final = "orders.log"
"""File name of a strategy's journal, in its folder."""
RECORD_LIMIT_BYTES: Final = 64 * 1024 * 1024
"""Longest record in bytes; a longer one counts as damage."""


class Journal(Protocol):
    """Store of records; the desk's only durable state."""

    def read(self) -> list[Record]:
        """Return all records, a checkpoint first; none for a new journal. Called once, before the first append."""
        ...

    def append(self, record: Record) -> None:
        """Add a record; it may be lost until `write` or `sync` returns."""
        ...

    def write(self) -> None:
        """Return when all appended records survive the end of the process; raise `OSError` if the write fails."""
        ...

    def sync(self) -> None:
        """Return when all appended records survive a crash of the machine; raise `OSError` if the sync fails."""
        ...

    def begin_sync(self) -> Callable[[], None]:
        """Write the appended records, and return the function that makes them durable, to be called once on any thread.
        Both raise `OSError` if the disk fails. The journal may be appended to, compacted and closed meanwhile.
        """
        ...

    def begin_compaction(self, state: Checkpoint) -> Callable[[], None]:
        """Begin a new journal with one checkpoint; return the function that durably replaces this journal by the new
        one.

        The function is called once on any thread; after it has returned, `end_compaction` is called on this journal.
        Records appended meanwhile are in both journals. This method and the function raise `OSError` if the disk fails;
        then nothing more may be appended.
        """
        ...

    def end_compaction(self) -> None:
        """Append to the new journal only; do nothing on a closed journal."""
        ...

    def compact(self, state: Checkpoint) -> None:
        """Replace everything by one checkpoint, atomically and durably; raise `OSError` if that fails."""
        self.begin_compaction(state)()
        self.end_compaction()

    @property
    def size_bytes(self) -> int:
        """Size of the journal in bytes."""
        ...

    def close(self) -> None:
        """Make everything durable, and release the journal."""
        ...


class MemoryJournal(Journal):
    """Journal without a disk, for backtests; ``durable`` are the records that survive a crash of the machine."""

    def __init__(self, durable: list[Record] | None = None) -> None:
        self.durable: list[Record] = list(durable or [])
        self._written: list[Record] = []
        """Records appended and not yet durable."""
        self._in_system = 0
        """Number of those records that would survive the end of the process."""
        self._removed = 0
        """Number of records that compactions removed, less the checkpoints in their place."""

    def read(self) -> list[Record]:
        """See `Journal.read`."""
        return list(self.durable)

    def append(self, record: Record) -> None:
        """See `Journal.append`."""
        self._written.append(record)

    def write(self) -> None:
        """See `Journal.write`."""
        self._in_system = len(self._written)

    def sync(self) -> None:
        """See `Journal.sync`."""
        self.durable.extend(self._written)
        self._written.clear()
        self._in_system = 0

    def begin_sync(self) -> Callable[[], None]:
        """See `Journal.begin_sync`."""
        self.write()
        end = self._removed + len(self.durable) + len(self._written)

        def sync() -> None:
            count = max(0, end - self._removed - len(self.durable))
            self.durable.extend(self._written[:count])
            del self._written[:count]
            self._in_system = max(0, self._in_system - count)

        return sync

    def begin_compaction(self, state: Checkpoint) -> Callable[[], None]:
        """See `Journal.begin_compaction`."""
        end = self._removed + len(self.durable) + len(self._written)

        def replace() -> None:
            records = self.durable + self._written
            kept, survivors = end - self._removed, len(self.durable) + self._in_system
            self.durable = [state, *records[kept:survivors]]
            self._written = records[max(kept, survivors) :]
            self._removed += kept - 1 if kept else 0
            self._in_system = 0

        return replace

    def end_compaction(self) -> None:
        """See `Journal.end_compaction`."""

    @property
    def size_bytes(self) -> int:
        """Size of the journal, counted as 64 bytes a record."""
        return 64 * (len(self.durable) + len(self._written))

    def close(self) -> None:
        """See `Journal.close`."""
        self.sync()


class FileJournal(Journal):
    """Journal in a file; open in one process at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        # The lock is on a separate file, because compaction replaces the journal's file.
        self._lock = _locked(path.with_suffix(".lock"))
        self._new_path = path.with_suffix(".new")
        self._new_path.unlink(missing_ok=True)
        self._file: IO[bytes] | None = None
        self._new_file: IO[bytes] | None = None
        """Journal that is to replace this one.

        Until the replacement is complete, a crash may leave either file under the journal's name, so both files receive
        every record and are synced together.
        """
        self._new_bytes = 0
        self._renaming = Lock()
        self._is_closed = False
        self._size_bytes = 0
        self._is_dirty = False
        self._failure: OSError | None = None

    @property
    def torn_bytes(self) -> int:
        """Number of bytes after the last whole record, which `read` cuts: left by a crash, or damage."""
        return (self._path.stat().st_size if self._path.exists() else 0) - read_journal(self._path)[1]

    @property
    def size_bytes(self) -> int:
        """See `Journal.size_bytes`."""
        return self._size_bytes

    def read(self) -> list[Record]:
        """See `Journal.read`; raise `JournalDamaged` if the first record is invalid."""
        records, end = read_journal(self._path)
        if records:
            self._file = self._path.open("r+b")
            self._file.truncate(end)
            self._file.seek(end)
            os.fsync(self._file.fileno())
        self._size_bytes = end
        return records

    def append(self, record: Record) -> None:
        """See `Journal.append`."""
        assert self._file is not None, "compact() starts a new journal"
        data = _framed(record)
        self._size_bytes += self._file.write(data)
        if self._new_file is not None:
            self._new_bytes += self._new_file.write(data)
        self._is_dirty = True

    def write(self) -> None:
        """See `Journal.write`."""
        for file in self._files:
            file.flush()

    def sync(self) -> None:
        """See `Journal.sync`."""
        if self._failure is not None:
            raise self._failure
        if self._is_dirty:
            for file in self._files:
                file.flush()
                os.fsync(file.fileno())
            self._is_dirty = False

    def begin_sync(self) -> Callable[[], None]:
        """See `Journal.begin_sync`; after a failure `sync` fails as well."""
        assert self._file is not None, "compact() starts a new journal"
        self.write()
        # Separate descriptors: compaction and `close` may close the files while another thread syncs them.
        descriptors = [os.dup(file.fileno()) for file in self._files]

        def sync() -> None:
            with self._closing(descriptors):
                for descriptor in descriptors:
                    os.fsync(descriptor)

        return sync

    def begin_compaction(self, state: Checkpoint) -> Callable[[], None]:
        """See `Journal.begin_compaction`: a complete new file takes the old one's name, or the old one stays."""
        data = _framed(state)
        file = self._new_path.open("wb")
        try:
            file.write(data)
            file.flush()
            descriptor, directory = os.dup(file.fileno()), os.open(self._path.parent, os.O_RDONLY)
        except OSError:
            with suppress(OSError):
                file.close()
            raise
        self._new_file, self._new_bytes = file, len(data)

        def replace() -> None:
            with self._closing((descriptor, directory)):
                os.fsync(descriptor)
                with self._renaming:
                    # After this journal is closed another process may have locked it.
                    if not self._is_closed:
                        self._new_path.rename(self._path)
                        os.fsync(directory)

        return replace

    def end_compaction(self) -> None:
        """See `Journal.end_compaction`."""
        if self._new_file is None or self._is_closed:
            return
        old, self._file, self._new_file = self._file, self._new_file, None
        self._size_bytes = self._new_bytes
        if old is not None:
            with suppress(OSError):  # the new file contains the bytes for which the old one has no room
                old.close()

    @property
    def _files(self) -> list[IO[bytes]]:
        return [file for file in (self._file, self._new_file) if file is not None]

    @contextmanager
    def _closing(self, descriptors: Iterable[int]) -> Iterator[None]:
        """Close descriptors after their use; after a failure a later `sync` fails too.

        The system reports a failed write once, and forgets it, so that another fsync would succeed.
        """
        try:
            yield
        except OSError as error:
            self._failure = error
            raise
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def release(self) -> None:
        """Release the lock of a journal that was not read."""
        self._lock.close()

    def close(self) -> None:
        """See `Journal.close`; a compaction that has not yet replaced the file never does."""
        with self._renaming:
            self._is_closed = True
        try:
            self.sync()
            for file in self._files:
                file.close()
            self._new_path.unlink(missing_ok=True)
        finally:
            self._lock.close()


def read_journal(path: Path) -> tuple[list[Record], int]:
    """Return all whole records, and the offset of the last one's end; a missing file has none. The file is not changed.

    Raise `JournalDamaged` if the first record is not a checkpoint.
    """
    data = path.read_bytes() if path.exists() else b""
    records: list[Record] = []
    end = 0
    for record, record_end in _scan(data):
        records.append(record)
        end = record_end
    if data and not (records and isinstance(records[0], Checkpoint)):
        raise JournalDamaged(f"expected a checkpoint at the start of {path}, was {data[:16]!r}")
    return records, end


def _framed(record: Record) -> bytes:
    data = encode_record(record)
    return _PREFIX.pack(len(data), zlib.crc32(data)) + data


def _scan(data: bytes) -> Iterator[tuple[Record, int]]:
    """Yield each valid record with the offset of its end, up to the first invalid one.

    A checkpoint is valid as the first record only: a later one is the start of another journal that was appended.
    """
    at = 0
    while at + _PREFIX.size <= len(data):
        length, checksum = _PREFIX.unpack_from(data, at)
        body = data[at + _PREFIX.size : at + _PREFIX.size + length]
        if length > RECORD_LIMIT_BYTES or len(body) < length or not body or zlib.crc32(body) != checksum:
            return
        try:
            record = decode_record(body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return
        if at and isinstance(record, Checkpoint):
            return
        at += _PREFIX.size + length
        yield record, at


def _locked(path: Path) -> IO[bytes]:
    file = path.open("a+b")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        held_by = claimed_by(os.pread(file.fileno(), CLAIM_LIMIT_BYTES, 0))
        file.close()
        raise JournalInUse(
            f"expected {path.parent} to be free, was in use by another algorithm engine ({held_by})"
        ) from None
    file.truncate(0)
    file.write(this_process().encoded())
    file.flush()
    return file

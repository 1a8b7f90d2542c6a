"""The log of inputs: the exchange's source of truth."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from exchange_server.errors import JournalError
from exchange_server.inputs import JOURNAL_VERSION, Input, MarketRules

__all__ = ["FsyncPolicy", "InputsLog", "JournalHead"]

FsyncPolicy = Literal["always", "interval", "never"]

_FRAME: Final = struct.Struct("<II")
RECORD_LIMIT_BYTES: Final = 1 << 28


class JournalHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first record of a log; it never changes."""

    version: int
    """Of the format."""
    session: str
    """Name of the session, at most 10 letters and digits."""
    rules: MarketRules
    """What the answers of the market depend on."""


class InputsLog:
    """Batches of inputs, each ``u32 length, u32 crc32, msgpack`` (little-endian), written by one system call.

    A batch is there wholly or not at all. A torn tail (the last record is incomplete or fails its checksum) was never
    acknowledged, and is cut off when the log is opened; a broken record with whole ones behind it is damage, and
    raises `JournalError`.

    `fsync`: *always* survives loss of power at a cost per batch; *interval* (somebody calls `sync` now and then) may
    lose what was written since; *never* leaves it to the system. Death of the process loses nothing with any of them.
    """

    def __init__(self, path: Path, fsync: FsyncPolicy = "interval", *, sync: Callable[[int], None] = os.fsync) -> None:
        self._path = path
        self._fsync = fsync
        self._sync = sync
        self._encoder = msgspec.msgpack.Encoder()
        self._unsynced = False
        try:
            self._fd = os.open(path, os.O_RDWR)
        except OSError as error:
            raise JournalError(f"expected a journal at {path}, was {error.strerror}") from error
        self.cut_bytes = 0
        """Bytes of a torn tail that were cut when the log was read."""
        self._end = 0
        self.head = self._read_head()

    @staticmethod
    def create(path: Path, head: JournalHead) -> None:
        """Make a log that holds its head only; under a hidden name first, so that a head is never torn."""
        hidden = path.with_name(f".{path.name}.new")
        payload = msgspec.msgpack.encode(head)
        try:
            with hidden.open("wb") as file:
                file.write(_FRAME.pack(len(payload), zlib.crc32(payload)) + payload)
                file.flush()
                os.fsync(file.fileno())
            hidden.rename(path)
            _sync_directory(path.parent)
        except OSError as error:
            raise JournalError(f"expected to write a journal at {path}, was {error.strerror}") from error

    def _read_head(self) -> JournalHead:
        found = self._record(0)
        if found is None:
            raise JournalError(f"expected a journal's head at {self._path}, was a broken record")
        payload, self._end = found
        try:
            head = msgspec.msgpack.decode(payload, type=JournalHead)
        except msgspec.DecodeError as error:
            raise JournalError(f"expected a journal's head at {self._path}, was {error}") from None
        if head.version != JOURNAL_VERSION:
            raise JournalError(f"expected a journal of version {JOURNAL_VERSION}, was {head.version} at {self._path}")
        return head

    def _record(self, offset: int) -> tuple[bytes, int] | None:
        """The payload at an offset and where the next record begins; None if it is broken or incomplete."""
        frame = os.pread(self._fd, _FRAME.size, offset)
        if len(frame) < _FRAME.size:
            return None
        length, checksum = _FRAME.unpack(frame)
        if not 0 < length <= RECORD_LIMIT_BYTES:
            return None
        payload = os.pread(self._fd, length, offset + _FRAME.size)
        if len(payload) < length or zlib.crc32(payload) != checksum:
            return None
        return payload, offset + _FRAME.size + length

    def recover(self) -> Iterator[list[Input]]:
        """All batches in order; at the end the torn tail is cut off and the log is ready to `append`."""
        decoder = msgspec.msgpack.Decoder(list[Input])
        while (found := self._record(self._end)) is not None:
            try:
                batch = decoder.decode(found[0])
            except msgspec.DecodeError as error:
                raise JournalError(f"expected inputs, was {error}, at byte {self._end} of {self._path}") from None
            yield batch
            self._end = found[1]
        self._cut()

    def _cut(self) -> None:
        size = os.fstat(self._fd).st_size
        if size == self._end:
            return
        self._refuse_damage()
        self.cut_bytes = size - self._end
        os.ftruncate(self._fd, self._end)
        os.fsync(self._fd)

    def _refuse_damage(self) -> None:
        frame = os.pread(self._fd, _FRAME.size, self._end)
        if len(frame) < _FRAME.size:
            return
        length, _ = _FRAME.unpack(frame)
        if length and self._record(self._end + _FRAME.size + length) is not None:
            raise JournalError(
                f"expected a record whose checksum holds, was a damaged one with whole records behind it, "
                f"at byte {self._end} of {self._path}"
            )

    def append(self, batch: Sequence[Input]) -> None:
        """Write a batch (and sync it, under *always*); when this returns it will be found after a crash."""
        payload = self._encoder.encode(batch)
        data = memoryview(_FRAME.pack(len(payload), zlib.crc32(payload)) + payload)
        try:
            while data:
                written = os.pwrite(self._fd, data, self._end)
                self._end += written
                data = data[written:]
            self._unsynced = True
            if self._fsync == "always":
                self.sync()
        except OSError as error:
            raise JournalError(f"expected to write {self._path}, was {error.strerror}") from error

    def sync(self) -> None:
        """Force what was written to the disk; safe to call from another thread. Does nothing under *never*."""
        if self._unsynced and self._fsync != "never":
            self._unsynced = False
            self._sync(self._fd)

    def close(self) -> None:
        """Sync and close; the log cannot be used afterwards."""
        if self._fd >= 0:
            self.sync()
            os.close(self._fd)
            self._fd = -1


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

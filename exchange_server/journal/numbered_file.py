"""Numbered records on disk that can be read from any number on: a feed, or the private stream of an account."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec

from deltabook.wire.soupbin import SEQUENCED
from exchange_server.errors import DamagedStreamError, JournalError
from exchange_server.journal.disk import LOCAL_DISK, JournalDisk

__all__ = ["BLOCK_BYTES", "INDEX_LIMIT", "LineFile", "NumberedFile", "PacketFile", "Position", "damage_before"]

BLOCK_BYTES: Final = 1 << 16
"""A file is checked in blocks of this size, each with a checksum of four bytes."""

INDEX_LIMIT: Final = 1 << 15
"""Largest number of entries of a sparse index; when it is full, every other entry is dropped and the spacing doubles.
"""

_SPACING: Final = 512
_SCAN_BYTES: Final = 1 << 16


class Position(msgspec.Struct, frozen=True, array_like=True):
    """Position in a file, with everything needed to continue the file from there."""

    next_number: int = 1
    """Number of the record that will be appended next."""
    size_bytes: int = 0
    """Offset at which the next record will begin."""
    spacing: int = _SPACING
    """Smallest number of records between two entries of the index."""
    numbers: list[int] = msgspec.field(default_factory=lambda: [1])
    """Numbers of the indexed records."""
    offsets: list[int] = msgspec.field(default_factory=lambda: [0])
    """Offsets of the indexed records."""
    checksums: bytes = b""
    """CRC-32 of each whole block before `size_bytes`, each 4 bytes little-endian."""
    rest_checksum: int | None = None
    """CRC-32 of the bytes after the last whole block; None if an earlier release wrote no checksums."""


def _checksum(number: int) -> bytes:
    return number.to_bytes(4, "little")


def damage_before(position: Position, path: Path, disk: JournalDisk = LOCAL_DISK) -> str:
    """Return how the bytes of a file before a position differ from those written; empty if they do not.

    All of the bytes are read. Without checksums in the position only the number of bytes is compared.
    """
    try:
        descriptor = disk.open(path, read_only=True)
        try:
            size = disk.size(descriptor)
            if size < position.size_bytes:
                return f"expected {position.size_bytes} bytes or more in {path}, were {size}"
            if position.rest_checksum is None:
                return ""
            for begin in range(0, position.size_bytes, BLOCK_BYTES):
                length = min(BLOCK_BYTES, position.size_bytes - begin)
                block = begin // BLOCK_BYTES * 4
                expected = position.checksums[block : block + 4] or _checksum(position.rest_checksum)
                if _checksum(crc32(disk.pread(descriptor, length, begin))) != expected:
                    return _damage(path, begin, begin + length)
        finally:
            disk.close(descriptor)
    except FileNotFoundError:
        return f"expected {position.size_bytes} bytes or more in {path}, were 0" if position.size_bytes else ""
    except OSError as error:
        return f"expected to read {path}, was {error.strerror}"
    return ""


def _damage(path: Path, begin: int, end: int) -> str:
    return f"expected the bytes that were written to {path}, was damage between bytes {begin} and {end}"


class NumberedFile(ABC):
    """Numbered records, from 1, appended in bursts and read in chunks.

    The file is derived: its contents follow from the journal's inputs, and bytes that a crash cut off or left over are
    rewritten when the inputs are applied again. The file is synced only when a snapshot is taken, since a snapshot
    relies on the bytes before its position. Reading from a record on costs one look-up in the index and a scan over the
    records between two entries of the index. Subclasses differ in how the end of a record is found; no record is longer
    than the chunk that a scan reads at once.

    Every block has a checksum in memory. Snapshots contain the checksums as part of the `Position`, and every read is
    checked against them: a mismatch raises `DamagedStreamError`. Bytes after the position of a snapshot are written
    again by a recovery, so that a crash leaves no bytes without a checksum. The checksums of a terabyte are 64 MB.
    """

    def __init__(
        self,
        path: Path,
        position: Position | None = None,
        *,
        disk: JournalDisk = LOCAL_DISK,
        index_limit: int = INDEX_LIMIT,
        on_open: Callable[[NumberedFile], None] | None = None,
        is_cut: bool = True,
    ) -> None:
        """Continue from a position, or begin a file.

        Bytes that the file has after the position are cut off if ``is_cut``; otherwise they are overwritten, and cut
        off by `cut`. ``on_open`` is called each time a descriptor is opened, so that a caller can limit the number of
        open descriptors. Raise `JournalError` if the file cannot be opened, or is shorter than the position.
        """
        self._path = path
        self._disk = disk
        self._pwrite = disk.pwrite
        self._index_limit = index_limit
        self._on_open = on_open
        position = position or Position()
        self._spacing = position.spacing
        self._numbers = position.numbers[:]
        self._offsets = position.offsets[:]
        self._checksums = bytearray(position.checksums)
        self._rest_checksum = position.rest_checksum or 0
        self.next_number = position.next_number
        """Number of the record that will be appended next."""
        self.size_bytes = position.size_bytes
        """Offset at which the next record will begin."""
        self._fd = self._open(create=not self.size_bytes)
        size = disk.size(self._fd)
        if size < self.size_bytes:
            raise JournalError(f"expected {self.size_bytes} bytes or more in {path}, were {size}")
        self._found_bytes = size
        if is_cut:
            self.cut()
        if position.rest_checksum is None:
            self._checksum_existing()

    def _checksum_existing(self) -> None:
        """Compute the checksums of the existing bytes, for a position of an earlier release without checksums."""
        for begin in range(0, self.size_bytes, BLOCK_BYTES):
            length = min(BLOCK_BYTES, self.size_bytes - begin)
            self._count(self._disk.pread(self._fd, length, begin), begin)

    @property
    def surplus_bytes(self) -> int:
        """Number of bytes of records that the file had when it was opened, and that have not been appended again.

        The number is 0 if these bytes do not begin with the next record, since such bytes were never published.
        """
        surplus_bytes = max(0, self._found_bytes - self.size_bytes)
        begin = self._disk.pread(self._descriptor(), _SCAN_BYTES, self.size_bytes) if surplus_bytes else b""
        return surplus_bytes if begin and self.begins_record(begin, self.next_number) else 0

    @classmethod
    @abstractmethod
    def begins_record(cls, chunk: bytes, number: int) -> bool:
        """Return True if a chunk may begin with the record of this number."""

    def cut(self) -> None:
        """Cut off the bytes after the appended records. Raise `OSError` if that fails."""
        if self._found_bytes > self.size_bytes:
            self._disk.truncate(self._descriptor(), self.size_bytes)
        self._found_bytes = 0

    @property
    def path(self) -> Path:
        """Path of the file."""
        return self._path

    def position(self) -> Position:
        """Return the position after the newest record, from which another object can continue."""
        return Position(
            self.next_number,
            self.size_bytes,
            self._spacing,
            self._numbers[:],
            self._offsets[:],
            bytes(self._checksums),
            self._rest_checksum,
        )

    def _open(self, *, create: bool = False) -> int:
        try:
            descriptor = self._disk.open(self._path, create=create)
        except OSError as error:
            raise JournalError(f"expected to open {self._path}, was {error.strerror}") from error
        if self._on_open is not None:
            self._on_open(self)
        return descriptor

    def append(self, data: bytes, count: int) -> None:
        """Append `count` whole records. Raise `JournalError` if they cannot be written."""
        if self.next_number - self._numbers[-1] >= self._spacing:
            self._mark()
        if self._fd < 0:
            self._fd = self._open()
        size = self.size_bytes
        try:
            written = self._pwrite(self._fd, data, size)
            while written < len(data):
                written += self._pwrite(self._fd, data[written:], size + written)
        except OSError as error:
            raise JournalError(f"expected to write {self._path}, was {error.strerror}") from error
        room = BLOCK_BYTES - size % BLOCK_BYTES
        if written < room:
            self._rest_checksum = crc32(data, self._rest_checksum)
        else:
            self._count(data, size)
        self.size_bytes = size + written
        self.next_number += count

    def _count(self, data: bytes, offset: int) -> None:
        """Extend the checksums by those of data at an offset."""
        rest = memoryview(data)
        while rest:
            room = BLOCK_BYTES - offset % BLOCK_BYTES
            self._rest_checksum = crc32(rest[:room], self._rest_checksum)
            if len(rest) >= room:
                self._checksums += _checksum(self._rest_checksum)
                self._rest_checksum = 0
            offset, rest = offset + room, rest[room:]

    def _pread(self, length: int, offset: int) -> bytes:
        """Return ``length`` bytes from an offset on, fewer at the end of the file.

        The blocks that contain these bytes are read and checked as a whole. Raise `DamagedStreamError` for damage.
        """
        end = min(offset + length, self.size_bytes)
        if offset >= end:
            return b""
        first = offset - offset % BLOCK_BYTES
        last = min(end + -end % BLOCK_BYTES, self.size_bytes)
        data = self._disk.pread(self._descriptor(), last - first, first)
        view, checksums = memoryview(data), self._checksums
        for begin in range(first, last, BLOCK_BYTES):
            block = begin // BLOCK_BYTES * 4
            expected = checksums[block : block + 4] or _checksum(self._rest_checksum)
            length = min(BLOCK_BYTES, last - begin)
            content = view[begin - first : begin - first + length]
            if len(content) < length or _checksum(crc32(content)) != expected:
                raise DamagedStreamError(
                    f"{_damage(self._path, begin, begin + length)}; restart the exchange, "
                    "which recreates the file from its journal"
                )
        return data[offset - first : end - first]

    def _mark(self) -> None:
        """Enter the next record in the index; at the limit every second entry is dropped."""
        self._numbers.append(self.next_number)
        self._offsets.append(self.size_bytes)
        if len(self._numbers) > self._index_limit:
            self._numbers, self._offsets = self._numbers[::2], self._offsets[::2]
            self._spacing *= 2

    def _descriptor(self) -> int:
        if self._fd < 0:
            self._fd = self._open()
        return self._fd

    def offset_of(self, number: int) -> int:
        """Return the offset of a record; raise `ValueError` outside 1 … `next_number`."""
        if not 1 <= number <= self.next_number:
            raise ValueError(f"expected a number from 1 to {self.next_number}, was {number}")
        if number == self.next_number:
            return self.size_bytes
        entry = bisect_right(self._numbers, number) - 1
        offset, skip = self._offsets[entry], number - self._numbers[entry]
        while skip:
            end, records = self._skip(self._pread(_SCAN_BYTES, offset), skip)
            offset, skip = offset + end, skip - records
        return offset

    @abstractmethod
    def _skip(self, chunk: bytes, most: int) -> tuple[int, int]:
        """Return the length and number of the first whole records of a chunk, at most ``most`` records."""

    def read(self, offset: int, limit_bytes: int) -> bytes:
        """Return whole records from an offset on, as many as fit into the limit (which must hold any one record)."""
        chunk = self._pread(limit_bytes, offset)
        return chunk[: self._skip(chunk, len(chunk))[0]]

    def piece(self, offset: int, limit_bytes: int) -> bytes:
        """Return bytes from an offset on, at least one if there is more.

        This method returns whole records. A subclass that cannot find the end of a record cheaply may return bytes that
        end within a record; `rest_of_record` then returns the missing bytes.
        """
        return self.read(offset, limit_bytes)

    def rest_of_record(self, offset: int) -> bytes:
        """Return the rest of the record that contains an offset; empty at the beginning of a record."""
        del offset
        return b""

    def release(self) -> None:
        """Close the descriptor; the next use opens the file again."""
        if self._fd >= 0:
            self._disk.close(self._fd)
            self._fd = -1

    close = release


class LineFile(NumberedFile):
    """File whose records are lines that begin with their number."""

    @classmethod
    def begins_record(cls, chunk: bytes, number: int) -> bool:
        return chunk.startswith(b"%d," % number)

    def _skip(self, chunk: bytes, most: int) -> tuple[int, int]:
        lines = chunk.count(b"\n")
        if lines <= most:
            return chunk.rfind(b"\n") + 1, lines
        end = 0
        for _ in range(most):
            end = chunk.index(b"\n", end) + 1
        return end, most


class PacketFile(NumberedFile):
    """File whose records begin with a length and the letter S. The length has two big-endian bytes, and counts the
    bytes that follow it.

    The end of a record is found by stepping over records one by one, from the nearest indexed record on. A reader that
    only forwards bytes therefore calls `piece`, whose result may end anywhere.
    """

    @classmethod
    def begins_record(cls, chunk: bytes, number: int) -> bool:
        del number
        return chunk[2:3] == SEQUENCED and 2 + int.from_bytes(chunk[:2], "big") <= len(chunk)

    def piece(self, offset: int, limit_bytes: int) -> bytes:
        """Return bytes from an offset on, which may end within a record."""
        return self._pread(limit_bytes, offset)

    def rest_of_record(self, offset: int) -> bytes:
        """Return the rest of the record that contains an offset; empty at the beginning of a record."""
        if offset == self.size_bytes:
            return b""
        at = self._offsets[bisect_right(self._offsets, offset) - 1]
        while at < offset:
            chunk = self._pread(_SCAN_BYTES, at)
            end = 0
            while at + end < offset and end + 2 <= len(chunk):
                end += 2 + (chunk[end] << 8 | chunk[end + 1])
            at += end
        return self._pread(at - offset, offset)

    def _skip(self, chunk: bytes, most: int) -> tuple[int, int]:
        end = records = 0
        while records < most and end + 2 <= len(chunk):
            after = end + 2 + (chunk[end] << 8 | chunk[end + 1])
            if after > len(chunk):
                break
            end, records = after, records + 1
        return end, records

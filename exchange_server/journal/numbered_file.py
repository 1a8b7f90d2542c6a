"""Records on disk that can be read from any number on: a feed, or one broker's private stream."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from bisect import bisect_right
from pathlib import Path
from typing import Final

from exchange_server.errors import JournalError

__all__ = ["INDEX_LIMIT", "LineFile", "NumberedFile", "PacketFile"]

INDEX_LIMIT: Final = 1 << 15
"""Most entries of a sparse index; when it is full, every other one goes and the rest lie twice as far apart."""

_SPACING: Final = 512
_SCAN_BYTES: Final = 1 << 16


class NumberedFile(ABC):
    """Numbered records, the first is 1, appended in bursts and read in chunks.

    A derived file: its contents follow from the journal's inputs, so it is written anew when the journal is recovered
    and never synced. Reading from a record on costs one look-up in the index and a scan of about one spacing. Kinds of
    files differ in how the end of a record is found; none is longer than a scan.
    """

    def __init__(self, path: Path, *, index_limit: int = INDEX_LIMIT) -> None:
        self._path = path
        self._index_limit = index_limit
        self._spacing = _SPACING
        self._numbers = [1]
        self._offsets = [0]
        self.next_number = 1
        """Number of the record that will be appended next."""
        self.size_bytes = 0
        """Where it will begin."""
        self._fd = self._open(os.O_TRUNC | os.O_CREAT)

    def _open(self, flags: int) -> int:
        try:
            return os.open(self._path, os.O_RDWR | flags, 0o644)
        except OSError as error:
            raise JournalError(f"expected to open {self._path}, was {error.strerror}") from error

    def append(self, data: bytes, count: int) -> None:
        """Append `count` whole records."""
        if self.next_number - self._numbers[-1] >= self._spacing:
            self._numbers.append(self.next_number)
            self._offsets.append(self.size_bytes)
            if len(self._numbers) > self._index_limit:
                self._numbers, self._offsets = self._numbers[::2], self._offsets[::2]
                self._spacing *= 2
        self._write(data)
        self.next_number += count

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                written = os.pwrite(self._descriptor(), view, self.size_bytes)
                self.size_bytes += written
                view = view[written:]
        except OSError as error:
            raise JournalError(f"expected to write {self._path}, was {error.strerror}") from error

    def _descriptor(self) -> int:
        if self._fd < 0:
            self._fd = self._open(0)
        return self._fd

    def offset_of(self, number: int) -> int:
        """Where a record begins; raises `ValueError` outside 1 … `next_number`."""
        if not 1 <= number <= self.next_number:
            raise ValueError(f"expected a number from 1 to {self.next_number}, was {number}")
        if number == self.next_number:
            return self.size_bytes
        entry = bisect_right(self._numbers, number) - 1
        offset, skip = self._offsets[entry], number - self._numbers[entry]
        while skip:
            end, records = self._skip(os.pread(self._descriptor(), _SCAN_BYTES, offset), skip)
            offset, skip = offset + end, skip - records
        return offset

    @abstractmethod
    def _skip(self, chunk: bytes, most: int) -> tuple[int, int]:
        """How long the first whole records of a chunk are, at most so many of them, and how many they are."""

    def read(self, offset: int, limit_bytes: int) -> bytes:
        """Whole records from an offset on, as many as fit into the limit (which must hold any one record)."""
        chunk = os.pread(self._descriptor(), min(limit_bytes, self.size_bytes - offset), offset)
        return chunk[: self._skip(chunk, len(chunk))[0]]

    def release(self) -> None:
        """Give the descriptor back; the next use opens the file again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    close = release


class LineFile(NumberedFile):
    """Records are lines."""

    def _skip(self, chunk: bytes, most: int) -> tuple[int, int]:
        lines = chunk.count(b"\n")
        if lines <= most:
            return chunk.rfind(b"\n") + 1, lines
        end = 0
        for _ in range(most):
            end = chunk.index(b"\n", end) + 1
        return end, most


class PacketFile(NumberedFile):
    """Records begin with their length in two big-endian bytes, which count what follows them."""

    def _skip(self, chunk: bytes, most: int) -> tuple[int, int]:
        end = records = 0
        while records < most and end + 2 <= len(chunk):
            after = end + 2 + (chunk[end] << 8 | chunk[end + 1])
            if after > len(chunk):
                break
            end, records = after, records + 1
        return end, records

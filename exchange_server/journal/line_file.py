"""Lines on disk that can be read from any number on: the feed, or one broker's private stream."""

from __future__ import annotations

import os
from bisect import bisect_right
from pathlib import Path
from typing import Final

from exchange_server.errors import JournalError

__all__ = ["INDEX_LIMIT", "LineFile"]

INDEX_LIMIT: Final = 1 << 15
"""Most entries of a sparse index; when it is full, every other one goes and the rest lie twice as far apart."""

_SPACING_LINES: Final = 512
_SCAN_BYTES: Final = 1 << 16


class LineFile:
    """Numbered lines, the first is 1, appended in bursts and read in chunks of whole lines.

    A derived file: its contents follow from the journal's inputs, so it is written anew when the journal is recovered
    and never synced. Reading from a line on costs one look-up in the index and a scan of about one spacing.
    """

    def __init__(self, path: Path, *, index_limit: int = INDEX_LIMIT) -> None:
        self._path = path
        self._index_limit = index_limit
        self._spacing_lines = _SPACING_LINES
        self._numbers = [1]
        self._offsets = [0]
        self.next_number = 1
        """Number of the line that will be appended next."""
        self.size_bytes = 0
        """Where it will begin."""
        self._fd = self._open(os.O_TRUNC | os.O_CREAT)

    def _open(self, flags: int) -> int:
        try:
            return os.open(self._path, os.O_RDWR | flags, 0o644)
        except OSError as error:
            raise JournalError(f"expected to open {self._path}, was {error.strerror}") from error

    def append(self, data: bytes, count: int) -> None:
        """Append `count` whole lines."""
        if self.next_number - self._numbers[-1] >= self._spacing_lines:
            self._numbers.append(self.next_number)
            self._offsets.append(self.size_bytes)
            if len(self._numbers) > self._index_limit:
                self._numbers, self._offsets = self._numbers[::2], self._offsets[::2]
                self._spacing_lines *= 2
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
        """Where a line begins; raises `ValueError` outside 1 … `next_number`."""
        if not 1 <= number <= self.next_number:
            raise ValueError(f"expected a line number from 1 to {self.next_number}, was {number}")
        if number == self.next_number:
            return self.size_bytes
        entry = bisect_right(self._numbers, number) - 1
        offset, skip = self._offsets[entry], number - self._numbers[entry]
        while skip:
            chunk = os.pread(self._descriptor(), _SCAN_BYTES, offset)
            lines = chunk.count(b"\n")
            if lines <= skip:
                end = chunk.rfind(b"\n") + 1
                offset, skip = offset + end, skip - lines
            else:
                end = 0
                for _ in range(skip):
                    end = chunk.index(b"\n", end) + 1
                offset, skip = offset + end, 0
        return offset

    def read(self, offset: int, limit_bytes: int) -> bytes:
        """Whole lines from an offset on, as many as fit into the limit (which must hold any one line)."""
        chunk = os.pread(self._descriptor(), min(limit_bytes, self.size_bytes - offset), offset)
        return chunk[: chunk.rfind(b"\n") + 1]

    def release(self) -> None:
        """Give the descriptor back; the next use opens the file again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    close = release

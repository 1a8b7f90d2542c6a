"""Dead letters by epoch: a malformed tuple is written out exactly once, whatever crashes.

Lines are written before their epoch commits and carry its number; what a crash leaves of an epoch that did not commit
is cut off at the next start, and the tuple comes again with the input that is read again.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from runtime.epochs import LOCAL_DISK, Disk
from runtime.formats import DeadLetter

__all__ = ["EpochDeadLetters"]

_LIMIT_BYTES: Final = 64 * 1024 * 1024


class _Line(msgspec.Struct, frozen=True):
    """One line of the file."""

    epoch: int
    total: int
    origin_id: int
    sequence_number: int
    byte_offset: int
    row: int
    field: str
    expected: str
    reason: str
    data: str


class EpochDeadLetters:
    """A JSON-lines file of malformed tuples, bounded in size; beyond it they are only counted."""

    def __init__(
        self,
        path: Path,
        committed_epoch: int,
        counted: int = 0,
        *,
        limit_bytes: int = _LIMIT_BYTES,
        disk: Disk = LOCAL_DISK,
    ) -> None:
        """``counted``: malformed tuples of the committed epochs."""
        self._path = path
        self._disk = disk
        self._limit_bytes = limit_bytes
        self.count = counted
        self.pending = 0
        self._size = self._cut_to(committed_epoch)

    def write(self, epoch: int, letters: Sequence[DeadLetter]) -> None:
        """Append the letters of an epoch that is about to commit; `pending` tuples are counted."""
        self.count += self.pending
        self.pending = 0
        lines: list[bytes] = []
        for letter in letters:
            line = msgspec.json.encode(_line(epoch, self.count, letter)) + b"\n"
            if self._size + len(line) > self._limit_bytes:
                self._size = self._limit_bytes  # full, also for shorter ones to come
                break
            lines.append(line)
            self._size += len(line)
        if not lines:
            return
        is_new = not self._disk.exists(self._path)
        self._disk.append(self._path, b"".join(lines))
        if is_new:
            self._disk.sync_directory(self._path.parent)

    def _cut_to(self, epoch: int) -> int:
        """Drop lines of epochs past this one, and a torn last line; gives the size that is left."""
        if not self._disk.exists(self._path):
            return 0
        data = self._disk.read(self._path)
        size = 0
        for line in io.BytesIO(data):
            try:
                entry = msgspec.json.decode(line, type=_Line)
            except msgspec.DecodeError:
                break
            if entry.epoch > epoch or not line.endswith(b"\n"):
                break
            size += len(line)
        if size < data.size:
            self._disk.truncate(self._path, size)
        self._disk.sync_directory(self._path.parent)  # who made the file may have ended before its name was durable
        return size


def _line(epoch: int, total: int, letter: DeadLetter) -> _Line:
    return _Line(
        epoch=epoch,
        total=total,
        origin_id=letter.origin_id,
        sequence_number=letter.sequence_number,
        byte_offset=letter.byte_offset,
        row=letter.row,
        field=letter.field,
        expected=letter.expected,
        reason=letter.reason,
        data=letter.data.decode("utf-8", "backslashreplace"),
    )

"""Malformed tuples: counted and described in stream order, and written as dead letters with their epoch.

Lines are written before their epoch commits; the commit stores the length of the file and its checksum. Lines of an
epoch that did not commit before a crash are cut off at the next start, and their tuples are read again with the input.
A file that lacks committed content is damaged. It cannot be rebuilt, and no result depends on it, so it is renamed and
a new file begins.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from twisted.logger import Logger

from deltabook.wire.directories import aside_name
from runtime.epochs import LOCAL_DISK, Disk
from runtime.formats import DeadLetter

__all__ = ["EpochDeadLetters", "LettersMark", "MalformedTuples", "Passed", "first_letter"]

_LIMIT_BYTES: Final = 64 * 1024 * 1024
"""Greatest size of the file in bytes."""
_MOST_LETTERS: Final = 1000
"""Greatest number of pending tuples of an origin that have a description."""
_MOST_COUNTED: Final = 1 << 20
"""Greatest number of pending tuples of an origin whose offsets are stored."""


class _Line(msgspec.Struct, frozen=True):
    """Line of the file: a `DeadLetter` with its epoch."""

    epoch: int
    """Number of the epoch."""
    total: int
    """Number of malformed tuples up to the end of the epoch, those without a letter included."""
    origin_id: int
    """See `DeadLetter`, which has this field and all that follow."""
    sequence_number: int
    byte_offset: int
    row: int
    field: str
    expected: str
    reason: str
    data: str


class LettersMark(msgspec.Struct, frozen=True, array_like=True):
    """Length and checksum of the part of the file that belongs to committed epochs."""

    size: int = 0
    """Number of committed bytes, from the beginning of the file."""
    crc32: int = 0
    """CRC-32 of these bytes."""


_NOTHING: Final = LettersMark()


class EpochDeadLetters:
    """JSON-lines file of malformed tuples, bounded in size; when it is full, further tuples are only counted."""

    _log = Logger()

    def __init__(
        self,
        path: Path,
        committed: LettersMark | None = _NOTHING,
        counted: int = 0,
        *,
        limit_bytes: int = _LIMIT_BYTES,
        disk: Disk = LOCAL_DISK,
    ) -> None:
        """Open the file, and cut it off at its committed length.

        ``committed`` is the `mark` of the last committed epoch, and ``counted`` the number of malformed tuples up to
        that epoch. If ``committed`` is None, as for epochs of earlier releases, the whole file counts as committed.
        """
        self._path = path
        self._disk = disk
        self._limit_bytes = limit_bytes
        self.count = counted
        self.mark = self._as_it_is() if committed is None else committed
        self._is_full = False
        if why := self._damage():
            self._begin_file(why)
        else:
            self._cut_off()

    def write(self, epoch: int, letters: Sequence[DeadLetter], malformed: int) -> None:
        """Append the letters of an epoch that is about to commit; ``malformed`` is its number of malformed tuples."""
        self.count += malformed
        room = self._limit_bytes - self.mark.size
        lines: list[bytes] = []
        for letter in letters:
            line = msgspec.json.encode(_line(epoch, self.count, letter)) + b"\n"
            room -= len(line)
            self._is_full = self._is_full or room < 0  # once full, shorter letters are refused too
            if self._is_full:
                break
            lines.append(line)
        if not lines:
            return
        is_new = not self._disk.exists(self._path)
        data = b"".join(lines)
        self._disk.append(self._path, data)
        if is_new:
            self._disk.sync_directory(self._path.parent)
        self.mark = LettersMark(self.mark.size + len(data), zlib.crc32(data, self.mark.crc32))

    def _as_it_is(self) -> LettersMark:
        if not self._disk.exists(self._path):
            return LettersMark()
        data = self._disk.read(self._path)
        return LettersMark(data.size, zlib.crc32(data))

    def _damage(self) -> str:
        """Return the reason why the file lacks committed content; empty if it has all of it."""
        there = self._disk.size(self._path) if self._disk.exists(self._path) else 0
        if there < self.mark.size:
            return f"expected {self.mark.size} bytes of dead letters at {self._path}, was {there}"
        crc32 = zlib.crc32(self._disk.read(self._path).slice(0, self.mark.size)) if there else 0
        if crc32 != self.mark.crc32:
            return (
                f"expected checksum {self.mark.crc32:08x} for {self.mark.size} bytes at {self._path}, was {crc32:08x}"
            )
        return ""

    def _begin_file(self, why: str) -> None:
        kept = ""
        if self._disk.exists(self._path):
            aside = aside_name(self._path, self._disk.exists)
            self._disk.rename(self._path, aside)
            self._disk.sync_directory(self._path.parent)
            kept = f"; what is there is kept as {aside}"
        self.mark = LettersMark()
        self._log.error("{why}: a new file is started{kept}", why=why, kept=kept)

    def _cut_off(self) -> None:
        """Truncate the file at the mark: no epoch has committed the content after it."""
        if not self._disk.exists(self._path):
            return
        if self._disk.size(self._path) > self.mark.size:
            self._disk.truncate(self._path, self.mark.size)
        self._disk.sync_directory(self._path.parent)  # the creator may have ended before the file's name was durable


def first_letter(path: Path, origin_id: int) -> str | None:
    """Return the error of the first malformed tuple of an origin; None if the file describes none."""
    if not path.exists():
        return None
    with path.open("rb") as file:
        for text in file:
            line = msgspec.json.decode(text, type=_Line)
            if line.origin_id == origin_id:
                field = f" for field {line.field}" if line.field else ""
                return f"expected {line.expected}{field}, was {line.reason} in {line.data!r}"
    return None


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


class _Bad(msgspec.Struct, frozen=True, eq=False):
    """Malformed tuples of one batch."""

    offsets: Any
    """Int64 array with the offset at which each tuple starts, ascending; not empty."""
    letters: tuple[DeadLetter, ...]
    """Descriptions of malformed tuples; not every one has a description."""
    more: int = 0
    """Number of further malformed tuples whose offsets are not stored, because too many wait."""
    until: int = 0
    """Offset after which none of these tuples starts."""


class Passed(msgspec.Struct, frozen=True):
    """Malformed tuples of an origin that start before a cut."""

    letters: tuple[DeadLetter, ...] = ()
    """Descriptions of malformed tuples; not every one has a description."""
    count: int = 0
    """Number of malformed tuples."""
    until: int = 0
    """Offset after which none of these tuples starts."""


class MalformedTuples:
    """Malformed tuples in stream order that wait for a cut after them; before such a cut, a restart reads them again.

    Each tuple is reported once, with the first epoch whose cut is after it. At most a thousand pending tuples have a
    description. If more than a million wait, as in input without well-formed tuples, the others are only counted.
    """

    def __init__(self) -> None:
        self._waiting: deque[_Bad] = deque()
        self._letters = 0
        self._counted = 0

    @property
    def first_described(self) -> int | None:
        """Offset at which the first pending tuple with a description starts; None if there is none."""
        if not self._letters:
            return None
        return next(bad.letters[0].byte_offset for bad in self._waiting if bad.letters)

    def add(self, offsets: Any, letters: tuple[DeadLetter, ...], end_offset: int) -> None:
        """Add the malformed tuples of the next batch, which ends at ``end_offset``: their offsets and descriptions."""
        if self._waiting and self._counted + len(offsets) > _MOST_COUNTED:
            last = self._waiting.pop()
            self._waiting.append(msgspec.structs.replace(last, more=last.more + len(offsets), until=end_offset))
            return
        letters = letters[: _MOST_LETTERS - self._letters]
        self._waiting.append(_Bad(offsets, letters))
        self._letters += len(letters)
        self._counted += len(offsets)

    def passed(self, offset: int) -> Passed:
        """Take and return the malformed tuples that start before this offset."""
        letters: list[DeadLetter] = []
        count = until = 0
        while self._waiting and self._waiting[0].offsets[0] < offset:
            bad = self._waiting.popleft()
            stop = int(np.searchsorted(bad.offsets, offset))
            described = [letter for letter in bad.letters if letter.byte_offset < offset]
            letters += described
            self._letters -= len(described)
            self._counted -= stop
            count += stop
            until = int(bad.offsets[stop - 1])
            if stop < len(bad.offsets):
                rest = msgspec.structs.replace(bad, offsets=bad.offsets[stop:], letters=bad.letters[len(described) :])
                self._waiting.appendleft(rest)
                break
            if bad.more:
                count += bad.more
                until = bad.until
        return Passed(tuple(letters), count, until)

    def clear(self) -> None:
        """Drop all pending tuples; they will be read again."""
        self._waiting.clear()
        self._letters = self._counted = 0

"""The inputs as they are on the disk: segments, read in their order and checked.

The journal is one stream of bytes, and a segment the part of it from `SegmentHead.start` on; its file is named after
its first input. Each begins with a record that is its head, then come batches of inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from exchange_server.errors import JournalDamagedError, JournalError
from exchange_server.journal.disk import LOCAL_DISK, Disk
from exchange_server.journal.records import FRAME_BYTES, RECORD_LIMIT_BYTES, find_records, frame, record_at
from exchange_server.matching.inputs import AnyInput, MarketRules

__all__ = ["JOURNAL_VERSION", "JournalEnd", "JournalReader", "Segment", "SegmentHead", "encoded_head", "segment_name"]

JOURNAL_VERSION: Final = 2

_SUFFIX: Final = ".inputs"
_CHUNK_BYTES: Final = 1 << 20


class SegmentHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first record of a segment; it never changes."""

    version: int
    """Version of the format."""
    session: str
    """Name of the session, at most 10 letters and digits."""
    rules: MarketRules
    """Constants on which the market's answers depend; the same in every segment."""
    first: int
    """Number of its first input, from 1."""
    start: int
    """Byte of the journal at which it begins."""


class _Version(msgspec.Struct):
    version: int


class Segment(msgspec.Struct, frozen=True):
    """A segment's file."""

    path: Path
    head: SegmentHead
    begin: int
    """Offset of its first batch in the file."""


class JournalEnd(msgspec.Struct, frozen=True):
    """End of a journal: where its whole records end, and what follows them."""

    inputs: int
    """Inputs up to there."""
    position: int
    """The byte of the journal."""
    segment: Segment
    """The last segment that stays."""
    torn_bytes: int
    """Bytes behind it, that make no whole record or follow one that is none, and that the disk never promised."""
    torn_records: int
    """Whole records among them: the machine crashed, and what it had not written yet is missing before them."""
    paths: tuple[Path, ...]
    """All segments that stay."""
    torn: tuple[Path, ...]
    """Segments behind them."""


def segment_name(first: int) -> str:
    """File name of a segment."""
    return f"{first:015d}{_SUFFIX}"


def encoded_head(head: SegmentHead, unsynced: int) -> bytes:
    """A head as the first record of its file."""
    payload = msgspec.msgpack.encode(head)
    return frame(payload, head.start, unsynced) + payload


class JournalReader:
    """Reads a journal, also while other processes read or write it; changes nothing.

    A broken record is one of two things. Bytes that were never known to be on the disk are a *torn tail*: nobody was
    told of what was in them under the policy ``always``, and little under ``interval``; the journal ends before them.
    Bytes that were, as a whole record behind them or a later segment says, are *damage*, and `JournalDamagedError`
    names them. If the system has run on since the journal was written (`keeps_writes`), nothing that was written can be
    lost: then only the record whose write the end of the process has interrupted is torn.
    """

    def __init__(self, directory: Path, disk: Disk = LOCAL_DISK, *, keeps_writes: bool = False) -> None:
        """Raises `JournalError` where there is no journal of this version."""
        self.keeps_writes = keeps_writes
        """Whether everything that was written must be there."""
        self._directory = directory
        self._disk = disk
        self._decoder = msgspec.msgpack.Decoder(list[AnyInput])
        if disk.is_file(directory):
            raise JournalError(f"expected a journal of version {JOURNAL_VERSION}, was one of version 1 at {directory}")
        names = [name for name in disk.names(directory) if name.endswith(_SUFFIX) and name[: -len(_SUFFIX)].isdigit()]
        if not names:
            raise JournalError(f"expected a journal at {directory}, was none")
        self.paths = [directory / name for name in names]
        """Files of the segments, in their order."""
        first = self._segment(self.paths[0], None)
        if first is None:
            raise JournalDamagedError(f"expected a journal's head at {self.paths[0]}, was a broken record")
        self._first = first
        self.end: JournalEnd | None = None
        """Known when everything was read."""

    @property
    def head(self) -> SegmentHead:
        """Head of the oldest segment: session and rules, and the first input that is still there."""
        return self._first.head

    def batches(self, after: int = 0) -> Iterator[tuple[int, list[AnyInput]]]:
        """All batches behind an input, each with the number of its first; then `end` is known.

        Raises `JournalError` for damage, and for a journal that begins behind or ends before that input.
        """
        self.end = None
        at = max((place for place, path in enumerate(self.paths) if _first_of(path) <= after + 1), default=-1)
        segment = self._segment(self.paths[at], None) if at >= 0 else None
        if segment is None:
            raise JournalDamagedError(f"expected input {after + 1} in {self._directory}, was {_words(self.paths, at)}")
        inputs, position = segment.head.first - 1, segment.head.start + segment.begin
        while True:
            for number, batch, end in self._read(segment):
                inputs, position = number + len(batch) - 1, end
                if inputs > after:
                    yield number, batch
            at += 1
            following = self._segment(self.paths[at], position) if at < len(self.paths) else None
            if following is None or following.head.first != inputs + 1:
                break
            segment, position = following, following.head.start + following.begin
        self.end = self._end(segment, inputs, position, at)
        if inputs < after:
            raise JournalDamagedError(
                f"expected input {after} in {self._directory}, was a journal that ends at {inputs}, "
                f"at byte {position - segment.head.start} of {segment.path}"
            )

    def _segment(self, path: Path, start: int | None) -> Segment | None:
        """A segment with its head, None if that is broken or its place is another."""
        head_bytes = self._bytes(path, 0, FRAME_BYTES)
        if len(head_bytes) < FRAME_BYTES:
            return None
        length = int.from_bytes(head_bytes[:4], "little")
        data = self._bytes(path, 0, FRAME_BYTES + min(length, RECORD_LIMIT_BYTES))
        try:
            version = msgspec.msgpack.decode(data[FRAME_BYTES:], type=_Version).version
            if version != JOURNAL_VERSION:
                raise JournalError(f"expected a journal of version {JOURNAL_VERSION}, was {version} at {path}")
            head = msgspec.msgpack.decode(data[FRAME_BYTES:], type=SegmentHead)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        if record_at(data, 0, head.start) is None or (start is not None and head.start != start):
            return None
        return Segment(path, head, len(data))

    def _read(self, segment: Segment) -> Iterator[tuple[int, list[AnyInput], int]]:
        """The batches of a segment up to its end or the first broken record: number, inputs, position of their end."""
        decode, start, number = self._decoder.decode, segment.head.start, segment.head.first
        descriptor = -1
        try:
            descriptor = self._disk.open(segment.path, read_only=True)
            begin, wanted = segment.begin, _CHUNK_BYTES
            while True:
                chunk = self._disk.pread(descriptor, wanted, begin)
                offset = 0
                while (record := record_at(chunk, offset, start + begin + offset)) is not None:
                    try:
                        batch = decode(memoryview(chunk)[offset + FRAME_BYTES : record[0]])
                    except msgspec.MsgspecError as error:
                        where = f"at byte {begin + offset} of {segment.path}"
                        raise JournalDamagedError(f"expected inputs, was {error}, {where}") from None
                    offset = record[0]
                    yield number, batch, start + begin + offset
                    number += len(batch)
                begin += offset
                needed = FRAME_BYTES + int.from_bytes(chunk[offset : offset + 4], "little")
                if len(chunk) < wanted or needed > FRAME_BYTES + RECORD_LIMIT_BYTES or needed <= len(chunk) - offset:
                    return
                wanted = max(needed, _CHUNK_BYTES)
        except JournalError:
            raise
        except OSError as error:
            raise JournalError(f"expected to read {segment.path}, was {error.strerror}") from error
        finally:
            if descriptor >= 0:
                self._disk.close(descriptor)

    def _end(self, segment: Segment, inputs: int, position: int, behind: int) -> JournalEnd:
        """Return the end of the journal; raises `JournalError` if what is behind the last whole record was there
        once."""
        offset = position - segment.head.start
        torn_bytes = torn_records = 0
        written = ""
        for path in (segment.path, *self.paths[behind:]):
            begin, at = (offset, position) if path == segment.path else (0, self._start_of(path))
            data = self._bytes(path, begin)
            torn_bytes += len(data)
            if path == segment.path and record_at(data, 0, at) is not None:
                # Written since it was read: the journal grows, and what follows is no damage.
                break
            for known in find_records(data, at):
                torn_records += 1
                if known > position:
                    raise JournalDamagedError(
                        f"expected a record whose checksum holds, was a damaged record with whole records after it, "
                        f"at byte {offset} of {segment.path}"
                    )
            if data and not (path == self.paths[-1] and _is_unfinished(data)):
                written = written or f"at byte {begin} of {path}"
        if written and self.keeps_writes:
            raise JournalDamagedError(
                f"expected a record whose checksum holds, was a damaged record that was written whole, {written}"
            )
        stay, torn = tuple(self.paths[:behind]), tuple(self.paths[behind:])
        return JournalEnd(inputs, position, segment, torn_bytes, torn_records, stay, torn)

    def _start_of(self, path: Path) -> int:
        """Return the position in the journal at which a segment begins by its head, 0 for a broken head."""
        segment = self._segment(path, None)
        return segment.head.start if segment else 0

    def _bytes(self, path: Path, begin: int, length: int | None = None) -> bytes:
        """Bytes of a file from a place on."""
        try:
            descriptor = self._disk.open(path, read_only=True)
            try:
                size = self._disk.size(descriptor) - begin if length is None else length
                return self._disk.pread(descriptor, max(size, 0), begin)
            finally:
                self._disk.close(descriptor)
        except OSError as error:
            raise JournalError(f"expected to read {path}, was {error.strerror}") from error


def _is_unfinished(data: bytes) -> bool:
    """Whether bytes are the beginning of a record and not all of it."""
    return len(data) < FRAME_BYTES or FRAME_BYTES + int.from_bytes(data[:4], "little") > len(data)


def _first_of(path: Path) -> int:
    return int(path.name.removesuffix(_SUFFIX))


def _words(paths: list[Path], at: int) -> str:
    return f"a broken head at {paths[at]}" if at >= 0 else f"a journal that begins with input {_first_of(paths[0])}"

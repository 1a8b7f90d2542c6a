"""The log of inputs, from which all other files are derived: batches of inputs in segments, appended and read in order.

```
inputs/000000000000001.inputs    inputs/000000000000501.inputs
┌──────┬───────┬───────┬───────┐ ┌──────┬───────┬───────┬┄┄┄
│ head │ batch │ batch │ batch │ │ head │ batch │ batch │ a torn tail
└──────┴───────┴───────┴───────┘ └──────┴───────┴───────┴┄┄┄
record: length of the payload (u32) │ checksum (u32) │ unsynced bytes (u32) │ payload (MessagePack)
```

The journal is one stream of bytes, divided into segments; a segment begins at its `SegmentHead.start`, and its file is
named after its first input. A record's checksum includes its position in the stream, so that the record is valid at
that position only. The *unsynced bytes* of a record are the number of bytes before the record that were not known to be
on disk when the record was written. By this number a reader distinguishes bytes torn by a crash from bytes lost by the
disk (`JournalReader`).
"""

from __future__ import annotations

import re
import struct
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, Literal, NamedTuple, NoReturn
from zlib import crc32

import msgspec

from exchange_server.errors import JournalDamagedError, JournalError
from exchange_server.journal.disk import LOCAL_DISK, JournalDisk, write_whole
from exchange_server.matching.inputs import AnyInput, MarketRules

__all__ = ["JOURNAL_VERSION", "FsyncPolicy", "InputsLog", "JournalReader", "SegmentHead", "segment_name"]

JOURNAL_VERSION: Final = 2
"""Version of the format; other versions are refused."""

FsyncPolicy = Literal["always", "interval", "never"]
"""Time at which inputs are forced to disk: with each batch, when `InputsLog.sync` is called, or when the system
chooses.
"""

RECORD_LIMIT_BYTES: Final = 1 << 28
"""Largest length of a record in bytes; a greater length marks a broken record."""

_FRAME: Final = struct.Struct("<III")
FRAME_BYTES: Final = _FRAME.size
"""Number of bytes of a record before its payload."""

_U32: Final = 0xFFFF_FFFF
_NOT_ZERO: Final = re.compile(rb"[^\0]")
_SUFFIX: Final = ".inputs"
_CHUNK_BYTES: Final = 1 << 20
"""Number of bytes that are read at once; more if a record is longer."""


class SegmentHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """First record of a segment; it never changes."""

    version: int
    """Version of the format."""
    session: str
    """Name of the session, at most 10 letters and digits."""
    rules: MarketRules
    """Constants on which the market's answers depend; the same in every segment."""
    first: int
    """Number of the segment's first input, from 1."""
    start: int
    """Position in the journal at which the segment begins, in bytes."""


class _Version(msgspec.Struct):
    version: int


class Segment(msgspec.Struct, frozen=True):
    """A segment's file and its head."""

    path: Path
    """Path of the file."""
    head: SegmentHead
    """Head of the segment."""
    begin: int
    """Offset of the first batch in the file."""


class JournalEnd(msgspec.Struct, frozen=True):
    """End of a journal's whole records, and the segments and bytes after it."""

    inputs: int
    """Number of inputs before the end."""
    position: int
    """Position of the end in the journal, in bytes."""
    segment: Segment
    """Last segment that is kept."""
    torn_bytes: int
    """Number of bytes in the torn tail: bytes after the end that were never known to be on disk, and that form no whole
    record or follow a broken record.
    """
    torn_records: int
    """Number of whole records in the torn tail. If there are any, the machine has crashed, and bytes before them never
    reached the disk.
    """
    paths: tuple[Path, ...]
    """Paths of all segments that are kept."""
    torn: tuple[Path, ...]
    """Paths of the segments after the end."""


class InputsLog:
    """Appends batches of inputs to the newest segment, each by one system call, from the journal's end on.

    `fsync`: under *always* a batch is on the disk when `append` returns; under *interval* the caller calls `sync` at
    intervals, from any thread; under *never* the system chooses the time. The end of the process loses nothing under
    any policy. After a failed write or sync no more inputs are accepted, since the state of the disk is then unknown.

    A log continues a journal that was read to its end:

    >>> from tempfile import TemporaryDirectory
    >>> from exchange_server.matching.inputs import Enter
    >>> temporary = TemporaryDirectory()
    >>> directory = Path(temporary.name) / "inputs"
    >>> InputsLog.create(directory, "SESSION1", MarketRules(instruments=()))
    >>> reader = JournalReader(directory)
    >>> list(reader.batches())
    []
    >>> log = InputsLog(directory, reader.head, reader.end)
    >>> log.append([Enter(1, account=0, broker_id=7, ref=0, symbol="ACME", side="B", volume=5, price_ticks=100)])
    >>> log.close()
    >>> [(number, batch[0].symbol) for number, batch in JournalReader(directory).batches()]
    [(1, 'ACME')]
    >>> temporary.cleanup()
    """

    def __init__(
        self,
        directory: Path,
        head: SegmentHead,
        end: JournalEnd,
        fsync: FsyncPolicy = "interval",
        *,
        disk: JournalDisk = LOCAL_DISK,
        sync: Callable[[int], None] | None = None,
    ) -> None:
        """Continue the journal at ``end`` and cut its torn tail; ``sync`` forces a descriptor's bytes to disk.

        Raise `JournalError` if that fails.
        """
        self._directory = directory
        self._head = head
        self._disk = disk
        self._sync = sync or disk.sync
        self._is_always = fsync == "always"
        self._is_never = fsync == "never"
        self._encode = msgspec.msgpack.Encoder().encode
        self._pwrite: Callable[[int, bytes | memoryview, int], int] = disk.pwrite
        self._path = end.segment.path
        self._start = end.segment.head.start
        self._position = end.position
        self._synced = 0
        """Position up to which the journal is known to be on disk."""
        self._sync_lock = threading.Lock()
        self._names = self._names_synced = 0
        """Number of segments begun here, and number of their names known to be on disk."""
        self._has_failed = False
        try:
            self._fd = disk.open(end.segment.path)
            self._files = [self._fd]
            """Descriptors of segments that are not yet synced, the newest last."""
            self._cut_torn_tail(end)
        except OSError as error:
            raise JournalError(f"expected to open {self._path}, was {error.strerror}") from error

    @staticmethod
    def create(directory: Path, session: str, rules: MarketRules, disk: JournalDisk = LOCAL_DISK) -> None:
        """Create a log without inputs, first under a hidden name, so that no head is ever torn.

        Raise `JournalError` if the log cannot be written.
        """
        path = directory / segment_name(1)
        hidden = path.with_name(f".{path.name}.new")
        try:
            disk.make_directory(directory)
            descriptor = disk.open(hidden, create=True, empty=True)
            try:
                head = encoded_head(SegmentHead(JOURNAL_VERSION, session, rules, 1, 0), 0)
                write_whole(disk.pwrite, descriptor, head, 0)
                disk.sync(descriptor)
            finally:
                disk.close(descriptor)
            disk.rename(hidden, path)
            disk.sync_directory(directory)
            disk.sync_directory(directory.parent)
        except OSError as error:
            raise JournalError(f"expected to write a journal at {directory}, was {error.strerror}") from error

    @property
    def position(self) -> int:
        """Size of the journal in bytes, including removed segments."""
        return self._position

    def append(self, batch: Sequence[AnyInput]) -> None:
        """Write a batch, and sync it under *always*; once this returns, the batch survives a crash of the process.

        Raise `JournalError` if that fails; then neither this batch nor any later one becomes part of the journal.
        """
        payload = self._encode(batch)
        position = self._position
        data = frame(payload, position, position - self._synced) + payload
        try:
            written = self._pwrite(self._fd, data, position - self._start)
            if written < len(data):
                write_whole(self._pwrite, self._fd, data[written:], position - self._start + written)
        except OSError as error:
            self._fail(error)
        self._position = position + len(data)
        if self._is_always:
            self.force()

    def begin_segment(self, first: int) -> None:
        """Begin a segment for the inputs from ``first`` on; it becomes durable with its first batch.

        Do nothing if the newest segment has no batch yet: an earlier snapshot began it and was not finished. Raise
        `JournalError` if the segment cannot be written.
        """
        path = self._directory / segment_name(first)
        if path == self._path:
            return
        head = msgspec.structs.replace(self._head, first=first, start=self._position)
        try:
            descriptor = self._disk.open(path, create=True, empty=True)
            self._names += 1
            self._files.append(descriptor)
            data = encoded_head(head, self._position - self._synced)
            write_whole(self._pwrite, descriptor, data, 0)
        except OSError as error:
            self._fail(error)
        self._path, self._fd, self._start = path, descriptor, head.start
        self._position = head.start + len(data)

    def sync(self) -> None:
        """Force all writes to disk, in any thread; do nothing under *never*. Raise `JournalError` if that fails."""
        if not self._is_never:
            self.force()

    def force(self) -> None:
        """Force all writes to disk, in any thread, under every policy. Raise `JournalError` if that fails."""
        with self._sync_lock:
            # Read the position first: a write during the sync may be synced too, but is not counted as synced.
            position = self._position
            if position == self._synced:
                return
            files = self._files[:]
            names = self._names
            try:
                for descriptor in files:
                    self._sync(descriptor)
                if names != self._names_synced:
                    self._disk.sync_directory(self._directory)
                    self._names_synced = names
                for descriptor in files[:-1]:
                    self._files.remove(descriptor)
                    self._disk.close(descriptor)
            except OSError as error:
                self._fail(error)
            self._synced = position

    def close(self) -> None:
        """Sync, unless a sync or a write has failed, and close; the log cannot be used afterwards."""
        if self._fd >= 0:
            try:
                if not self._has_failed:
                    self.sync()
            finally:
                for descriptor in self._files:
                    self._disk.close(descriptor)
                self._files, self._fd = [], -1

    def _cut_torn_tail(self, end: JournalEnd) -> None:
        """Remove the torn tail, and make the rest of the journal durable, since it is unknown how much of the rest is
        on disk.

        Whole records of the tail are copied aside for the operator to examine; the market cannot use them, since the
        machine lost the records before them.
        """
        for path in reversed(end.torn):
            if end.torn_records:
                self._disk.rename(path, path.with_suffix(".torn"))
            else:
                self._disk.unlink(path)
        offset = end.position - self._start
        if end.torn_records:
            self._copy_aside(offset)
        if end.torn_bytes:
            self._disk.truncate(self._fd, offset)
        for path in end.paths:
            descriptor = self._disk.open(path)
            try:
                self._disk.sync(descriptor)
            finally:
                self._disk.close(descriptor)
        self._disk.sync_directory(self._directory)
        self._synced = end.position

    def _copy_aside(self, offset: int) -> None:
        """Copy the newest segment's bytes from an offset on to a separate file."""
        data = self._disk.pread(self._fd, self._disk.size(self._fd) - offset, offset)
        aside = self._disk.open(self._path.with_name(f"{self._path.stem}-{offset}.torn"), create=True, empty=True)
        try:
            write_whole(self._disk.pwrite, aside, data, 0)
            self._disk.sync(aside)
        finally:
            self._disk.close(aside)

    def _fail(self, error: OSError) -> NoReturn:
        """Raise `JournalError`, and make every later write fail in the same way."""
        failed = JournalError(f"expected to write {self._path}, was {error.strerror}")

        def refuse(descriptor: int, data: bytes | memoryview, offset: int) -> NoReturn:
            raise error

        # Replace the write function, so that `append` need not test a flag.
        self._pwrite, self._has_failed = refuse, True
        raise failed from error


class JournalReader:
    """Reads a journal, also while other processes read or write it; changes nothing.

    A broken record is the beginning of a torn tail, or damage:

    * It begins a *torn tail* if its bytes were never known to be on disk. The journal ends before the torn tail.
      Nothing in the tail was published under the policy ``always``, and little under ``interval``.
    * It is *damage* if a later whole record or segment shows that its bytes were on disk. `JournalDamagedError` names
      the place.

    If the system has not restarted since the journal was written (`keeps_writes`), no write can be lost: then a torn
    tail consists of a single record, whose write was interrupted by the end of the process.
    """

    def __init__(self, directory: Path, disk: JournalDisk = LOCAL_DISK, *, keeps_writes: bool = False) -> None:
        """Open the journal.

        Raise `JournalError` where there is no journal of this version, and `JournalDamagedError` if the head of its
        first segment is broken.
        """
        self.keeps_writes = keeps_writes
        """True if no write can have been lost."""
        self._directory = directory
        self._disk = disk
        self._decoder = msgspec.msgpack.Decoder(list[AnyInput])
        if disk.is_file(directory):
            raise JournalError(f"expected a journal of version {JOURNAL_VERSION}, was one of version 1 at {directory}")
        names = [name for name in disk.names(directory) if name.endswith(_SUFFIX) and name[: -len(_SUFFIX)].isdigit()]
        if not names:
            raise JournalError(f"expected a journal at {directory}, was none")
        self.paths = [directory / name for name in names]
        """Paths of the segments, in their order."""
        first = self._segment(self.paths[0], None)
        if first is None or first.head.first != _first_of(self.paths[0]):
            raise JournalDamagedError(f"expected a journal's head at {self.paths[0]}, was a broken record")
        self._first = first
        self.end: JournalEnd | None = None
        """End of the journal; None until everything was read."""

    @property
    def head(self) -> SegmentHead:
        """Head of the oldest segment: session and rules, and the first input that is still present."""
        return self._first.head

    def batches(self, after: int = 0) -> Iterator[tuple[int, list[AnyInput]]]:
        """Yield all batches after an input, each with the number of its first input; then set `end`.

        Raise `JournalError` for a file that cannot be read. Raise `JournalDamagedError` for damage, and for a journal
        that begins after that input or ends before it.
        """
        self.end = None
        place = max((place for place, path in enumerate(self.paths) if _first_of(path) <= after + 1), default=-1)
        segment = self._segment(self.paths[place], None) if place >= 0 else None
        if segment is None or not self._is_own(segment):
            actual = (
                f"a journal that begins with input {_first_of(self.paths[0])}"
                if place < 0
                else f"a broken head at {self.paths[place]}"
            )
            raise JournalDamagedError(f"expected input {after + 1} in {self._directory}, was {actual}")
        inputs, position = segment.head.first - 1, segment.head.start + segment.begin
        while True:
            for number, batch, end in self._read(segment):
                inputs, position = number + len(batch) - 1, end
                if inputs > after:
                    yield number, batch
            place += 1
            following = self._segment(self.paths[place], position) if place < len(self.paths) else None
            if following is None or following.head.first != inputs + 1 or not self._is_own(following):
                break
            segment, position = following, following.head.start + following.begin
        self.end = self._end(segment, inputs, position, place)
        if inputs < after:
            raise JournalDamagedError(
                f"expected input {after} in {self._directory}, was a journal that ends at {inputs}, "
                f"at byte {position - segment.head.start} of {segment.path}"
            )

    def _is_own(self, segment: Segment) -> bool:
        """Return True if a segment has its own name, and the session of this journal."""
        return segment.head.first == _first_of(segment.path) and segment.head.session == self.head.session

    def _segment(self, path: Path, start: int | None) -> Segment | None:
        """Return a segment with its head; None if the head is broken or does not begin at this position."""
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
        """Yield each batch of a segment: the number of the first input, the inputs, and the position of the batch's
        end.
        """
        decode, number = self._decoder.decode, segment.head.first
        with closing(self._payloads(segment)) as payloads:
            for payload, end in payloads:
                try:
                    batch = decode(payload)
                except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                    offset = end - segment.head.start - len(payload) - FRAME_BYTES
                    where = f"at byte {offset} of {segment.path}"
                    raise JournalDamagedError(f"expected inputs, was {error}, {where}") from None
                yield number, batch, end
                number += len(batch)

    def _payloads(self, segment: Segment) -> Generator[tuple[memoryview, int]]:
        """Yield the payload and the end position of each record after the head, up to the first broken record."""
        start, begin, wanted = segment.head.start, segment.begin, _CHUNK_BYTES
        descriptor = -1
        try:
            descriptor = self._disk.open(segment.path, read_only=True)
            while True:
                chunk = self._disk.pread(descriptor, wanted, begin)
                view, offset = memoryview(chunk), 0
                while (record := record_at(chunk, offset, start + begin + offset)) is not None:
                    yield view[offset + FRAME_BYTES : record.end], start + begin + record.end
                    offset = record.end
                begin += offset
                needed = FRAME_BYTES + int.from_bytes(chunk[offset : offset + 4], "little")
                if len(chunk) < wanted or needed > FRAME_BYTES + RECORD_LIMIT_BYTES or needed <= len(chunk) - offset:
                    return
                wanted = max(needed, _CHUNK_BYTES)
        except OSError as error:
            raise JournalError(f"expected to read {segment.path}, was {error.strerror}") from error
        finally:
            if descriptor >= 0:
                self._disk.close(descriptor)

    def _end(self, segment: Segment, inputs: int, position: int, behind: int) -> JournalEnd:
        """Return the end of the journal; the segments from index ``behind`` on lie after it.

        Raise `JournalDamagedError` if bytes after the last whole record were once known to be on disk.
        """
        offset = position - segment.head.start
        torn_bytes = torn_records = 0
        written = ""
        for path in (segment.path, *self.paths[behind:]):
            begin, start = (offset, position) if path == segment.path else (0, self._start_of(path))
            data = self._bytes(path, begin)
            torn_bytes += len(data)
            if path == segment.path and record_at(data, 0, start) is not None:
                # The record was written after the segment had been read: the journal grows, and the bytes that follow
                # are not damage.
                break
            for known in find_records(data, start):
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
        """Return the position in the journal given by the head of a segment, 0 for a broken head."""
        segment = self._segment(path, None)
        return segment.head.start if segment else 0

    def _bytes(self, path: Path, begin: int, length: int | None = None) -> bytes:
        """Return ``length`` bytes of a file from an offset on, fewer at the end; without ``length`` all bytes from
        there.
        """
        try:
            descriptor = self._disk.open(path, read_only=True)
            try:
                size = self._disk.size(descriptor) - begin if length is None else length
                return self._disk.pread(descriptor, max(size, 0), begin)
            finally:
                self._disk.close(descriptor)
        except OSError as error:
            raise JournalError(f"expected to read {path}, was {error.strerror}") from error


def segment_name(first: int) -> str:
    """Return the file name of the segment that begins with this input."""
    return f"{first:015d}{_SUFFIX}"


def _first_of(path: Path) -> int:
    return int(path.name.removesuffix(_SUFFIX))


# --- records --------------------------------------------------------------------------------------------------------

_pack = _FRAME.pack
_unpack_from = _FRAME.unpack_from


class Record(NamedTuple):
    """Position and synced position of a whole record."""

    end: int
    """Offset of the first byte after the record."""
    known: int
    """Position up to which the journal was known to be on disk when the record was written; -1 if unknown."""


def frame(payload: bytes, position: int, unsynced: int) -> bytes:
    """Return the bytes that precede a payload in its record, which begins at ``position`` of the journal.

    An `unsynced` of 2³²-1 or more means that no position was known to be on disk.
    """
    unsynced = min(unsynced, _U32)
    return _pack(len(payload), crc32(payload, (position + unsynced) & _U32), unsynced)


def encoded_head(head: SegmentHead, unsynced: int) -> bytes:
    """Return a head as the first record of its file."""
    payload = msgspec.msgpack.encode(head)
    return frame(payload, head.start, unsynced) + payload


def record_at(data: bytes, offset: int, position: int) -> Record | None:
    """Return the record at an offset, which is ``position`` in the journal; None if the record is not whole.

    >>> data = frame(b"payload", 100, 0) + b"payload"
    >>> record_at(data, 0, 100)
    Record(end=19, known=100)
    >>> record_at(data, 0, 101)  # in another place it does not hold
    """
    begin = offset + FRAME_BYTES
    if begin > len(data):
        return None
    length, checksum, unsynced = _unpack_from(data, offset)
    end = begin + length
    if not 0 < length <= RECORD_LIMIT_BYTES or end > len(data):
        return None
    if crc32(memoryview(data)[begin:end], (position + unsynced) & _U32) != checksum:
        return None
    return Record(end, -1 if unsynced == _U32 else position - unsynced)


def find_records(data: bytes, position: int) -> Iterator[int]:
    """Yield `Record.known` of every whole record, wherever it begins; ``position`` is the position of the first byte.

    Used for the bytes after a broken record, whose length cannot be trusted.
    """
    offset, last = 0, len(data) - FRAME_BYTES
    # The highest of the four bytes of a real length is nearly always 0, so that few places need a checksum.
    highest = RECORD_LIMIT_BYTES >> 24
    while offset < last:
        if data[offset + 3] <= highest and (record := record_at(data, offset, position + offset)) is not None:
            yield record.known
            offset = record.end
        elif data[offset : offset + 4] == b"\0\0\0\0":
            # Unwritten bytes read as zeros, and there may be many of them.
            written = _NOT_ZERO.search(data, offset)
            offset = max(offset + 1, written.start() - 3) if written else last
        else:
            offset += 1


def _is_unfinished(data: bytes) -> bool:
    """Return True if the bytes are the incomplete beginning of a record."""
    return len(data) < FRAME_BYTES or FRAME_BYTES + int.from_bytes(data[:4], "little") > len(data)

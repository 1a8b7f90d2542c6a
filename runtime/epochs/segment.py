"""Segment files: named sections of Arrow data, which are written once and read by memory mapping.

Layout: the sections' Arrow IPC streams, each at a multiple of 64 bytes; a footer in MessagePack; the footer's length
and CRC-32 and eight magic bytes. A reader starts at the end, so a file that was cut short is recognised at once.

A footer may contain checksums of the express lane's views at the end of the epoch, as JSON in one attribute. A view
that has failed has no checksum, and if the lane has failed, no view has one. A view with a checksum was therefore whole
at that epoch.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa

from runtime.epochs.disk import LOCAL_DISK, Disk
from runtime.epochs.errors import TornSegmentError

__all__ = ["Cut", "Footer", "Section", "Segment", "checksums_of", "read_segment", "with_checksums", "write_segment"]


_MAGIC: Final = b"DBKSEG01"
_TAIL: Final = struct.Struct("<II8s")
_ALIGNMENT: Final = 64
_WHOLE_ROWS: Final = 1 << 14
"""Number of rows from which a batch is written unchanged: copying it takes longer than writing one more batch."""
_JOINED_ROWS: Final = 1 << 16
"""Greatest number of rows of a batch into which smaller ones are joined."""
_END_OF_STREAM: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"


class Cut(msgspec.Struct, frozen=True, array_like=True):
    """Place at which an origin's input was cut: all input before it is in the epoch or in an earlier one."""

    session: str
    """Session of the feed, or path of the file."""
    sequence: int
    """Number of the last message before the cut (feed), or of messages so far (file)."""
    offset: int
    """Byte offset after the last message (file); 0 for a feed."""
    tuples: int = 0
    """Number of tuples before the cut, including malformed ones; rows of dead letters are counted from this number."""


class Section(msgspec.Struct, frozen=True, array_like=True):
    """One named table of a segment."""

    name: str
    """Name of the relation or view."""
    offset: int
    """Offset of its Arrow IPC stream in the file."""
    length: int
    """Length of the stream in bytes."""
    rows: int
    """Number of rows."""
    crc32: int
    """CRC-32 of the stream."""


class Footer(msgspec.Struct, frozen=True):
    """Metadata of a segment."""

    from_epoch: int
    """Version before the segment."""
    to_epoch: int
    """Version after it; the epoch that it seals."""
    sections: tuple[Section, ...] = ()
    """Tables of the segment."""
    cuts: dict[str, Cut] = {}
    """Cut of each origin's input."""
    messages: int = 0
    """Number of feed messages in the segment."""
    time_ns: int = 0
    """Time of the barrier, nanoseconds since the UTC epoch."""
    control: bytes = b""
    """Control record: the view program that is in force from this epoch on; empty for none."""
    attributes: dict[str, str] = {}
    """Other facts that a writer stores, such as a failed view's reason."""
    follows: int | None = None
    """Checksum of the footer of the epoch before, by which readers verify that the log is the same; None in the first
    epoch. In a snapshot, it is the checksum of the epoch of the snapshot.
    """
    watermarks: dict[str, int] | None = None
    """For each relation of a market, the time in nanoseconds that its slowest origin has reached; used by runtimes that
    read the log. A relation is left out until its time is known. None in a segment of an earlier release.
    """


def write_segment(disk: Disk, path: Path, sections: Mapping[str, Iterable[pa.RecordBatch]], footer: Footer) -> int:
    """Write a segment durably; return the CRC-32 of its footer, which covers the CRCs of all sections.

    Sections without batches are left out. The caller renames the file and syncs the directory. If the disk fails, the
    partial file is removed where possible.
    """
    checksums: list[int] = []
    try:
        disk.write(path, _pieces(sections, footer, checksums.append))
    except OSError:
        with suppress(OSError):
            disk.unlink(path)
        raise
    return checksums[0]


def _pieces(
    sections: Mapping[str, Iterable[pa.RecordBatch]], footer: Footer, on_checksum: Callable[[int], None]
) -> Iterator[bytes | pa.Buffer]:
    """Yield the bytes of the file from its beginning; only one encoded batch is in memory at a time."""
    written: list[Section] = []
    position = 0
    for name, table in sections.items():
        batches = list(table)
        if not batches:
            continue
        padding = -position % _ALIGNMENT
        yield b"\0" * padding
        start = position = position + padding
        checksum = 0
        for message in _stream(batches):
            yield message
            position += len(message)
            checksum = zlib.crc32(message, checksum)
        written.append(Section(name, start, position - start, sum(b.num_rows for b in batches), checksum))
    body = msgspec.msgpack.encode(msgspec.structs.replace(footer, sections=tuple(written)))
    checksum = zlib.crc32(body)
    on_checksum(checksum)
    yield body
    yield _TAIL.pack(len(body), checksum, _MAGIC)


def _stream(batches: list[pa.RecordBatch]) -> Iterator[pa.Buffer | bytes]:
    """Yield the messages of an Arrow stream, each encoded into a buffer of its own size."""
    yield batches[0].schema.serialize()
    for group in _joined(batches):
        yield (pa.concat_batches(group) if len(group) > 1 else group[0]).serialize()
    yield _END_OF_STREAM


def _joined(batches: list[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Yield groups of small batches to write as one, because every write waits for the interpreter lock at its end."""
    group: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        is_whole = batch.num_rows >= _WHOLE_ROWS
        if group and (is_whole or rows + batch.num_rows > _JOINED_ROWS):
            yield group
            group, rows = [], 0
        if is_whole:
            yield [batch]
            continue
        group.append(batch)
        rows += batch.num_rows
    if group:
        yield group


class Segment:
    """Sealed segment, memory-mapped; sections are read without copying, and compared with their checksums."""

    def __init__(self, path: Path, footer: Footer, checksum: int, data: pa.Buffer) -> None:
        self.path = path
        self.footer = footer
        self.checksum = checksum
        self._data = data

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return int(self._data.size)

    def rows(self, name: str) -> pa.Table | None:
        """Return the table of a section, None if the segment has none; raise `TornSegmentError` for a damaged one."""
        for section in self.footer.sections:
            if section.name == name:
                return pa.ipc.open_stream(self._checked(section)).read_all()
        return None

    def verify(self) -> None:
        """Compare sections with their checksums and the gaps with zeros; raise `TornSegmentError` for a difference."""
        position = 0
        for section in self.footer.sections:
            self._checked(section)
            padding = self._data.slice(position, section.offset - position).to_pybytes()
            if padding.strip(b"\0"):
                raise TornSegmentError(
                    f"expected zeros before section {section.name} of {self.path}, at byte {position}, was {padding!r}"
                )
            position = section.offset + section.length

    def _checked(self, section: Section) -> pa.Buffer:
        data = self._data.slice(section.offset, section.length)
        checksum = zlib.crc32(data)
        if checksum != section.crc32:
            raise TornSegmentError(
                f"expected checksum {section.crc32:08x} for section {section.name} of {self.path}, was {checksum:08x}"
            )
        return data


def read_segment(path: Path, disk: Disk = LOCAL_DISK) -> Segment:
    """Open a segment; raise `TornSegmentError` if its footer is not whole, `FileNotFoundError` if there is none."""
    data = disk.read(path)
    if data.size < _TAIL.size:
        raise TornSegmentError(f"expected a segment of at least {_TAIL.size} bytes at {path}, was {data.size}")
    length, checksum, magic = _TAIL.unpack(data.slice(data.size - _TAIL.size).to_pybytes())
    if magic != _MAGIC:
        raise TornSegmentError(f"expected a segment's end {_MAGIC!r} at {path}, was {magic!r}")
    start = data.size - _TAIL.size - length
    if start < 0:
        raise TornSegmentError(f"expected a footer of at most {data.size - _TAIL.size} bytes at {path}, was {length}")
    body = data.slice(start, length).to_pybytes()
    if zlib.crc32(body) != checksum:
        raise TornSegmentError(f"expected footer checksum {checksum:08x} at {path}, was {zlib.crc32(body):08x}")
    try:
        footer = msgspec.msgpack.decode(body, type=Footer)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TornSegmentError(f"expected a segment's footer at {path}, was {body[:40]!r}: {error}") from None
    end = max((section.offset + section.length for section in footer.sections), default=0)
    if end != start:
        raise TornSegmentError(f"expected {end} bytes of sections at {path}, was {start}")
    return Segment(path, footer, checksum, data)


_ATTRIBUTE: Final = "checksums"
"""Name of the attribute of a footer that has the checksums of views."""


def with_checksums(footer: Footer, checksums: Mapping[str, int]) -> Footer:
    """Return the footer with the checksums of these views, each below 2^64."""
    encoded = msgspec.json.encode(checksums).decode()
    return msgspec.structs.replace(footer, attributes=footer.attributes | {_ATTRIBUTE: encoded})


def checksums_of(footer: Footer) -> dict[str, int]:
    """Return the checksums in a footer: none in an epoch of an earlier release."""
    encoded = footer.attributes.get(_ATTRIBUTE)
    return {} if encoded is None else msgspec.json.decode(encoded, type=dict[str, int])

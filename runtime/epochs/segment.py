"""Segment files: named sections of Arrow data, sealed once, read by memory mapping.

Layout: the sections' Arrow IPC streams, each at a multiple of 64 bytes; a footer in MessagePack; the footer's length
and CRC-32 and eight magic bytes. A reader starts at the end, so a file that was cut short is recognised at once.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa

from runtime.epochs.errors import TornSegmentError

__all__ = ["Cut", "Footer", "Section", "Segment", "read_segment", "sync_directory", "write_segment"]

_MAGIC: Final = b"DBKSEG01"
_TAIL: Final = struct.Struct("<II8s")
_ALIGNMENT: Final = 64


class Cut(msgspec.Struct, frozen=True, array_like=True):
    """Where an origin's input was cut: everything up to here is inside."""

    session: str
    """The feed's session; the path of a file."""
    sequence: int
    """Number of the last message inside (feed), or of messages so far (file)."""
    offset: int
    """Byte offset behind the last message (file); 0 for a feed."""
    tuples: int = 0
    """Tuples before it, malformed ones too: where the rows of dead letters are counted on from."""


class Section(msgspec.Struct, frozen=True, array_like=True):
    """One named table of a segment."""

    name: str
    """Relation or view."""
    offset: int
    """Where its Arrow IPC stream starts in the file."""
    length: int
    """Bytes of the stream."""
    rows: int
    """Rows in it."""
    crc32: int
    """Of the stream."""


class Footer(msgspec.Struct, frozen=True):
    """What a segment says of itself."""

    from_epoch: int
    """The segment leads from this version …"""
    to_epoch: int
    """… to this one; the epoch it seals."""
    sections: tuple[Section, ...] = ()
    """Its tables."""
    cuts: dict[str, Cut] = {}
    """Origin → where its input was cut."""
    messages: int = 0
    """Feed messages inside."""
    time_ns: int = 0
    """Time of the barrier, nanoseconds since the UTC epoch."""
    control: bytes = b""
    """A control record: the view program that holds from this epoch on; empty for none."""
    attributes: dict[str, str] = {}
    """Anything else a writer wants kept, such as a failed view's reason."""


def write_segment(path: Path, sections: Mapping[str, Iterable[pa.RecordBatch]], footer: Footer) -> int:
    """Write a segment and fsync it; gives the CRC-32 of its footer, which covers the CRCs of all sections.

    Sections without batches are left out. The caller renames the file and syncs the directory.
    """
    written: list[Section] = []
    with path.open("wb") as file:
        for name, batches in sections.items():
            section = _write_section(file, name, list(batches))
            if section is not None:
                written.append(section)
        body = msgspec.msgpack.encode(msgspec.structs.replace(footer, sections=tuple(written)))
        checksum = zlib.crc32(body)
        file.write(body)
        file.write(_TAIL.pack(len(body), checksum, _MAGIC))
        file.flush()
        os.fsync(file.fileno())
    return checksum


def _write_section(file: object, name: str, batches: list[pa.RecordBatch]) -> Section | None:
    if not batches:
        return None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    data = sink.getvalue()
    position: int = file.tell()  # type: ignore[attr-defined]
    padding = -position % _ALIGNMENT
    file.write(b"\0" * padding)  # type: ignore[attr-defined]
    file.write(data)  # type: ignore[attr-defined]
    return Section(name, position + padding, data.size, sum(b.num_rows for b in batches), zlib.crc32(data))


class Segment:
    """A sealed segment, memory-mapped; sections are read without copying."""

    def __init__(self, path: Path, footer: Footer, checksum: int, data: pa.Buffer) -> None:
        self.path = path
        self.footer = footer
        self.checksum = checksum
        self._data = data

    def rows(self, name: str) -> pa.Table | None:
        """The table of this section, None where the segment has none."""
        for section in self.footer.sections:
            if section.name == name:
                return pa.ipc.open_stream(self._data.slice(section.offset, section.length)).read_all()
        return None

    def verify(self) -> None:
        """Compare every section with its checksum; raises `TornSegmentError`."""
        for section in self.footer.sections:
            found = zlib.crc32(self._data.slice(section.offset, section.length))
            if found != section.crc32:
                raise TornSegmentError(
                    f"expected checksum {section.crc32:08x} for section {section.name} of {self.path}, was {found:08x}"
                )


def read_segment(path: Path) -> Segment:
    """Open a segment; raises `TornSegmentError` if its footer is not whole, `FileNotFoundError` if there is none."""
    with pa.memory_map(str(path)) as file:
        data = file.read_buffer()
    if data.size < _TAIL.size:
        raise TornSegmentError(f"expected a segment of at least {_TAIL.size} bytes at {path}, was {data.size}")
    length, checksum, magic = _TAIL.unpack(data.slice(data.size - _TAIL.size).to_pybytes())
    start = data.size - _TAIL.size - length
    if magic != _MAGIC or start < 0:
        raise TornSegmentError(f"expected a segment's end {_MAGIC!r} at {path}, was {magic!r}")
    body = data.slice(start, length).to_pybytes()
    if zlib.crc32(body) != checksum:
        raise TornSegmentError(f"expected footer checksum {checksum:08x} at {path}, was {zlib.crc32(body):08x}")
    try:
        footer = msgspec.msgpack.decode(body, type=Footer)
    except msgspec.DecodeError as error:
        raise TornSegmentError(f"expected a segment's footer at {path}, was {body[:40]!r}: {error}") from None
    return Segment(path, footer, checksum, data)


def sync_directory(path: Path) -> None:
    """Make renames and removals in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

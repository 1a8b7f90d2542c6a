"""Snapshots: what the market is after so many inputs, so that nobody has to apply them from the first one on.

A file of one snapshot: ``magic, u64 length, u32 crc32, msgpack`` (little-endian), named after the last input in it. It
is written under a hidden name, synced, renamed, and its directory synced; when its name is there, all of it is, and so
are the bytes of the streams that it counts on.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec

from exchange_server.errors import JournalError
from exchange_server.journal.disk import LOCAL_DISK, Disk, write_whole
from exchange_server.journal.numbered_file import Position

__all__ = ["SNAPSHOT_VERSION", "Snapshot", "SnapshotDirectory"]

SNAPSHOT_VERSION: Final = 1

_MAGIC: Final = b"deltabook snapshot\n"
_FRAME: Final = struct.Struct("<QI")
_SUFFIX: Final = ".snapshot"


class Snapshot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that a market's future depends on, after an input."""

    version: int
    """Version of the format."""
    session: str
    """Whose it is."""
    inputs: int
    """Inputs that it holds the effect of: the next one is `inputs` + 1."""
    time_ns: int
    """Market time of the last of them."""
    market: bytes
    """State of the market."""
    encoders: dict[str, bytes]
    """State of each form of the feed, as msgpack."""
    streams: dict[str, Position]
    """Position of each stream's file, by its name in the directory."""


class SnapshotDirectory:
    """The snapshots of one journal."""

    def __init__(self, directory: Path, disk: Disk = LOCAL_DISK) -> None:
        self._directory = directory
        self._disk = disk
        self.damaged: dict[Path, str] = {}
        """Those that were passed over, and why."""

    def inputs(self) -> list[int]:
        """The inputs at which there are snapshots, good or not, the newest first."""
        names = [name for name in self._disk.names(self._directory) if name.endswith(_SUFFIX)]
        return [int(stem) for name in reversed(names) if (stem := name.removesuffix(_SUFFIX)).isdigit()]

    def newest(self, at_most: int | None = None) -> Iterator[Snapshot]:
        """Good snapshots that are not behind an input, the newest first; every byte of them is checked."""
        for inputs in self.inputs():
            if at_most is None or inputs <= at_most:
                snapshot = self.read(inputs)
                if snapshot is not None:
                    yield snapshot

    def read(self, inputs: int) -> Snapshot | None:
        """The snapshot at an input, None if there is none or it is damaged."""
        path = self.path(inputs)
        try:
            descriptor = self._disk.open(path, read_only=True)
            try:
                data = self._disk.pread(descriptor, self._disk.size(descriptor), 0)
            finally:
                self._disk.close(descriptor)
            snapshot = _decoded(data)
            if snapshot.inputs != inputs:
                raise ValueError(f"expected a snapshot of input {inputs}, was {snapshot.inputs}")
        except FileNotFoundError:
            return None
        except (ValueError, OSError) as error:
            self.damaged[path] = str(error)
            return None
        return snapshot

    def path(self, inputs: int) -> Path:
        """Return the path of the snapshot at an input, whether it exists or not."""
        return self._directory / f"{inputs:015d}{_SUFFIX}"

    def write(self, snapshot: Snapshot) -> int:
        """Write one, durably; gives its bytes. Raises `JournalError`, and leaves nothing of it then."""
        payload = msgspec.msgpack.encode(snapshot)
        pieces = (_MAGIC + _FRAME.pack(len(payload), crc32(payload)), payload)
        path = self.path(snapshot.inputs)
        hidden = path.with_name(f".{path.name}")
        try:
            self._disk.make_directory(self._directory)
            self._tidy()
            try:
                self._fill(hidden, pieces)
            except OSError:
                # A full disk has no room for half a snapshot.
                self._disk.unlink(hidden)
                raise
            self._disk.rename(hidden, path)
            self._disk.sync_directory(self._directory)
        except OSError as error:
            raise JournalError(f"expected to write {path}, was {error.strerror}") from error
        return sum(map(len, pieces))

    def _tidy(self) -> None:
        """Remove what a crash has left half written."""
        for name in self._disk.names(self._directory):
            if name.startswith(".") and name.endswith(_SUFFIX):
                self._disk.unlink(self._directory / name)

    def _fill(self, path: Path, pieces: tuple[bytes, ...]) -> None:
        descriptor = self._disk.open(path, create=True, empty=True)
        try:
            offset = 0
            for piece in pieces:
                write_whole(self._disk.pwrite, descriptor, piece, offset)
                offset += len(piece)
            self._disk.sync(descriptor)
        finally:
            self._disk.close(descriptor)

    def retire(self, keep: int) -> int | None:
        """Remove all but the newest so many; gives the input of the oldest that stays, None if there is none."""
        inputs = self.inputs()
        for old in reversed(inputs[keep:]):
            self._disk.unlink(self.path(old))
        if inputs[keep:]:
            self._disk.sync_directory(self._directory)
        return inputs[:keep][-1] if inputs else None


def _decoded(data: bytes) -> Snapshot:
    """The snapshot in a file's bytes; raises `ValueError` for any that are not as they were written."""
    begin = len(_MAGIC) + _FRAME.size
    if data[: len(_MAGIC)] != _MAGIC or len(data) < begin:
        raise ValueError("expected a snapshot, was something else")
    length, checksum = _FRAME.unpack_from(data, len(_MAGIC))
    if len(data) != begin + length or crc32(memoryview(data)[begin:]) != checksum:
        raise ValueError("expected a whole snapshot, was a damaged one")
    snapshot = msgspec.msgpack.decode(memoryview(data)[begin:], type=Snapshot)
    if snapshot.version != SNAPSHOT_VERSION:
        raise ValueError(f"expected a snapshot of version {SNAPSHOT_VERSION}, was {snapshot.version}")
    return snapshot

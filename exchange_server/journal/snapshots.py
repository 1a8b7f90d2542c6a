"""Snapshots: the state of the market after an input, from which a recovery can start in place of the first input.

A file contains one snapshot: ``magic, u64 length, u32 crc32, msgpack`` (little-endian). It is named after its last
input. It is written under a hidden name, synced and renamed, and then its directory is synced. So a file with a final
name is complete, and the bytes of the streams whose positions it contains are on disk.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec

from exchange_server.errors import JournalError
from exchange_server.journal.disk import LOCAL_DISK, JournalDisk, write_whole
from exchange_server.journal.numbered_file import Position

__all__ = ["SNAPSHOT_VERSION", "JournalSnapshots", "Snapshot"]

SNAPSHOT_VERSION: Final = 1

_MAGIC: Final = b"deltabook snapshot\n"
_FRAME: Final = struct.Struct("<QI")
_SUFFIX: Final = ".snapshot"


class Snapshot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Complete state of an exchange after an input, from which the market continues."""

    version: int
    """Version of the format."""
    session: str
    """Name of the exchange's session."""
    inputs: int
    """Number of inputs applied so far; the next input is number `inputs` + 1."""
    time_ns: int
    """Market time of the last input."""
    market: bytes
    """State of the market."""
    encoders: dict[str, bytes]
    """Name of a form of the feed (such as ``itch``) → state of its encoder, as msgpack."""
    streams: dict[str, Position]
    """Position of each stream's file, by its name in the directory."""


class JournalSnapshots:
    """The snapshots of one journal."""

    def __init__(self, directory: Path, disk: JournalDisk = LOCAL_DISK) -> None:
        self._directory = directory
        self._disk = disk
        self.damaged: dict[Path, str] = {}
        """Damaged snapshot, which is not used → reason."""

    def inputs(self) -> list[int]:
        """Return the number of the last input of each snapshot, damaged ones included, newest first."""
        names = [name for name in self._disk.names(self._directory) if name.endswith(_SUFFIX)]
        return [int(stem) for name in reversed(names) if (stem := name.removesuffix(_SUFFIX)).isdigit()]

    def newest(self, at_most: int | None = None) -> Iterator[Snapshot]:
        """Yield intact snapshots up to and including an input, newest first; every byte of them is checked."""
        for inputs in self.inputs():
            if at_most is None or inputs <= at_most:
                snapshot = self.read(inputs)
                if snapshot is not None:
                    yield snapshot

    def read(self, inputs: int) -> Snapshot | None:
        """Return the snapshot at an input; None if there is none or it is damaged."""
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
        """Return the path of the snapshot at an input; the file need not exist."""
        return self._directory / f"{inputs:015d}{_SUFFIX}"

    def write(self, snapshot: Snapshot) -> int:
        """Write a snapshot durably and return its size in bytes.

        Raise `JournalError` if that fails; no partial file has the snapshot's name then.
        """
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
                # If the disk is full, the partial file must not keep its space.
                self._disk.unlink(hidden)
                raise
            self._disk.rename(hidden, path)
            self._disk.sync_directory(self._directory)
        except OSError as error:
            raise JournalError(f"expected to write {path}, was {error.strerror}") from error
        return sum(map(len, pieces))

    def _tidy(self) -> None:
        """Remove partial files left by a crash."""
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
        """Remove all but the newest ``keep`` snapshots; return the number of inputs of the oldest one left, or None."""
        inputs = self.inputs()
        for old in reversed(inputs[keep:]):
            self._disk.unlink(self.path(old))
        if inputs[keep:]:
            self._disk.sync_directory(self._directory)
        return inputs[:keep][-1] if inputs else None


def _decoded(data: bytes) -> Snapshot:
    """Decode the bytes of a file; raise `ValueError` if they are damaged or of another version."""
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

"""Disk operations of the journal, with their guarantees after a crash of the machine.

The bytes and the name of a file become durable independently. Bytes are durable when `JournalDisk.sync` of the file
returns. A name that was made, renamed or removed is durable when `JournalDisk.sync_directory` of its directory returns.
Until then a crash of the machine may leave any part of the changes, in any order. The end of the process alone loses
nothing.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

__all__ = ["LOCAL_DISK", "JournalDisk", "write_whole"]

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class JournalDisk:
    """Files of this machine, by descriptor. Every operation may raise `OSError`.

    Tests replace the class with a disk that stops, fails and loses writes. It has no state.
    """

    def open(self, path: Path, *, create: bool = False, empty: bool = False, read_only: bool = False) -> int:
        """Return a descriptor of a file.

        Raise `FileNotFoundError` if the file is missing, unless ``create`` makes it.
        """
        # A pipe in the place of a file is an error: without O_NONBLOCK, opening it would wait for a writer.
        flags = os.O_NONBLOCK | (os.O_RDONLY if read_only else os.O_RDWR)
        return os.open(path, flags | (os.O_CREAT if create else 0) | (os.O_TRUNC if empty else 0), 0o644)

    def pread(self, descriptor: int, length: int, offset: int) -> bytes:
        """Return ``length`` bytes from an offset on, fewer at the end of the file."""
        return os.pread(descriptor, length, offset)

    def pwrite(self, descriptor: int, data: bytes | memoryview, offset: int) -> int:
        """Write at an offset; return how many bytes were written, which may be fewer."""
        return os.pwrite(descriptor, data, offset)

    def close(self, descriptor: int) -> None:
        """Close a descriptor."""
        os.close(descriptor)

    def size(self, descriptor: int) -> int:
        """Return the size of a file in bytes."""
        return os.fstat(descriptor).st_size

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut a file to this number of bytes."""
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        """Make a file's bytes durable."""
        os.fsync(descriptor)

    def names(self, directory: Path) -> list[str]:
        """Return the names in a directory in ascending order, none if there is no directory."""
        try:
            return sorted(path.name for path in directory.iterdir())
        except FileNotFoundError:
            return []

    def is_file(self, path: Path) -> bool:
        """Return True if the path is a file, False if it is a directory or missing."""
        return path.is_file()

    def make_directory(self, path: Path) -> None:
        """Make a directory and its missing parents; do nothing if it exists."""
        path.mkdir(parents=True, exist_ok=True)

    def rename(self, path: Path, to: Path) -> None:
        """Rename a file within its directory atomically, replacing a file with the new name."""
        path.rename(to)

    def unlink(self, path: Path) -> None:
        """Remove a file; do nothing if there is none."""
        path.unlink(missing_ok=True)

    def sync_directory(self, path: Path) -> None:
        """Make the names in a directory durable."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def boot_id(self) -> str:
        """Return an identifier of this run of the system, within which no write is lost; empty if unknown."""
        try:
            return _BOOT_ID.read_text("ascii").strip()
        except OSError:
            return ""

    def lock(self, descriptor: int) -> None:
        """Lock a file until its descriptor is closed; raise `BlockingIOError` if another process has locked it."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def write_whole(
    pwrite: Callable[[int, bytes | memoryview, int], int], descriptor: int, data: bytes | memoryview, offset: int
) -> None:
    """Write all of the bytes, in as many writes as needed: a single write may be partial, as on a full disk."""
    rest = memoryview(data)
    while rest:
        written = pwrite(descriptor, rest, offset)
        offset, rest = offset + written, rest[written:]


LOCAL_DISK: Final = JournalDisk()

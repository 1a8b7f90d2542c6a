"""The disk as the journal needs it: few operations, each of which says what survives a crash of the machine.

A file's bytes and its name become durable apart from each other: bytes when `Disk.sync` of the file returns, a name
(made, renamed or removed) when `Disk.sync_directory` of its directory returns. Until then a crash of the machine may
leave any of them, in any order. The death of the process alone leaves everything that was done.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

__all__ = ["LOCAL_DISK", "Disk", "write_whole"]

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class Disk:
    """Files of this machine, by descriptor. Every operation may raise `OSError`.

    A class of its own so that tests can put a disk in its place that stops, fails and forgets. Holds nothing.
    """

    def open(self, path: Path, *, create: bool = False, empty: bool = False, read_only: bool = False) -> int:
        """A descriptor of a file; raises `FileNotFoundError` where there is none and none is to be made."""
        flags = os.O_RDONLY if read_only else os.O_RDWR
        return os.open(path, flags | (os.O_CREAT if create else 0) | (os.O_TRUNC if empty else 0), 0o644)

    def pread(self, descriptor: int, length: int, offset: int) -> bytes:
        """So many bytes from an offset on, fewer at the end of the file."""
        return os.pread(descriptor, length, offset)

    def pwrite(self, descriptor: int, data: bytes | memoryview, offset: int) -> int:
        """Write at an offset; gives how many bytes were written."""
        return os.pwrite(descriptor, data, offset)

    def close(self, descriptor: int) -> None:
        """Give a descriptor back."""
        os.close(descriptor)

    def size(self, descriptor: int) -> int:
        """Bytes of a file."""
        return os.fstat(descriptor).st_size

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut a file."""
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        """Make a file's bytes durable."""
        os.fsync(descriptor)

    def names(self, directory: Path) -> list[str]:
        """The names in a directory in ascending order, none where there is no directory."""
        try:
            return sorted(path.name for path in directory.iterdir())
        except FileNotFoundError:
            return []

    def is_file(self, path: Path) -> bool:
        """Return True if there is a file of this name, and no directory."""
        return path.is_file()

    def make_directory(self, path: Path) -> None:
        """Make a directory, and those above it that are not there; nothing happens where it is there."""
        path.mkdir(parents=True, exist_ok=True)

    def rename(self, path: Path, to: Path) -> None:
        """Give a file another name in its directory, in the place of whatever has it; atomic."""
        path.rename(to)

    def unlink(self, path: Path) -> None:
        """Remove a file; nothing happens where there is none."""
        path.unlink(missing_ok=True)

    def sync_directory(self, path: Path) -> None:
        """Make the names in a directory durable."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def boot_id(self) -> str:
        """Tells the run of the system from others: within one nothing is lost that was written. Empty if not known."""
        try:
            return _BOOT_ID.read_text("ascii").strip()
        except OSError:
            return ""

    def lock(self, descriptor: int) -> None:
        """Hold a file until its descriptor is closed; raises `BlockingIOError` if another process holds it."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def write_whole(
    pwrite: Callable[[int, bytes | memoryview, int], int], descriptor: int, data: bytes | memoryview, offset: int
) -> None:
    """All of the bytes, in as many writes as it takes: one may do less than it was asked, as on a disk that fills."""
    rest = memoryview(data)
    while rest:
        written = pwrite(descriptor, rest, offset)
        offset, rest = offset + written, rest[written:]


LOCAL_DISK: Final = Disk()

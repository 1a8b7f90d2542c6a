"""The disk as the log needs it: few operations, each of which says what survives a crash of the machine.

A file's bytes and its name become durable apart from each other: bytes when `Disk.write`, `Disk.append` or
`Disk.truncate` returns, a name (made, renamed, linked or removed) when `Disk.sync_directory` of its directory returns.
Until then a crash may leave the old name or the new one, and of several changes any.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa

__all__ = ["LOCAL_DISK", "Disk", "LocalDisk"]


class Disk(ABC):
    """Files in directories. Every operation may raise `OSError`, after which a file it wrote holds anything.

    Thread-safe as far as different files are concerned; a file has one writer at a time.
    """

    @abstractmethod
    def write(self, path: Path, pieces: Iterable[bytes | pa.Buffer]) -> None:
        """Create a file or replace what is in it; its bytes are durable when this returns, its name is not."""

    @abstractmethod
    def append(self, path: Path, data: bytes) -> None:
        """Add to the end of a file, which is created if it is not there; durable as after `write`."""

    @abstractmethod
    def truncate(self, path: Path, size: int) -> None:
        """Cut a file to so many bytes, durably."""

    @abstractmethod
    def read(self, path: Path) -> pa.Buffer:
        """All bytes of a file, mapped rather than copied where that can be; they stay readable once it is removed.

        Raises `FileNotFoundError`.
        """

    @abstractmethod
    def rename(self, path: Path, to: Path) -> None:
        """Give a file another name in the same directory, in the place of whatever has it; atomic."""

    @abstractmethod
    def link(self, path: Path, to: Path) -> None:
        """Give a file a second name; raises `FileExistsError` where the name is taken, `FileNotFoundError`."""

    @abstractmethod
    def unlink(self, path: Path) -> None:
        """Remove a name, and with the last one the file; nothing happens where there is none."""

    @abstractmethod
    def exists(self, path: Path) -> bool:
        """Whether there is a file or directory of this name."""

    @abstractmethod
    def size(self, path: Path) -> int:
        """Bytes of a file; raises `FileNotFoundError`."""

    @abstractmethod
    def names(self, directory: Path) -> list[str]:
        """The names in a directory in ascending order, none where there is no directory."""

    @abstractmethod
    def make_directory(self, path: Path) -> None:
        """Create a directory and those above it that are not there, durably; nothing happens where it is there."""

    @abstractmethod
    def sync_directory(self, path: Path) -> None:
        """Make the names in a directory durable: those that are there, and that others are gone."""


class LocalDisk(Disk):
    """The file system of this machine. Holds nothing, so that any process and thread may have its own."""

    def write(self, path: Path, pieces: Iterable[bytes | pa.Buffer]) -> None:
        with _named(path), path.open("wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())

    def append(self, path: Path, data: bytes) -> None:
        with _named(path), path.open("ab") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def truncate(self, path: Path, size: int) -> None:
        with _named(path), path.open("r+b") as file:
            file.truncate(size)
            os.fsync(file.fileno())

    def read(self, path: Path) -> pa.Buffer:
        with pa.memory_map(str(path)) as file:
            return file.read_buffer()

    def rename(self, path: Path, to: Path) -> None:
        path.rename(to)

    def link(self, path: Path, to: Path) -> None:
        os.link(path, to)

    def unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def exists(self, path: Path) -> bool:
        return path.exists()

    def size(self, path: Path) -> int:
        return path.stat().st_size

    def names(self, directory: Path) -> list[str]:
        try:
            return sorted(path.name for path in directory.iterdir())
        except FileNotFoundError:
            return []

    def make_directory(self, path: Path) -> None:
        if not path.is_dir():
            self.make_directory(path.parent)
            path.mkdir(exist_ok=True)
            # Whoever lost the race to make it relies on the name as well: each syncs it for itself.
            self.sync_directory(path.parent)

    def sync_directory(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            with _named(path):
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Errors of what is within say which file it is about: those of writing and syncing do not by themselves."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


LOCAL_DISK: Final = LocalDisk()

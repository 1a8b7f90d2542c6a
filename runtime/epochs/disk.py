"""Disk operations of the log, each with its guarantee for a crash of the machine.

The bytes of a file and its name become durable separately. Bytes are durable when `Disk.write`, `Disk.append` or
`Disk.truncate` returns. A name that was created, renamed, linked or removed is durable when `Disk.sync_directory` of
its directory returns. Until then a crash may leave the old name or the new one, and any subset of several changes of
names.
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
    """Files in directories. Every operation may raise `OSError`; the content of a file that a failed operation wrote is
    undefined.

    Thread-safe for different files; a file has one writer at a time.
    """

    @abstractmethod
    def write(self, path: Path, pieces: Iterable[bytes | pa.Buffer]) -> None:
        """Create a file or replace its content. When the call returns, the bytes are durable; the name is not."""

    @abstractmethod
    def append(self, path: Path, data: bytes) -> None:
        """Append to a file, which is created if it does not exist; durable as after `write`."""

    @abstractmethod
    def truncate(self, path: Path, size: int) -> None:
        """Cut a file to this number of bytes, durably."""

    @abstractmethod
    def read(self, path: Path) -> pa.Buffer:
        """Return all bytes of a file, mapped rather than copied where possible; they stay readable after the file is
        removed.

        Raise `FileNotFoundError` if there is none.
        """

    @abstractmethod
    def rename(self, path: Path, to: Path) -> None:
        """Give a file another name in the same directory, atomically; a file of that name is replaced."""

    @abstractmethod
    def link(self, path: Path, to: Path) -> None:
        """Give a file a second name; raise `FileExistsError` if the name is taken.

        Raise `FileNotFoundError` if there is no such file.
        """

    @abstractmethod
    def unlink(self, path: Path) -> None:
        """Remove a name, and the file with its last name; do nothing if there is no such name."""

    @abstractmethod
    def exists(self, path: Path) -> bool:
        """Return True if there is a file or directory of this name."""

    @abstractmethod
    def size(self, path: Path) -> int:
        """Return the size of a file in bytes; raise `FileNotFoundError` if there is none."""

    @abstractmethod
    def names(self, directory: Path) -> list[str]:
        """Return the names in a directory in ascending order, none if there is no directory."""

    @abstractmethod
    def make_directory(self, path: Path) -> None:
        """Create a directory and its missing parents, durably; do nothing if it exists."""

    @abstractmethod
    def sync_directory(self, path: Path) -> None:
        """Make all changes of names in a directory durable, removals too."""


class LocalDisk(Disk):
    """File system of this machine. It has no state, so that any process and thread may have its own."""

    def write(self, path: Path, pieces: Iterable[bytes | pa.Buffer]) -> None:
        with _naming(path), path.open("wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())

    def append(self, path: Path, data: bytes) -> None:
        with _naming(path), path.open("ab") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def truncate(self, path: Path, size: int) -> None:
        with _naming(path), path.open("r+b") as file:
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
            # Another process may have made it first and not have synced its name yet: each process syncs the name.
            self.sync_directory(path.parent)

    def sync_directory(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            with _naming(path):
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Add the file's name to an `OSError`, because errors of writes and syncs have none."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


LOCAL_DISK: Final = LocalDisk()

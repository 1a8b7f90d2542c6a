"""Disk in memory for the exchange's journal, that can stop after any step, lose unsynced data, and fail.

A crash of the machine keeps every byte that was synced and every name whose directory was synced. Of the later
operations (writes, cuts, and names made, renamed or removed) it keeps those that the caller chooses; it keeps an
operation as a whole or not at all. So a file may have a hole of zeros before later bytes. The end of the process loses
nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from exchange_server.journal import JournalDisk

__all__ = ["Choice", "DescriptorDisk", "StoppedError", "keep_all", "keep_none"]

Choice = Callable[[], bool]
"""Function that returns True if the next unsynced change survives a crash."""


class StoppedError(BaseException):
    """Represents the end of the process: nothing may catch it."""


def keep_all() -> bool:
    """Keep every change, as on a fast disk."""
    return True


def keep_none() -> bool:
    """Keep no change, as on a slow disk."""
    return False


class _File:
    """File that names refer to."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = bytearray()
        self.changes: list[tuple[int, bytes | None]] = []
        """Writes since the last sync: offset and bytes, or None for a cut at the offset."""


class DescriptorDisk(JournalDisk):
    """Counts its steps; not thread-safe.

    ``stop_after`` is the number of steps that are executed; the next step stops the process. A stopped write has
    written half of its bytes. ``failing`` is called before each step with the step's name and path, and returns the
    error number with which the step fails, or 0. A failed write has written half of its bytes as well.
    """

    def __init__(self) -> None:
        self.stop_after: int | None = None
        self.failing: Callable[[str, Path], int] = lambda operation, path: 0
        self.steps: list[str] = []
        """Executed steps, for the messages of tests."""
        self._names: dict[Path, _File] = {}
        self._durable: dict[Path, _File] = {}
        self._changes: dict[Path, list[tuple[Path, _File | None]]] = {}
        self._directories: set[Path] = {Path("/")}
        self._open: dict[int, tuple[_File, Path]] = {}
        self._held: dict[Path, int] = {}
        self._next = 3
        self._boots = 1

    def crash(self, choice: Choice = keep_none) -> None:
        """Crash and restart the machine."""
        self._boots += 1
        for changes in self._changes.values():
            for path, file in changes:
                if not choice():
                    continue
                if file is None:
                    self._durable.pop(path, None)
                else:
                    self._durable[path] = file
        self._changes.clear()
        self._names = dict(self._durable)
        for file in self._names.values():
            for offset, data in file.changes:
                if choice():
                    _change(file.durable, offset, data)
            file.changes.clear()
            file.data = bytearray(file.durable)
        self.restart()

    def restart(self) -> None:
        """Restart the process after a kill; the machine has lost nothing."""
        self.stop_after = None
        self.failing = lambda operation, path: 0
        self.steps = []
        self._open.clear()
        self._held.clear()

    def contents(self) -> dict[str, bytes]:
        """Return the bytes of every file, by its path."""
        return {str(path): bytes(file.data) for path, file in sorted(self._names.items())}

    def damage(self, path: Path, change: Callable[[bytes], bytes]) -> None:
        """Change the bytes of a file without its owner's knowledge."""
        file = self._names[path]
        file.data = bytearray(change(bytes(file.data)))
        file.durable, file.changes = bytearray(file.data), []

    def _step(self, operation: str, path: Path) -> None:
        if self.stop_after is not None and len(self.steps) >= self.stop_after:
            raise StoppedError(f"before {operation} {path.name}, step {len(self.steps)}")
        if number := self.failing(operation, path):
            raise OSError(number, os.strerror(number), str(path))
        self.steps.append(f"{operation} {path.name}")

    # -- the disk

    def boot_id(self) -> str:
        return f"boot {self._boots}"

    def open(self, path: Path, *, create: bool = False, empty: bool = False, read_only: bool = False) -> int:
        if path not in self._names:
            if not create:
                raise FileNotFoundError(2, "No such file or directory", str(path))
            assert path.parent in self._directories, f"expected a directory for {path}"
            self._step("create", path)
            self._name(path, _File())
        file = self._names[path]
        if empty and file.data:
            self._step("truncate", path)
            self._write(file, 0, None)
        self._next += 1
        self._open[self._next] = file, path
        return self._next

    def pread(self, descriptor: int, length: int, offset: int) -> bytes:
        return bytes(self._open[descriptor][0].data[offset : offset + length])

    def pwrite(self, descriptor: int, data: bytes | memoryview, offset: int) -> int:
        file, path = self._open[descriptor]
        data = bytes(data)
        try:
            self._step("write", path)
        except BaseException:
            self._write(file, offset, data[: len(data) // 2])
            raise
        self._write(file, offset, data)
        return len(data)

    def close(self, descriptor: int) -> None:
        _, path = self._open.pop(descriptor, (None, Path()))
        if self._held.get(path) == descriptor:
            del self._held[path]

    def size(self, descriptor: int) -> int:
        return len(self._open[descriptor][0].data)

    def truncate(self, descriptor: int, size: int) -> None:
        file, path = self._open[descriptor]
        self._step("truncate", path)
        self._write(file, size, None)

    def sync(self, descriptor: int) -> None:
        file, path = self._open[descriptor]
        self._step("sync", path)
        file.durable, file.changes = bytearray(file.data), []

    def names(self, directory: Path) -> list[str]:
        return sorted(path.name for path in {*self._names, *self._directories} if path.parent == directory)

    def is_file(self, path: Path) -> bool:
        return path in self._names

    def make_directory(self, path: Path) -> None:
        self._directories |= {path, *path.parents}

    def rename(self, path: Path, to: Path) -> None:
        assert path.parent == to.parent, f"expected one directory, was {path} and {to}"
        self._step("rename", path)
        file = self._names[path]
        self._name(path, None)
        self._name(to, file)

    def unlink(self, path: Path) -> None:
        if path in self._names:
            self._step("unlink", path)
            self._name(path, None)

    def sync_directory(self, path: Path) -> None:
        self._step("sync", path)
        for name, file in self._changes.pop(path, []):
            if file is None:
                self._durable.pop(name, None)
            else:
                self._durable[name] = file

    def lock(self, descriptor: int) -> None:
        path = self._open[descriptor][1]
        if self._held.setdefault(path, descriptor) != descriptor:
            raise BlockingIOError(11, "Resource temporarily unavailable", str(path))

    def _name(self, path: Path, file: _File | None) -> None:
        if file is None:
            del self._names[path]
        else:
            self._names[path] = file
        self._changes.setdefault(path.parent, []).append((path, file))

    def _write(self, file: _File, offset: int, data: bytes | None) -> None:
        _change(file.data, offset, data)
        file.changes.append((offset, data))


def _change(data: bytearray, offset: int, written: bytes | None) -> None:
    if written is None:
        del data[offset:]
        return
    data.extend(bytes(max(0, offset - len(data))))
    data[offset : offset + len(written)] = written

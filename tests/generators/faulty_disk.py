"""Disk in memory that can stop after any number of steps, lose unsynced data, and fail on request.

A crash keeps every byte that was synced and every name whose directory was synced. Of later changes to names it keeps
those that the caller chooses; it keeps a change as a whole or not at all. A file that was being written is torn.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pyarrow as pa

from runtime.epochs import Disk
from runtime.state import Edit, MemoryStore

__all__ = ["Choice", "FaultyDisk", "FaultyStore", "StoppedError", "keep_all", "keep_none"]

Change = tuple[tuple[Path, "_File | None"], ...]
"""Names that change together, with the file of each afterwards; None: it is removed."""
Choice = Callable[[Sequence[Change]], Iterable[bool]]
"""Function that chooses which of a directory's unsynced changes survive a crash."""


class StoppedError(BaseException):
    """Represents the end of the process: nothing may catch it."""


class _File:
    """File that names refer to."""

    def __init__(self) -> None:
        self.data = b""


def keep_all(changes: Sequence[Change]) -> Iterable[bool]:
    """Keep every change, as on a fast disk."""
    return [True] * len(changes)


def keep_none(changes: Sequence[Change]) -> Iterable[bool]:
    """Keep no change, as on a slow disk."""
    return [False] * len(changes)


class FaultyDisk(Disk):
    """Counts its steps; not thread-safe.

    ``stop_after`` is the number of steps that are executed; the next step stops the process. A stopped write has
    written half of its bytes. ``failing`` is called before each operation with its name and path, and returns the error
    number with which the operation fails, or 0. A failed write has written half of its bytes as well.
    """

    def __init__(self) -> None:
        self.stop_after: int | None = None
        self.failing: Callable[[str, Path], int] = lambda operation, path: 0
        self.steps: list[str] = []
        """Executed steps, for the messages of tests."""
        self._names: dict[Path, _File] = {}
        self._durable: dict[Path, _File] = {}
        self._changes: dict[Path, list[Change]] = {}
        self._directories: set[Path] = {Path("/")}

    def crash(self, choice: Choice = keep_none) -> None:
        """Crash and restart the machine; ``choice`` decides about unsynced changes."""
        for changes in self._changes.values():
            for change, stays in zip(changes, choice(changes), strict=True):
                if stays:
                    _apply(self._durable, change)
        self._names = dict(self._durable)
        self._changes.clear()
        self.restart()

    def restart(self) -> None:
        """Restart the process after a kill; the machine has lost nothing."""
        self.stop_after = None
        self.failing = lambda operation, path: 0
        self.steps = []

    def step(self, operation: str, path: Path) -> None:
        """Execute one more step; raise `StoppedError` or `OSError` in its place."""
        if self.stop_after is not None and len(self.steps) >= self.stop_after:
            raise StoppedError(f"before {operation} {path.name}, step {len(self.steps)}")
        if number := self.failing(operation, path):
            raise OSError(number, os.strerror(number), str(path))
        self.steps.append(f"{operation} {path.name}")

    def damage(self, path: Path, change: Callable[[bytes], bytes]) -> None:
        """Change the bytes of a file without its owner's knowledge."""
        self._names[path].data = change(self._names[path].data)

    # -- the disk

    def write(self, path: Path, pieces: Iterable[bytes | pa.Buffer]) -> None:
        file = self._open(path)
        file.data = b""
        data = b"".join(map(bytes, pieces))
        file.data = data[: len(data) // 2]
        self.step("write", path)
        file.data = data

    def append(self, path: Path, data: bytes) -> None:
        file = self._open(path)
        before = file.data
        file.data = before + data[: len(data) // 2]
        self.step("append", path)
        file.data = before + data

    def truncate(self, path: Path, size: int) -> None:
        self.step("truncate", path)
        self._file(path).data = self._file(path).data[:size]

    def read(self, path: Path) -> pa.Buffer:
        if number := self.failing("read", path):
            raise OSError(number, os.strerror(number), str(path))
        return pa.py_buffer(self._file(path).data)

    def rename(self, path: Path, to: Path) -> None:
        assert path.parent == to.parent, f"expected one directory, was {path} and {to}"
        self.step("rename", path)
        self._change(path.parent, ((path, None), (to, self._file(path))))

    def link(self, path: Path, to: Path) -> None:
        self.step("link", path)
        if to in self._names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(to))
        self._expect_directory(to.parent)
        self._change(to.parent, ((to, self._file(path)),))

    def unlink(self, path: Path) -> None:
        if path in self._names:
            self.step("unlink", path)
            self._change(path.parent, ((path, None),))

    def exists(self, path: Path) -> bool:
        return path in self._names or path in self._directories

    def size(self, path: Path) -> int:
        return len(self._file(path).data)

    def names(self, directory: Path) -> list[str]:
        return sorted(path.name for path in {*self._names, *self._directories} if path.parent == directory)

    def make_directory(self, path: Path) -> None:
        if path not in self._directories:
            self.step("make", path)
            self._directories |= {path, *path.parents}

    def sync_directory(self, path: Path) -> None:
        self._expect_directory(path)
        self.step("sync", path)
        for change in self._changes.pop(path, []):
            _apply(self._durable, change)

    def _file(self, path: Path) -> _File:
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return self._names[path]

    def _open(self, path: Path) -> _File:
        self._expect_directory(path.parent)
        if path not in self._names:
            self.step("create", path)
            self._change(path.parent, ((path, _File()),))
        return self._names[path]

    def _change(self, directory: Path, change: Change) -> None:
        _apply(self._names, change)
        self._changes.setdefault(directory, []).append(change)

    def _expect_directory(self, path: Path) -> None:
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def _apply(names: dict[Path, _File], change: Change) -> None:
    for path, file in change:
        if file is None:
            names.pop(path, None)
        else:
            names[path] = file


class FaultyStore(MemoryStore):
    """Store whose commit is one step of a disk: done and durable, or not done."""

    def __init__(self, disk: FaultyDisk) -> None:
        super().__init__()
        self._disk = disk

    def commit(self, edits: Sequence[Edit]) -> None:
        """See `Store`."""
        self._disk.step("commit", Path("state"))
        super().commit(edits)

"""The journal's disk in memory: it loses unsynced data in a crash, and fails on request."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path
from typing import Final

from exchange_server.journal.disk import JournalDisk
from tests.simulation.faults import Faults

__all__ = ["Platter", "SimulatedDisk"]


_SHORT_WRITES: Final = 7
"""One in this many writes is partial, and reports it."""


class _File:
    """File: its bytes as the process sees them, and as a crash of the machine would leave them at worst."""

    __slots__ = ("data", "durable", "is_locked")

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = b""
        self.is_locked = False


class Platter:
    """Data that survives processes: files by their path. Directories exist once they were made."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.files: dict[Path, _File] = {}
        self._durable: dict[Path, _File] = {}
        self._changes: list[dict[Path, _File | None]] = []
        """Changes of names since they were last synced, each atomic."""
        self.directories: set[Path] = set()
        self.boots = 1
        """Number of runs of the machine so far."""

    def change(self, change: dict[Path, _File | None]) -> None:
        """Change names."""
        _apply(self.files, change)
        self._changes.append(change)

    def sync_names(self, directory: Path) -> None:
        """Make the names of a directory durable."""
        later = []
        for change in self._changes:
            if all(path.parent == directory for path in change):
                _apply(self._durable, change)
            else:
                later.append(change)
        self._changes = later

    def stop_process(self) -> None:
        """End the process: all of its writes stay, and its locks are released."""
        for file in self.files.values():
            file.is_locked = False

    def stop_machine(self) -> None:
        """Crash the machine: unsynced bytes are whole, torn, rotten or gone, and any changes of names may be lost."""
        self.boots += 1
        share = self._chance.choice((0.0, 0.5, 1.0))
        names = dict(self._durable)
        for change in self._changes:
            if self._chance.random() < share:
                _apply(names, change)
        self.files, self._changes = names, []
        self._durable = dict(names)
        for file in {id(file): file for file in names.values()}.values():
            file.is_locked = False
            if file.data != file.durable:
                file.data = bytearray(self._torn(file.durable, bytes(file.data)))
                file.durable = bytes(file.data)

    def _torn(self, durable: bytes, data: bytes) -> bytes:
        fate = self._chance.randrange(4)
        if fate == 0:
            return durable
        if fate == 1:
            return data
        both = min(len(durable), len(data))
        kept = next((at for at in range(both) if durable[at] != data[at]), both)
        end = self._chance.randint(kept, len(data))
        if fate == 2 or end == len(data):
            return data[:end]
        return data[:end] + self._chance.randbytes(len(data) - end)


def _apply(names: dict[Path, _File], change: dict[Path, _File | None]) -> None:
    for path, file in change.items():
        if file is None:
            names.pop(path, None)
        else:
            names[path] = file


class SimulatedDisk(JournalDisk):
    """Disk as seen by one process; once the process is dead none of its writes reaches the platter."""

    def __init__(self, platter: Platter, faults: Faults) -> None:
        self._platter = platter
        self._faults = faults
        self._open: dict[int, tuple[Path, _File]] = {}
        self._next = 3
        self._writes = 0
        self.pread = self._pread  # type: ignore[method-assign] # static in the real one
        self.pwrite = self._pwrite  # type: ignore[assignment, method-assign]
        self.close = self._close  # type: ignore[method-assign]

    def boot_id(self) -> str:
        return f"boot {self._platter.boots}"

    def open(self, path: Path, *, create: bool = False, empty: bool = False, read_only: bool = False) -> int:
        file = self._platter.files.get(path)
        if file is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            if path.parent not in self._platter.directories:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path.parent))
            self._point("create", path)
            file = _File()
            self._platter.change({path: file})
        elif empty:
            self._point("empty", path)
            file.data = bytearray()
        descriptor, self._next = self._next, self._next + 1
        self._open[descriptor] = (path, file)
        return descriptor

    def _pread(self, descriptor: int, length: int, offset: int) -> bytes:
        return bytes(self._open[descriptor][1].data[offset : offset + length])

    def _pwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        path, file = self._open[descriptor]
        whole = bytes(data)
        half = whole[: len(whole) // 2]
        self._faults.point(f"write {path.name}")
        refusal = self._faults.refusal(f"write {path.name}", grows=True)
        if refusal is not None or self._faults.crash_in == 0:
            file.data[offset : offset + len(half)] = half
        if refusal is not None:
            raise refusal
        self._faults.point(f"half of write {path.name}")
        self._writes += 1
        if half and self._writes % _SHORT_WRITES == 0:
            file.data[offset : offset + len(half)] = half
            return len(half)
        file.data[offset : offset + len(whole)] = whole
        return len(whole)

    def _close(self, descriptor: int) -> None:
        path, file = self._open.pop(descriptor)
        if path.name == "lock":
            file.is_locked = False

    def size(self, descriptor: int) -> int:
        return len(self._open[descriptor][1].data)

    def truncate(self, descriptor: int, size: int) -> None:
        path, file = self._open[descriptor]
        self._point("truncate", path)
        del file.data[size:]

    def sync(self, descriptor: int) -> None:
        path, file = self._open[descriptor]
        self._point("sync", path)
        file.durable = bytes(file.data)
        self._faults.point(f"behind sync {path.name}")

    def names(self, directory: Path) -> list[str]:
        return sorted(
            path.name for path in {*self._platter.files, *self._platter.directories} if path.parent == directory
        )

    def is_file(self, path: Path) -> bool:
        return path in self._platter.files

    def make_directory(self, path: Path) -> None:
        self._platter.directories |= {path, *path.parents}

    def rename(self, path: Path, to: Path) -> None:
        self._point("rename", path)
        self._platter.change({path: None, to: self._platter.files[path]})

    def unlink(self, path: Path) -> None:
        if path in self._platter.files:
            self._point("unlink", path)
            self._platter.change({path: None})

    def sync_directory(self, path: Path) -> None:
        self._point("sync", path)
        self._platter.sync_names(path)

    def lock(self, descriptor: int) -> None:
        file = self._open[descriptor][1]
        if file.is_locked:
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK))
        file.is_locked = True

    def _point(self, verb: str, path: Path) -> None:
        self._faults.point(f"{verb} {path.name}")
        refusal = self._faults.refusal(f"{verb} {path.name}", grows=verb in {"create", "sync"})
        if refusal is not None:
            raise refusal

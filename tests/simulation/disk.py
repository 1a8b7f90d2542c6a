"""Disk in memory that loses unsynced data in a crash, and fails on request."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from runtime.epochs.disk import Disk
from tests.simulation.faults import Faults

__all__ = ["Platter", "SimulatedDisk"]


class _File:
    """File: its bytes as processes see them, and as a crash would leave them at worst."""

    __slots__ = ("data", "durable")

    def __init__(self) -> None:
        self.data = b""
        self.durable = b""


_Change = dict[str, _File | None]


class _Directory:
    """Directory: its names as processes see them, its durable names, and the changes in between, each atomic."""

    __slots__ = ("changes", "durable", "names", "version")

    def __init__(self) -> None:
        self.names: dict[str, _File] = {}
        self.durable: dict[str, _File] = {}
        self.changes: list[_Change] = []
        self.version = 0
        """Number of changes of names."""

    def change(self, change: _Change) -> None:
        _apply(self.names, change)
        self.changes.append(change)
        self.version += 1

    def sync(self) -> None:
        self.durable = dict(self.names)
        self.changes = []


def _apply(names: dict[str, _File], change: _Change) -> None:
    for name, file in change.items():
        if file is None:
            names.pop(name, None)
        else:
            names[name] = file


class Platter:
    """Data that survives processes: files and directories, by path."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.directories: dict[str, _Directory] = {"/": _Directory()}

    def crash(self) -> None:
        """Crash the machine: unsynced bytes are whole, torn, rotten or gone, and any change of names may be lost."""
        for directory in self.directories.values():
            directory.names = names = dict(directory.durable)
            directory.version += 1
            if directory.changes:
                share = self._chance.choice((0.0, 0.5, 1.0))
                for change in directory.changes:
                    if self._chance.random() < share:
                        _apply(names, change)
        seen: set[int] = set()
        for directory in self.directories.values():
            for file in directory.names.values():
                if id(file) not in seen:
                    seen.add(id(file))
                    if file.data is not file.durable:
                        file.data = file.durable = self._torn(file.durable, file.data)
            directory.sync()

    def _torn(self, durable: bytes, data: bytes) -> bytes:
        fate = self._chance.randrange(4)
        if fate == 0:
            return durable
        if fate == 1:
            return data
        # Only appended bytes can be lost, not the bytes before them; bytes before a cut cannot be lost either.
        kept = len(durable) if data.startswith(durable) else len(data) if durable.startswith(data) else 0
        end = self._chance.randint(kept, len(data))
        if fate == 2 or end == len(data):
            return data[:end]
        return data[:end] + self._chance.randbytes(len(data) - end)

    def version(self, path: Path) -> int:
        """Return a number that grows whenever a name in the directory changes."""
        directory = self.directories.get(str(path))
        return directory.version if directory else 0

    def bytes_under(self, path: Path) -> int:
        """Return the bytes of all files in a directory and below it; a file with several names counts once."""
        files = {
            id(file): len(file.data)
            for name, directory in self.directories.items()
            if name == str(path) or name.startswith(f"{path}/")
            for file in directory.names.values()
        }
        return sum(files.values())


class SimulatedDisk(Disk):
    """Disk as seen by one process; once the process is dead none of its writes reaches the platter."""

    def __init__(self, platter: Platter, faults: Faults) -> None:
        self._platter = platter
        self._faults = faults

    def write(self, path: Path, pieces: Iterable[bytes | pa.Buffer]) -> None:
        directory = self._begin("write", path)
        data = b"".join(pieces)
        file = directory.names.get(path.name)
        if file is None:
            file = _File()
            directory.change({path.name: file})
        self._store(path, file, data)

    def append(self, path: Path, data: bytes) -> None:
        directory = self._begin("append", path)
        file = directory.names.get(path.name)
        if file is None:
            file = _File()
            directory.change({path.name: file})
        self._store(path, file, file.data + data)

    def truncate(self, path: Path, size: int) -> None:
        self._begin("truncate", path)
        file = self._file(path)
        file.data = file.data[:size]
        self._faults.point(f"sync {path.name}")
        file.durable = file.data

    def read(self, path: Path) -> pa.Buffer:
        return pa.py_buffer(self._file(path).data)

    def rename(self, path: Path, to: Path) -> None:
        directory = self._begin("rename", path)
        if path.parent != to.parent:
            raise AssertionError(f"expected a rename within {path.parent}, was to {to}")
        file = self._file(path)
        self._refuse("rename", path, grows=False)
        directory.change({path.name: None, to.name: file})
        self._faults.point(f"behind rename {to.name}")

    def link(self, path: Path, to: Path) -> None:
        self._begin("link", path)
        file = self._file(path)
        names = self._directory(to.parent)
        if to.name in names.names:
            raise FileExistsError(str(to))
        names.change({to.name: file})

    def unlink(self, path: Path) -> None:
        self._faults.point(f"unlink {path.name}")
        directory = self._platter.directories.get(str(path.parent))
        if directory is not None and path.name in directory.names:
            directory.change({path.name: None})

    def exists(self, path: Path) -> bool:
        directory = self._platter.directories.get(str(path.parent))
        return str(path) in self._platter.directories or (directory is not None and path.name in directory.names)

    def size(self, path: Path) -> int:
        return len(self._file(path).data)

    def names(self, directory: Path) -> list[str]:
        held = self._platter.directories.get(str(directory))
        below = [name.rpartition("/") for name in self._platter.directories if name != "/"]
        inside = [name for parent, _, name in below if parent == str(directory)]
        return sorted([*(held.names if held else ()), *inside])

    def make_directory(self, path: Path) -> None:
        if str(path) not in self._platter.directories:
            self.make_directory(path.parent)
            self._faults.point(f"make {path.name}")
            self._platter.directories[str(path)] = _Directory()

    def sync_directory(self, path: Path) -> None:
        self._faults.point(f"sync {path.name}/")
        self._refuse("sync", path, grows=False)
        self._directory(path).sync()
        self._faults.point(f"behind sync {path.name}/")

    def _begin(self, verb: str, path: Path) -> _Directory:
        self._faults.point(f"{verb} {path.name}")
        return self._directory(path.parent)

    def _store(self, path: Path, file: _File, data: bytes) -> None:
        before = len(file.data) if data.startswith(file.data) else 0
        file.data = data
        refusal = self._faults.refusal(f"write {path.name}", grows=True)
        if refusal is not None:
            file.data = data[: self._faults.chance.randint(before, len(data))]
            raise refusal
        self._faults.point(f"sync {path.name}")
        file.durable = data
        self._faults.point(f"behind sync {path.name}")

    def _refuse(self, verb: str, path: Path, *, grows: bool) -> None:
        refusal = self._faults.refusal(f"{verb} {path.name}", grows=grows)
        if refusal is not None:
            raise refusal

    def _file(self, path: Path) -> _File:
        directory = self._platter.directories.get(str(path.parent))
        file = directory.names.get(path.name) if directory else None
        if file is None:
            raise FileNotFoundError(str(path))
        return file

    def _directory(self, path: Path) -> _Directory:
        directory = self._platter.directories.get(str(path))
        if directory is None:
            raise FileNotFoundError(str(path))
        return directory

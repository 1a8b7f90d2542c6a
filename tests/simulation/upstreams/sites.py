"""The place of a simulated runtime: a machine with a disk and a store of its own, which others reach too."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from runtime.epochs import Disk
from tests.simulation.disk import Platter, SimulatedDisk
from tests.simulation.faults import Faults
from tests.simulation.store import Shelf, SimulatedStore

__all__ = ["Site", "Volume"]


class Site:
    """Data that survives the processes of one runtime."""

    def __init__(self, name: str, chance: random.Random) -> None:
        self.name = name
        self.root = Path("/volume") / name
        self.platter = Platter(chance)
        self.shelf = Shelf()

    def store(self, faults: Faults) -> SimulatedStore:
        """Return the store for the next process."""
        return SimulatedStore(self.shelf, faults)

    def holds(self, name: str) -> bool:
        """True if a file has this name in any of its directories."""
        return any(name in directory.names for directory in self.platter.directories.values())

    def saved(self) -> Any:
        """Return a copy of everything, like a backup."""
        return copy.deepcopy((self.platter.directories, self.shelf.tables))

    def restore(self, saved: Any) -> None:
        """Replace the present data by a copy."""
        self.platter.directories, self.shelf.tables = copy.deepcopy(saved)


class Volume(Disk):
    """All sites' disks as seen by one process; its own faults strike wherever it writes."""

    def __init__(self, sites: Mapping[str, Site], faults: Faults) -> None:
        self._disks = {site.root.parts[:3]: SimulatedDisk(site.platter, faults) for site in sites.values()}

    def _at(self, path: Path) -> SimulatedDisk:
        return self._disks[path.parts[:3]]

    def write(self, path: Path, pieces: Iterable[bytes | pa.Buffer]) -> None:
        self._at(path).write(path, pieces)

    def append(self, path: Path, data: bytes) -> None:
        self._at(path).append(path, data)

    def truncate(self, path: Path, size: int) -> None:
        self._at(path).truncate(path, size)

    def read(self, path: Path) -> pa.Buffer:
        return self._at(path).read(path)

    def rename(self, path: Path, to: Path) -> None:
        self._at(path).rename(path, to)

    def link(self, path: Path, to: Path) -> None:
        self._at(path).link(path, to)

    def unlink(self, path: Path) -> None:
        self._at(path).unlink(path)

    def exists(self, path: Path) -> bool:
        return self._at(path).exists(path)

    def size(self, path: Path) -> int:
        return self._at(path).size(path)

    def names(self, directory: Path) -> list[str]:
        return self._at(directory).names(directory)

    def make_directory(self, path: Path) -> None:
        self._at(path).make_directory(path)

    def sync_directory(self, path: Path) -> None:
        self._at(path).sync_directory(path)

"""Which run directories there are, and in which order they are copied.

Each part goes before those whose words it depends on: strategies before the exchange that has their orders, a runtime
before its upstreams and its feed. So whatever a copy speaks of is in the copies that follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from deltabook.backup.errors import BackupError
from deltabook.backup.manifest import Kind

__all__ = ["Part", "find_parts", "kind_of"]

_ORDER: Final[Mapping[Kind, int]] = {"algo": 0, "runtime": 1, "exchange": 2}
_MOST_PARTS: Final = 100
_CONSUMERS: Final = "consumers"


class Part(msgspec.Struct, frozen=True):
    """A run directory."""

    kind: Kind
    """Whose."""
    directory: Path
    """Where it is."""
    path: str
    """What it is called in a backup; empty if it is all of it."""


class _Consumer(msgspec.Struct):
    directory: str = ""


def kind_of(directory: Path) -> Kind | None:
    """Whose run directory this is; None if it is nobody's."""
    if (directory / "inputs").is_dir():
        return "exchange"
    if (directory / "epochs").is_dir():
        return "runtime"
    if directory.is_dir() and any(
        (child / name).is_file() for child in directory.iterdir() for name in ("orders.log", "trades.spool")
    ):
        return "algo"
    return None


def find_parts(directory: Path) -> list[Part]:
    """The run directory itself, or those right below, in the order of copying; raises `BackupError` for none."""
    if not directory.is_dir():
        raise BackupError(f"expected a run directory, was {directory}, which is no directory")
    if (kind := kind_of(directory)) is not None:
        return [Part(kind, directory, "")]
    below = sorted(child for child in directory.iterdir() if child.is_dir() and not child.name.startswith("."))
    parts = [Part(kind, child, child.name) for child in below if (kind := kind_of(child)) is not None]
    if not parts:
        raise BackupError(
            f"expected a run directory of an exchange, a runtime or strategies, or some of them below, was {directory}"
        )
    if len(parts) > _MOST_PARTS:
        raise BackupError(f"expected at most {_MOST_PARTS} run directories below {directory}, was {len(parts)}")
    return sorted(_consumers_first(parts), key=lambda part: _ORDER[part.kind])


def _consumers_first(parts: list[Part]) -> list[Part]:
    """A runtime before its upstreams; where they read each other in a circle, by name."""
    left, ordered = {part.directory.resolve(): part for part in parts}, list[Part]()
    readers = {place: _readers(place) for place in left}
    while left:
        free = next((place for place in left if not readers[place] & left.keys() - {place}), next(iter(left)))
        ordered.append(left.pop(free))
    return ordered


def _readers(directory: Path) -> set[Path]:
    """The run directories that read the log of this one."""
    readers: set[Path] = set()
    for path in (directory / _CONSUMERS).glob("*.json"):
        try:
            reader = msgspec.json.decode(path.read_bytes(), type=_Consumer).directory
        except (OSError, msgspec.DecodeError):
            continue
        readers.add(Path(reader))
    return readers

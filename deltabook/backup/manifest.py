"""Manifest of a backup: its parts, which are run directories, and every file with its size and checksum.

A part is copied before the parts that it refers to: strategies before the exchange that has their orders, a runtime
before its upstreams and before the exchange whose feed it reads. So everything to which a copy refers (an order, an
epoch, a feed message) has already been written when the part that contains it is copied.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Final, Literal

import msgspec

from algo_engine.desk.journal import JOURNAL
from algo_engine.desk.trades import SPOOL
from deltabook.wire.directories import refuse_special_files

__all__ = [
    "MANIFEST",
    "BackupError",
    "FileEntry",
    "Kind",
    "Manifest",
    "MovedError",
    "Part",
    "PartEntry",
    "decode_manifest",
    "digest",
    "encode_manifest",
    "files_below",
    "find_parts",
]


class BackupError(RuntimeError):
    """A backup cannot be made or restored; the message has the expected and the actual value."""


class MovedError(Exception):
    """Files changed while they were copied, and have to be copied again."""


MANIFEST: Final = "backup.json"
"""Name of the manifest's file, which is the first file of an archive."""
_FORMAT: Final = 1
"""Version of the manifest."""
_CHUNK_BYTES: Final = 1 << 20

Kind = Literal["algo", "runtime", "exchange"]


class FileEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a backup."""

    path: str
    """Path below the backup's directory, with slashes."""
    size: int
    """Size in bytes."""
    sha256: str
    """SHA-256 of the bytes, in hexadecimal."""


class PartEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run directory in a backup."""

    kind: Kind
    """Kind of process that wrote the directory."""
    path: str
    """Path below the backup's directory; empty if the backup is this run directory alone."""
    position: dict[str, str | int]
    """Position of the process, such as its latest epoch; the keys depend on the kind."""


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """List of everything in a backup except the manifest."""

    version: str
    """Version of the program that made the backup."""
    made_ns: int
    """Time of the backup, in nanoseconds since the UTC epoch."""
    parts: list[PartEntry]
    """Run directories, in the order in which they were copied."""
    files: list[FileEntry]
    """All files, in the order of their paths."""
    format: int = _FORMAT
    """Format of this record."""
    sha256: str = ""
    """SHA-256 of this record with an empty text in this field, in hexadecimal; empty in older backups."""

    @property
    def size(self) -> int:
        """Size of all files in bytes."""
        return sum(entry.size for entry in self.files)


class _Format(msgspec.Struct):
    format: int = 0


def encode_manifest(manifest: Manifest) -> bytes:
    """Encode a manifest with its own checksum, as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(msgspec.structs.replace(manifest, sha256=_checksum(manifest))))


def _checksum(manifest: Manifest) -> str:
    return hashlib.sha256(msgspec.json.encode(msgspec.structs.replace(manifest, sha256=""))).hexdigest()


def decode_manifest(data: bytes, where: str) -> Manifest:
    """Decode a manifest; raise `BackupError` if it is damaged, or has paths outside of the backup's directory."""
    try:
        version = msgspec.json.decode(data, type=_Format).format
        if version != _FORMAT:
            raise BackupError(f"expected a backup of format {_FORMAT} at {where}, was one of format {version}")
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BackupError(f"expected the manifest of a backup at {where}, was: {error}") from None
    if manifest.sha256 and manifest.sha256 != (checksum := _checksum(manifest)):
        raise BackupError(f"expected the checksum {checksum} in the manifest at {where}, was {manifest.sha256}")
    for path in (*(entry.path for entry in manifest.files), *(part.path for part in manifest.parts if part.path)):
        pure = PurePosixPath(path)
        if pure.is_absolute() or not pure.parts or ".." in pure.parts or str(pure) != path or path == MANIFEST:
            raise BackupError(f"expected paths below the backup in {where}, was {path!r}")
    return manifest


def digest(file: IO[bytes]) -> tuple[int, str]:
    """Return the size and the SHA-256 of a file from its current position on."""
    sha256, size = hashlib.sha256(), 0
    while chunk := file.read(_CHUNK_BYTES):
        sha256.update(chunk)
        size += len(chunk)
    return size, sha256.hexdigest()


def files_below(directory: Path) -> Iterator[Path]:
    """Yield every file below a directory in order of path; symbolic links are not followed."""
    yield from sorted(path for path in directory.rglob("*") if path.is_file() and not path.is_symlink())


_ORDER: Final[Mapping[Kind, int]] = {"algo": 0, "runtime": 1, "exchange": 2}
_MOST_PARTS: Final = 100
"""Greatest number of parts."""
_CONSUMERS: Final = "consumers"
"""Folder in which a runtime's consumers are registered."""


class Part(msgspec.Struct, frozen=True):
    """A run directory."""

    kind: Kind
    """Kind of process that writes the directory."""
    directory: Path
    """Path of the directory."""
    path: str
    """Path in the backup; empty if the backup is this run directory alone."""


class _Consumer(msgspec.Struct):
    directory: str = ""


def kind_of(directory: Path) -> Kind | None:
    """Return the kind of process to which a run directory belongs; None if the directory is not a run directory."""
    if (directory / "inputs").is_dir():
        return "exchange"
    if (directory / "epochs").is_dir():
        return "runtime"
    if directory.is_dir() and any(
        (child / name).is_file() for child in directory.iterdir() for name in (JOURNAL, SPOOL)
    ):
        return "algo"
    return None


def find_parts(directory: Path) -> list[Part]:
    """Return the run directory itself, or those directly below, in the order of copying.

    Raise `BackupError` if there is none, and `NotAFileError` for a pipe or a device in it.
    """
    if not directory.is_dir():
        raise BackupError(f"expected a run directory, was {directory}, which is no directory")
    if (kind := kind_of(directory)) is not None:
        refuse_special_files(directory)
        return [Part(kind, directory, "")]
    below = sorted(child for child in directory.iterdir() if child.is_dir() and not child.name.startswith("."))
    parts = [Part(kind, child, child.name) for child in below if (kind := kind_of(child)) is not None]
    if not parts:
        raise BackupError(
            f"expected a run directory of an exchange, a runtime or strategies, or some of them below, was {directory}"
        )
    if len(parts) > _MOST_PARTS:
        raise BackupError(f"expected at most {_MOST_PARTS} run directories below {directory}, was {len(parts)}")
    for part in parts:
        refuse_special_files(part.directory)
    return sorted(_consumers_first(parts), key=lambda part: _ORDER[part.kind])


def _consumers_first(parts: list[Part]) -> list[Part]:
    """Sort each runtime before its upstreams; runtimes that read each other in a circle are sorted by their names."""
    left, ordered = {part.directory.resolve(): part for part in parts}, list[Part]()
    readers = {place: _readers(place) for place in left}
    while left:
        free = next((place for place in left if not readers[place] & left.keys() - {place}), next(iter(left)))
        ordered.append(left.pop(free))
    return ordered


def _readers(directory: Path) -> set[Path]:
    """Return the run directories of the runtimes that read the epoch log of this directory."""
    readers: set[Path] = set()
    for path in (directory / _CONSUMERS).glob("*.json"):
        try:
            reader = msgspec.json.decode(path.read_bytes(), type=_Consumer).directory
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            continue
        readers.add(Path(reader))
    return readers

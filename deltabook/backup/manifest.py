"""What a backup holds: its parts, and every file with its size and checksum."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Final, Literal

import msgspec

from deltabook.backup.errors import BackupError

__all__ = ["MANIFEST", "FileEntry", "Kind", "Manifest", "PartEntry", "decode_manifest", "digest", "files_below"]

MANIFEST: Final = "backup.json"
"""Its file, the first one of an archive."""
_FORMAT: Final = 1
_CHUNK_BYTES: Final = 1 << 20

Kind = Literal["algo", "runtime", "exchange"]


class FileEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a backup."""

    path: str
    """Below the backup's directory, with slashes."""
    size: int
    """Bytes."""
    sha256: str
    """SHA-256 of the bytes, in hexadecimal."""


class PartEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run directory in a backup."""

    kind: Kind
    """Whose it is."""
    path: str
    """Below the backup's directory; empty: the backup is this directory."""
    position: dict[str, str | int]
    """How far it had come, in words of its kind."""


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything in a backup but itself."""

    version: str
    """Version of the program that made the backup."""
    made_ns: int
    """When, nanoseconds since the UTC epoch."""
    parts: list[PartEntry]
    """In the order in which they were copied."""
    files: list[FileEntry]
    """In the order of their paths."""
    format: int = _FORMAT
    """Format of this record."""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for entry in self.files)


class _Format(msgspec.Struct):
    format: int = 0


def decode_manifest(data: bytes, where: str) -> Manifest:
    """A manifest that can be trusted to name only files below it; raises `BackupError`."""
    try:
        version = msgspec.json.decode(data, type=_Format).format
        if version != _FORMAT:
            raise BackupError(f"expected a backup of format {_FORMAT} at {where}, was format {version}")
        manifest = msgspec.json.decode(data, type=Manifest)
    except msgspec.DecodeError as error:
        raise BackupError(f"expected the manifest of a backup at {where}, was: {error}") from None
    for path in (*(entry.path for entry in manifest.files), *(part.path for part in manifest.parts if part.path)):
        pure = PurePosixPath(path)
        if pure.is_absolute() or not pure.parts or ".." in pure.parts or str(pure) != path or path == MANIFEST:
            raise BackupError(f"expected names below the backup in {where}, was {path!r}")
    return manifest


def digest(file: IO[bytes]) -> tuple[int, str]:
    """Size and SHA-256 of what is left of a file."""
    sha256, size = hashlib.sha256(), 0
    while chunk := file.read(_CHUNK_BYTES):
        sha256.update(chunk)
        size += len(chunk)
    return size, sha256.hexdigest()


def files_below(directory: Path) -> Iterator[Path]:
    """Every file below a directory in the order of their paths; links are not followed."""
    yield from sorted(path for path in directory.rglob("*") if path.is_file() and not path.is_symlink())

"""Putting a backup back: into an empty place, and only as a whole."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from deltabook.backup.archive import is_archive, members, reading
from deltabook.backup.backup import sync_below
from deltabook.backup.errors import BackupError
from deltabook.backup.manifest import MANIFEST, FileEntry, Manifest, decode_manifest, files_below

__all__ = ["read_manifest", "restore"]

_CHUNK_BYTES: Final = 1 << 20
_MOST_MANIFEST_BYTES: Final = 1 << 30


def restore(backup: Path, directory: Path) -> Manifest:
    """Put a backup into a directory that is empty or not there; every byte is compared with the manifest.

    Raises `BackupError`, and leaves nothing there then.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise BackupError(f"expected an empty directory or none, was {directory}")
    stage = directory.with_name(f".{directory.name}.restoring")
    shutil.rmtree(stage, ignore_errors=True)  # of a restore that was interrupted
    try:
        stage.mkdir(parents=True)
        with reading(backup):
            manifest = _written(backup, stage)
        sync_below(stage)
        if directory.exists():
            directory.rmdir()
        stage.rename(directory)
    except OSError as error:
        raise BackupError(f"expected to write {directory}, was: {error.strerror or error}") from None
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return manifest


def read_manifest(backup: Path) -> Manifest:
    """What a backup says that it holds; raises `BackupError`."""
    with reading(backup):
        return _manifest(_files(backup), backup)


def _manifest(files: Iterator[tuple[str, IO[bytes]]], backup: Path) -> Manifest:
    _, data = next(files, ("", None))
    if data is None:
        raise BackupError(f"expected a backup at {backup}, was an empty one")
    return decode_manifest(data.read(_MOST_MANIFEST_BYTES), str(backup))


def _files(backup: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Every file of a backup, the manifest first."""
    if is_archive(backup):
        if not backup.is_file():
            raise BackupError(f"expected a backup, was {backup}, which is not there")
        yield from _manifest_first(members(backup), backup)
        return
    if not (backup / MANIFEST).is_file():
        raise BackupError(f"expected a backup with {MANIFEST}, was {backup}")
    paths = [backup / MANIFEST, *(path for path in files_below(backup) if path != backup / MANIFEST)]
    for path in paths:
        with path.open("rb") as file:
            yield path.relative_to(backup).as_posix(), file


def _manifest_first(files: Iterator[tuple[str, IO[bytes]]], backup: Path) -> Iterator[tuple[str, IO[bytes]]]:
    for number, (name, data) in enumerate(files):
        if (number == 0) != (name == MANIFEST):
            raise BackupError(f"expected {MANIFEST} first in {backup}, and once, was {name!r} as file {number}")
        yield name, data


def _written(backup: Path, stage: Path) -> Manifest:
    files = _files(backup)
    manifest = _manifest(files, backup)
    left = {entry.path: entry for entry in manifest.files}
    for name, data in files:
        entry = left.pop(name, None)
        if entry is None:
            raise BackupError(f"expected what the manifest of {backup} lists, was {name!r} as well")
        _write(backup, entry, data, stage)
    if left:
        raise BackupError(f"expected {min(left)} in {backup}, which lacks it and {len(left) - 1} other files")
    return manifest


def _write(backup: Path, entry: FileEntry, data: IO[bytes], stage: Path) -> None:
    target = stage / entry.path
    target.parent.mkdir(parents=True, exist_ok=True)
    sha256, size = hashlib.sha256(), 0
    with target.open("xb") as file:
        while chunk := data.read(_CHUNK_BYTES):
            sha256.update(chunk)
            size += len(chunk)
            file.write(chunk)
    if (size, sha256.hexdigest()) != (entry.size, entry.sha256):
        raise BackupError(
            f"expected {entry.size} bytes with SHA-256 {entry.sha256} as {entry.path} of {backup}, "
            f"was {size} with {sha256.hexdigest()}"
        )

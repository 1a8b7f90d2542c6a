"""Making a backup: every part is copied, checked and listed before the backup has its name."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from deltabook import __version__
from deltabook.backup._algo import copy_algo
from deltabook.backup._exchange import copy_exchange
from deltabook.backup._runtime import copy_runtime, unread_epochs
from deltabook.backup.archive import is_archive, write_archive
from deltabook.backup.copying import Stage
from deltabook.backup.errors import BackupError, MovedError
from deltabook.backup.manifest import MANIFEST, FileEntry, Kind, Manifest, PartEntry, digest, files_below
from deltabook.backup.parts import Part, find_parts

__all__ = ["BackedUp", "back_up", "sync_below"]

_COPIES: Final[dict[Kind, Callable[[Part, Stage], dict[str, str | int]]]] = {
    "algo": copy_algo,
    "runtime": copy_runtime,
    "exchange": copy_exchange,
}
_ATTEMPTS: Final = 4


class BackedUp(msgspec.Struct, frozen=True):
    """A backup that was made."""

    target: str
    """Where it is."""
    manifest: Manifest
    """What it holds."""
    stored_bytes: int
    """What it takes on the disk."""


def back_up(directory: Path, target: Path, now_ns: Callable[[], int] = time.time_ns) -> BackedUp:
    """Copy a run directory, or all of them right below one, to ``target``: a new directory, or ``.tar``, ``.tar.zst``.

    Its processes may run. Raises `BackupError`, and leaves nothing of the target then.
    """
    parts = find_parts(directory)
    if target.exists() or target.is_symlink():
        raise BackupError(f"expected a target that is not there yet, was {target}")
    if target.resolve().is_relative_to(directory.resolve()):
        raise BackupError(f"expected a target outside of {directory}, was {target}")
    stage = target.with_name(f".{target.name}.stage")
    shutil.rmtree(stage, ignore_errors=True)  # of a backup that was interrupted
    try:
        stage.mkdir(parents=True)
        entries = _together(parts, stage)
        manifest = Manifest(__version__, now_ns(), entries, _listed(stage))
        (stage / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
        stored = _published(stage, target, manifest)
    except OSError as error:
        raise BackupError(f"expected to write {target}, was: {error.strerror or error}") from None
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return BackedUp(str(target), manifest, stored)


def _together(parts: Sequence[Part], stage: Path) -> list[PartEntry]:
    """All parts, as of times from which they can go on with one another."""
    for _ in range(_ATTEMPTS):
        entries = [_copied(part, Stage(stage / part.path)) for part in parts]
        unread = unread_epochs([stage / part.path for part in parts if part.kind == "runtime"])
        if unread is None:
            return entries
    raise BackupError(f"expected upstreams to keep what is being copied, was: {unread} ({_ATTEMPTS} attempts)")


def _copied(part: Part, stage: Stage) -> PartEntry:
    for attempt in range(_ATTEMPTS):
        stage.begin()
        try:
            position = _COPIES[part.kind](part, stage)
        except MovedError as error:
            if attempt == _ATTEMPTS - 1:
                raise BackupError(
                    f"expected {part.directory} to hold still or to keep what is being copied, was: {error} "
                    f"({_ATTEMPTS} attempts)"
                ) from None
            continue
        stage.tidy()
        return PartEntry(part.kind, part.path, position)
    raise AssertionError("unreachable")


def _listed(directory: Path) -> list[FileEntry]:
    entries = []
    for path in files_below(directory):
        with path.open("rb") as file:
            entries.append(FileEntry(path.relative_to(directory).as_posix(), *digest(file)))
    return entries


def _published(stage: Path, target: Path, manifest: Manifest) -> int:
    """Give the backup its name, durably; gives its bytes."""
    if not is_archive(target):
        sync_below(stage)
        stage.rename(target)
        _sync(target.parent)
        return manifest.size
    partial = target.with_name(f".{target.name}.partial")
    partial.unlink(missing_ok=True)
    try:
        write_archive(partial, stage, [MANIFEST, *(entry.path for entry in manifest.files)])
        _sync(partial)
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)
    _sync(target.parent)
    return target.stat().st_size


def sync_below(directory: Path) -> None:
    """Make everything below a directory durable."""
    for place, _, names in os.walk(directory):
        for name in names:
            _sync(Path(place, name))
        _sync(Path(place))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

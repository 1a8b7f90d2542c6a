"""Creation of backups, as a directory or as one archive, and their restoration.

A backup gets its name only after every part is copied, checked and listed. It is restored as a whole, into an empty
directory.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, cast

import msgspec
import pyarrow as pa

from deltabook import __version__
from deltabook.backup.copying import Stage, copy_algo, copy_exchange, copy_runtime, unread_epochs
from deltabook.backup.manifest import (
    MANIFEST,
    BackupError,
    FileEntry,
    Kind,
    Manifest,
    MovedError,
    Part,
    PartEntry,
    decode_manifest,
    digest,
    encode_manifest,
    files_below,
    find_parts,
)

__all__ = ["BackedUp", "back_up", "is_archive", "read_manifest", "restore"]

_SUFFIXES: Final = (".tar", ".tar.zst")


def is_archive(path: Path) -> bool:
    """Return True if a path names an archive and not a directory."""
    return path.name.endswith(_SUFFIXES)


def write_archive(path: Path, directory: Path, names: list[str]) -> None:
    """Write these files of a directory in this order, without their owners."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mode = 0o644
        return member

    with _opened(path, "w") as stream, tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for name in names:
            archive.add(directory / name, name, recursive=False, filter=plain)


def members(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield every file of an archive with its bytes, which must be read before the next file; call this within
    `reading`.

    Raise `BackupError` for an archive that has entries other than files.
    """
    with _opened(path, "r") as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            data = archive.extractfile(member) if member.isfile() else None
            if data is None:
                raise BackupError(f"expected only files in {path}, was {member.name!r}")
            yield member.name, data


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise `BackupError` in place of every error that reading an incomplete archive raises."""
    try:
        yield
    except (tarfile.TarError, pa.ArrowException, EOFError) as error:
        raise BackupError(f"expected a whole archive at {path}, was: {error}") from None
    except OSError as error:
        if error.errno is not None:
            raise
        # This error comes from pyarrow's decoder, not from a file.
        raise BackupError(f"expected a whole archive at {path}, was: {error}") from None


@contextmanager
def _opened(path: Path, mode: str) -> Iterator[IO[bytes]]:
    with path.open("xb" if mode == "w" else "rb") as file:
        if not path.name.removesuffix(".partial").endswith(".zst"):
            yield file
            return
        is_new = mode == "w"
        make = pa.CompressedOutputStream if is_new else pa.CompressedInputStream
        with make(pa.PythonFile(file, mode="w" if is_new else "r"), "zstd") as stream:
            yield cast(IO[bytes], stream)


_COPIES: Final[dict[Kind, Callable[[Part, Stage], dict[str, str | int]]]] = {
    "algo": copy_algo,
    "runtime": copy_runtime,
    "exchange": copy_exchange,
}
_ATTEMPTS: Final = 4
"""Number of attempts to copy a part, and of attempts to copy all parts together, before a backup fails."""


class BackedUp(msgspec.Struct, frozen=True):
    """A backup that was made."""

    target: str
    """Path of the backup."""
    manifest: Manifest
    """Manifest of the backup."""
    stored_bytes: int
    """Size on the disk in bytes."""


def back_up(directory: Path, target: Path, now_ns: Callable[[], int] = time.time_ns) -> BackedUp:
    """Copy a run directory, or every run directory directly below a directory, to ``target``: a new directory, or a
    file ``.tar`` or ``.tar.zst``.

    The processes of the run directories may be running. Raise `BackupError` on failure, and then remove the incomplete
    target.
    """
    parts = find_parts(directory)
    if target.exists() or target.is_symlink():
        raise BackupError(f"expected a target that does not exist yet, was {target}")
    if target.resolve().is_relative_to(directory.resolve()):
        raise BackupError(f"expected a target outside of {directory}, was {target}")
    stage = target.with_name(f".{target.name}.stage")
    shutil.rmtree(stage, ignore_errors=True)  # left by an interrupted backup
    try:
        stage.mkdir(parents=True)
        entries = _together(parts, stage)
        manifest = Manifest(__version__, now_ns(), entries, _listed(stage))
        (stage / MANIFEST).write_bytes(encode_manifest(manifest))
        stored = _published(stage, target, manifest)
    except OSError as error:
        where = f" at {error.filename}" if error.filename else ""
        raise BackupError(f"expected to write {target}, was: {error.strerror or error}{where}") from None
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return BackedUp(str(target), manifest, stored)


def _together(parts: Sequence[Part], stage: Path) -> list[PartEntry]:
    """Copy all parts so that the processes can resume together from the copies; return the entries of the parts."""
    for _ in range(_ATTEMPTS):
        entries = [_copied(part, Stage(stage / part.path)) for part in parts]
        unread = unread_epochs([stage / part.path for part in parts if part.kind == "runtime"])
        if unread is None:
            return entries
    raise BackupError(
        f"expected upstreams to keep the files that are being copied, was: {unread} ({_ATTEMPTS} attempts)"
    )


def _copied(part: Part, stage: Stage) -> PartEntry:
    for attempt in range(_ATTEMPTS):
        stage.begin()
        try:
            position = _COPIES[part.kind](part, stage)
        except (BackupError, MovedError) as error:
            # `error` names a file of the copy, and the copy is removed after a failure. So the new error names the
            # original file instead.
            words = str(error).replace(str(stage.directory), str(part.directory))
            if isinstance(error, BackupError):
                raise BackupError(words) from None
            if attempt == _ATTEMPTS - 1:
                raise BackupError(
                    f"expected {part.directory} not to change, or to keep the files that are being copied, was: "
                    f"{words} ({_ATTEMPTS} attempts)"
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
    """Publish the backup durably under its name; return its size in bytes."""
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


_CHUNK_BYTES: Final = 1 << 20
_MOST_MANIFEST_BYTES: Final = 1 << 30
"""Largest size in bytes of a manifest; anything beyond is not read."""


def restore(backup: Path, directory: Path) -> Manifest:
    """Restore a backup into a directory that is empty or does not exist; compare every byte with the manifest.

    Raise `BackupError` on failure, and then leave no file in the directory.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise BackupError(f"expected an empty directory or none, was {directory}")
    # The directory is replaced as a whole, so its real name is needed, not `.` or the name of a symbolic link.
    directory = directory.resolve()
    if directory.is_mount():
        raise BackupError(f"expected a directory that is not a mount point, was {directory}; use a new one below it")
    if directory.is_relative_to(backup.resolve()):
        raise BackupError(f"expected a directory outside of the backup {backup}, was {directory}")
    stage = directory.with_name(f".{directory.name}.restoring")
    shutil.rmtree(stage, ignore_errors=True)  # left by an interrupted restore
    try:
        stage.mkdir(parents=True)
        with reading(backup):
            manifest = _written(backup, stage)
        sync_below(stage)
        if directory.exists():
            directory.rmdir()
        stage.rename(directory)
        _sync(directory.parent)
    except OSError as error:
        raise BackupError(f"expected to write {directory}, was: {error.strerror or error}") from None
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return manifest


def read_manifest(backup: Path) -> Manifest:
    """Return the manifest of a backup; raise `BackupError` if it is missing or damaged."""
    with reading(backup):
        return _manifest(_files(backup), backup)


def _manifest(files: Iterator[tuple[str, IO[bytes]]], backup: Path) -> Manifest:
    _, data = next(files, ("", None))
    if data is None:
        raise BackupError(f"expected a backup at {backup}, was an empty one")
    return decode_manifest(data.read(_MOST_MANIFEST_BYTES), str(backup))


def _files(backup: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield every file of a backup, the manifest first."""
    if is_archive(backup):
        if not backup.is_file():
            raise BackupError(f"expected a backup, was {backup}, which does not exist")
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
            raise BackupError(f"expected {MANIFEST} first in {backup}, and only once, was {name!r} as file {number}")
        yield name, data


def _written(backup: Path, stage: Path) -> Manifest:
    files = _files(backup)
    manifest = _manifest(files, backup)
    left = {entry.path: entry for entry in manifest.files}
    for name, data in files:
        entry = left.pop(name, None)
        if entry is None:
            raise BackupError(f"expected only files that the manifest of {backup} lists, was {name!r}")
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

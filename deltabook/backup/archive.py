"""A backup as one file: a tar archive, compressed if its name says so."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, cast

import pyarrow as pa

from deltabook.backup.errors import BackupError

__all__ = ["is_archive", "members", "reading", "write_archive"]

_SUFFIXES: Final = (".tar", ".tar.zst")


def is_archive(path: Path) -> bool:
    """Return True if this is the name of an archive and not of a directory."""
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
    """Every file of an archive with its bytes, which have to be read before the next one, within `reading`.

    Raises `BackupError` for an archive that holds anything but files.
    """
    with _opened(path, "r") as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            data = archive.extractfile(member) if member.isfile() else None
            if data is None:
                raise BackupError(f"expected files alone in {path}, was {member.name!r}")
            yield member.name, data


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Whatever an archive that is not whole makes of reading it is a `BackupError`."""
    try:
        yield
    except (tarfile.TarError, pa.ArrowException, EOFError) as error:
        raise BackupError(f"expected a whole archive at {path}, was: {error}") from None
    except OSError as error:
        if error.errno is not None:
            raise
        # pyarrow's decoder, not a file.
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

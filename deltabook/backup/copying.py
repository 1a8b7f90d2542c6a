"""Copying files that others write into: the stage on which a part is put together."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from deltabook.backup.errors import BackupError, MovedError

__all__ = ["Stage", "names_in"]

_CHUNK_BYTES: Final = 1 << 20


class Stage:
    """A directory that becomes a copy of a part. A part that moves on while it is copied is begun again.

    What was copied of files that never change stays then.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._kept: set[Path] = set()
        directory.mkdir(parents=True, exist_ok=True)

    def path(self, name: str) -> Path:
        """Where a file of the part goes."""
        return self.directory / name

    def begin(self) -> None:
        """From here on it is said anew which files there are."""
        self._kept.clear()

    def copy(self, source: Path, name: str, *, is_final: bool = False) -> None:
        """Copy a file as it is now; raises `MovedError` if it is gone.

        ``is_final``: nobody ever changes it under this name, so that a copy of an earlier attempt will do.
        """
        target = self.path(name)
        self._kept.add(target)
        if is_final and target.is_file():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        hidden = target.with_name(f".{target.name}.copying")
        try:
            with source.open("rb") as read, hidden.open("wb") as written:
                shutil.copyfileobj(read, written, _CHUNK_BYTES)
        except FileNotFoundError:
            raise MovedError(f"{source} is gone") from None
        except OSError as error:
            raise BackupError(f"expected to copy {source} to {target.parent}, was: {error.strerror}") from None
        hidden.rename(target)

    def copy_some(self, source: Path, names: Iterable[str], *, is_final: bool = False) -> list[str]:
        """Copy those files of a directory that are there; gives their names."""
        copied = []
        for name in names:
            try:
                self.copy(source / name, f"{source.name}/{name}", is_final=is_final)
            except MovedError:
                self._kept.discard(self.path(f"{source.name}/{name}"))
                continue
            copied.append(name)
        return copied

    def keep(self, name: str) -> None:
        """A file that was made here belongs to the part."""
        self._kept.add(self.path(name))

    def tidy(self) -> None:
        """Remove what an attempt before has left and this one has not copied."""
        for path in sorted(self.directory.rglob("*")):
            if path.is_file() and path not in self._kept:
                path.unlink()


def names_in(directory: Path, *patterns: str) -> list[str]:
    """The names of files in a directory that fit a pattern, in ascending order; none where there is no directory."""
    return sorted({path.name for pattern in patterns for path in directory.glob(pattern) if path.is_file()})

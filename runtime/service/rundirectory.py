"""A run directory that nothing has begun in is left as it was found."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["left_as_found"]


@contextmanager
def left_as_found(directory: Path) -> Iterator[None]:
    """If what is within raises, whatever it has put into a directory that was empty or not there is removed.

    So a runtime that is refused, for a view that does not compile say, does not leave a directory behind which the
    next one would take for one that was begun. A directory that held something is not touched.
    """
    above = next((parent for parent in (directory, *directory.parents) if parent.exists()), None)
    was_empty = not directory.exists() or (directory.is_dir() and not any(directory.iterdir()))
    try:
        yield
    except BaseException:
        if was_empty and directory.is_dir():
            _clear(directory, above)
        raise


def _clear(directory: Path, above: Path | None) -> None:
    """Remove what a directory holds, and it and the empty ones above it that were not there."""
    for entry in directory.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
    for made in (directory, *directory.parents):
        if made == above or any(made.iterdir()):
            return
        made.rmdir()

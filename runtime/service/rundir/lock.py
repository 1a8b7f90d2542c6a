"""A run directory belongs to one process at a time, and one that nothing has begun in is left as it was found."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deltabook.wire.claim import CLAIM_LIMIT_BYTES, Claim, claimed_by
from runtime.epochs import LOCAL_DISK
from runtime.service.errors import DirectoryInUseError

__all__ = ["DirectoryLock", "left_as_found"]


class DirectoryLock:
    """Holds a run directory for as long as it is not released, and says to others which process that is.

    The system lets go of it with the process. Where the disk knows no such locks nothing is held: then the lock of the
    state database keeps a second process out, or else the first one finds out by its claim. Belongs to one thread.
    """

    def __init__(self, directory: Path, holder: Claim) -> None:
        """Make the directory if it is not there; raises `DirectoryInUseError` with the process that holds it."""
        LOCAL_DISK.make_directory(directory)
        descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        self._file = os.fdopen(descriptor, "r+b", buffering=0)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held_by = claimed_by(os.pread(descriptor, CLAIM_LIMIT_BYTES, 0))
            self._file.close()
            raise DirectoryInUseError(
                f"expected {directory} to be free, was in use by another runtime ({held_by})"
            ) from None
        except OSError:
            return
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, holder.encoded(), 0)

    def release(self) -> None:
        """Let the next one in; nothing happens the second time."""
        self._file.close()


@contextmanager
def left_as_found(directory: Path) -> Iterator[None]:
    """If what is within raises, whatever it has put into a directory that was empty or not there is removed.

    So a runtime that is refused, for a view that does not compile say, does not leave a directory behind which the
    next one would take for one that was begun. A directory that held something is not touched, nor one that another
    process has begun in meanwhile.
    """
    above = next((parent for parent in (directory, *directory.parents) if parent.exists()), None)
    was_empty = not directory.exists() or (directory.is_dir() and not any(directory.iterdir()))
    try:
        yield
    except DirectoryInUseError:
        raise
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

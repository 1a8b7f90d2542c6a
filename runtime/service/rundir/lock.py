"""Lock of a run directory for one process at a time, and removal of a directory whose start fails."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deltabook.wire.directories import CLAIM_LIMIT_BYTES, Claim, claimed_by
from runtime.epochs import LOCAL_DISK
from runtime.service.errors import DirectoryInUseError

__all__ = ["DirectoryLock", "left_as_found"]


class DirectoryLock:
    """Exclusive lock of a run directory until it is released; the file names the process that holds it.

    The operating system releases the lock with the process. On a disk without such locks there is no lock: then the
    lock of the state database keeps a second process out, or else the first process detects the second by its claim.
    Not thread-safe.
    """

    def __init__(self, directory: Path, holder: Claim) -> None:
        """Create the directory if it is missing; raises `DirectoryInUseError` with the process that holds it."""
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
        """Release the lock; further calls do nothing."""
        self._file.close()


@contextmanager
def left_as_found(directory: Path) -> Iterator[None]:
    """Restore a missing or empty directory if the body of the ``with`` statement raises.

    A runtime whose start is refused, for example because a view does not compile, would otherwise leave a directory
    that the next start takes for an existing run. A directory that was not empty is not touched, nor one that another
    process has taken meanwhile.
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
    """Remove a directory with its contents, and the empty directories above it, up to ``above``."""
    for entry in directory.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
    for made in (directory, *directory.parents):
        if made == above or any(made.iterdir()):
            return
        made.rmdir()

"""Directories of a run: the owner of a locked directory, the names of damaged files, and pipes among their files.

A process that cannot lock a directory reads the owner from the lock file. A damaged file is never removed, but renamed.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import msgspec

__all__ = [
    "CLAIM_LIMIT_BYTES",
    "Claim",
    "NotAFileError",
    "aside_name",
    "claimed_by",
    "refuse_special_files",
    "set_aside",
    "this_process",
]

CLAIM_LIMIT_BYTES = 1024
"""Largest size of a claim in bytes."""


class Claim(msgspec.Struct, frozen=True, omit_defaults=True):
    """A process that holds a directory.

    >>> str(Claim("db-1", 4711, term=7))
    'process 4711 on db-1, term 7'
    """

    host: str
    """Name of the process's machine."""
    process: int
    """Process id on that machine."""
    term: int = 0
    """Number that rises with every start on the directory; 0 if starts are not counted."""
    run: str = ""
    """Run id of all processes that were started together; empty if there is none."""
    since_ns: int = 0
    """Time at which the process took the directory, in nanoseconds since the UTC epoch; 0 if unknown."""
    boot: str = ""
    """Boot id of the machine, empty if unknown. It shows whether the machine was rebooted: only a reboot can lose data
    that was written and not synced.
    """

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since_ns // 10**9, UTC) if self.since_ns else None
        parts = [
            f"process {self.process} on {self.host}",
            *([f"term {self.term}"] if self.term else []),
            *([f"run {self.run}"] if self.run else []),
            *([f"since {since:%Y-%m-%d %H:%M:%S} UTC"] if since else []),
        ]
        return ", ".join(parts)

    def encoded(self) -> bytes:
        """Return the claim as a line of a file."""
        return msgspec.json.encode(self) + b"\n"


def this_process(*, term: int = 0, run: str = "", since_ns: int = 0) -> Claim:
    """Return the claim of this process."""
    return Claim(socket.gethostname()[:255], os.getpid(), term, run[:64], since_ns)


def claimed_by(data: bytes) -> str:
    """Return the process that a claim names, as text; ``an unknown process`` for an invalid claim, such as one that is
    still being written.
    """
    try:
        return str(msgspec.json.decode(data, type=Claim))
    except (ValueError, OverflowError):  # ValueError: also text that is not UTF-8, and a time after the year 9999
        return "an unknown process"


def aside_name(path: Path, exists: Callable[[Path], bool] = Path.exists) -> Path:
    """Return the first free name among ``NAME.damaged-1``, ``NAME.damaged-2`` and so on; ``exists`` returns True for a
    used name.
    """
    names = (path.with_name(f"{path.name}.damaged-{number}") for number in count(1))
    return next(name for name in names if not exists(name))


def set_aside(path: Path) -> Path:
    """Rename a file or directory to its `aside_name`, durably; return the new name. Raise `OSError` if that fails."""
    aside = aside_name(path)
    path.rename(aside)
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return aside


class NotAFileError(OSError):
    """A run directory contains a pipe or a device."""


def refuse_special_files(directory: Path) -> None:
    """Raise `NotAFileError` if a pipe or a device is in a run directory or below; do nothing if it does not exist.

    Opening a pipe waits for its other end, and reading a device may never end. Without this check, such an entry in
    place of a file of the run would make a start wait for ever, while it holds the lock of the directory.
    """
    folders = [directory]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(Path(entry.path))
                    elif not entry.is_file():
                        _refuse_special(Path(entry.path))
        except (FileNotFoundError, NotADirectoryError):
            continue  # a running process has removed it, or will refuse it


def _refuse_special(path: Path) -> None:
    mode = path.stat().st_mode if path.exists() else 0
    for is_it, kind in ((stat.S_ISFIFO, "a pipe"), (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device")):
        if is_it(mode):
            raise NotAFileError(f"expected a file or a directory at {path}, was {kind}")

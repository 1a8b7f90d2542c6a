"""Directories of a run: the owner of a locked one, and the names of damaged files in it.

A lock file names its owner to a process that is refused. A damaged file is never removed: it gets another name.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import msgspec

__all__ = ["CLAIM_LIMIT_BYTES", "Claim", "aside_name", "claimed_by", "set_aside", "this_process"]

CLAIM_LIMIT_BYTES = 1024
"""No claim is longer."""


class Claim(msgspec.Struct, frozen=True, omit_defaults=True):
    """A process that holds a directory.

    >>> str(Claim("db-1", 4711, term=7))
    'process 4711 on db-1, term 7'
    """

    host: str
    """Its machine."""
    process: int
    """Its number there."""
    term: int = 0
    """Counts up with every start on the directory; 0 where that is not counted."""
    run: str = ""
    """The run id of all that was started together; empty if there is none."""
    since_ns: int = 0
    """When it took the directory, nanoseconds since the UTC epoch; 0 if that is not said."""
    boot: str = ""
    """The run of the machine's system since which nothing that was written is lost; empty if that is not known."""

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
        """A line of a file."""
        return msgspec.json.encode(self) + b"\n"


def this_process(*, term: int = 0, run: str = "", since_ns: int = 0) -> Claim:
    """The claim of this process."""
    return Claim(socket.gethostname()[:255], os.getpid(), term, run[:64], since_ns)


def claimed_by(data: bytes) -> str:
    """Whom a claim names, in words; of what is none, as for a moment while it is written, ``an unknown process``."""
    try:
        return str(msgspec.json.decode(data, type=Claim))
    except msgspec.DecodeError:
        return "an unknown process"


def aside_name(path: Path, exists: Callable[[Path], bool] = Path.exists) -> Path:
    """The first free name among ``NAME.damaged-1``, ``NAME.damaged-2`` and so on; ``exists`` says which are not."""
    names = (path.with_name(f"{path.name}.damaged-{number}") for number in count(1))
    return next(name for name in names if not exists(name))


def set_aside(path: Path) -> Path:
    """Rename a file or directory to its `aside_name`, durably; returns the new name. Raises `OSError`."""
    aside = aside_name(path)
    path.rename(aside)
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return aside

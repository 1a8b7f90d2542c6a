"""Claim on a run directory, which determines the process that may write into it.

A lock keeps a second process out as long as the file system keeps the lock. A file system may drop the lock of a
machine that was disconnected or paused for too long; then two processes use the directory. Therefore each start
increments a *term*, which is in a file, in the state and in every epoch's footer. Before a process writes, it checks
that the file still contains its own term. The older process finds another term there, writes nothing more, and ends.

The older process can still write if it loses the directory between the check and the write. This gap is some
microseconds, not the whole time for which the process was paused. There is no gap if the file system keeps its locks,
or disconnects a process whose lock was dropped.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from deltabook.wire.directories import Claim
from runtime.epochs.disk import LOCAL_DISK, Disk
from runtime.epochs.errors import FencedError

__all__ = ["CLAIM", "DirectoryClaim"]

CLAIM: Final = "claim"
"""Name of the file in the run directory."""


class DirectoryClaim:
    """Claim of one process. `begin` is called once, before anything is written; any thread may call `check`."""

    def __init__(self, directory: Path, holder: Claim, disk: Disk = LOCAL_DISK) -> None:
        """Prepare the claim. ``holder`` describes this process, without a term."""
        self._directory = directory
        self._path = directory / CLAIM
        self._disk = disk
        self.holder = holder
        """Description of this process, with its term from `begin` on."""

    @property
    def term(self) -> int:
        """Number of starts of the directory, this one included; 0 before `begin`."""
        return self.holder.term

    def begin(self, known: int) -> int:
        """Take the directory for a new term, and return the term.

        The new term is greater than the term in the state (``known``) and the term in the file. The caller must have
        locked the directory.
        """
        claim = self._read()
        term = max(known, claim.term if claim else 0) + 1
        self.holder = msgspec.structs.replace(self.holder, term=term)
        hidden = self._path.with_name(f".{CLAIM}")
        self._disk.write(hidden, [self.holder.encoded()])
        self._disk.rename(hidden, self._path)
        self._disk.sync_directory(self._directory)
        return term

    def check(self) -> None:
        """Raise `FencedError` if another process has taken the directory since then; each call reads a small file."""
        claim = self._read()
        if claim is None or claim.term != self.term:
            raise FencedError(
                f"fenced: expected {self._directory} to be held for term {self.term}, was taken by "
                f"{claim or 'a process that has removed the claim'}; nothing more is written"
            )

    def _read(self) -> Claim | None:
        try:
            return msgspec.json.decode(bytes(self._disk.read(self._path)), type=Claim)
        except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
            return None

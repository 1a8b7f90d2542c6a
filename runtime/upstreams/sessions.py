"""Claims on the sessions of a feed in a system of runtimes: each session is read into one log only.

```
claims/8b1f….json   in the run directory of the main runtime: a session, and the log that has its messages
```

A runtime that reads the same session into another log would add every message a second time. Such a runtime is refused
as soon as its feed has named the session, and at the latest at the first epoch in which both logs would be merged.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from deltabook.wire.directories import Claim
from runtime.epochs import LOCAL_DISK, Disk
from runtime.upstreams.errors import UpstreamError

__all__ = ["CLAIMS", "SessionClaim", "SessionClaims"]

CLAIMS: Final = "claims"
"""Name of the directory of claims, in the run directory of the system's main runtime."""
_SUFFIX: Final = ".json"
_MOST: Final = 10_000
"""Greatest number of claims of a system."""
_ATTEMPTS: Final = 8
"""Largest number of attempts to claim a session that others claim and release meanwhile."""


class SessionClaim(msgspec.Struct, frozen=True):
    """Session of a feed, and the log that has its messages."""

    session: str
    """Name of the session on the feed."""
    identity: str
    """Identity of the log."""
    directory: str
    """Run directory of that log."""
    holder: Claim
    """Process that was the first to read the session."""


class SessionClaims:
    """Session claims of one system of runtimes. Any number of processes may take claims."""

    def __init__(self, system: Path, disk: Disk = LOCAL_DISK) -> None:
        """Use the claims of a system; ``system`` is its main runtime's run directory, which need not exist yet."""
        self._directory = system / CLAIMS
        self._disk = disk

    def take(self, claim: SessionClaim) -> None:
        """Claim a session for this log; do nothing if the log has it already.

        Raises `UpstreamError`, which names both logs, if another log has the session, and also for a new session if the
        system has 10,000 claims.
        """
        path = self._path(claim.session)
        self._disk.make_directory(self._directory)
        if not self._disk.exists(path) and len(self._disk.names(self._directory)) >= _MOST:
            raise UpstreamError(f"expected at most {_MOST} sessions in {self._directory}, was one more")
        hidden = path.with_name(f".{claim.identity}.{path.name}")
        self._disk.write(hidden, [msgspec.json.encode(claim)])
        try:
            for _ in range(_ATTEMPTS):
                if self._link(hidden, path):
                    break
                other = self._read(path)
                if other is None:
                    continue  # the claim was released in between
                if other.identity == claim.identity:
                    break
                raise UpstreamError(
                    f"expected session {claim.session} in one log of the system, was in {other.directory} (started by "
                    f"{other.holder}), and was to come into {claim.directory} as well: every message would count twice"
                )
            else:
                raise UpstreamError(f"expected a claim of session {claim.session} or none at {path}, was unreadable")
        finally:
            self._disk.unlink(hidden)
        self._disk.sync_directory(self._directory)

    def list(self) -> list[SessionClaim]:
        """Return all claims."""
        names = [name for name in self._disk.names(self._directory) if name[0] != "." and name.endswith(_SUFFIX)]
        return [claim for name in names if (claim := self._read(self._directory / name)) is not None]

    def release(self, session: str) -> bool:
        """Release a session for another log; return False if no log had it."""
        path = self._path(session)
        if not self._disk.exists(path):
            return False
        self._disk.unlink(path)
        self._disk.sync_directory(self._directory)
        return True

    def _link(self, hidden: Path, path: Path) -> bool:
        """Return False if there is a claim at the path: if two processes try, only one succeeds."""
        try:
            self._disk.link(hidden, path)
        except FileExistsError:
            return False
        return True

    def _path(self, session: str) -> Path:
        # A session name is not safe as the name of a file.
        return self._directory / f"{session.encode().hex()[:200]}{_SUFFIX}"

    def _read(self, path: Path) -> SessionClaim | None:
        try:
            return msgspec.json.decode(bytes(self._disk.read(path)), type=SessionClaim)
        except FileNotFoundError:
            return None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UpstreamError(f"expected a claim of a session at {path}, was: {error}") from None

"""Which runtime reads a feed for a system: each session of a feed for once and for all.

```
claims/8b1f….json   in the run directory of the runtime that everything feeds: a session, and whose log has its messages
```

A runtime that reads the same session into another log would bring every message a second time. It is refused here as
soon as its feed says which session it is, and at the latest at the first epoch in which both would come together.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from deltabook.wire.claim import Claim
from runtime.epochs import LOCAL_DISK, Disk
from runtime.upstreams.errors import UpstreamError

__all__ = ["CLAIMS", "SessionClaim", "SessionClaims"]

CLAIMS: Final = "claims"
"""The directory, in the run directory of the system's main runtime."""
_SUFFIX: Final = ".json"
_MOST: Final = 10_000


class SessionClaim(msgspec.Struct, frozen=True):
    """A session of a feed and the log that it goes into."""

    session: str
    """As the feed says it."""
    identity: str
    """Of the log."""
    directory: str
    """The run directory of that log."""
    holder: Claim
    """The process that was the first to read it."""


class SessionClaims:
    """Those of one system. Any number of processes may take some."""

    def __init__(self, system: Path, disk: Disk = LOCAL_DISK) -> None:
        """``system`` is the run directory of its main runtime, which need not be there yet."""
        self._directory = system / CLAIMS
        self._disk = disk

    def take(self, claim: SessionClaim) -> None:
        """Read a session into this log; nothing happens if it was so before.

        Raises `UpstreamError` if another log has it, with both.
        """
        path = self._path(claim.session)
        self._disk.make_directory(self._directory)
        if len(self._disk.names(self._directory)) >= _MOST:
            raise UpstreamError(f"expected at most {_MOST} sessions in {self._directory}, was one more")
        hidden = path.with_name(f".{claim.identity}.{path.name}")
        self._disk.write(hidden, [msgspec.json.encode(claim)])
        try:
            self._disk.link(hidden, path)  # the one operation that only one of two succeeds with
        except FileExistsError:
            found = self._read(path)
            if found is not None and found.identity != claim.identity:
                raise UpstreamError(
                    f"expected session {claim.session} in one log of the system, was in {found.directory} (begun by "
                    f"{found.holder}), and was to come into {claim.directory} as well: every message would count twice"
                ) from None
        finally:
            self._disk.unlink(hidden)
        self._disk.sync_directory(self._directory)

    def list(self) -> list[SessionClaim]:
        """All of them."""
        names = [name for name in self._disk.names(self._directory) if name[0] != "." and name.endswith(_SUFFIX)]
        return [found for name in names if (found := self._read(self._directory / name)) is not None]

    def release(self, session: str) -> bool:
        """Another log may take it; False if none had it."""
        path = self._path(session)
        if not self._disk.exists(path):
            return False
        self._disk.unlink(path)
        self._disk.sync_directory(self._directory)
        return True

    def _path(self, session: str) -> Path:
        # What a feed says is no name of a file.
        return self._directory / f"{session.encode().hex()[:200]}{_SUFFIX}"

    def _read(self, path: Path) -> SessionClaim | None:
        try:
            return msgspec.json.decode(bytes(self._disk.read(path)), type=SessionClaim)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise UpstreamError(f"expected a claim of a session at {path}, was: {error}") from None

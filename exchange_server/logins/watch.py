"""The users file while the exchange runs: read again when it changes, without an end to anybody else's session."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final

from twisted.logger import Logger

from exchange_server.errors import ExchangeConfigurationError
from exchange_server.logins.gate import Gate
from exchange_server.logins.users import User, load_users

__all__ = ["UsersWatch"]

_LOOK_S: Final = 1.0

Changed = Callable[[Collection[str]], None]
"""Is given the names of users who may not stay: they are gone, or their password or protocol is another."""


class UsersWatch:
    """Looks at a users file every second, by its time, size and number, and gives a gate what is in it.

    A file that cannot be read or has an error changes nothing; the log says what is wrong, once for each change.
    """

    _log = Logger()

    def __init__(self, path: Path, clock: Any) -> None:
        """Read the file; raises `ExchangeConfigurationError`."""
        self._path, self._clock = path, clock
        self._seen = self._look()
        self.gate = Gate(load_users(path), clock)
        """Lets in who is in the file."""
        self._call: Any = None
        self._changed: Changed = lambda gone: None

    def start(self, changed: Changed) -> None:
        """Begin to look; ``changed`` is called after each change that was taken over."""
        self._changed = changed
        self._call = self._clock.callLater(_LOOK_S, self._again)

    def stop(self) -> None:
        """Look no more."""
        if self._call is not None and self._call.active():
            self._call.cancel()
        self._call = None

    def _look(self) -> tuple[int, int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _again(self) -> None:
        self._call = self._clock.callLater(_LOOK_S, self._again)
        seen = self._look()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            users = load_users(self._path)
        except ExchangeConfigurationError as error:
            self._log.error("logins: the users stay as they were: {error}", error=error)
            return
        gone = _gone(self.gate.users, users)
        self._log.info(
            "logins: {path} has {count} users now; sessions of {gone} end",
            path=str(self._path),
            count=len(users),
            gone=", ".join(sorted(gone)) or "nobody",
        )
        self.gate.replace(users)
        self._changed(gone)


def _gone(before: Mapping[str, User], after: Mapping[str, User]) -> set[str]:
    """Names of users who may not stay logged in."""
    return {
        name
        for name, user in before.items()
        if (now := after.get(name)) is None or (now.secret, now.protocol) != (user.secret, user.protocol)
    }

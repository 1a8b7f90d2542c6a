"""Check of logins against the users file, with a limit on guesses.

`UsersWatch` reads the file again when it changes; sessions of unchanged users continue.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from exchange_server.errors import ExchangeConfigurationError
from exchange_server.logins.users import PasswordHash, User, load_users

__all__ = ["Gate", "GateLimits", "UsersWatch"]

Then = Callable[[User | None, str], None]

_WRONG: Final = "expected a user and its password"


class GateLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits on logins with wrong passwords."""

    failures: int = 5
    """Number of wrong passwords of one name from one host after which its logins from there are refused until the
    window ends.
    """
    window_s: float = 60.0
    """Length of the window in seconds, from the first wrong password."""
    pending: int = 16
    """Largest number of passwords that are compared at once; further logins are refused."""
    remembered: int = 4_096
    """Largest number of pairs of name and host for which failures are counted."""


_DEFAULTS: Final = GateLimits()


class _Clock(Protocol):
    def seconds(self) -> float:
        """Return monotonic seconds."""


class Gate:
    """Compares names and passwords with the users file.

    A comparison is slow on purpose, so it runs in a thread. Unknown names are compared too, so that the time does not
    reveal which names exist. A verified password is remembered as a digest under a key of this process, so that a
    client that reconnects is accepted at once.
    """

    def __init__(
        self,
        users: Mapping[str, User],
        clock: _Clock,
        limits: GateLimits = _DEFAULTS,
        in_thread: Callable[[Callable[[], bool]], Any] = deferToThread,
    ) -> None:
        """Create the gate; ``in_thread`` calls a function in a thread and returns a `Deferred` of its result."""
        self.users = users
        self._clock = clock
        self._limits = limits
        self._in_thread = in_thread
        self._nobody = PasswordHash.of_nobody()
        self._key = os.urandom(32)
        self._verified: dict[str, bytes] = {}
        self._failures: dict[tuple[str, str], tuple[int, float]] = {}
        self._pending = 0

    def replace(self, users: Mapping[str, User]) -> None:
        """Replace the users; passwords verified before are compared again."""
        self.users = users
        self._verified.clear()

    def check(self, name: str, password: str, host: str, then: Then) -> None:
        """Call `then` with the user, or with None and the reason: at once if it is known, else later.

        The reason is the same for an unknown name and for a wrong password.
        """
        name = name.upper()
        if self._is_locked((name, host)):
            then(None, "too many wrong passwords; try again later")
            return
        user = self.users.get(name)
        digest = hmac.digest(self._key, f"{name}\0{password.upper()}".encode(), hashlib.sha256)
        if user is not None and hmac.compare_digest(self._verified.get(name, b""), digest):
            then(user, "")
        elif self._pending >= self._limits.pending:
            then(None, "too many logins at once; try again later")
        else:
            self._pending += 1
            secret = user.secret if user is not None else self._nobody
            compared = self._in_thread(lambda: secret.verify(password))
            compared.addBoth(self._compared, user, name, host, digest, then)

    def _compared(self, right: object, user: User | None, name: str, host: str, digest: bytes, then: Then) -> None:  # noqa: PLR0917 - Twisted passes them by position
        self._pending -= 1
        if right is True and user is not None and self.users.get(name) == user:
            self._verified[name] = digest
            self._failures.pop((name, host), None)
            then(user, "")
        else:
            self._failed((name, host))
            then(None, _WRONG)

    def _is_locked(self, who: tuple[str, str]) -> bool:
        count, since_s = self._failures.get(who, (0, 0.0))
        if count and self._clock.seconds() - since_s >= self._limits.window_s:
            del self._failures[who]
            return False
        return count >= self._limits.failures

    def _failed(self, who: tuple[str, str]) -> None:
        count, since_s = self._failures.pop(who, (0, self._clock.seconds()))
        if len(self._failures) >= self._limits.remembered:
            del self._failures[next(iter(self._failures))]
        self._failures[who] = (count + 1, since_s)


_LOOK_S: Final = 1.0

Changed = Callable[[Collection[str]], None]
"""Callback with the names of users whose sessions must end: removed users, and users with another password or
protocol.
"""


class UsersWatch:
    """Checks a users file every second, by time, size and number, and passes its users to a gate.

    A file that is unreadable or invalid changes nothing; the log names the error, once for each change.
    """

    _log = Logger()

    def __init__(self, path: Path, clock: Any) -> None:
        """Read the file; raise `ExchangeConfigurationError` if it is invalid."""
        self._path, self._clock = path, clock
        self._seen = self._look()
        self.gate = Gate(load_users(path), clock)
        """Gate that accepts the users of the file."""
        self._call: Any = None
        self._changed: Changed = lambda gone: None

    def start(self, changed: Changed) -> None:
        """Start to watch; ``changed`` is called after each change that was adopted."""
        self._changed = changed
        self._call = self._clock.callLater(_LOOK_S, self._again)

    def stop(self) -> None:
        """Stop watching."""
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
    """Return the names of users whose sessions must end."""
    return {
        name
        for name, user in before.items()
        if (now := after.get(name)) is None or (now.secret, now.protocol) != (user.secret, user.protocol)
    }

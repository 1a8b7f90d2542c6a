"""Check of logins against the users file, with a limit on guesses."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import msgspec
from twisted.internet.threads import deferToThread

from exchange_server.logins.passwords import PasswordHash
from exchange_server.logins.users import User

__all__ = ["Gate", "GateLimits"]

Then = Callable[[User | None, str], None]

_WRONG: Final = "expected a user and its password"


class GateLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits on wrong passwords."""

    failures: int = 5
    """Wrong passwords of one name from one host, after which it is not let in from there for the rest of …"""
    window_s: float = 60.0
    """… so long after the first of them."""
    pending: int = 16
    """Passwords that are compared at once; more are rejected."""
    remembered: int = 4_096
    """Names and hosts that failures are counted for."""


_DEFAULTS: Final = GateLimits()


class _Clock(Protocol):
    def seconds(self) -> float:
        """Monotonic seconds."""


class Gate:
    """Compares names and passwords with the users file's.

    To compare is meant to be slow, so it is done in a thread, and for unknown names as well: nobody learns from the
    time which names there are. A password that was right is remembered as a digest under a key of this process alone,
    so that a client that comes again is let in at once.
    """

    def __init__(
        self,
        users: Mapping[str, User],
        clock: _Clock,
        limits: GateLimits = _DEFAULTS,
        in_thread: Callable[[Callable[[], bool]], Any] = deferToThread,
    ) -> None:
        """``in_thread`` calls something elsewhere and returns a `Deferred` of its result."""
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
        """Let in these users from now on; a password that was right before is compared again."""
        self.users = users
        self._verified.clear()

    def check(self, name: str, password: str, host: str, then: Then) -> None:
        """Calls `then` with the user, or with None and why not: at once if that is known, else later.

        What it says is the same for a wrong name and a wrong password.
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

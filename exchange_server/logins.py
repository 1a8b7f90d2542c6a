"""Logins of the binary ports, and the permissions of their users.

```
users file (TOML) ──▶ load_users: names, brokers, limits ──▶ LoginGate: checks a login ──▶ servers
        ▲   └── UsersWatch: reads it again when it changes ────┘  │
deltabook exchange passwd: salted hashes                          └── compares passwords in a thread
```

The number of guesses is limited. Sessions of unchanged users continue when the file is read again. No log, error or
representation contains a password. The users file::

    [[user]]
    name = "ALPHA"                      # up to 6 letters and digits, upper and lower case are the same
    password = "scrypt$14$8$1$...$..."  # deltabook exchange passwd
    broker = 7                          # broker of the orders on the feed; several users may share one
    protocol = "ouch5"                  # or "ouch42"; "itch" may listen and not trade
    self_trade = "newest"               # or "allow" (the default), "oldest", "both", "decrement"
    cancel_on_disconnect = true         # false by default

    [user.limits]                       # none by default
    requests_per_s = 10_000
    open_orders = 5_000
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import msgspec
from twisted.internet.threads import deferToThread
from twisted.logger import Logger
from twisted.python.failure import Failure

from deltabook.wire.access import misuse_of_trusted
from deltabook.wire.itch import LARGEST_BROKER
from exchange_server.errors import ExchangeConfigurationError
from exchange_server.matching.order import AccountLimits, SelfTrade

__all__ = [
    "GateLimits",
    "LoginGate",
    "PasswordHash",
    "User",
    "UserProtocol",
    "UsersWatch",
    "check_name",
    "hash_password",
    "load_users",
]


LONGEST_PASSWORD: Final = 10
"""Largest number of characters of a password, as the login message allows."""

_LOG2_COST: Final = 14
_BLOCK: Final = 8
_PARALLEL: Final = 1
_SALT_BYTES: Final = 16
_DIGEST_BYTES: Final = 32
_MEMORY_LIMIT_BYTES: Final = 1 << 27
_FORM: Final = "scrypt$LOG2_COST$BLOCK$PARALLEL$SALT$DIGEST"


class PasswordHash:
    """Hash of a password: scrypt (RFC 7914) with a salt of its own, so that a guess costs 16 MB and some tens of ms.

    `repr` does not show the hash.
    """

    __slots__ = ("_digest", "_parameters", "_salt")

    def __init__(self, salt: bytes, digest: bytes, parameters: tuple[int, int, int]) -> None:
        """Create a hash; ``parameters`` are the binary logarithm of the cost, the block size and the parallelism."""
        self._salt = salt
        self._digest = digest
        self._parameters = parameters

    @classmethod
    def parse(cls, text: str) -> PasswordHash:
        """Parse a line of `hash_password`; raise a `ValueError` whose message does not show the line."""
        kind, *words = text.split("$")
        try:
            log2_cost, block, parallel = map(int, words[:3])
            salt, digest = (b64decode(word, validate=True) for word in words[3:])
        except (ValueError, Base64Error):
            raise ValueError(f"expected a hash of the form {_FORM}") from None
        memory_bytes = 128 * block << log2_cost if 1 <= log2_cost <= 24 else 0
        if kind != "scrypt" or not 0 < memory_bytes <= _MEMORY_LIMIT_BYTES or not 1 <= parallel <= 16:
            raise ValueError(f"expected scrypt within {_MEMORY_LIMIT_BYTES} bytes, form {_FORM}")
        if len(salt) < _SALT_BYTES or len(digest) != _DIGEST_BYTES:
            raise ValueError(f"expected {_SALT_BYTES} bytes of salt and {_DIGEST_BYTES} of digest")
        return cls(salt, digest, (log2_cost, block, parallel))

    @classmethod
    def of_nobody(cls) -> PasswordHash:
        """Return a hash that no password matches, and that takes as long to compare as any other."""
        return cls(os.urandom(_SALT_BYTES), os.urandom(_DIGEST_BYTES), (_LOG2_COST, _BLOCK, _PARALLEL))

    def verify(self, password: str) -> bool:
        """Return True if the password is right.

        The comparison is slow, with the same duration for a wrong password; do not call it on the reactor's thread.
        """
        return hmac.compare_digest(_digest(password, self._salt, self._parameters), self._digest)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PasswordHash):
            return NotImplemented
        own, others = (self._parameters, self._salt), (other._parameters, other._salt)
        return own == others and hmac.compare_digest(self._digest, other._digest)

    def __hash__(self) -> int:
        return hash(self._salt)

    def __repr__(self) -> str:
        return "PasswordHash(...)"


def hash_password(password: str) -> str:
    """Return the line of a users file for a password, with a new salt each time.

    Raise `ValueError` for a password that no login message can carry. As in SoupBinTCP, upper and lower case are
    equal.
    """
    if not 1 <= len(password) <= LONGEST_PASSWORD or not password.isascii() or not password.isprintable():
        raise ValueError(f"expected a password of 1 to {LONGEST_PASSWORD} printable ASCII characters")
    if password != password.strip(" "):
        raise ValueError("expected a password without blanks at its ends")
    salt = os.urandom(_SALT_BYTES)
    digest = _digest(password, salt, (_LOG2_COST, _BLOCK, _PARALLEL))
    encoded = "$".join(b64encode(part).decode("ascii") for part in (salt, digest))
    return f"scrypt${_LOG2_COST}${_BLOCK}${_PARALLEL}${encoded}"


def _digest(password: str, salt: bytes, parameters: tuple[int, int, int]) -> bytes:
    log2_cost, block, parallel = parameters
    return hashlib.scrypt(
        password.upper().encode("utf-8"),
        salt=salt,
        n=1 << log2_cost,
        r=block,
        p=parallel,
        maxmem=2 * _MEMORY_LIMIT_BYTES,
        dklen=_DIGEST_BYTES,
    )


UserProtocol = Literal["ouch5", "ouch42", "itch"]

_LONGEST_NAME: Final = 6
_MOST_USERS: Final = 10_000

_log = Logger()


class User(msgspec.Struct, frozen=True, kw_only=True):
    """User of the binary ports."""

    name: str
    """Name in upper case."""
    secret: PasswordHash
    """Hash of the password."""
    broker_id: int
    """Broker id of the user's orders on the feed."""
    protocol: UserProtocol
    """Protocol on the order port; ``itch`` for users that only listen."""
    limits: AccountLimits
    """Limits of the account."""
    self_trade: SelfTrade
    """Policy for orders that would trade with other orders of the same broker."""
    cancel_on_disconnect: bool
    """True if the user's live orders are cancelled when its last connection ends."""

    @property
    def account(self) -> str:
        """Name of the user's account in the market."""
        return f"ouch:{self.name}"


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Entry of a user in the file."""

    name: str
    password: str
    broker: int
    protocol: UserProtocol = "ouch5"
    limits: AccountLimits = AccountLimits()
    self_trade: SelfTrade = "allow"
    cancel_on_disconnect: bool = False


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    user: list[_Entry]


def load_users(path: Path) -> Mapping[str, User]:
    """Return the users of a file by name.

    Raise an `ExchangeConfigurationError` that names the wrong entry and its error. The file is refused if anyone other
    than its owner may write it; a warning is logged if anyone else may read it.
    """
    try:
        data = path.read_bytes()
        mode, misuse = path.stat().st_mode, misuse_of_trusted(path)
    except OSError as error:
        raise ExchangeConfigurationError(f"expected to read the users file {path}, was {error.strerror}") from error
    if misuse:
        raise ExchangeConfigurationError(misuse)
    try:
        entries = msgspec.toml.decode(data, type=_File).user
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ExchangeConfigurationError(f"expected users in {path}, was: {error}") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        _log.warn(
            "logins: {path} may be read by others than its owner (mode {mode})",
            path=str(path),
            mode=f"{stat.S_IMODE(mode):o}",
        )
    if len(entries) > _MOST_USERS:
        raise ExchangeConfigurationError(f"expected at most {_MOST_USERS} users in {path}, was {len(entries)}")
    users: dict[str, User] = {}
    for number, entry in enumerate(entries, 1):
        try:
            user = _user(entry)
            if user.name in users:
                raise ValueError("expected each name once")
        except ValueError as error:
            where = f"user {number} ({entry.name!r}) of {path}"
            raise ExchangeConfigurationError(f"{error}, in {where}") from None
        users[user.name] = user
    return users


def check_name(name: str) -> str:
    """Return a user's name in upper case; raise `ValueError` for a name that no login message can carry.

    >>> check_name("joe")
    'JOE'
    """
    if not 1 <= len(name) <= _LONGEST_NAME or not name.isascii() or not name.isalnum():
        raise ValueError(f"expected a name of 1 to {_LONGEST_NAME} letters and digits, was {name!r}")
    return name.upper()


def _user(entry: _Entry) -> User:
    if not 1 <= entry.broker <= LARGEST_BROKER:
        raise ValueError(f"expected a broker of 1 to {LARGEST_BROKER}, was {entry.broker}")
    return User(
        name=check_name(entry.name),
        secret=PasswordHash.parse(entry.password),
        broker_id=entry.broker,
        protocol=entry.protocol,
        limits=entry.limits,
        self_trade=entry.self_trade,
        cancel_on_disconnect=entry.cancel_on_disconnect,
    )


Then = Callable[[User | None, str], None]

_WRONG: Final = "expected a user and its password"


class GateLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits on logins with wrong passwords."""

    failures: int = 5
    """Number of wrong passwords for one name from one host that are allowed. After them, logins with this name from
    this host are refused until the window ends.
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


class LoginGate:
    """Compares names and passwords with the users file.

    A comparison is slow on purpose, so it runs in a thread. Unknown names are compared too, so that the time does not
    reveal which names exist. The digest of a verified password, under a key of this process, is cached; a client that
    reconnects is therefore accepted at once.
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
        """Call `then` with the user, or with None and the reason: at once if the result is known, else later.

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
        if isinstance(right, Failure):
            _log.failure("logins: a password could not be compared", failure=right)
        if right is True and user is not None and self.users.get(name) == user:
            self._verified[name] = digest
            self._failures.pop((name, host), None)
            then(user, "")
        else:
            self._failed((name, host))
            then(None, _WRONG)

    def _is_locked(self, source: tuple[str, str]) -> bool:
        count, since_s = self._failures.get(source, (0, 0.0))
        if count and self._clock.seconds() - since_s >= self._limits.window_s:
            del self._failures[source]
            return False
        return count >= self._limits.failures

    def _failed(self, source: tuple[str, str]) -> None:
        count, since_s = self._failures.pop(source, (0, self._clock.seconds()))
        if len(self._failures) >= self._limits.remembered:
            del self._failures[next(iter(self._failures))]
        self._failures[source] = (count + 1, since_s)


_CHECK_S: Final = 1.0

Changed = Callable[[Collection[str]], None]
"""Callback with the names of users whose sessions must end: removed users, and users with another password or
protocol.
"""


class UsersWatch:
    """Checks every second if the time, size or inode of a users file has changed, and then passes the users to a gate.

    A file that is unreadable or invalid changes nothing; the log names the error, once for each change.
    """

    _log = Logger()

    def __init__(self, path: Path, clock: Any) -> None:
        """Read the file; raise `ExchangeConfigurationError` if it is invalid."""
        self._path, self._clock = path, clock
        self._seen = self._status()
        self.gate = LoginGate(load_users(path), clock)
        """Gate that accepts the users of the file."""
        self._call: Any = None
        self._changed: Changed = lambda gone: None

    def start(self, changed: Changed) -> None:
        """Start to watch; ``changed`` is called after each change that was adopted."""
        self._changed = changed
        self._call = self._clock.callLater(_CHECK_S, self._check)

    def stop(self) -> None:
        """Stop watching."""
        if self._call is not None and self._call.active():
            self._call.cancel()
        self._call = None

    def _status(self) -> tuple[int, int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _check(self) -> None:
        self._call = self._clock.callLater(_CHECK_S, self._check)
        seen = self._status()
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

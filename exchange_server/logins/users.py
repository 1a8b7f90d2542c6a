"""The users file: names, passwords as salted hashes, and limits of the users of the binary ports.

::

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
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec
from twisted.logger import Logger

from deltabook.wire.access import misuse_of_trusted
from deltabook.wire.itch import LARGEST_BROKER
from exchange_server.errors import ExchangeConfigurationError
from exchange_server.matching.order import AccountLimits, SelfTrade

__all__ = ["PasswordHash", "User", "UserProtocol", "check_name", "hash_password", "load_users"]

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

    Its representation does not show the hash.
    """

    __slots__ = ("_digest", "_parameters", "_salt")

    def __init__(self, salt: bytes, digest: bytes, parameters: tuple[int, int, int]) -> None:
        """Create a hash; ``parameters`` are the binary logarithm of the cost, the block size and the parallelism."""
        self._salt = salt
        self._digest = digest
        self._parameters = parameters

    @classmethod
    def parse(cls, text: str) -> PasswordHash:
        """Parse a line of `hash_password`; raise `ValueError` that does not show the line."""
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
    """Policy for orders that would trade with the broker's own."""
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

    Raise `ExchangeConfigurationError` that names the wrong entry and its error. A file that others than its owner may
    write is refused; for one that others may read, a warning is logged.
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
    for name in AccountLimits.__struct_fields__:
        if getattr(entry.limits, name) < 0:
            raise ValueError(f"expected a limit {name} of 0 (none) or more, was {getattr(entry.limits, name)}")
    return User(
        name=check_name(entry.name),
        secret=PasswordHash.parse(entry.password),
        broker_id=entry.broker,
        protocol=entry.protocol,
        limits=entry.limits,
        self_trade=entry.self_trade,
        cancel_on_disconnect=entry.cancel_on_disconnect,
    )

"""The users file: names, passwords and limits of the users of the binary ports.

::

    [[user]]
    name = "ALPHA"                      # up to 6 letters and digits, upper and lower case are the same
    password = "scrypt$14$8$1$...$..."  # deltabook exchange passwd
    broker = 7                          # whose orders they are on the feed; several users may be one broker's
    protocol = "ouch5"                  # or "ouch42"; "itch" may listen and not trade
    self_trade = "newest"               # or "allow" (unless said), "oldest", "both", "decrement"
    cancel_on_disconnect = true         # false unless said

    [user.limits]                       # none unless said
    requests_per_s = 10_000
    open_orders = 5_000
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec
from twisted.logger import Logger

from deltabook.wire.access import misuse_of_trusted
from deltabook.wire.itch import LARGEST_BROKER
from exchange_server.errors import ExchangeConfigurationError
from exchange_server.logins.passwords import PasswordHash
from exchange_server.matching.account import AccountLimits, SelfTrade

__all__ = ["User", "UserProtocol", "check_name", "load_users"]

UserProtocol = Literal["ouch5", "ouch42", "itch"]

_LONGEST_NAME: Final = 6
_MOST_USERS: Final = 10_000

_log = Logger()


class User(msgspec.Struct, frozen=True, kw_only=True):
    """One user."""

    name: str
    """In upper case."""
    secret: PasswordHash
    """Hash of the password."""
    broker_id: int
    """Whose orders they are on the feed."""
    protocol: UserProtocol
    """Protocol on the order port; ``itch`` for users that only listen."""
    limits: AccountLimits
    """Limits of the account."""
    self_trade: SelfTrade
    """Policy for orders that would trade with the broker's own."""
    cancel_on_disconnect: bool
    """True if its live orders end with its last connection."""

    @property
    def account(self) -> str:
        """Its account's name in the market."""
        return f"ouch:{self.name}"


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A user as the file has it."""

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
    """The users of a file by name; raises `ExchangeConfigurationError` that says which entry is wrong and how.

    A file that others than its owner may write is refused, one that they may read is warned of.
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
    """A user's name in upper case; raises `ValueError` for one that no login could carry.

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

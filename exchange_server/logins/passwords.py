"""Passwords as salted hashes."""

from __future__ import annotations

import hashlib
import hmac
import os
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from typing import Final

__all__ = ["LONGEST_PASSWORD", "PasswordHash", "hash_password"]

LONGEST_PASSWORD: Final = 10
"""Characters that a login has room for."""

_LOG2_COST: Final = 14
_BLOCK: Final = 8
_PARALLEL: Final = 1
_SALT_BYTES: Final = 16
_DIGEST_BYTES: Final = 32
_MEMORY_LIMIT_BYTES: Final = 1 << 27
_FORM: Final = "scrypt$LOG2_COST$BLOCK$PARALLEL$SALT$DIGEST"


class PasswordHash:
    """Hash that a password is compared with: scrypt (RFC 7914) with a salt of its own, which makes a guess cost 16 MB
    and some tens of milliseconds. Its representation does not show it."""

    __slots__ = ("_digest", "_parameters", "_salt")

    def __init__(self, salt: bytes, digest: bytes, parameters: tuple[int, int, int]) -> None:
        """``parameters``: binary logarithm of the cost, block size, parallelism."""
        self._salt = salt
        self._digest = digest
        self._parameters = parameters

    @classmethod
    def parse(cls, text: str) -> PasswordHash:
        """From a line of `hash_password`; raises `ValueError` without showing it."""
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
        """One that no password has, and that costs as much to compare."""
        return cls(os.urandom(_SALT_BYTES), os.urandom(_DIGEST_BYTES), (_LOG2_COST, _BLOCK, _PARALLEL))

    def verify(self, password: str) -> bool:
        """Return True if the password is right; takes long, and as long if not: not for the reactor's thread."""
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
    """The line of a users file for a password, with a new salt each time; raises `ValueError` for one that no login
    could carry. As in SoupBinTCP, upper and lower case are the same."""
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

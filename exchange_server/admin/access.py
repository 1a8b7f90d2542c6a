"""Who may run an exchange: programs on this machine, or whoever knows the token."""

from __future__ import annotations

import hmac
import ipaddress
from pathlib import Path
from typing import Final

from exchange_server.errors import ExchangeConfigurationError

__all__ = ["Access", "is_loopback", "read_token"]

_LEAST_TOKEN: Final = 16
_LONGEST_TOKEN: Final = 1_000


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own, also one of IPv4 in IPv6."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def read_token(path: str) -> str:
    """The token that a file holds; raises `ExchangeConfigurationError`."""
    try:
        token = Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not ASCII"
        raise ExchangeConfigurationError(f"expected a token in {path}, was {reason}") from None
    if not (_LEAST_TOKEN <= len(token) <= _LONGEST_TOKEN and token.isprintable() and " " not in token):
        raise ExchangeConfigurationError(
            f"expected a token of {_LEAST_TOKEN} to {_LONGEST_TOKEN} characters without blanks in {path}, "
            f"was one of {len(token)}"
        )
    return token


def _without_port(asked: str) -> str:
    """The host of ``HOST``, ``HOST:PORT`` or ``[ADDRESS]:PORT``."""
    if asked.startswith("["):
        return asked[1:].partition("]")[0]
    return asked.partition(":")[0]


class Access:
    """Decides about requests."""

    def __init__(self, token: str = "") -> None:
        """Without a token everybody on this machine is let in, and nobody else; with one whoever says it."""
        self._expected = f"Bearer {token}".encode("ascii") if token else b""

    def refusal(
        self, host: str, authorization: str | None, origin: str | None, asked: str | None = None
    ) -> tuple[int, str] | None:
        """Why a request from an address is refused, with the HTTP status; None if it is not.

        ``origin`` is what a browser says of a page that changes something or is not this port's: none may.
        ``asked`` is the name and port by which the client knows this one: a page of somebody whose name leads to this
        machine may look at the answers, so that without a token only names of this machine will do.
        """
        if origin is not None:
            return 403, f"expected a program, was a page of {origin}"
        if self._expected:
            said = (authorization or "").encode("utf-8", "surrogateescape")
            return (
                None if hmac.compare_digest(said, self._expected) else (401, "expected the token, was another or none")
            )
        if not is_loopback(host):
            return 403, f"expected a request from this machine, was {host or 'an unknown address'}"
        if asked is not None and not is_loopback(_without_port(asked)):
            return 403, f"expected a request to localhost or a loopback address, was one to {asked[:80]}"
        return None

"""A port for HTTP clients: address, token and certificates, and the errors that every client raises."""

from __future__ import annotations

from typing import Final

import msgspec

from deltabook.wire.access import check_way_of_token, read_token

__all__ = [
    "ARROW",
    "MOST_REASON_BYTES",
    "ClientError",
    "ConnectionFailedError",
    "GoneError",
    "HttpPeer",
    "NotFoundError",
    "ProtocolError",
    "RefusedError",
    "split_address",
]

ARROW: Final = "application/vnd.apache.arrow.stream"
"""Content type of rows as an Arrow stream."""
MOST_REASON_BYTES: Final = 2000
"""Largest number of bytes of a refusal that are read."""
_UNKNOWN_PATH: Final = ("expected one of /", "expected to get one of /")
"""Beginnings of the text with which a port of this system refuses an unknown path."""


class ClientError(Exception):
    """Base of all errors of an HTTP client; the message is one line."""


class ConnectionFailedError(ClientError, ConnectionError):
    """The port cannot be reached, or does not answer within the timeout."""


class ProtocolError(ClientError, ValueError):
    """An answer cannot be understood, or the port serves another purpose."""


class RefusedError(ClientError):
    """The port refuses a request; the message is the port's."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        """HTTP status."""


class NotFoundError(RefusedError, LookupError):
    """There is no such view, reader, cursor or page."""


class GoneError(RefusedError, LookupError):
    """The cursor or epoch no longer exists: the cursor has expired or was evicted, or the epoch was retired."""


_KINDS: Final = {404: NotFoundError, 410: GoneError}


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of HOST:PORT or [ADDRESS]:PORT; raise `ValueError` for any other form."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
        raise ValueError(f"expected HOST:PORT, was {address!r}")
    return host.strip("[]"), int(port)


class HttpPeer(msgspec.Struct, frozen=True):
    """Address and credentials with which a client reaches one port."""

    what: str
    """Description of the port for messages: "a runtime's results service"."""
    where: str
    """Address as HOST:PORT; empty while it is unknown."""
    token: str = ""
    """Token that is sent with every request; empty for none."""
    ca_file: str = ""
    """PEM file with the certificates of the trusted authority; empty: the system's authorities."""
    is_secure: bool = False
    """True if requests are sent over TLS."""

    @classmethod
    def of(cls, what: str, where: str | None, *, token: str = "", token_file: str = "", ca_file: str = "") -> HttpPeer:
        """Return the peer at ``where``, which is HOST:PORT, or ``https://HOST:PORT`` for TLS; ``ca_file`` enables TLS
        in any case. ``where`` is None while the address is unknown.

        Raises `ValueError` for a malformed address, and `AccessError` for an invalid token, or for a token that would
        be sent to another machine without TLS.
        """
        scheme, _, address = (where or "").rpartition("://")
        if scheme not in {"", "http", "https"}:
            raise ValueError(f"expected HOST:PORT, was {where!r}")
        is_secure = scheme == "https" or bool(ca_file)
        peer = cls(what, "", read_token(token_file) if token_file else token, ca_file, is_secure)
        return peer if where is None else peer.at(address)

    def at(self, where: str) -> HttpPeer:
        """Return a peer with the same credentials at HOST:PORT; raise the errors of `of`."""
        split_address(where)
        check_way_of_token(self.token, where, is_encrypted=self.is_secure)
        return msgspec.structs.replace(self, where=where)

    @property
    def url(self) -> str:
        """URL of the port without a path."""
        return f"{'https' if self.is_secure else 'http'}://{self.where}"

    def headers(self, *, has_body: bool = False, accept: str = "") -> dict[str, str]:
        """Return the headers of a request; a body is JSON."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if has_body:
            headers["Content-Type"] = "application/json"
        if accept:
            headers["Accept"] = accept
        return headers

    def lost(self, reason: object) -> ConnectionFailedError:
        """Return the error of a request without an answer, or with an incomplete one."""
        return ConnectionFailedError(f"expected {self.what} at {self.where}, was: {reason}")

    def wrong_port(self) -> ProtocolError:
        """Return the error of a port that serves another purpose."""
        return ProtocolError(f"expected {self.what} at {self.where}, was another port")

    def refusal(self, status: int, body: bytes) -> ClientError:
        """Return the error of a refusal."""
        reason = body[:MOST_REASON_BYTES].decode("utf-8", "replace").strip() or f"HTTP {status}"
        if status == 404 and reason.startswith(_UNKNOWN_PATH):
            return self.wrong_port()
        return _KINDS.get(status, RefusedError)(status, reason)

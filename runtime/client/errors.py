"""What can go wrong between a client and a runtime."""

from __future__ import annotations

__all__ = ["ClientError", "ConnectionFailedError", "GoneError", "NotFoundError", "ProtocolError", "RefusedError"]


class ClientError(Exception):
    """Base of all errors of the client; the message is one line."""


class ConnectionFailedError(ClientError, ConnectionError):
    """Nobody answers, or not for as long as the client waits."""


class ProtocolError(ClientError, ValueError):
    """An answer that this client does not understand."""


class RefusedError(ClientError):
    """The runtime says no; the message is its own."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        """Of HTTP."""


class NotFoundError(RefusedError, LookupError):
    """There is no such view, reader, cursor or page."""


class GoneError(RefusedError, LookupError):
    """A cursor that was closed: it was not used for too long, or made room for others."""

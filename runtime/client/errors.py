"""Errors of the client."""

from __future__ import annotations

__all__ = ["ClientError", "ConnectionFailedError", "GoneError", "NotFoundError", "ProtocolError", "RefusedError"]


class ClientError(Exception):
    """Base of all errors of the client; the message is one line."""


class ConnectionFailedError(ClientError, ConnectionError):
    """The runtime cannot be reached, or does not answer within the timeout."""


class ProtocolError(ClientError, ValueError):
    """The client does not understand an answer."""


class RefusedError(ClientError):
    """The runtime refuses a request; the message is the runtime's."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        """HTTP status."""


class NotFoundError(RefusedError, LookupError):
    """There is no such view, reader, cursor or page."""


class GoneError(RefusedError, LookupError):
    """The cursor or epoch is gone: a cursor expired or was evicted, an epoch was retired."""

# mypy: disable-error-code="no-untyped-call"
# twisted.web is typed in part only.
"""A site of few clients that nobody can fill: bodies, connections and silence have limits."""

from __future__ import annotations

from typing import Any, Final, cast

from twisted.internet.interfaces import IAddress
from twisted.web.resource import Resource
from twisted.web.server import Request as SiteRequest
from twisted.web.server import Site

__all__ = ["MOST_BODY_BYTES", "BoundedSite"]

MOST_BODY_BYTES: Final = 16 * 1024
"""Of a body that is looked at; one more is kept to show that it is too long."""
_HOPELESS_BODY_BYTES: Final = 1024 * 1024
"""Whoever sends so much is not waiting for an answer."""
_MOST_CONNECTIONS: Final = 64
_IDLE_S: Final = 60


class _BoundedRequest(SiteRequest):
    """A request of whose body no more is kept than shows that it is too long."""

    _body_bytes = 0

    def gotLength(self, length: int | None) -> None:
        del length
        super().gotLength(MOST_BODY_BYTES)

    def handleContentChunk(self, data: bytes) -> None:
        room = MOST_BODY_BYTES + 1 - self._body_bytes
        self._body_bytes += len(data)
        if room > 0:
            super().handleContentChunk(data[:room])
        elif self._body_bytes > _HOPELESS_BODY_BYTES:
            cast(Any, self.channel).transport.abortConnection()


class BoundedSite(Site):
    """Takes so many connections at once and no more; each may be silent for so long."""

    noisy = False

    def __init__(self, root: Resource, most_connections: int = _MOST_CONNECTIONS) -> None:
        super().__init__(root, requestFactory=cast(Any, _BoundedRequest), timeout=_IDLE_S)
        self.displayTracebacks = False
        self._most_connections, self._open = most_connections, 0

    def buildProtocol(self, addr: IAddress | None) -> Any:
        if self._open >= self._most_connections:
            return None
        self._open += 1
        connection: Any = super().buildProtocol(addr)
        lost = connection.connectionLost

        def count(reason: Any) -> None:
            self._open -= 1
            lost(reason)

        connection.connectionLost = count
        return connection

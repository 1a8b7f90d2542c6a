# mypy: disable-error-code="no-untyped-call"
# twisted.web is typed in part only.
"""HTTP site for few clients, with limits on bodies, on connections and on the time a request may take to arrive."""

from __future__ import annotations

from typing import Any, Final, cast

from twisted.internet.interfaces import IAddress
from twisted.web.resource import Resource
from twisted.web.server import Request as SiteRequest
from twisted.web.server import Site

__all__ = ["MOST_BODY_BYTES", "BoundedSite"]

MOST_BODY_BYTES: Final = 16 * 1024
"""Longest body that is parsed. One byte more is kept, which shows that a body is too long."""
_ABORTED_BODY_BYTES: Final = 1024 * 1024
"""Body length at which the connection is aborted without an answer."""
_MOST_CONNECTIONS: Final = 64
_IDLE_S: Final = 60
_REQUEST_S: Final = 90
"""Time from the opening of a connection, or from its last answer, to the last byte of its next request. `_IDLE_S`
bounds the pause between two bytes only, so a client that sends a byte a minute would otherwise never time out."""


class _BoundedRequest(SiteRequest):
    """Request that keeps no more of its body than `MOST_BODY_BYTES` and one byte."""

    _body_bytes = 0

    def gotLength(self, length: int | None) -> None:
        del length
        super().gotLength(MOST_BODY_BYTES)

    def handleContentChunk(self, data: bytes) -> None:
        room = MOST_BODY_BYTES + 1 - self._body_bytes
        self._body_bytes += len(data)
        if room > 0:
            super().handleContentChunk(data[:room])
        elif self._body_bytes > _ABORTED_BODY_BYTES:
            cast(Any, self.channel).transport.abortConnection()

    def process(self) -> None:
        channel = cast(Any, self.channel)
        cast(BoundedSite, channel.site).request_arrived(channel.transport)
        super().process()

    def finish(self) -> None:
        channel = cast(Any, self.channel)
        super().finish()
        if channel is not None:
            cast(BoundedSite, channel.site).request_answered(channel.transport)


class BoundedSite(Site):
    """Site with a limit on open connections; a request must arrive in `_REQUEST_S`.

    When every connection is taken, a new one replaces the connection that has been without a whole request for
    longest: clients that open connections and never finish a request cannot keep others out. The new connection is
    closed only if all others have a request that is being answered.
    """

    noisy = False

    def __init__(self, root: Resource, most_connections: int = _MOST_CONNECTIONS) -> None:
        super().__init__(root, requestFactory=cast(Any, _BoundedRequest), timeout=_IDLE_S)
        self.displayTracebacks = False
        self._most_connections = most_connections
        self._open: set[Any] = set()
        """Transports."""
        self._waiting: dict[Any, Any] = {}
        """Transports that wait for the rest of a request, longest first, each with its deadline."""

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """Return a connection, or None if all places are taken by requests that are being answered."""
        if len(self._open) >= self._most_connections:
            if not self._waiting:
                return None
            self._drop(next(iter(self._waiting)))
        connection: Any = super().buildProtocol(addr)
        make, lose = connection.makeConnection, connection.connectionLost

        transports: list[Any] = []

        def made(transport: Any) -> None:
            transports.append(transport)
            self._open.add(transport)
            self.request_answered(transport)
            make(transport)

        def lost(reason: Any) -> None:
            for transport in transports:
                self._forget(transport)
            lose(reason)

        connection.makeConnection, connection.connectionLost = made, lost
        return connection

    def request_arrived(self, transport: Any) -> None:
        """Stop the deadline of a connection whose request has arrived whole."""
        if deadline := self._waiting.pop(transport, None):
            deadline.cancel()

    def request_answered(self, transport: Any) -> None:
        """Start the deadline for the next request of an open connection."""
        if transport in self._open:
            self.request_arrived(transport)
            clock: Any = self.reactor
            self._waiting[transport] = clock.callLater(_REQUEST_S, self._drop, transport)

    def _drop(self, transport: Any) -> None:
        deadline = self._waiting.get(transport)
        if deadline is not None and not deadline.active():
            del self._waiting[transport]
        self._forget(transport)
        transport.abortConnection()

    def _forget(self, transport: Any) -> None:
        self.request_arrived(transport)
        self._open.discard(transport)

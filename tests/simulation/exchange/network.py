"""Connections in memory: real bytes, in pieces and at times that the world chooses."""

from __future__ import annotations

from typing import Any, Final, Protocol

from twisted.internet import error
from twisted.internet.address import IPv4Address
from twisted.python.failure import Failure

__all__ = ["ClientEnd", "Link"]

BUFFER_BYTES: Final = 2_048
"""What waits in a transport before it asks its producer for a pause."""


class ClientEnd(Protocol):
    """What is at the other end of a link."""

    def received(self, data: bytes) -> None:
        """Bytes from the exchange."""

    def lost(self) -> None:
        """The connection is no more."""


class Link:
    """One connection. To the exchange's protocol it is the transport; the world moves the bytes both ways."""

    def __init__(self, client: ClientEnd, protocol: Any, port: int) -> None:
        self.client = client
        self.protocol = protocol
        self.up = bytearray()
        """On the way to the exchange."""
        self.down = bytearray()
        """On the way to the client."""
        self.is_cut = False
        """A partition: nothing arrives, at either end, and nobody says so."""
        self.is_stalled = False
        """The client reads nothing."""
        self.is_over = False
        self._peer = IPv4Address("TCP", "127.0.0.1", port)
        self._producer: Any = None
        self._is_paused = False
        self._reads = True
        self.disconnecting = False
        """The exchange has closed it."""
        protocol.makeConnection(self)

    # The transport

    def write(self, data: bytes) -> None:
        """Bytes for the client."""
        if self.is_over or self.disconnecting:
            return
        self.down += data
        if self._producer is not None and not self._is_paused and len(self.down) > BUFFER_BYTES:
            self._is_paused = True
            self._producer.pauseProducing()

    def writeSequence(self, pieces: Any) -> None:
        """The same in pieces."""
        self.write(b"".join(pieces))

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Who is told when there is too much."""
        assert streaming
        self._producer = producer

    def unregisterProducer(self) -> None:
        """Nobody is any more."""
        self._producer = None

    def pauseProducing(self) -> None:
        """The exchange reads no more for now."""
        self._reads = False

    def resumeProducing(self) -> None:
        """It reads again."""
        self._reads = True

    def loseConnection(self) -> None:
        """It ends when everything has arrived."""
        self.disconnecting = True

    def abortConnection(self) -> None:
        """It ends now, and what has not arrived never will."""
        self.down.clear()
        self.disconnecting = True

    def getPeer(self) -> IPv4Address:
        """The client's address."""
        return self._peer

    def setTcpNoDelay(self, enabled: bool) -> None:
        """As on any socket."""

    # The world's side

    @property
    def can_rise(self) -> bool:
        """Whether bytes can move to the exchange."""
        return bool(self.up) and self._reads and not self.is_cut and not self.is_over

    @property
    def can_fall(self) -> bool:
        """Whether bytes, or the end, can move to the client."""
        return not self.is_cut and not self.is_stalled and not self.is_over and bool(self.down or self.disconnecting)

    def rise(self, most: int) -> None:
        """Move some bytes to the exchange."""
        data = bytes(self.up[:most])
        del self.up[:most]
        if not self.disconnecting:
            self.protocol.dataReceived(data)

    def fall(self, most: int) -> None:
        """Move some bytes to the client, or the end that is behind the last one."""
        if not self.down:
            self.end()
            return
        data = bytes(self.down[:most])
        del self.down[:most]
        self.client.received(data)
        if self._is_paused and len(self.down) <= BUFFER_BYTES // 2 and self._producer is not None:
            self._is_paused = False
            self._producer.resumeProducing()

    def end(self) -> None:
        """Both ends hear that it is no more."""
        if not self.is_over:
            self.is_over = True
            self.client.lost()
            self.protocol.connectionLost(Failure(error.ConnectionDone()))  # type: ignore[no-untyped-call]

    def die(self, arrives: int) -> None:
        """The exchange's process is gone: so many bytes that were on the way still arrive."""
        if not self.is_over:
            self.is_over = True
            if not self.is_cut and not self.is_stalled:
                self.client.received(bytes(self.down[:arrives]))
            self.client.lost()

"""Connections in memory: real bytes, delivered in pieces and at times that the world chooses."""

from __future__ import annotations

from typing import Any, Final, Protocol

from twisted.internet import error
from twisted.internet.address import IPv4Address
from twisted.python.failure import Failure

__all__ = ["ClientEnd", "Link"]

BUFFER_BYTES: Final = 2_048
"""Number of bytes pending in a transport above which it pauses its producer."""


class ClientEnd(Protocol):
    """Client's end of a link."""

    def received(self, data: bytes) -> None:
        """Process bytes from the exchange."""

    def lost(self) -> None:
        """Note that the connection has ended."""


class Link:
    """One connection. It is the transport of the exchange's protocol; the world moves the bytes in both directions."""

    def __init__(self, client: ClientEnd, protocol: Any, port: int) -> None:
        self.client = client
        self.protocol = protocol
        self.up = bytearray()
        """Bytes on the way to the exchange."""
        self.down = bytearray()
        """Bytes on the way to the client."""
        self.is_cut = False
        """True in a partition: nothing arrives at either end, without notification."""
        self.is_stalled = False
        """True while the client reads nothing."""
        self.is_over = False
        self._peer = IPv4Address("TCP", "127.0.0.1", port)
        self._producer: Any = None
        self._is_paused = False
        self._reads = True
        self.disconnecting = False
        """True once the exchange has closed the connection."""
        protocol.makeConnection(self)

    # -- the transport

    def write(self, data: bytes) -> None:
        """Send bytes to the client."""
        if self.is_over or self.disconnecting:
            return
        self.down += data
        if self._producer is not None and not self._is_paused and len(self.down) > BUFFER_BYTES:
            self._is_paused = True
            self._producer.pauseProducing()

    def writeSequence(self, pieces: Any) -> None:
        """Send pieces of bytes to the client."""
        self.write(b"".join(pieces))

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Register the producer that is paused when too many bytes are pending."""
        assert streaming
        self._producer = producer

    def unregisterProducer(self) -> None:
        """Remove the producer."""
        self._producer = None

    def pauseProducing(self) -> None:
        """Pause reading by the exchange."""
        self._reads = False

    def resumeProducing(self) -> None:
        """Resume reading by the exchange."""
        self._reads = True

    def loseConnection(self) -> None:
        """Close the connection after everything has arrived."""
        self.disconnecting = True

    def abortConnection(self) -> None:
        """Close the connection now; bytes on the way to the client are lost."""
        self.down.clear()
        self.disconnecting = True

    def getPeer(self) -> IPv4Address:
        """Return the client's address."""
        return self._peer

    def setTcpNoDelay(self, enabled: bool) -> None:
        """Do nothing; exists as on any socket."""

    # -- the world

    @property
    def can_rise(self) -> bool:
        """True if bytes can move to the exchange."""
        return bool(self.up) and self._reads and not self.is_cut and not self.is_over

    @property
    def can_fall(self) -> bool:
        """True if bytes, or the end, can move to the client."""
        return not self.is_cut and not self.is_stalled and not self.is_over and bool(self.down or self.disconnecting)

    def rise(self, most: int) -> None:
        """Move some bytes to the exchange."""
        data = bytes(self.up[:most])
        del self.up[:most]
        if not self.disconnecting:
            self.protocol.dataReceived(data)

    def fall(self, most: int) -> None:
        """Move some bytes to the client, or the end after the last one."""
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
        """Notify both ends that the connection has ended."""
        if not self.is_over:
            self.is_over = True
            self.client.lost()
            self.protocol.connectionLost(Failure(error.ConnectionDone()))  # type: ignore[no-untyped-call]

    def die(self, arrives: int) -> None:
        """End the connection with the exchange's process; ``arrives`` bytes on the way still arrive."""
        if not self.is_over:
            self.is_over = True
            if not self.is_cut and not self.is_stalled:
                self.client.received(bytes(self.down[:arrives]))
            self.client.lost()

"""One SoupBinTCP connection, the server's end: a login, heartbeats both ways, and a stream of sequenced messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from deltabook.wire.errors import WireError
from deltabook.wire.soupbin import (
    CLIENT_HEARTBEAT,
    CLIENT_PACKET_LIMIT_BYTES,
    DEBUG,
    LOGIN,
    LOGOUT,
    UNSEQUENCED,
    LoginAccepted,
    LoginRejected,
    LoginRequest,
    Packet,
    PacketSplitter,
    encode_login_reply,
    encode_packet,
    parse_login,
)
from exchange_server.tail import Tail

if TYPE_CHECKING:
    from exchange_server.nasdaq.server import ItchServer

__all__ = ["SoupConnection"]


@implementer(IPushProducer)
class SoupConnection(Protocol):
    """Speaks with one client; whatever one client does, no other connection notices.

    Reasons are told in debug packets, which clients may show and must otherwise ignore.
    """

    _log = Logger()
    transport: Any

    def __init__(self, server: ItchServer, peer: str) -> None:
        self._server = server
        self._splitter = PacketSplitter(CLIENT_PACKET_LIMIT_BYTES)
        self._login_timeout: Any = None
        self._closed = False
        self.peer = peer
        self.login: LoginRequest | None = None
        """What the client said of itself, once it was accepted."""
        self.tail: Tail | None = None
        self.heard_s = 0.0
        """When something last came from the client (the server's monotonic seconds)."""

    def connectionMade(self) -> None:
        """Wait for a login, but not for ever."""
        if not self._server.admit(self):
            self.reject("A", "the exchange has no room for another connection")
            return
        if hasattr(self.transport, "setTcpNoDelay"):
            self.transport.setTcpNoDelay(True)
        login_timeout_s = self._server.limits.login_timeout_s
        self._login_timeout = self._server.clock.callLater(
            login_timeout_s, self.cut, f"no login within {login_timeout_s:g} s", flush=True
        )

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Forget the client."""
        del reason
        self._closed = True
        self._cancel_timeout()
        self._server.forget(self)

    def _cancel_timeout(self) -> None:
        if self._login_timeout is not None and self._login_timeout.active():
            self._login_timeout.cancel()
        self._login_timeout = None

    def dataReceived(self, data: bytes) -> None:
        """Split into packets; bytes that are none end the connection."""
        if self._closed:
            return
        self.heard_s = self._server.clock.seconds()
        try:
            for packet in self._splitter.split(data):
                self._take(packet)
        except WireError as error:
            self.cut(str(error), flush=True)

    def _take(self, packet: Packet) -> None:
        if self._closed:
            return
        if packet.type == LOGOUT:
            self.cut("logged out", flush=True)
        elif packet.type == DEBUG:
            pass
        elif self.login is None:
            self._log_in(packet)
        elif packet.type not in {CLIENT_HEARTBEAT, UNSEQUENCED}:
            words = "a second login" if packet.type == LOGIN else f"a packet {packet.type!r}"
            raise WireError(f"expected heartbeats, messages or a logout, was {words}")

    def _log_in(self, packet: Packet) -> None:
        login = parse_login(packet)
        self._cancel_timeout()
        self._server.log_in(self, login)

    def accept(self, login: LoginRequest, session: str, sequence: int, tail: Tail) -> None:
        """Answer A and send the stream; from now on the transport says when it has had enough."""
        self.login = login
        self.tail = tail
        self.transport.write(encode_login_reply(LoginAccepted(session, sequence)))
        self.transport.registerProducer(self, True)
        if tail.lag_bytes:
            tail.pump(self._server.clock.seconds())
        else:
            tail.beat(self._server.clock.seconds())

    def reject(self, code: str, reason: str) -> None:
        """Answer J with the reason behind it, and close."""
        if not self._closed:
            self.transport.write(encode_login_reply(LoginRejected("S" if code == "S" else "A")))
            self.cut(f"login rejected: {reason}", flush=True)

    def cut(self, reason: str, *, flush: bool = False) -> None:
        """Close; what is not sent yet is sent first, with the reason (`flush`), or thrown away."""
        if self._closed:
            return
        self._closed = True
        self._cancel_timeout()
        self._log.info("soup: {peer} closed: {reason}", peer=self.peer, reason=reason)
        if self.tail is not None:
            self.tail.paused = True
            self.transport.unregisterProducer()
        if flush:
            self.transport.write(encode_packet(DEBUG, reason.encode("ascii", "replace")))
            self.transport.loseConnection()
        else:
            self.transport.abortConnection()

    def pauseProducing(self) -> None:
        """The transport's buffer is full: send nothing until it has drained."""
        if self.tail is not None:
            self.tail.paused = True

    def resumeProducing(self) -> None:
        """The transport's buffer has drained."""
        if self.tail is not None and not self._closed:
            self.tail.paused = False
            self.tail.pump(self._server.clock.seconds())

    def stopProducing(self) -> None:
        """The transport is gone."""
        if self.tail is not None:
            self.tail.paused = True

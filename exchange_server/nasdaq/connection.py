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
from exchange_server.readers import Reader
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
        self.peer = peer
        self.reader = Reader(self, server.clock)
        self.login: LoginRequest | None = None
        """What the client said of itself, once it was accepted."""
        self.heard_s = 0.0
        """When something last came from the client (the server's monotonic seconds)."""

    def connectionMade(self) -> None:
        """Wait for a login, but not for ever."""
        if self._server.readers.admit(self):
            self.reader.await_login(self._server.limits.login_timeout_s, lambda reason: self.cut(reason, flush=True))
        else:
            self.reject("A", "the exchange has no room for another connection")

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Forget the client."""
        del reason
        self.reader.lost()
        self._server.readers.forget(self)

    def dataReceived(self, data: bytes) -> None:
        """Split into packets; bytes that are none end the connection."""
        if self.reader.is_closed:
            return
        self.heard_s = self._server.clock.seconds()
        try:
            for packet in self._splitter.split(data):
                self._take(packet)
        except WireError as error:
            self.cut(str(error), flush=True)

    def _take(self, packet: Packet) -> None:
        if self.reader.is_closed:
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
        self.reader.logged_in()
        self._server.log_in(self, login)

    def accept(self, login: LoginRequest, session: str, sequence: int, tail: Tail) -> None:
        """Answer A and send the stream; from now on the transport says when it has had enough."""
        self.login = login
        self.transport.write(encode_login_reply(LoginAccepted(session, sequence)))
        self.reader.follow(tail)
        if tail.lag_bytes:
            tail.pump(self._server.clock.seconds())
        else:
            tail.beat(self._server.clock.seconds())

    def reject(self, code: str, reason: str) -> None:
        """Answer J with the reason behind it, and close."""
        if not self.reader.is_closed:
            self.transport.write(encode_login_reply(LoginRejected("S" if code == "S" else "A")))
            self.cut(f"login rejected: {reason}", flush=True)

    def cut(self, reason: str, *, flush: bool = False) -> None:
        """Close; what is not sent yet is sent first, with the reason (`flush`), or thrown away."""
        if self.reader.is_closed:
            return
        self._log.info("soup: {peer} closed: {reason}", peer=self.peer, reason=reason)
        self.reader.close(flush=flush, last_words=encode_packet(DEBUG, reason.encode("ascii", "replace")))

    def pauseProducing(self) -> None:
        """The transport's buffer is full: send nothing until it has drained."""
        self.reader.pause()

    def resumeProducing(self) -> None:
        """The transport's buffer has drained."""
        self.reader.resume()

    def stopProducing(self) -> None:
        """The transport is gone."""
        self.reader.pause()

# mypy: disable-error-code="no-untyped-call"
# twisted.web is typed in part only.
"""A WebSocket in the place of an HTTP request, with a bound on everything that comes in and goes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from twisted.internet.interfaces import IPushProducer
from twisted.python.failure import Failure
from twisted.web.http import Request
from twisted.web.server import NOT_DONE_YET
from wsproto import ConnectionType
from wsproto.connection import Connection, ConnectionState
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Ping, Pong, TextMessage
from wsproto.handshake import H11Handshake
from wsproto.utilities import LocalProtocolError, RemoteProtocolError
from zope.interface import implementer

from deltabook.wire.stream import GOING_AWAY, NOT_TEXT, TOO_LARGE

__all__ = ["NotUpgradedError", "Receiver", "WebSocket", "upgraded"]

_PING_S: Final = 20.0
_SILENCE_S: Final = 60.0
_LINGER_S: Final = 5.0
"""A peer that was told to close and does not is cut off."""
_LONGEST_REASON: Final = 120
"""Bytes; a close frame has room for 123."""


class NotUpgradedError(ValueError):
    """A request that does not ask for a WebSocket as RFC 6455 says."""


class Receiver(Protocol):
    """Who hears of a WebSocket."""

    def received(self, text: str) -> None:
        """A whole message."""

    def full(self) -> None:
        """The peer does not take what is sent."""

    def drained(self) -> None:
        """It does again."""

    def lost(self) -> None:
        """The connection is gone."""


@implementer(IPushProducer)
class WebSocket:
    """One connection; nothing is read from a peer that does not take what is sent."""

    def __init__(self, connection: Connection, channel: Any, clock: Any, longest_bytes: int) -> None:
        self._connection = connection
        self._channel = channel
        self._clock = clock
        self._longest_bytes = longest_bytes
        self._receiver: Receiver | None = None
        self._pieces: list[str] = []
        self._held = 0
        self._lost_channel = channel.connectionLost
        self._is_leaving = False
        self._heard_s = clock.seconds()
        self._timer: Any = clock.callLater(_PING_S, self._look)
        self.transport: Any = None

    @property
    def is_open(self) -> bool:
        """Whether anything can be sent."""
        return self._connection.state is ConnectionState.OPEN

    def begin(self, receiver: Receiver) -> None:
        """Here is who hears of it."""
        self._receiver = receiver

    def send(self, text: str) -> None:
        """Send a message; what does not fit is kept, so that `Receiver.full` is to be heeded."""
        if self.is_open:
            self._write(TextMessage(data=text))

    def close(self, code: int, reason: str = "") -> None:
        """Say goodbye behind what was sent."""
        if self.is_open:
            short = reason.encode()[:_LONGEST_REASON].decode(errors="ignore")
            self._write(CloseConnection(code=code, reason=short))
            self._leave()

    # For twisted's channel

    def makeConnection(self, transport: Any) -> None:
        """The channel is a WebSocket from now on."""
        self.transport = transport
        self._channel.registerProducer(self, True)

    def dataReceived(self, data: bytes) -> None:
        """Bytes of the peer, whatever they are."""
        self._heard_s = self._clock.seconds()
        if self._connection.state is ConnectionState.CLOSED:
            return
        try:
            self._connection.receive_data(data)
            for event in self._connection.events():
                self._happened(event)
        except (LocalProtocolError, RemoteProtocolError):  # what comes behind a close
            self._cut()

    def connectionLost(self, reason: Failure) -> None:
        """The connection is gone; the channel and who watches it must know as well."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.lost()
        self._lost_channel(reason)

    def pauseProducing(self) -> None:
        """The transport holds as much as it likes to."""
        if not self._is_leaving:
            self.transport.pauseProducing()
        if self._receiver is not None:
            self._receiver.full()

    def resumeProducing(self) -> None:
        """It has room again."""
        if not self._is_leaving:
            self.transport.resumeProducing()
        if self._receiver is not None:
            self._receiver.drained()

    def stopProducing(self) -> None:
        """The transport is gone."""

    def _happened(self, event: Any) -> None:
        if isinstance(event, TextMessage):
            self._held += max(1, len(event.data.encode("utf-8", "surrogatepass")))  # a piece without text costs too
            if self._held > self._longest_bytes:
                self._pieces.clear()
                self.close(TOO_LARGE, f"expected a message of at most {self._longest_bytes} bytes")
                return
            self._pieces.append(event.data)
            if event.message_finished:
                text = "".join(self._pieces)
                self._pieces, self._held = [], 0
                if self._receiver is not None and self.is_open:
                    self._receiver.received(text)
        elif isinstance(event, BytesMessage):
            self.close(NOT_TEXT, "expected text")
        elif isinstance(event, Ping):
            if self.is_open:
                self._write(event.response())
        elif isinstance(event, CloseConnection):
            if self._connection.state is not ConnectionState.CLOSED:
                self._write(event.response())
            self._leave()
        else:
            assert isinstance(event, Pong), event

    def _look(self) -> None:
        """Now and then: is the peer there?"""
        silent_s = self._clock.seconds() - self._heard_s
        if silent_s >= _SILENCE_S:
            self.close(GOING_AWAY, "nothing was heard for too long")
            self._cut()
            return
        if self.is_open:
            self._write(Ping())
        self._timer = self._clock.callLater(_PING_S, self._look)

    def _write(self, event: Any) -> None:
        self.transport.write(self._connection.send(event))

    def _leave(self) -> None:
        if self._is_leaving:  # the peer answers a goodbye with one
            return
        self._is_leaving = True
        self._channel.loseConnection()  # which is no producer any more then: TLS would wait for that
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = self._clock.callLater(_LINGER_S, self._cut)

    def _cut(self) -> None:
        abort = getattr(self.transport, "abortConnection", None) or self.transport.loseConnection
        abort()


def upgraded(request: Request, clock: Any, longest_bytes: int, receiver: Callable[[WebSocket], Receiver]) -> int:
    """Make a WebSocket of a request; raises `NotUpgradedError`, and then nothing was done."""
    channel: Any = request.channel
    handshake = H11Handshake(ConnectionType.SERVER)
    headers = [(name, value) for name, values in request.requestHeaders.getAllRawHeaders() for value in values]
    try:
        handshake.initiate_upgrade_connection(headers, request.path)
        answer = handshake.send(AcceptConnection())
    except (RemoteProtocolError, LocalProtocolError) as error:
        raise NotUpgradedError(str(error) or "no upgrade") from None
    connection = handshake.connection
    assert connection is not None
    socket = WebSocket(connection, channel, clock, longest_bytes)
    channel._protocolUpgradeForWebsockets(socket)  # as twisted.web.websocket does, which bounds no message
    socket.transport.write(answer)
    socket.begin(receiver(socket))
    return NOT_DONE_YET

# mypy: disable-error-code="no-untyped-call"
# twisted.web is typed in part only.
"""WebSocket made from an HTTP request, with a limit on received messages and a signal when the send buffer is full."""

from __future__ import annotations

import binascii
from collections.abc import Callable
from typing import Any, Final, Protocol

import h11
from twisted.internet.interfaces import IPushProducer
from twisted.python.failure import Failure
from twisted.web.http import Request
from twisted.web.server import NOT_DONE_YET
from wsproto import ConnectionType
from wsproto.connection import Connection, ConnectionState
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Ping, Pong, TextMessage
from wsproto.frame_protocol import Opcode
from wsproto.handshake import H11Handshake
from wsproto.utilities import LocalProtocolError, RemoteProtocolError
from zope.interface import implementer

from deltabook.wire.stream import GOING_AWAY, NOT_TEXT, PROTOCOL_ERROR, TOO_LARGE

__all__ = ["UPGRADE_HEADERS", "NotUpgradedError", "Receiver", "WebSocket", "upgraded"]

UPGRADE_HEADERS: Final = {"upgrade": "websocket", "connection": "upgrade", "sec-websocket-version": "13"}
"""Headers of the answer 426 to a request that does not ask for a WebSocket."""

_PING_S: Final = 20.0
"""Interval in seconds between two pings."""
_SILENCE_S: Final = 60.0
"""Time in seconds without a byte of the peer after which the peer is disconnected."""
_LINGER_S: Final = 5.0
"""Time in seconds after which a peer that does not answer a close frame is disconnected."""
_LONGEST_REASON: Final = 120
"""Greatest length of the reason in a close frame, in bytes; the protocol allows 123."""


_KEY_BYTES: Final = 16
"""Number of bytes of a handshake's key, which is sent in base64."""
_HANDSHAKE: Final = (b"connection", b"host", b"upgrade")
"""Headers that belong to the handshake, in addition to those that begin with ``sec-websocket-``."""


class NotUpgradedError(ValueError):
    """The request is not a request for a WebSocket by RFC 6455; the message gives the reason."""


class Receiver(Protocol):
    """Receiver of a WebSocket's events."""

    def received(self, text: str) -> None:
        """Handle a whole message."""

    def full(self) -> None:
        """Stop sending, because the send buffer is full."""

    def drained(self) -> None:
        """Send again, because the send buffer has room."""

    def lost(self) -> None:
        """Handle the loss of the connection."""


@implementer(IPushProducer)
class WebSocket:
    """WebSocket connection. While its send buffer is full, nothing is read from the peer."""

    def __init__(self, connection: Connection, channel: Any, clock: Any, longest_bytes: int) -> None:
        self._connection = connection
        self._channel = channel
        self._clock = clock
        self._longest_bytes = longest_bytes
        self._receiver: Receiver | None = None
        self._pieces: list[str] = []
        self._bytes = 0
        self._lost_channel = channel.connectionLost
        self._is_closing = self._is_full = False
        self._received_s = clock.seconds()
        self._timer: Any = clock.callLater(_PING_S, self._check_alive)
        self.transport: Any = None

    @property
    def is_open(self) -> bool:
        """True while messages can be sent."""
        return self._connection.state is ConnectionState.OPEN

    def begin(self, receiver: Receiver) -> None:
        """Set the receiver of events."""
        self._receiver = receiver

    def send(self, text: str) -> None:
        """Send a message. It is buffered without a bound, so the caller must stop sending on `Receiver.full`."""
        if self.is_open:
            self._write(TextMessage(data=text))

    def close(self, code: int, reason: str = "") -> None:
        """Send a close frame after the messages."""
        if self.is_open:
            short = reason.encode()[:_LONGEST_REASON].decode(errors="ignore")
            self._write(CloseConnection(code=code, reason=short))
            self._begin_close()

    def abort(self) -> None:
        """Disconnect at once; what was not sent yet is lost."""
        abort = getattr(self.transport, "abortConnection", None) or self.transport.loseConnection
        abort()

    # Called by `deltabook.wire.site.answer_before_closing`

    def input_ended(self) -> None:
        """Send the buffered messages and disconnect; called after the peer has closed its side of the connection."""
        self.close(PROTOCOL_ERROR, "expected a close frame before the end, was none")

    # Twisted's protocol interface, called by the channel

    def makeConnection(self, transport: Any) -> None:
        """Take over the channel's transport."""
        self.transport = transport
        self._channel.registerProducer(self, True)
        self._channel.input_ended = self.input_ended

    def dataReceived(self, data: bytes) -> None:
        """Decode bytes of the peer and handle the events in them."""
        self.take_early()
        self._decode(data)

    def take_early(self) -> None:
        """Handle bytes of the peer that arrived together with its request: the channel has buffered them as the
        beginning of a next request.
        """
        early, self._channel._dataBuffer = self._channel._dataBuffer, []
        if early:
            if not self._is_closing and not self._is_full:
                self.transport.resumeProducing()  # the channel pauses it if there is much
            self._decode(b"".join(early))

    def _decode(self, data: bytes) -> None:
        self._received_s = self._clock.seconds()
        if self._connection.state is ConnectionState.CLOSED:
            return
        try:
            self._connection.receive_data(data)
            for event in self._connection.events():
                self._handle(event)
        except (LocalProtocolError, RemoteProtocolError):  # bytes after a close frame
            self.abort()
        else:
            self._check_announced()

    def _check_announced(self) -> None:
        """Refuse a frame by its header, if the frame is binary or makes the message too long.

        wsproto reports a frame only once a byte of its payload has arrived.
        """
        decoder = self._connection._proto._frame_decoder
        header = decoder.header  # header of the frame whose payload is incomplete
        if header is None or header.opcode.iscontrol():
            return
        if header.opcode is Opcode.BINARY:
            self._refuse_binary()
        elif self._bytes + header.payload_len - decoder.payload_consumed > self._longest_bytes:
            self._refuse_long()

    def connectionLost(self, reason: Failure) -> None:
        """Notify the receiver and the channel that the connection is lost."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.lost()
        self._lost_channel(reason)

    def pauseProducing(self) -> None:
        """Stop reading, because the transport's buffer is full."""
        self._is_full = True
        if not self._is_closing:
            self.transport.pauseProducing()
        if self._receiver is not None:
            self._receiver.full()

    def resumeProducing(self) -> None:
        """Read again, because the transport's buffer has room."""
        self._is_full = False
        if not self._is_closing:
            self.transport.resumeProducing()
        if self._receiver is not None:
            self._receiver.drained()

    def stopProducing(self) -> None:
        """Do nothing, because `connectionLost` follows."""

    def _handle(self, event: Any) -> None:
        if isinstance(event, TextMessage):
            self._bytes += max(1, len(event.data.encode("utf-8", "surrogatepass")))  # an empty piece costs memory too
            if self._bytes > self._longest_bytes:
                self._refuse_long()
                return
            self._pieces.append(event.data)
            if event.message_finished:
                text = "".join(self._pieces)
                self._pieces, self._bytes = [], 0
                if self._receiver is not None and self.is_open:
                    self._receiver.received(text)
        elif isinstance(event, BytesMessage):
            self._refuse_binary()
        elif isinstance(event, Ping):
            if self.is_open:
                self._write(event.response())
        elif isinstance(event, CloseConnection):
            if self._connection.state is not ConnectionState.CLOSED:
                self._write(event.response())
            self._begin_close()
        else:
            assert isinstance(event, Pong), event

    def _refuse_binary(self) -> None:
        self.close(NOT_TEXT, "expected text")

    def _refuse_long(self) -> None:
        self._pieces.clear()
        self.close(TOO_LARGE, f"expected a message of at most {self._longest_bytes} bytes")

    def _check_alive(self) -> None:
        """Send a ping, or disconnect a peer that has been silent for too long; runs periodically."""
        silent_s = self._clock.seconds() - self._received_s
        if silent_s >= _SILENCE_S:
            self.close(GOING_AWAY, "no message was received for too long")
            self.abort()
            return
        if self.is_open:
            self._write(Ping())
        self._timer = self._clock.callLater(_PING_S, self._check_alive)

    def _write(self, event: Any) -> None:
        self.transport.write(self._connection.send(event))

    def _begin_close(self) -> None:
        if self._is_closing:  # the peer answers a close frame with another one
            return
        self._is_closing = True
        self._channel.loseConnection()  # also unregisters the producer, for which TLS would wait
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = self._clock.callLater(_LINGER_S, self.abort)


def upgraded(request: Request, clock: Any, longest_bytes: int, receiver: Callable[[WebSocket], Receiver]) -> int:
    """Upgrade a request to a WebSocket; return ``NOT_DONE_YET`` for the resource to return.

    ``receiver`` makes the receiver of the WebSocket's events; ``longest_bytes`` bounds a received message. For a
    request that does not ask for a WebSocket, raises `NotUpgradedError` and leaves the request unchanged.
    """
    channel: Any = request.channel
    handshake = H11Handshake(ConnectionType.SERVER)
    try:
        handshake.initiate_upgrade_connection(_checked(request), request.path)
        answer = handshake.send(AcceptConnection())
    except (RemoteProtocolError, LocalProtocolError, h11.ProtocolError, UnicodeError) as error:
        raise NotUpgradedError(str(error) or "no upgrade") from None
    connection = handshake.connection
    assert connection is not None
    socket = WebSocket(connection, channel, clock, longest_bytes)
    channel._protocolUpgradeForWebsockets(socket)  # as in twisted.web.websocket, which has no limit of messages
    socket.transport.write(answer)
    socket.begin(receiver(socket))
    clock.callLater(0, socket.take_early)
    return NOT_DONE_YET


def _checked(request: Request) -> list[tuple[bytes, bytes]]:
    """Return the headers of the handshake; raise `NotUpgradedError` for invalid ones, because wsproto does not check
    them.
    """
    headers = [
        (name, value)
        for name, values in request.requestHeaders.getAllRawHeaders()
        if (small := name.lower()) in _HANDSHAKE or small.startswith(b"sec-websocket-")
        for value in values
    ]
    for name, value in headers:
        if not value.isascii():
            raise NotUpgradedError(f"expected {name.decode('ascii', 'replace')} in ASCII, was {value[:80]!r}")
    keys = [value for name, value in headers if name.lower() == b"sec-websocket-key"]
    if keys and not (len(keys) == 1 and _is_key(keys[0])):
        raise NotUpgradedError(f"expected one Sec-WebSocket-Key, {_KEY_BYTES} bytes in base64, was {keys[:2]!r:.80}")
    return headers


def _is_key(value: bytes) -> bool:
    try:
        return len(binascii.a2b_base64(value, strict_mode=True)) == _KEY_BYTES
    except binascii.Error:
        return False

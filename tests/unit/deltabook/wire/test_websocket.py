# mypy: disable-error-code="no-untyped-call"
# Twisted is typed in part only.
"""WebSockets of every port: what a handshake must be, and what is read and sent at the edges of a connection."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.web.http import Request
from twisted.web.resource import Resource
from wsproto import ConnectionType
from wsproto.connection import Connection
from wsproto.events import CloseConnection, Pong, TextMessage

from deltabook.dashboard.frames import Frames
from deltabook.dashboard.pages import Pages
from deltabook.dashboard.process import DashboardMetrics, dashboard_site
from deltabook.wire.access import Access
from deltabook.wire.site import BoundedSite
from deltabook.wire.websocket import NotUpgradedError, Receiver, WebSocket, upgraded

KEY = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
UPGRADE = "Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Version: 13\r\n"
MOST_BYTES = 20_000


class Echo(Receiver):
    """Sends every message back."""

    def __init__(self, socket: WebSocket) -> None:
        self.socket = socket
        self.losses = 0

    def received(self, text: str) -> None:
        """See `Receiver`."""
        self.socket.send(text)

    def full(self) -> None:
        """See `Receiver`."""

    def drained(self) -> None:
        """See `Receiver`."""

    def lost(self) -> None:
        """See `Receiver`."""
        self.losses += 1


class Echoing(Resource):
    """Port of an `Echo`."""

    isLeaf = True

    def __init__(self, clock: Any) -> None:
        super().__init__()
        self.clock = clock

    def render(self, request: Request) -> bytes | int:
        """See `Resource`."""
        try:
            return upgraded(request, self.clock, MOST_BYTES, Echo)
        except NotUpgradedError as error:
            request.setResponseCode(426)
            return str(error).encode()


class Dialled:
    """Connection to an `Echo`, or to a dashboard."""

    def __init__(self, *, is_dashboard: bool = False) -> None:
        self.clock: Any = MemoryReactorClock()
        site: Any = BoundedSite(Echoing(self.clock))
        if is_dashboard:
            pages = Pages(Frames(), self.clock, prepare=lambda _: None, market_ms=lambda: 0)
            site = dashboard_site(pages, dict, DashboardMetrics(dict), Access(), self.clock)
        site.reactor = self.clock
        self.protocol: Any = site.buildProtocol(None)
        transport: Any = StringTransport(peerAddress=IPv4Address("TCP", "127.0.0.1", 40000))
        self.transport = transport
        self.transport.protocol = self.protocol
        self.protocol.makeConnection(self.transport)
        self.ws = Connection(ConnectionType.CLIENT)

    def ask(self, headers: str, rest: bytes = b"") -> bytes:
        """Return the answer to a handshake; ``rest`` is sent in the same segment."""
        head = f"GET /v1/frames HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"
        self.protocol.dataReceived(head.encode("latin-1") + rest)
        self.clock.advance(0)
        data: bytes = self.transport.value()
        self.transport.clear()
        head_bytes, _, frames = data.partition(b"\r\n\r\n")
        if head_bytes.startswith(b"HTTP/1.1 101 "):
            self.ws.receive_data(frames)
        return data

    def events(self) -> list[Any]:
        """Return the events of the frames that have arrived."""
        self.ws.receive_data(self.transport.value())
        self.transport.clear()
        return list(self.ws.events())

    def half_close(self) -> None:
        """Close the client's side of the connection."""
        assert IHalfCloseableProtocol.providedBy(self.protocol)
        self.protocol.readConnectionLost()

    def frame(self, text: str) -> bytes:
        """Return a message as a frame."""
        return self.ws.send(TextMessage(data=text))


@pytest.mark.parametrize("is_dashboard", [False, True])
@pytest.mark.parametrize(
    ("headers", "words"),
    [
        (UPGRADE, "Sec-WebSocket-Key"),
        (KEY, "Connection: Upgrade"),
        (UPGRADE.replace("13", "8") + KEY, "Sec-WebSocket-Version"),
        (UPGRADE.replace("13", "1\xff") + KEY, "in ASCII, was b'1\\xff'"),
        (UPGRADE + KEY + "Sec-WebSocket-Extensions: a\xff\r\n", "expected Sec-WebSocket-Extensions in ASCII"),
        (UPGRADE + KEY + "Sec-WebSocket-Protocol: \xff\r\n", "expected Sec-WebSocket-Protocol in ASCII"),
        (UPGRADE + KEY + "Host: localhost\r\n", "multiple Host"),
        (UPGRADE.replace("keep-alive", "\xff") + KEY, "expected Connection in ASCII"),
        (UPGRADE + "Sec-WebSocket-Key: x\r\n", "16 bytes in base64, was [b'x']"),
        (UPGRADE + "Sec-WebSocket-Key: \xff\r\n", "in ASCII"),
        (UPGRADE + "Sec-WebSocket-Key:\r\n", "16 bytes in base64"),
        (UPGRADE + KEY + KEY, "expected one Sec-WebSocket-Key"),
    ],
)  # fmt: skip
def test_a_malformed_handshake_is_426(headers: str, words: str, is_dashboard: bool) -> None:
    answer = Dialled(is_dashboard=is_dashboard).ask(headers).decode("latin-1")
    assert answer.startswith("HTTP/1.1 426 ")
    assert words.lower() in answer.lower()


@pytest.mark.parametrize("is_dashboard", [False, True])
def test_headers_of_others_may_be_any(is_dashboard: bool) -> None:
    more = 'Cookie: \xff\r\nX: \x01\r\nSec-WebSocket-Extensions: permessage-deflate, ;;=, a="\r\n'
    assert Dialled(is_dashboard=is_dashboard).ask(UPGRADE + KEY + more).startswith(b"HTTP/1.1 101 ")


@pytest.mark.parametrize("size", [1, 19_000])
def test_frames_in_the_segment_of_the_request_are_read(size: int) -> None:
    """They would be lost without a word, and the rest of a frame would be taken for the beginning of one."""
    dialled = Dialled()
    frame = dialled.frame("x" * size)
    dialled.ask(UPGRADE + KEY, frame[:-1])
    assert dialled.transport.producerState == "producing", "the channel pauses it above 16 KiB"
    dialled.protocol.dataReceived(frame[-1:] + dialled.frame("next"))
    texts = [event.data for event in dialled.events() if isinstance(event, TextMessage)]
    assert "".join(texts) == "x" * size + "next"


def test_early_frames_are_read_before_later_bytes() -> None:
    """With TLS more bytes can arrive before the reactor's next turn."""
    dialled = Dialled()
    first, second = dialled.frame("first"), dialled.frame("second")
    head = f"GET / HTTP/1.1\r\nHost: localhost\r\n{UPGRADE}{KEY}\r\n".encode()
    dialled.protocol.dataReceived(head + first)
    dialled.protocol.dataReceived(second)
    dialled.ws.receive_data(dialled.transport.value().partition(b"\r\n\r\n")[2])
    events: list[Any] = list(dialled.ws.events())
    assert [event.data for event in events] == ["first", "second"]


def test_a_half_closed_socket_is_sent_what_was_written() -> None:
    dialled = Dialled()
    dialled.ask(UPGRADE + KEY)
    dialled.protocol.dataReceived(dialled.frame("hello"))
    dialled.half_close()
    message, close = dialled.events()
    assert message.data == "hello"
    assert isinstance(close, CloseConnection)
    assert (close.code, close.reason) == (1002, "expected a close frame before the end, was none")
    assert (dialled.transport.disconnecting, dialled.transport.disconnected) == (True, False)


def test_a_socket_that_is_closed_twice_is_closed_once() -> None:
    dialled = Dialled()
    dialled.ask(UPGRADE + KEY)
    dialled.protocol.dataReceived(dialled.ws.send(CloseConnection(code=1000)))
    dialled.half_close()
    (close,) = dialled.events()
    assert close.code == 1000


@pytest.mark.parametrize(
    ("first", "length", "code"),
    [
        (0x82, 2**62, 1003),
        (0x82, 20_000, 1003),
        (0x02, 2**62, 1003),
        (0x81, 2**62, 1009),
        (0x81, 20_001, 1009),
        (0x01, 20_001, 1009),
    ],
    ids=["binary", "short binary", "begun binary", "text", "text by a byte", "begun text"],
)
def test_an_announced_frame_is_refused_by_its_header(first: int, length: int, code: int) -> None:
    """Its payload is not waited for."""
    dialled = Dialled()
    dialled.ask(UPGRADE + KEY)
    form = "!BBQ" if length >= 2**16 else "!BBH"
    header = struct.pack(form, first, 0x80 | (127 if form == "!BBQ" else 126), length) + bytes(4)
    dialled.protocol.dataReceived(header[:-1])
    assert dialled.events() == []
    dialled.protocol.dataReceived(header[-1:])
    (close,) = dialled.events()
    assert (type(close), close.code) == (CloseConnection, code)
    assert dialled.transport.disconnecting


def test_an_announced_rest_counts_with_what_came_before_it() -> None:
    dialled = Dialled()
    dialled.ask(UPGRADE + KEY)
    begun = dialled.ws.send(TextMessage(data="x" * 15_000, message_finished=False))
    dialled.protocol.dataReceived(begun + b"\x89\xfd" + bytes(4 + 124))
    assert dialled.events() == []
    dialled.protocol.dataReceived(b"\0" + struct.pack("!BBH", 0x80, 0x80 | 126, 5_000) + bytes(4))
    (pong,) = dialled.events()
    assert isinstance(pong, Pong)
    dialled.protocol.dataReceived(bytes(5_000))
    (message,) = [event for event in dialled.events() if isinstance(event, TextMessage)]
    assert len(message.data) == 20_000


def test_an_announced_rest_beyond_the_limit_is_refused() -> None:
    dialled = Dialled()
    dialled.ask(UPGRADE + KEY)
    dialled.protocol.dataReceived(dialled.ws.send(TextMessage(data="x" * 15_000, message_finished=False)))
    dialled.protocol.dataReceived(struct.pack("!BBH", 0x80, 0x80 | 126, 5_001) + bytes(4))
    (close,) = dialled.events()
    assert (type(close), close.code) == (CloseConnection, 1009)

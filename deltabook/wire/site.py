# mypy: disable-error-code="no-untyped-call"
# twisted.web is typed in part only.
"""HTTP site for few clients, with limits on bodies, on connections and on the time that a request may take to arrive.

The module also reads the files of a page, and has the headers that confine the page to the port that serves it.
"""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final, cast

import msgspec
from twisted.internet.interfaces import IAddress, IHalfCloseableProtocol
from twisted.internet.protocol import Protocol
from twisted.web.http import Request
from twisted.web.resource import Resource
from twisted.web.server import Request as SiteRequest
from twisted.web.server import Site
from zope.interface import alsoProvides

from deltabook.wire import SHARED_STYLE

__all__ = [
    "MOST_BODY_BYTES",
    "PAGE_HEADERS",
    "BoundedSite",
    "CrowdedConnection",
    "answer_and_close",
    "answer_before_closing",
    "page_files",
    "read_file",
    "refuse",
    "reply",
]

MOST_BODY_BYTES: Final = 16 * 1024
"""Longest body in bytes that is parsed. One byte more is kept, which shows that a body is too long."""
_ABORTED_BODY_BYTES: Final = 1024 * 1024
"""Body length in bytes at which the connection is aborted without an answer."""
_MOST_CONNECTIONS: Final = 64
_IDLE_S: Final = 60
_REQUEST_S: Final = 90
"""Time in seconds from the opening of a connection, or from its last answer, to the last byte of its next request.
`_IDLE_S` limits only the pause between two bytes, so a client that sends a byte a minute would otherwise never time
out.
"""
_LINGER_S: Final = 5
"""Time in seconds for which a closed connection waits until the client has received the last answer. Without this
limit, a silent client would keep a connection with TLS open.
"""
_MOST_DIGITS: Final = 18
"""Number of digits above which a length is too great for every limit."""
_STATUSES: Final = {
    408: "Request Timeout", 413: "Content Too Large", 414: "URI Too Long", 431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}  # fmt: skip


def answer_and_close(transport: Any, status: int, text: str, clock: Any, *, is_sending: bool = False) -> None:
    """Answer a request that reaches no resource with one line of text, and close the connection once the line is sent.

    If the client ``is_sending``, the connection is closed after `_LINGER_S`, or earlier by the client. If the
    connection were closed while bytes of the client arrive, the system would discard the answer.
    """
    body = text.encode() + b"\n"
    head = f"HTTP/1.1 {status} {_STATUSES[status]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
    retry = "Retry-After: 1\r\n" if status == 503 else ""
    transport.write(f"{head}Content-Length: {len(body)}\r\n{retry}Connection: close\r\n\r\n".encode() + body)
    if not is_sending:
        transport.loseConnection()

    def abort() -> None:
        if transport.connected:  # with TLS, aborting a lost connection raises an error
            transport.abortConnection()

    clock.callLater(_LINGER_S, abort)


def answer_before_closing(connection: Any, clock: Any, most_body_bytes: int) -> None:
    """Answer clients of a site in three cases in which Twisted closes their connection without an answer, or waits.

    * A client closes its side of the connection: buffered answers and messages of a WebSocket are still sent. A
      request that is still being answered is dropped: until something is sent, it is unknown whether the client has
      closed both sides.
    * A line of a request is too long: the answer is 414 or 431.
    * A header announces a body of more than ``most_body_bytes``: the answer is 413, before the body has arrived. A
      length of very many digits, which Python refuses to convert, is recognised by the number of digits.
    """
    channel = connection._channel
    header_received = channel.headerReceived

    def refuse_early(status: int, text: str) -> None:
        # The rest of the request is read and discarded: closing with unread bytes would discard the answer.
        channel.dataReceived = channel.lineReceived = channel.lineLengthExceeded = lambda data: None
        answer_and_close(channel.transport, status, text, clock, is_sending=True)

    def line_exceeded(line: bytes) -> None:
        del line
        status, what = (431, "a header") if channel.requests else (414, "a path and query")
        refuse_early(status, f"expected {what} within {channel.MAX_LENGTH} bytes, was a longer one")

    def header_checked(line: bytes) -> bool:
        name, _, value = line.partition(b":")
        digits = value.strip(b" \t").lstrip(b"0")
        is_length = name.lower() == b"content-length" and digits.isdigit()
        if is_length and (len(digits) > _MOST_DIGITS or int(digits) > most_body_bytes):
            refuse_early(413, f"expected a body of at most {most_body_bytes} bytes, was a longer one")
            return False
        return bool(header_received(line))

    channel.lineLengthExceeded, channel.headerReceived = line_exceeded, header_checked

    def input_ended() -> None:
        if (socket_ended := getattr(channel, "input_ended", None)) is not None:
            socket_ended()
        elif channel.requests or connection._channel is not channel:
            channel.transport.abortConnection()
        else:
            channel.loseConnection()

    connection.readConnectionLost, connection.writeConnectionLost = input_ended, lambda: None
    alsoProvides(connection, IHalfCloseableProtocol)


class CrowdedConnection(Protocol):
    """Connection beyond a limit: answers every request with 503 and the limit, and closes."""

    def __init__(self, text: str, clock: Any) -> None:
        self._text, self._clock = text, clock

    def connectionMade(self) -> None:
        answer_and_close(self.transport, 503, self._text, self._clock)


class _BoundedRequest(SiteRequest):
    """Request that keeps at most `MOST_BODY_BYTES` and one byte of its body."""

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

    At the limit, a new connection replaces the connection whose request has been incomplete for the longest time, so
    clients that never finish a request cannot keep others out. The new connection is refused only if the requests of
    all other connections are being answered. A client that is disconnected in the middle of a request is answered
    first: with 503 if another client replaced it, with 408 if it was too slow.
    """

    noisy = False

    def __init__(self, root: Resource, most_connections: int = _MOST_CONNECTIONS) -> None:
        # By default Twisted parses bodies as forms; no client sends forms.
        super().__init__(
            root, requestFactory=cast(Any, _BoundedRequest), timeout=_IDLE_S, parsePOSTFormSubmission=False
        )
        self.displayTracebacks = False
        self._most_connections = most_connections
        self._open: set[Any] = set()
        """Transports of open connections."""
        self._waiting: dict[Any, Any] = {}
        """Transports that wait for the rest of a request, longest first, each with its deadline."""
        self._begun: set[Any] = set()
        """Waiting transports that have sent the beginning of a request."""

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """Return a connection; at the limit, refuse it if the requests of all others are being answered."""
        crowded = f"expected at most {self._most_connections} connections, was one more"
        if len(self._open) >= self._most_connections:
            if not self._waiting:
                return CrowdedConnection(crowded, self.reactor)
            self._drop(next(iter(self._waiting)), 503, crowded)
        connection: Any = super().buildProtocol(addr)
        make, lose, receive = connection.makeConnection, connection.connectionLost, connection.dataReceived

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

        def received(data: bytes) -> None:
            self._begun.update(transport for transport in transports if transport in self._waiting)
            receive(data)

        connection.makeConnection, connection.connectionLost, connection.dataReceived = made, lost, received
        answer_before_closing(connection, self.reactor, MOST_BODY_BYTES)
        return connection

    def request_arrived(self, transport: Any) -> None:
        """Stop the deadline of a connection whose request has arrived completely."""
        self._begun.discard(transport)
        if deadline := self._waiting.pop(transport, None):
            deadline.cancel()

    def request_answered(self, transport: Any) -> None:
        """Start the deadline for the next request of an open connection."""
        if transport in self._open:
            self.request_arrived(transport)
            clock: Any = self.reactor
            late = f"expected a whole request within {_REQUEST_S} s, was a slower one"
            self._waiting[transport] = clock.callLater(_REQUEST_S, self._drop, transport, 408, late)

    def _drop(self, transport: Any, status: int, text: str) -> None:
        is_begun = transport in self._begun
        deadline = self._waiting.get(transport)
        if deadline is not None and not deadline.active():
            del self._waiting[transport]
        self._forget(transport)
        if is_begun:
            answer_and_close(transport, status, text, self.reactor)
        else:
            transport.abortConnection()

    def _forget(self, transport: Any) -> None:
        self.request_arrived(transport)
        self._open.discard(transport)


def reply(request: Request, status: int, body: bytes, content_type: str) -> bytes:
    """Set the status and the headers of an answer that no cache stores; return the bytes to send, none for HEAD."""
    request.setResponseCode(status)
    request.setHeader("content-type", content_type)
    request.setHeader("cache-control", "no-store")
    request.setHeader("content-length", str(len(body)))
    return b"" if request.method == b"HEAD" else body


def refuse(request: Request, status: int, text: str) -> bytes:
    """Set an error status; return the line of text to send, as `reply` does."""
    return reply(request, status, text.encode("utf-8", "replace") + b"\n", "text/plain; charset=utf-8")


_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
}
PAGE_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
"""Headers that confine a page: only scripts and styles of this port, only connections to this port, and no display in a
frame of another page.
"""


class PageFile(msgspec.Struct, frozen=True):
    """A file of a page."""

    body: bytes
    content_type: str


def page_files(package: str) -> dict[str, PageFile]:
    """Return the files in the folder ``page`` of a package, by path on the port.

    The path of ``page.html`` is ``/``, and ``page.css`` begins with the shared style.
    """
    folder = files(package) / "page"
    by_path = {f"/{file.name}": read_file(file) for file in folder.iterdir() if file.name.partition(".")[2] in _TYPES}
    by_path["/"] = by_path.pop("/page.html")
    own = by_path["/page.css"]
    by_path["/page.css"] = PageFile(SHARED_STYLE.read_bytes() + own.body, own.content_type)
    return by_path


def read_file(file: Traversable) -> PageFile:
    """Return a file with the content type of its extension."""
    return PageFile(file.read_bytes(), _TYPES[file.name.rpartition(".")[2]])

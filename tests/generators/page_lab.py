# mypy: disable-error-code="no-untyped-call"
# Twisted is typed in part only.
"""A page's end of the WebSocket in memory, by an independent library (wsproto)."""

from __future__ import annotations

from typing import Any

import msgspec
from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import AcceptConnection, CloseConnection, Message, Ping, Pong, RejectConnection, Request

from deltabook.wire import stream
from tests.generators.results_lab import ResultsLab

__all__ = ["PageEnd"]

_events: Any = msgspec.json.Decoder(stream.Event)


class PageEnd:
    """One connection of a page to a `ResultsLab`."""

    def __init__(self, lab: ResultsLab, headers: dict[str, str] | None = None) -> None:
        self.protocol, self.transport = lab.connect()
        self.ws = WSConnection(ConnectionType.CLIENT)
        extra = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        data = self.ws.send(Request(host="localhost", target=stream.STREAM_PATH, extra_headers=extra))
        self.closed: tuple[int, str] | None = None
        self.status = 0
        self.pings = self.pongs = 0
        self.protocol.dataReceived(data)
        self.events: list[Any] = []
        self.hear()

    def hear(self) -> list[Any]:
        """Return the events that have arrived since the last call."""
        data = self.transport.value()
        self.transport.clear()
        new: list[Any] = []
        if data and self.closed is None:
            self.ws.receive_data(data)
            text = ""
            for event in self.ws.events():
                if isinstance(event, AcceptConnection):
                    self.status = 101
                elif isinstance(event, RejectConnection):
                    self.status = event.status_code
                elif isinstance(event, Message):
                    text += str(event.data)
                    if event.message_finished:
                        new.append(_events.decode(text))
                        text = ""
                elif isinstance(event, CloseConnection):
                    self.closed = (int(event.code), event.reason or "")
                elif isinstance(event, Ping):
                    self.pings += 1
                    if self.ws.state is ConnectionState.OPEN:
                        self.raw(self.ws.send(event.response()))
                elif isinstance(event, Pong):
                    self.pongs += 1
        self.events += new
        return new

    def raw(self, data: bytes) -> None:
        """Send bytes."""
        self.protocol.dataReceived(data)

    def say(self, event: Any) -> list[Any]:
        """Send the bytes of an event; return the arrived events."""
        self.raw(self.ws.send(event))
        return self.hear()

    def ask(self, request: stream.Request | str) -> list[Any]:
        """Send a request, or any text; return the arrived events."""
        text = request if isinstance(request, str) else msgspec.json.encode(request).decode()
        return self.say(Message(data=text))

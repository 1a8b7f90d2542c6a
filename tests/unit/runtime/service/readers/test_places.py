"""Plain streams of readers: a break is waited out and connected again, a clean end is the end."""

from __future__ import annotations

from typing import Any

from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.python.failure import Failure

from runtime.formats import RawBuffer
from runtime.service.readers.kinds import PlainStream
from runtime.sources import Position


class Sink:
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def offer(self, raw: RawBuffer) -> bool:
        self.heard.append(raw.data)
        return True

    def end_of_stream(self, origin_id: int) -> None:
        self.heard.append("end")

    def failed(self, origin_id: int, reason: str) -> None:
        self.heard.append(f"failed: {reason}")

    def lost(self, origin_id: int, reason: str) -> None:
        self.heard.append("lost")


class Reactor(MemoryReactorClock):  # type: ignore[misc, unused-ignore]  # Twisted's test classes are Any to mypy
    def callFromThread(self, call: Any, *args: Any) -> None:
        call(*args)


class Stream:
    """A source on a reactor in memory, and the newest of its connections."""

    def __init__(self) -> None:
        self.reactor: Any = Reactor()  # type: ignore[no-untyped-call, unused-ignore]
        self.sink = Sink()
        self.source = PlainStream(self.reactor, "127.0.0.1", 1, 3)
        self.source.open(self.sink, Position())

    def connect(self) -> Any:
        _, _, factory, _, _ = self.reactor.tcpClients[-1]
        protocol = factory.buildProtocol(None)
        protocol.makeConnection(StringTransport())  # type: ignore[no-untyped-call, unused-ignore]
        return protocol


def test_a_break_is_told_after_a_while_and_a_clean_end_at_once() -> None:
    stream = Stream()
    assert not stream.source.replays
    connection = stream.connect()
    connection.dataReceived(b"1\n2\n")
    stream.reactor.advance(0)
    connection.connectionLost(Failure(ConnectionLost()))  # type: ignore[no-untyped-call, unused-ignore]
    assert stream.sink.heard == [b"1\n2\n"]
    stream.reactor.advance(1.0)
    assert stream.sink.heard == [b"1\n2\n", "lost"]
    stream.source.reconnect(Position(offset=4))
    again = stream.connect()
    again.dataReceived(b"3\n")
    stream.reactor.advance(0)
    again.connectionLost(Failure(ConnectionDone()))  # type: ignore[no-untyped-call, unused-ignore]
    assert stream.sink.heard[2:] == [b"3\n", "end"]


def test_one_that_is_closed_while_it_waits_says_nothing() -> None:
    stream = Stream()
    stream.connect().connectionLost(Failure(ConnectionLost()))  # type: ignore[no-untyped-call, unused-ignore]
    stream.source.close()
    stream.reactor.advance(5.0)
    assert stream.sink.heard == []

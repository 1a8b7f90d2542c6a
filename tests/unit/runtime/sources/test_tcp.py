"""Plain TCP streams on in-memory transports: ends, losses, senders that connect, many sources in one turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet import error
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.python.failure import Failure

from runtime.formats import RawBuffer
from runtime.formats.codecs import Codec
from runtime.sources import Backoff, Position, TcpSource, Turn


class Reactor(MemoryReactorClock):  # type: ignore[misc, unused-ignore]  # Twisted's test classes are Any to mypy
    """Connections in memory and a clock; calls from threads run at the next turn, as on a reactor."""

    def callFromThread(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self.callLater(0, f, *args, **kwargs)


def reactor() -> Any:
    return Reactor()  # type: ignore[no-untyped-call]  # Twisted's own annotations end here


class Sink:
    """Takes buffers while there is room and writes down everything else."""

    def __init__(self, room: int = 1_000_000) -> None:
        self.room = room
        self.taken: list[RawBuffer] = []
        self.events: list[tuple[str, int, str]] = []

    def offer(self, raw: RawBuffer) -> bool:
        if self.room == 0:
            return False
        self.room -= 1
        self.taken.append(raw)
        return True

    def end_of_stream(self, origin_id: int) -> None:
        self.events.append(("end", origin_id, ""))

    def failed(self, origin_id: int, reason: str) -> None:
        self.events.append(("failed", origin_id, reason))

    def lost(self, origin_id: int, reason: str) -> None:
        self.events.append(("lost", origin_id, reason))


def connect(factory: Any) -> tuple[Any, Any]:
    """The source's end of a connection and its transport."""
    protocol = factory.buildProtocol(None)
    transport: Any = StringTransport()  # type: ignore[no-untyped-call]  # as above
    protocol.makeConnection(transport)
    return protocol, transport


def lose(protocol: Any, kind: Any = error.ConnectionDone) -> None:
    protocol.connectionLost(Failure(kind()))  # type: ignore[no-untyped-call]  # as above


def opened(position: Position | None = None, room: int = 1_000_000, **options: Any) -> tuple[Any, Sink, Any, TcpSource]:
    clock, sink = reactor(), Sink(room)
    source = TcpSource(clock, "127.0.0.1", 4711, 3, **options)
    source.open(sink, position or Position())
    *_, (_host, _port, factory, _timeout, _bind) = clock.tcpClients
    protocol, _ = connect(factory)
    return clock, sink, protocol, source


def test_bytes_begin_at_the_first_and_end_with_the_server() -> None:
    clock, sink, protocol, _ = opened(Position(offset=100))
    protocol.dataReceived(b"one\nt")
    protocol.dataReceived(b"wo")
    clock.advance(0)
    protocol.dataReceived(b"\n")
    lose(protocol)
    assert [(raw.sequence_number, raw.offset, raw.data) for raw in sink.taken] == [
        (1, 100, b"one\ntwo"),
        (2, 107, b"\n"),
    ]
    assert sink.events == [("end", 3, "")]


def test_a_broken_connection_is_a_failure_of_the_source() -> None:
    _, sink, protocol, _ = opened()
    protocol.dataReceived(b"one\n")
    lose(protocol, error.ConnectionLost)
    ((kind, _, reason),) = sink.events
    assert kind == "failed"
    assert "expected 127.0.0.1:4711 to send its stream to the end" in reason
    assert len(sink.taken) == 1


@pytest.mark.parametrize("kind", [error.ConnectionDone, error.ConnectionLost])
def test_a_source_that_reconnects_takes_every_end_for_a_loss(kind: Any) -> None:
    clock, sink, protocol, source = opened(reconnects=True)
    protocol.dataReceived(b"one\ntw")
    lose(protocol, kind)
    assert [event[0] for event in sink.events] == ["lost"]
    source.reconnect(Position(offset=4))
    *_, (_host, _port, factory, _timeout, _bind) = clock.tcpClients
    again, _ = connect(factory)
    again.dataReceived(b"five\n")
    clock.advance(0)
    assert [(raw.sequence_number, raw.offset) for raw in sink.taken] == [(1, 0), (1, 4)]


def test_a_reconnection_that_comes_after_the_close_is_none() -> None:
    """An engine that stops closes its sources while a worker may still ask for what follows a loss."""
    clock, sink, protocol, source = opened(reconnects=True)
    lose(protocol)
    attempts = len(clock.tcpClients)
    source.close()
    source.reconnect(Position())
    clock.advance(100)
    assert (len(clock.tcpClients), [event[0] for event in sink.events]) == (attempts, ["lost"])


def test_offsets_of_compressed_bytes_are_unknown() -> None:
    codec = Codec("zstd")
    clock, sink, protocol, source = opened(codec=codec)
    protocol.dataReceived(b"\x28\xb5")
    clock.advance(0)
    protocol.dataReceived(b"\x2f\xfd")
    clock.advance(0)
    assert [raw.offset for raw in sink.taken] == [-1, -1]
    assert source.codec_at(Position(offset=7)) == codec
    with pytest.raises(ValueError, match="expected a sequential codec for a TCP stream, was per_buffer"):
        TcpSource(None, "127.0.0.1", 1, 1, codec=Codec("lz4", "per_buffer"))


def test_attempts_end() -> None:
    clock, sink = reactor(), Sink()
    source = TcpSource(clock, "127.0.0.1", 4711, 3, backoff=Backoff(first_s=1.0, attempts=2))
    source.open(sink, Position())
    for _ in range(2):
        *_, (_host, _port, factory, _timeout, _bind) = clock.tcpClients
        factory.clientConnectionFailed(
            clock.connectors[-1],
            Failure(error.ConnectionRefusedError()),  # type: ignore[no-untyped-call]  # as above
        )
        clock.advance(1.0)
    ((kind, _, reason),) = sink.events
    assert (kind, "expected a server at 127.0.0.1:4711, was none in 2 attempts" in reason) == ("failed", True)


def test_a_turn_is_one_delayed_call_for_all_sources() -> None:
    """A thousand sources with something in the same turn."""
    clock, sink = reactor(), Sink()
    turn = Turn(clock)
    for origin_id in range(1000):
        TcpSource(clock, "127.0.0.1", 4711, origin_id, turn=turn).open(sink, Position())
    for _host, _port, factory, _timeout, _bind in clock.tcpClients:
        protocol, _ = connect(factory)
        protocol.dataReceived(b"x")
        protocol.dataReceived(b"\n")
    assert len(clock.getDelayedCalls()) == 1
    clock.advance(0)
    assert [raw.data for raw in sink.taken] == [b"x\n"] * 1000


def test_a_raising_call_spares_the_others_of_its_turn() -> None:
    clock, done = reactor(), list[int]()
    turn = Turn(clock)

    def broken() -> None:
        raise ArithmeticError("no")

    for call in (lambda: done.append(1), broken, lambda: done.append(2), lambda: turn.plan(lambda: done.append(3))):
        turn.plan(call)
    with pytest.raises(ArithmeticError):
        clock.advance(0)
    clock.advance(0)
    assert done == [1, 2, 3]
    assert not clock.getDelayedCalls()

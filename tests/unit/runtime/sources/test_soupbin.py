"""The SoupBinTCP feed's client on in-memory transports: login, packets, heartbeats, reconnection, the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet import error
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.python.failure import Failure

from deltabook.wire.soupbin import (
    LoginAccepted,
    LoginRejected,
    LoginRequest,
    PacketSplitter,
    encode_login_reply,
    encode_packet,
    parse_login,
)
from runtime.formats import RawBuffer
from runtime.sources import Position, SoupBinFeedSource

ACCEPTED = encode_login_reply(LoginAccepted("S1", 5))
BEAT = encode_packet(b"H")
END = encode_packet(b"Z")


def message(text: bytes) -> bytes:
    return encode_packet(b"S", text)


class Reactor(MemoryReactorClock):  # type: ignore[misc, unused-ignore]  # Twisted's test classes are Any to mypy
    """Connections in memory and a clock; calls from threads run at the next turn, as on a reactor."""

    def callFromThread(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self.callLater(0, f, *args, **kwargs)


class Sink:
    """Takes buffers while there is room and writes down everything else."""

    def __init__(self) -> None:
        self.room = True
        self.taken: list[RawBuffer] = []
        self.events: list[tuple[str, str]] = []

    def offer(self, raw: RawBuffer) -> bool:
        if self.room:
            self.taken.append(raw)
        return self.room

    def end_of_stream(self, origin_id: int) -> None:
        self.events.append(("end", ""))

    def failed(self, origin_id: int, reason: str) -> None:
        self.events.append(("failed", reason))

    def lost(self, origin_id: int, reason: str) -> None:
        self.events.append(("lost", reason))

    @property
    def data(self) -> bytes:
        return b"".join(raw.data for raw in self.taken)


class Feed:
    """A source, its sink and the exchange's end of its connections."""

    def __init__(self, position: Position | None = None, **options: Any) -> None:
        self.reactor: Any = Reactor()  # type: ignore[no-untyped-call]  # as above
        self.sink = Sink()
        self.source = SoupBinFeedSource(self.reactor, "127.0.0.1", 4711, 3, **options)
        self.source.open(self.sink, position or Position("S1", 5))
        self.connect()

    def connect(self) -> None:
        """Let the newest attempt come through."""
        *_, (_host, _port, factory, _timeout, _bind) = self.reactor.tcpClients
        self.protocol: Any = factory.buildProtocol(None)
        self.transport: Any = StringTransport()  # type: ignore[no-untyped-call]  # as above
        self.protocol.makeConnection(self.transport)

    def receive(self, *chunks: bytes) -> None:
        """These arrive in one turn of the reactor."""
        for chunk in chunks:
            self.protocol.dataReceived(chunk)
        self.reactor.advance(0)

    def lose(self) -> None:
        self.protocol.connectionLost(Failure(error.ConnectionDone()))  # type: ignore[no-untyped-call]

    @property
    def sent(self) -> list[bytes]:
        """The packets that the source has sent after its login."""
        return [packet.type for packet in PacketSplitter().split(self.transport.value())][1:]


def test_login_at_a_position() -> None:
    """The login names session and sequence; the reply is taken off, wherever it is cut, and its figures are kept."""
    feed = Feed(Position("S1", 5, offset=100), username="joe", password="secret")
    (login,) = PacketSplitter().split(feed.transport.value())
    assert parse_login(login) == LoginRequest("joe", "secret", "S1", 5)
    feed.receive(ACCEPTED[:7], ACCEPTED[7:] + message(b"x")[:1], message(b"x")[1:] + BEAT)
    assert feed.source.is_connected
    assert feed.sink.data == message(b"x") + BEAT
    (raw,) = feed.sink.taken
    assert (raw.sequence_number, raw.offset, raw.origin_id) == (1, 100, 3)
    assert (feed.source.session, feed.source.next_sequence) == ("S1", 5)


def test_raw_buffers_follow_each_other_as_the_bytes_came() -> None:
    feed = Feed()
    feed.receive(ACCEPTED)
    feed.receive(BEAT[:1])
    assert feed.sink.taken == []
    feed.receive(BEAT[1:] + message(b"x")[:4])
    feed.receive(message(b"x")[4:] + END)
    assert feed.sink.data == BEAT + message(b"x") + END
    assert [raw.sequence_number for raw in feed.sink.taken] == [1, 2]
    assert feed.sink.taken[1].offset == len(feed.sink.taken[0].data)
    assert feed.sink.events == []


def test_debug_packets_before_the_answer_are_passed_over() -> None:
    feed = Feed()
    feed.receive(encode_packet(b"+", b"hello"))
    feed.receive(ACCEPTED + message(b"x"))
    assert feed.sink.data == message(b"x")


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (
            encode_login_reply(LoginRejected("S")),
            "session S1 from message 5 to be accepted, was rejected, no such session",
        ),
        (
            encode_login_reply(LoginRejected("S")) + encode_packet(b"+", b"expected session S2, was S1"),
            "no such session (S): expected session S2, was S1",
        ),
        (encode_login_reply(LoginRejected("A")), "was rejected, not authorized (A)"),
        (encode_login_reply(LoginAccepted("S1", 9)), "expected session S1 from message 5, was 9"),
        (BEAT, "expected a login's answer"),
        (b"A,S1,5\n", "expected a packet of 3 to"),
    ],
)
def test_a_login_that_cannot_succeed_is_a_failure(reply: bytes, reason: str) -> None:
    feed = Feed()
    feed.receive(reply)
    ((event, said),) = feed.sink.events
    assert event == "failed"
    assert reason in said
    assert feed.transport.disconnecting
    feed.reactor.advance(60)
    assert feed.sent == []


def test_a_login_from_now_on_begins_where_the_exchange_says() -> None:
    feed = Feed(Position())
    feed.receive(encode_login_reply(LoginAccepted("S7", 1234)))
    assert (feed.source.session, feed.source.next_sequence) == ("S7", 1234)


def test_a_heartbeat_every_second_even_when_it_does_not_read() -> None:
    feed = Feed()
    feed.receive(ACCEPTED)
    feed.reactor.pump([0.5] * 6)
    assert feed.sent == [b"R"] * 3
    feed.sink.room = False
    feed.receive(message(b"x"))
    assert feed.transport.producerState == "paused"
    feed.reactor.pump([0.5] * 60)
    assert feed.sent == [b"R"] * 33
    feed.sink.room = True
    feed.source.resume()
    feed.reactor.advance(0)
    assert feed.sink.data == message(b"x")
    feed.source.close()
    feed.reactor.pump([0.5] * 6)
    assert feed.sent == [b"R"] * 33


def test_silence_is_a_lost_connection() -> None:
    feed = Feed(silence_s=3.0)
    feed.receive(ACCEPTED + message(b"x"))
    feed.reactor.advance(2.75)
    feed.receive(BEAT)
    feed.reactor.advance(2.75)
    assert feed.sink.events == []
    feed.reactor.advance(0.25)
    assert [event for event, _ in feed.sink.events] == ["lost"]
    assert "no message for 3 s" in feed.sink.events[0][1]


def test_a_lost_connection_is_made_again_where_the_engine_says() -> None:
    feed = Feed()
    feed.receive(ACCEPTED + message(b"one") + message(b"torn")[:4])
    feed.lose()
    assert [event for event, _ in feed.sink.events] == ["lost"]
    assert not feed.source.is_connected
    feed.source.reconnect(Position("S1", 6, 6))
    feed.connect()
    (login,) = PacketSplitter().split(feed.transport.value())
    assert parse_login(login) == LoginRequest(session="S1", sequence=6)
    feed.receive(encode_login_reply(LoginAccepted("S1", 6)) + message(b"torn"))
    last = feed.sink.taken[-1]
    assert (last.data, last.sequence_number, last.offset) == (message(b"torn"), 1, 6)


def test_a_session_whose_end_was_read_has_ended() -> None:
    feed = Feed()
    feed.receive(ACCEPTED + message(b"x") + END)
    feed.lose()
    feed.source.reconnect(Position("S1", 6))
    feed.connect()
    feed.receive(encode_login_reply(LoginAccepted("S1", 6)) + END[:2], END[2:])
    assert [event for event, _ in feed.sink.events] == ["lost", "end"]
    assert feed.sink.data == message(b"x") + END
    feed.reactor.advance(60)
    assert [event for event, _ in feed.sink.events] == ["lost", "end"]


def test_a_connection_broken_before_the_answer_is_retried() -> None:
    feed = Feed()
    feed.receive(ACCEPTED[:10])
    feed.lose()
    assert feed.sink.events == []
    feed.reactor.advance(0.05)
    feed.connect()
    feed.receive(ACCEPTED + message(b"x"))
    assert feed.sink.data == message(b"x")

"""The text feed's client on in-memory transports: login, buffers, back-pressure, reconnection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
from twisted.internet import error
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.python.failure import Failure

from runtime.formats import RawBuffer
from runtime.sources import Backoff, Position, SourceStateError, TextFeedSource
from runtime.sources import feed as feed_module


class Reactor(MemoryReactorClock):  # type: ignore[misc, unused-ignore]  # Twisted's test classes are Any to mypy
    """Connections in memory and a clock; calls from threads run at the next turn, as on a reactor."""

    def callFromThread(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self.callLater(0, f, *args, **kwargs)


def failure(kind: Any) -> Any:
    return Failure(kind())  # type: ignore[no-untyped-call]  # Twisted's own annotations end here


class Sink:
    """Takes buffers while there is room and writes down everything else."""

    def __init__(self, room: int = 1_000) -> None:
        self.room = room
        self.taken: list[RawBuffer] = []
        self.offers = 0
        self.events: list[tuple[str, str]] = []

    def offer(self, raw: RawBuffer) -> bool:
        self.offers += 1
        if self.room == 0:
            return False
        self.room -= 1
        self.taken.append(raw)
        return True

    def end_of_stream(self, origin_id: int) -> None:
        self.events.append(("end", ""))

    def failed(self, origin_id: int, reason: str) -> None:
        self.events.append(("failed", reason))

    def lost(self, origin_id: int, reason: str) -> None:
        self.events.append(("lost", reason))

    @property
    def texts(self) -> list[bytes]:
        return [raw.data for raw in self.taken]


class Feed:
    """A source, its sink and the exchange's end of its connections."""

    def __init__(self, room: int = 1_000, position: Position | None = None, **options: Any) -> None:
        self.reactor: Any = Reactor()  # type: ignore[no-untyped-call]  # as above
        self.sink = Sink(room)
        self.source = TextFeedSource(self.reactor, "127.0.0.1", 4711, 3, **options)
        self.source.open(self.sink, position or Position("S1", 5))

    def connect(self) -> Any:
        """Let the newest attempt come through."""
        *_, (_host, _port, factory, _timeout, _bind) = self.reactor.tcpClients
        self.protocol: Any = factory.buildProtocol(None)
        self.transport: Any = StringTransport()  # type: ignore[no-untyped-call]  # as above
        self.protocol.makeConnection(self.transport)
        return self.transport

    def login(self, reply: bytes = b"A,S1,5\n") -> None:
        self.connect()
        self.protocol.dataReceived(reply)

    def receive(self, *chunks: bytes) -> None:
        """These arrive in one turn of the reactor."""
        for chunk in chunks:
            self.protocol.dataReceived(chunk)
        self.turn()

    def turn(self) -> None:
        self.reactor.advance(0)

    def refuse(self) -> None:
        """Let the newest attempt fail."""
        *_, (_host, _port, factory, _timeout, _bind) = self.reactor.tcpClients
        connector = self.reactor.connectors[-1]
        factory.clientConnectionFailed(connector, failure(error.ConnectionRefusedError))

    def lose(self) -> None:
        self.protocol.connectionLost(failure(error.ConnectionDone))

    @property
    def attempts(self) -> int:
        return len(self.reactor.tcpClients)


def test_login_at_a_position() -> None:
    """The login names session and sequence; the reply is taken off, its figures are kept."""
    feed = Feed(position=Position("S1", 5, offset=100))
    assert feed.connect().value() == b"1,S1,5\n"
    feed.receive(b"A,S1", b",5\n5,1,", b"1\n")
    assert feed.sink.texts == [b"5,1,", b"1\n"]
    assert (feed.sink.taken[0].sequence_number, feed.sink.taken[0].offset, feed.sink.taken[0].origin_id) == (1, 100, 3)
    assert (feed.source.session, feed.source.next_sequence) == ("S1", 5)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (b"J,session,the session is S2 not S1\n", r"refused (session): the session is S2 not S1"),
        (b"hello\n", "expected a login reply"),
        (b"x" * 2_000, "within 1024 bytes"),
    ],
)
def test_refused_login_is_a_failure(reply: bytes, reason: str) -> None:
    """A login that cannot succeed is told once, with the exchange's words, and not tried again."""
    feed = Feed()
    feed.login(reply)
    ((kind, said),) = feed.sink.events
    assert kind == "failed"
    assert reason in said
    assert feed.transport.disconnecting or feed.transport.disconnected
    feed.lose()
    feed.reactor.advance(100)
    assert feed.attempts == 1
    assert len(feed.sink.events) == 1


def test_bytes_go_out_as_they_arrive() -> None:
    """A transport reads once a turn: there is nothing to wait for."""
    feed = Feed()
    feed.login()
    feed.protocol.dataReceived(b"a\nb")
    feed.protocol.dataReceived(b"\nc\n")
    assert feed.sink.texts == [b"a\nb", b"\nc\n"]
    assert [raw.sequence_number for raw in feed.sink.taken] == [1, 2]
    assert [raw.offset for raw in feed.sink.taken] == [0, 3]


def test_back_pressure_pauses_the_transport() -> None:
    """A refused buffer pauses; after resume it comes first, unchanged, then what was gathered, as one buffer."""
    feed = Feed(room=1)
    feed.login()
    feed.receive(b"one\n")
    feed.receive(b"two\n")
    assert feed.transport.producerState == "paused"
    feed.receive(b"three\n")  # was on its way already
    feed.receive(b"four\n")
    assert feed.sink.offers == 2
    feed.sink.room = 100
    feed.source.resume()
    feed.turn()
    assert feed.transport.producerState == "producing"
    assert feed.sink.texts == [b"one\n", b"two\n", b"three\nfour\n"]
    assert [raw.sequence_number for raw in feed.sink.taken] == [1, 2, 3]


def test_resume_without_room_stays_paused() -> None:
    """A resume that brings no room changes nothing."""
    feed = Feed(room=0)
    feed.login()
    feed.receive(b"one\n")
    feed.source.resume()
    feed.turn()
    assert (feed.sink.offers, feed.transport.producerState) == (2, "paused")


def test_lost_connection_is_told_after_what_was_received() -> None:
    """Bytes received before the loss go to the sink first, also when it refused them; then the loss is told once."""
    feed = Feed(room=0)
    feed.login()
    feed.receive(b"one\n")
    feed.lose()
    assert feed.sink.events == []
    feed.sink.room = 10
    feed.source.resume()
    feed.turn()
    assert feed.sink.texts == [b"one\n"]
    assert [kind for kind, _ in feed.sink.events] == ["lost"]
    assert "127.0.0.1:4711" in feed.sink.events[0][1]
    feed.reactor.advance(100)
    assert feed.attempts == 1, "it waits for the engine to name the position"


def test_reconnect_from_the_position_after_the_last_message() -> None:
    """The new connection asks for the position it was given and numbers its buffers from 1."""
    feed = Feed()
    feed.login()
    feed.receive(b"5,1\n6,")
    feed.lose()
    feed.source.reconnect(Position("S1", 6, offset=4))
    assert feed.connect().value() == b"1,S1,6\n"
    feed.receive(b"A,S1,6\n", b"6,1\n")
    assert [(raw.sequence_number, raw.offset, raw.data) for raw in feed.sink.taken] == [
        (1, 0, b"5,1\n6,"),
        (1, 4, b"6,1\n"),
    ]


def test_reconnect_drops_a_living_connection() -> None:
    """Reconnecting while connected breaks the old connection, of which nothing more is heard."""
    feed = Feed()
    feed.login()
    old = feed.protocol
    feed.source.reconnect(Position("S1", 9))
    old.dataReceived(b"late\n")
    old.connectionLost(failure(error.ConnectionDone))
    feed.turn()
    assert (feed.sink.texts, feed.sink.events) == ([], [])
    assert feed.connect().value() == b"1,S1,9\n"


def test_the_first_attempt_that_fails_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once in a row, as a server of another protocol may keep silent for minutes."""
    said: list[str] = []
    monkeypatch.setattr(feed_module, "_LOG", Mock(warn=lambda text, **values: said.append(text.format(**values))))
    feed = Feed(backoff=Backoff(first_s=1.0, longest_s=1.0, attempts=9))
    for _ in range(3):
        feed.refuse()
        feed.reactor.advance(1.0)
    assert len(said) == 1
    assert said[0].startswith("expected a feed at 127.0.0.1:4711, was none yet: ")
    feed.login()
    feed.lose()
    feed.source.reconnect(Position())
    feed.refuse()
    assert len(said) == 2


def test_attempts_back_off_and_end() -> None:
    """Attempts come after doubling waits up to a longest one, and their number is limited."""
    feed = Feed(backoff=Backoff(first_s=1.0, longest_s=3.0, attempts=4))
    for wait_s in (1.0, 2.0, 3.0):
        feed.refuse()
        before = feed.attempts
        feed.reactor.advance(wait_s - 0.5)
        assert feed.attempts == before
        feed.reactor.advance(0.5)
        assert feed.attempts == before + 1
    assert feed.sink.events == []
    feed.refuse()
    ((kind, reason),) = feed.sink.events
    assert kind == "failed"
    assert "none in 4 attempts" in reason
    feed.reactor.advance(100)
    assert feed.attempts == 4


def test_loss_before_the_login_is_an_attempt() -> None:
    """A connection that closes without an answer is tried again; a login starts the count anew."""
    feed = Feed(backoff=Backoff(first_s=1.0, attempts=2))
    feed.connect()
    feed.lose()
    feed.reactor.advance(1.0)
    assert feed.attempts == 2
    feed.login()
    feed.lose()
    assert [kind for kind, _ in feed.sink.events] == ["lost"]
    feed.source.reconnect(Position("S1", 5))
    feed.refuse()
    feed.reactor.advance(1.0)
    assert feed.attempts == 4


def test_a_silent_connection_is_lost() -> None:
    """Nothing for too long breaks the connection; every byte starts the wait anew."""
    feed = Feed(silence_s=10.0)
    feed.login()
    assert feed.source.is_connected
    feed.reactor.advance(9)
    feed.receive(b"0,H\n")
    feed.reactor.advance(9)
    assert not feed.transport.disconnecting
    feed.reactor.advance(1)
    assert feed.transport.disconnecting
    feed.lose()
    ((kind, reason),) = feed.sink.events
    assert (kind, feed.source.is_connected) == ("lost", False)
    assert "no message for 10 s" in reason
    assert not feed.reactor.getDelayedCalls()


def test_a_login_that_is_never_answered_is_a_failed_attempt() -> None:
    feed = Feed(silence_s=10.0, backoff=Backoff(first_s=1.0, attempts=2))
    feed.connect()
    assert not feed.source.is_connected
    feed.reactor.advance(10)
    assert feed.transport.disconnecting
    feed.lose()
    assert feed.sink.events == []
    feed.reactor.advance(1.0)
    assert feed.attempts == 2


def test_a_paused_connection_may_be_silent() -> None:
    """Under back-pressure nothing is read, so that nothing can be heard; the wait begins with the resumption."""
    feed = Feed(room=0, silence_s=10.0)
    feed.login()
    feed.receive(b"one\n")
    feed.reactor.advance(100)
    assert not feed.transport.disconnecting
    feed.sink.room = 10
    feed.source.resume()
    feed.turn()
    feed.reactor.advance(9)
    assert not feed.transport.disconnecting
    feed.reactor.advance(1)
    assert feed.transport.disconnecting


@pytest.mark.parametrize("when", ["connecting", "waiting", "reading"])
def test_close_is_silent(when: str) -> None:
    """After close nothing is heard and nothing is tried, whatever was under way; twice is as good as once."""
    feed = Feed()
    if when == "waiting":
        feed.refuse()
    if when == "reading":
        feed.login()
        feed.protocol.dataReceived(b"one\n")
    attempts, texts = feed.attempts, feed.sink.texts
    feed.source.close()
    feed.source.close()
    if when == "reading":
        feed.protocol.dataReceived(b"two\n")  # before the reactor has dropped the connection
    feed.reactor.advance(100)
    assert (feed.sink.texts, feed.sink.events, feed.attempts) == (texts, [], attempts)
    assert not feed.reactor.getDelayedCalls()


def test_a_source_is_opened_once() -> None:
    """Opening twice, and reconnecting what was never opened, are errors."""
    feed = Feed()
    with pytest.raises(SourceStateError):
        feed.source.open(feed.sink, Position())
    with pytest.raises(SourceStateError):
        TextFeedSource(None, "127.0.0.1", 1, 1).reconnect(Position())

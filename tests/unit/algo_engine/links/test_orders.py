"""The connection to the exchange: lines in, lines out, and trying again."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet import error, testing
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.python import failure

from algo_engine.errors import LoginRefused, PeerUnreachable, StreamGap
from algo_engine.links.backoff import LinkTimes
from algo_engine.links.orders import OrdersConnection, OrdersLink
from deltabook.wire.text import Accepted, InteractiveLogin, Response

make_transport: Callable[[], Any] = testing.StringTransportWithDisconnection
refused: Callable[[], Exception] = error.ConnectionRefusedError
closed: Callable[[Exception], Any] = failure.Failure


class Reader:
    """A desk that only takes notes."""

    def __init__(self) -> None:
        self.notes: list[object] = []
        self.send: Callable[[bytes], None] = lambda _: None

    def login(self) -> InteractiveLogin:
        return InteractiveLogin(9001, "S1", 5)

    def opened(self, reply: Accepted, send: Callable[[bytes], None]) -> None:
        self.notes.append(reply)
        self.send = send

    def receive(self, response: Response) -> None:
        if response.sequence == 99:
            raise StreamGap("expected 6, was 99")
        self.notes.append(response.action)

    def lost(self) -> None:
        self.notes.append("lost")


class Endpoint:
    """Connects at once to a transport in memory, or refuses."""

    def __init__(self) -> None:
        self.is_open = True
        self.transports: list[Any] = []

    def connect(self, factory: Any) -> Deferred[Any]:
        if not self.is_open:
            return fail(refused())
        protocol = factory.buildProtocol(None)
        transport = make_transport()
        transport.protocol = protocol
        protocol.makeConnection(transport)
        self.transports.append(transport)
        return succeed(protocol)

    def says(self, data: bytes) -> None:
        self.transports[-1].protocol.dataReceived(data)

    def breaks(self) -> None:
        self.transports[-1].protocol.connectionLost(closed(error.ConnectionDone()))


class Rig:
    def __init__(self) -> None:
        self.clock: Any = Clock()
        self.reader, self.endpoint = Reader(), Endpoint()
        self.failures: list[Exception] = []
        self.link = OrdersLink(
            endpoint=self.endpoint,
            reader=self.reader,
            clock=self.clock,
            times=LinkTimes(),
            peer="exchange:1",
            on_failure=self.failures.append,
        )


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_session_logs_in_reads_and_writes(rig: Rig) -> None:
    rig.link.start()
    assert rig.endpoint.transports[0].value() == b"0,9001,S1,5\n"
    rig.endpoint.says(b"A,S1,5,12\n5,1,7,9001,A,10,100,AC")
    rig.endpoint.says(b"ME,12,B\r\n6,1,0,9001,H,0,0,,0,\n")
    assert rig.reader.notes == [Accepted("S1", 5, 12), "A", "H"]
    rig.reader.send(b"hello\n")
    assert rig.endpoint.transports[0].value().endswith(b"hello\n")


def test_a_broker_that_is_new_here_but_not_there_is_warned_of(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[int] = []
    monkeypatch.setattr(OrdersConnection, "_log", SimpleNamespace(warn=lambda text, broker: said.append(broker)))
    monkeypatch.setattr(rig.reader, "login", lambda: InteractiveLogin(9001, "", 1))
    rig.link.start()
    rig.endpoint.says(b"A,S1,1,12\n")
    assert said == [9001]
    rig.endpoint.transports.clear()
    rig.link.start()
    rig.endpoint.says(b"A,S1,1,0\n")
    assert said == [9001]


def test_a_lost_connection_is_tried_again_with_growing_delays(rig: Rig) -> None:
    rig.link.start()
    rig.endpoint.says(b"A,S1,5,12\n")
    rig.endpoint.is_open = False
    rig.endpoint.breaks()
    for delay_s in (0.1, 0.2, 0.4):
        call = rig.clock.getDelayedCalls()[0]
        assert call.getTime() - rig.clock.seconds() == pytest.approx(delay_s)
        rig.clock.advance(delay_s)
    rig.endpoint.is_open = True
    rig.clock.advance(0.8)
    assert len(rig.endpoint.transports) == 2


def test_without_an_answer_for_long_the_engine_ends(rig: Rig) -> None:
    rig.endpoint.is_open = False
    rig.link.start()
    rig.clock.pump([1] * 90)
    assert isinstance(rig.failures[0], PeerUnreachable)
    assert "expected the exchange at exchange:1 to answer within 60 s, was " in str(rig.failures[0])
    assert not rig.clock.getDelayedCalls()


def test_a_refused_login_is_final(rig: Rig) -> None:
    rig.link.start()
    rig.endpoint.says(b"J,session,expected S2 was S1\n")
    assert isinstance(rig.failures[0], LoginRefused)
    assert "refused: session: expected S2 was S1" in str(rig.failures[0])
    rig.clock.advance(10)
    assert len(rig.endpoint.transports) == 1


@pytest.mark.parametrize("line", [b"nonsense\n", b"99,1,7,9001,A,10,100,ACME,12,B\n"])
def test_what_cannot_be_followed_opens_a_new_connection(rig: Rig, line: bytes) -> None:
    rig.link.start()
    rig.endpoint.says(b"A,S1,5,12\n")
    rig.endpoint.says(line)
    assert rig.endpoint.transports[0].disconnected
    rig.endpoint.breaks() if rig.reader.notes[-1] != "lost" else None
    rig.clock.advance(0.1)
    assert len(rig.endpoint.transports) == 2


def test_silence_closes_the_connection(rig: Rig) -> None:
    rig.link.start()
    rig.endpoint.says(b"A,S1,5,12\n")
    rig.clock.advance(9)
    rig.endpoint.says(b"6,1,0,9001,H,0,0,,0,\n")
    rig.clock.advance(9)
    assert not rig.endpoint.transports[0].disconnected
    rig.clock.advance(1)
    assert rig.endpoint.transports[0].disconnected


def test_a_stopped_link_does_not_come_back(rig: Rig) -> None:
    rig.link.start()
    rig.endpoint.says(b"A,S1,5,12\n")
    rig.link.stop()
    rig.clock.advance(100)
    assert len(rig.endpoint.transports) == 1

"""The text server over in-memory transports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from deltabook.wire import text
from exchange_server.clock import MarketClock
from exchange_server.exchange import Exchange
from exchange_server.inputs import AGENT, Input
from exchange_server.journal import Journal
from exchange_server.text import Limits, TextServer
from tests.generators.market import RULES


class Wire(StringTransport):
    """A transport that can be slow, and a client's view of what it got."""

    def abortConnection(self) -> None:
        self.aborting = True
        self.disconnecting = True

    def take(self) -> list[str]:
        lines = bytes(self.io.getvalue()).decode().splitlines()
        self.io.seek(0)
        self.io.truncate()
        return lines


class Floor:
    """An exchange with its server and clients."""

    def __init__(self, path: Path, **limits: object) -> None:
        self.clock = Clock()
        self.exchange = Exchange(Journal(path, RULES, lambda: "SESSION1"), MarketClock(self.clock.seconds, 1_000_000))
        self.failures: list[str] = []
        self.server = TextServer(self.exchange, self.clock, Limits(**limits), self.failures.append)  # type: ignore[arg-type]

    def connect(self, login: str = "") -> tuple[Any, Any]:
        connection: Any = self.server.buildProtocol(None)
        wire: Any = Wire()  # type: ignore[no-untyped-call]
        connection.makeConnection(wire)
        if login:
            connection.dataReceived(login.encode() + b"\n")
        return connection, wire

    def quote(self, count: int = 1) -> None:
        """Somebody rests orders."""
        self.server.submit(
            [Input(AGENT, self.exchange.next_time_ns(), 0, 0, 4, "B", 1, 50, "ACME") for _ in range(count)]
        )
        self.clock.advance(0)


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[Floor]:
    floor = Floor(tmp_path)
    yield floor
    floor.exchange.close()


def sequenced(lines: list[str]) -> list[int]:
    """Numbers of the lines that are not heartbeats; the login's reply is left out."""
    return [int(f[0]) for f in (line.split(",") for line in lines) if len(f) >= 8 and f[4] != "H"]


def test_a_listener_from_now_gets_what_happens_next_and_a_heartbeat_after_the_burst(floor: Floor) -> None:
    floor.quote(2)
    _, wire = floor.connect("1")
    assert wire.take()[0] == "A,SESSION1,3"
    floor.quote(2)
    lines = wire.take()
    assert sequenced(lines) == [3, 4]
    assert lines[-1].split(",")[0::4] == ["5", "H"]


def test_a_listener_may_begin_anywhere_and_misses_and_doubles_nothing(floor: Floor) -> None:
    floor.quote(1000)
    for first in (1, 2, 500, 1000, 1001):
        _, wire = floor.connect(f"1,SESSION1,{first}")
        floor.quote(1)
        assert sequenced(wire.take()) == list(range(first, floor.exchange.market.next_sequence))


def test_a_listener_that_comes_between_a_batch_and_its_broadcast_gets_it_once(floor: Floor) -> None:
    floor.quote(3)
    batch = [Input(AGENT, floor.exchange.next_time_ns(), 0, 0, 4, "B", 1, 50, "ACME")]
    floor.server.submit(batch)
    _, wire = floor.connect("1,,1")
    _, now = floor.connect("1")
    floor.clock.advance(0)
    floor.quote(1)
    assert sequenced(wire.take()) == [1, 2, 3, 4, 5]
    assert sequenced(now.take()) == [5]


@pytest.mark.parametrize(
    ("login", "code", "words"),
    [
        ("1,OTHER,1", "session", "expected session SESSION1 was OTHER"),
        ("1,SESSION1,9", "sequence", "expected a sequence up to 1 was 9"),
        ("0,7,OTHER,1", "session", "expected session SESSION1 was OTHER"),
        ("0,7,SESSION1,2", "sequence", "expected a sequence up to 1 was 2"),
        ("hello", "login", "expected a login"),
        ("0,-3", "login", "broker -3"),
    ],
)
def test_a_login_that_does_not_hold_is_refused_with_what_was_expected(
    floor: Floor, login: str, code: str, words: str
) -> None:
    _, wire = floor.connect(login)
    reply = text.parse_login_reply(wire.value())
    assert isinstance(reply, text.Refused)
    assert (reply.code, wire.disconnecting) == (code, True)
    assert words in reply.reason


def test_a_slow_listener_is_not_written_to_and_gets_the_rest_from_disk(floor: Floor) -> None:
    slow, wire = floor.connect("1,,1")
    _, other = floor.connect("1,,1")
    slow.pauseProducing()
    wire.clear()
    floor.quote(5000)
    assert wire.value() == b""
    assert sequenced(other.take()) == list(range(1, 5001))
    slow.resumeProducing()
    floor.quote(1)
    assert sequenced(wire.take()) == list(range(1, 5002))


def test_a_gap_is_filled_chunk_by_chunk_as_the_transport_takes_them(floor: Floor) -> None:
    floor.quote(20_000)
    connection, wire = floor.connect()
    write = wire.write

    def write_and_fill(data: bytes) -> None:
        write(data)
        if len(data) > 65_536:
            connection.pauseProducing()

    wire.write = write_and_fill
    connection.dataReceived(b"1,,1\n")
    got: list[str] = []
    for _ in range(20):
        assert len(wire.value()) <= 140_000
        got += wire.take()
        floor.quote(1)
        connection.resumeProducing()
    got += wire.take()
    assert sequenced(got) == list(range(1, floor.exchange.market.next_sequence))


def test_a_listener_that_falls_too_far_behind_is_cut_and_nobody_else(tmp_path: Path) -> None:
    floor = Floor(tmp_path, lag_bytes=1000)
    slow, wire = floor.connect("1")
    _, other = floor.connect("1")
    slow.pauseProducing()
    floor.quote(100)
    assert getattr(wire, "aborting", False)
    assert not other.disconnecting
    assert sequenced(other.take()) == list(range(1, 101))


def test_a_listener_that_takes_nothing_for_long_is_cut(tmp_path: Path) -> None:
    floor = Floor(tmp_path, stall_s=30)
    slow, wire = floor.connect("1")
    slow.pauseProducing()
    floor.clock.pump([1.0] * 31)
    assert getattr(wire, "aborting", False)


def test_silence_is_broken_by_heartbeats(floor: Floor) -> None:
    _, listener = floor.connect("1")
    _, client = floor.connect("0,7")
    listener.clear()
    client.clear()
    floor.clock.pump([0.25] * 4)
    assert [line.split(",")[0::4] for line in listener.take()] == [["1", "H"]]
    assert [line.split(",")[3:5] for line in client.take()] == [["7", "H"]]


def test_requests_of_one_turn_are_answered_in_order_with_one_write(floor: Floor) -> None:
    connection, wire = floor.connect("0,7")
    assert wire.take()[0] == "A,SESSION1,1,0"
    connection.dataReceived(b"1,0,0,7,B,5,100,ACME\n2,0,0,7,S,2,100,ACME\r\n3,0,1,7,D,0,0,ACME\n")
    assert wire.take() == []
    floor.clock.advance(0)
    assert [line.split(",")[4:] for line in wire.take()] == [
        ["A", "5", "100", "ACME", "1", "B"],
        ["A", "2", "100", "ACME", "2", "S"],
        ["E", "2", "100", "ACME", "1", "maker"],
        ["F", "2", "100", "ACME", "2", "taker"],
        ["D", "3", "100", "ACME", "1", "user"],
        ["H", "0", "0", "", "0", ""],
    ]


def test_a_retransmission_is_answered_and_not_executed(floor: Floor) -> None:
    connection, wire = floor.connect("0,7")
    request = b"1,0,0,7,B,5,100,ACME\n"
    connection.dataReceived(request + request)
    floor.clock.advance(0)
    connection.dataReceived(request)
    wire.take()
    floor.connect("0,7")[0].dataReceived(request)
    floor.clock.advance(0)
    assert floor.exchange.market.orders == 1
    connection.dataReceived(request)
    assert wire.take()[-1].split(",")[0::9] == ["0", "duplicate"]


def test_a_bad_line_is_answered_and_the_next_one_is_executed(floor: Floor) -> None:
    connection, wire = floor.connect("0,7")
    wire.clear()
    connection.dataReceived(b"nonsense\n5,0,0,7,Q,1,1,ACME\n6,0,0,8,B,1,1,ACME\n\xff\n7,0,0,7,B,1,1,ACME\n")
    floor.clock.advance(0)
    lines = [line.split(",") for line in wire.take()]
    assert [(f[0], f[4], f[8]) for f in lines] == [
        ("0", "R", "0"), ("0", "R", "5"), ("0", "R", "6"), ("0", "R", "0"), ("1", "A", "7"), ("2", "H", "0"),
    ]  # fmt: skip


def test_a_line_past_the_limit_ends_the_connection_with_a_reason(floor: Floor) -> None:
    connection, wire = floor.connect("0,7")
    wire.clear()
    connection.dataReceived(b"x" * 2000)
    assert "expected a line of at most 1024 bytes" in wire.take()[0]
    assert wire.disconnecting


def test_a_client_without_a_broker_is_the_broker_of_its_first_request(floor: Floor) -> None:
    connection, wire = floor.connect("0")
    assert wire.take() == ["A,SESSION1,0,0"]
    connection.dataReceived(b"1,0,0,7,B,5,100,ACME\n2,0,0,8,B,5,100,ACME\n")
    floor.clock.advance(0)
    assert [line.split(",")[3:5] for line in wire.take() if ",H," not in line] == [["7", "R"], ["7", "A"]]


def test_a_private_stream_can_be_asked_again_from_any_position(floor: Floor) -> None:
    connection, wire = floor.connect("0,7")
    for number in range(1, 6):
        connection.dataReceived(b"%d,0,0,7,B,5,100,ACME\n" % number)
    floor.clock.advance(0)
    before = [line for line in wire.take()[1:] if ",H," not in line]
    _, again = floor.connect("0,7,SESSION1,2")
    lines = again.take()
    assert lines[0] == "A,SESSION1,2,5"
    assert [line for line in lines[1:] if ",H," not in line] == before[1:]


def test_a_connection_without_a_login_is_closed_and_too_many_are_not_let_in(tmp_path: Path) -> None:
    floor = Floor(tmp_path, connections=2, login_timeout_s=5)
    _, first = floor.connect()
    floor.connect("1")
    _, third = floor.connect()
    assert third.value().startswith(b"J,login,the exchange has no room")
    floor.clock.advance(5)
    assert first.value().startswith(b"J,login,no login within 5 s")


def test_a_journal_that_cannot_be_written_stops_the_exchange_before_anybody_is_answered(floor: Floor) -> None:
    connection, wire = floor.connect("0,7")
    wire.clear()
    floor.exchange.journal.inputs.close()
    connection.dataReceived(b"1,0,0,7,B,5,100,ACME\n")
    floor.clock.advance(0)
    assert len(floor.failures) == 1
    assert wire.take() == []

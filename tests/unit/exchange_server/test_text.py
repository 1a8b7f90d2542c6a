"""The text server over in-memory transports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.interfaces import IHalfCloseableProtocol

from deltabook.wire import text
from exchange_server.journal import FsyncPolicy
from exchange_server.matching.inputs import Enter
from exchange_server.matching.order import AccountLimits
from tests.generators.text_floor import Floor, fields, sequenced


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[Floor]:
    floor = Floor(tmp_path)
    yield floor
    floor.close()


def test_a_listener_from_now_gets_events_and_a_heartbeat(floor: Floor) -> None:
    floor.quote(2)
    _, wire = floor.connect("1")
    assert wire.take()[0] == "A,SESSION1,3"
    floor.quote(2)
    lines = wire.take()
    assert sequenced(lines) == [3, 4]
    assert lines[-1].split(",")[0::4] == ["5", "H"]


def test_a_listener_may_begin_anywhere(floor: Floor) -> None:
    floor.quote(1000)
    for first in (1, 2, 500, 1000, 1001):
        _, wire = floor.connect(f"1,SESSION1,{first}")
        floor.quote(1)
        assert sequenced(wire.take()) == list(range(first, floor.next_number))


def test_a_listener_between_batch_and_broadcast_gets_it_once(floor: Floor) -> None:
    floor.quote(3)
    floor.exchange.submit([floor.timed(Enter(0, 0, 4, 0, "ACME", "B", 1, 50))])
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
        ("0,-3", "login", "expected a broker of 0 or more and at most 10000 brokers was -3"),
    ],
)
def test_an_invalid_login_is_refused_with_what_was_expected(floor: Floor, login: str, code: str, words: str) -> None:
    _, wire = floor.connect(login)
    reply = text.parse_login_reply(wire.value())
    assert isinstance(reply, text.Refused)
    assert (reply.code, wire.disconnecting) == (code, True)
    assert words in reply.reason


def test_a_slow_listener_gets_the_rest_from_disk(floor: Floor) -> None:
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


def test_a_gap_is_filled_as_the_transport_takes_chunks(floor: Floor) -> None:
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
    assert sequenced(got) == list(range(1, floor.next_number))


def test_a_listener_that_falls_too_far_behind_is_cut_alone(tmp_path: Path) -> None:
    floor = Floor(tmp_path, lag_bytes=1000)
    slow, wire = floor.connect("1")
    _, other = floor.connect("1")
    slow.pauseProducing()
    floor.quote(100)
    assert wire.aborting
    assert not other.disconnecting
    assert sequenced(other.take()) == list(range(1, 101))


def test_a_listener_that_takes_nothing_for_long_is_cut(tmp_path: Path) -> None:
    floor = Floor(tmp_path, stall_s=30)
    slow, wire = floor.connect("1")
    slow.pauseProducing()
    floor.clock.pump([1.0] * 31)
    assert wire.aborting


def test_silence_is_broken_by_heartbeats(floor: Floor) -> None:
    _, listener = floor.connect("1")
    _, client = floor.connect("0,7")
    listener.clear()
    client.clear()
    floor.clock.pump([0.25] * 4)
    assert [line.split(",")[0::4] for line in listener.take()] == [["1", "H"]]
    assert [line.split(",")[3:5] for line in client.take()] == [["7", "H"]]


ROUND = b"1,0,0,7,B,5,100,ACME\n2,0,0,7,S,2,100,ACME\r\n3,0,1,7,D,0,0,ACME\n"
ANSWERS = [
    ["A", "5", "100", "ACME", "1", "B"],
    ["A", "2", "100", "ACME", "2", "S"],
    ["E", "2", "100", "ACME", "1", "maker"],
    ["F", "2", "100", "ACME", "2", "taker"],
    ["D", "3", "100", "ACME", "1", "user"],
]


@pytest.mark.parametrize("fsync", ["never", "interval", "always"])
def test_requests_of_a_turn_are_answered_in_order_in_one_write(tmp_path: Path, fsync: FsyncPolicy) -> None:
    floor = Floor(tmp_path, fsync=fsync)
    connection, wire = floor.connect("0,7")
    assert wire.take()[0] == "A,SESSION1,1,0"
    wire.writes = 0
    connection.dataReceived(ROUND)
    assert wire.writes == 0
    floor.clock.advance(0)
    assert wire.writes == 1
    lines = wire.take()
    assert fields(lines) == ANSWERS
    assert lines[-1].split(",")[4:] == ["H", "0", "0", "", "0", ""]
    floor.close()


def test_with_sync_always_a_turns_requests_are_one_batch(tmp_path: Path) -> None:
    floor = Floor(tmp_path, fsync="always")
    connections = [floor.connect(f"0,{broker}") for broker in (7, 8)]
    floor.clock.advance(0)
    before, floor.syncs = floor.exchange.inputs, 0
    for number, broker in enumerate((7, 8, 7)):
        connections[broker - 7][0].dataReceived(b"%d,0,0,%d,B,5,100,ACME\n" % (number + 1, broker))
    assert (floor.exchange.inputs, floor.syncs) == (before, 0)
    floor.clock.advance(0)
    assert (floor.exchange.inputs, floor.syncs) == (before + 3, 1)
    assert [len(fields(wire.take())) for _, wire in connections] == [2, 1]
    floor.close()


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


def test_a_line_past_the_limit_ends_the_connection(floor: Floor) -> None:
    connection, wire = floor.connect("0,7")
    wire.clear()
    connection.dataReceived(b"x" * 2000)
    assert "expected a line of at most 1024 bytes" in wire.take()[0]
    assert wire.disconnecting


def test_a_client_without_a_broker_takes_its_first_requests(floor: Floor) -> None:
    connection, wire = floor.connect("0")
    assert wire.take() == ["A,SESSION1,0,0"]
    connection.dataReceived(b"1,0,0,7,B,5,100,ACME\n2,0,0,8,B,5,100,ACME\n")
    floor.clock.advance(0)
    assert [line.split(",")[3:5] for line in wire.take() if ",H," not in line] == [["7", "R"], ["7", "A"]]


def test_a_refused_first_request_is_named_in_the_answer(tmp_path: Path) -> None:
    floor = Floor(tmp_path, brokers=1)
    floor.connect("0,7")
    connection, wire = floor.connect("0")
    wire.clear()
    connection.dataReceived(b"12,0,0,8,B,5,100,ACME\n")
    (line,) = wire.take()
    assert line.split(",")[4::4] == ["R", "12"]
    assert "at most 1 brokers was 8" in line


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


def test_logins_have_a_time_limit_and_connections_a_bound(tmp_path: Path) -> None:
    floor = Floor(tmp_path, connections=2, login_timeout_s=5)
    _, first = floor.connect()
    floor.connect("1")
    _, third = floor.connect()
    assert third.value().startswith(b"J,login,the exchange has no room")
    floor.clock.advance(5)
    assert first.value().startswith(b"J,login,no login within 5 s")


def test_a_failing_journal_stops_the_exchange_before_answers(floor: Floor) -> None:
    connection, wire = floor.connect("0,7")
    wire.clear()
    floor.exchange.journal.close()
    connection.dataReceived(b"1,0,0,7,B,5,100,ACME\n")
    floor.clock.advance(0)
    assert len(floor.failures) == 1
    assert wire.take() == []


def test_a_brokers_connections_share_stream_and_client_ids(floor: Floor) -> None:
    first, one = floor.connect("0,7")
    second, two = floor.connect("0,7")
    assert floor.server.clients == 2
    first.dataReceived(b"1,0,0,7,B,5,100,ACME\n")
    second.dataReceived(b"1,0,0,7,B,9,100,ACME\n2,0,1,7,X,2,0,ACME\n")
    floor.clock.advance(0)
    told = [["A", "5", "100", "ACME", "1", "B"], ["X", "2", "100", "ACME", "2", "user"]]
    assert fields(one.take()) == told
    assert [f for f in fields(two.take()) if f[0] != "R"] == told


def test_requests_have_options_replace_and_cancel_all(floor: Floor) -> None:
    connection, wire = floor.connect("0,7")
    _, listener = floor.connect("1,,1")
    requests = [
        "1,0,0,7,S,9,100,ACME,show=4",
        "2,0,0,7,B,4,100,ACME,ioc;min=4",
        "3,0,0,7,B,3,90,GLOBEX,stop=95",
        "4,0,0,7,B,3,90,ACME",
        "5,0,4,7,U,3,91,GLOBEX",
        "6,0,5,7,U,3,90,ACME",
        "7,0,0,7,M,0,0,ACME",
        "8,0,0,7,B,1,90,ACME,post;hidden",
    ]
    connection.dataReceived("".join(line + "\n" for line in requests).encode())
    floor.clock.advance(0)
    said = [(f[0], f[1], f[4]) for f in fields(wire.take())]
    assert said == [
        ("A", "9", "1"),
        ("A", "4", "2"),
        ("E", "4", "1"),
        ("F", "4", "2"),
        ("N", "4", "1"),
        ("A", "3", "3"),
        ("A", "3", "4"),
        ("U", "3", "5"),
        ("U", "3", "6"),
        ("D", "3", "4"),
        ("D", "5", "1"),
        ("R", "1", "8"),
    ]
    assert [line.split(",")[4:6] for line in listener.take()[1:] if ",H," not in line] == [
        ["S", "4"],
        ["F", "4"],
        ["S", "4"],
        ["B", "3"],
        ["D", "3"],
        ["D", "4"],
    ]


def test_what_an_account_may_do_is_bounded_and_said(tmp_path: Path) -> None:
    floor = Floor(tmp_path, account=AccountLimits(open_orders=2))
    connection, wire = floor.connect("0,7")
    connection.dataReceived(b"".join(b"%d,0,0,7,B,1,90,ACME\n" % n for n in (1, 2, 3)))
    floor.clock.advance(0)
    lines = fields(wire.take())
    assert [line[0] for line in lines] == ["A", "A", "R"]
    assert "has 2 live orders and may have no more" in lines[-1][-1]
    floor.close()


def test_an_account_takes_the_present_limits_at_its_login(tmp_path: Path) -> None:
    floor = Floor(tmp_path)
    floor.connect("0,7")
    floor.close()
    limits = AccountLimits(open_orders=2)
    again = Floor(tmp_path, account=limits, self_trade="oldest")
    account = again.exchange.market.account_named("text:7")
    assert account is not None
    assert (account.limits, account.self_trade) == (AccountLimits(), "allow")
    before = again.exchange.inputs
    again.connect("0,7")
    again.connect("0,7")
    assert (account.limits, account.self_trade) == (limits, "oldest")
    assert again.exchange.inputs == before + 1
    again.close()


class TestCancelOnDisconnect:
    def rested(self, floor: Floor, login: str) -> tuple[list[Any], Any]:
        """Two connections of a broker that has an order, and a listener."""
        connections = [floor.connect(login)[0], floor.connect("0,7")[0]]
        _, wire = floor.connect("1")
        connections[0].dataReceived(b"1,0,0,7,B,5,90,ACME\n")
        floor.clock.advance(0)
        wire.clear()
        return connections, wire

    def leave(self, floor: Floor, connections: list[Any]) -> None:
        for connection in connections:
            connection.connectionLost()
        floor.clock.advance(0)

    def test_the_last_connection_takes_the_orders_with_it(self, floor: Floor) -> None:
        connections, wire = self.rested(floor, "0,7,,0,1")
        self.leave(floor, connections[:1])
        assert wire.take() == []
        self.leave(floor, connections[1:])
        assert [line.split(",")[4] for line in wire.take()] == ["D", "H"]
        _, again = floor.connect("0,7,,1")
        assert fields(again.take())[-1] == ["D", "5", "90", "ACME", "1", "disconnect"]

    @pytest.mark.parametrize("login", ["0,7", "0,7,,0,0"])
    def test_who_does_not_choose_it_keeps_them(self, floor: Floor, login: str) -> None:
        connections, wire = self.rested(floor, login)
        self.leave(floor, connections)
        assert wire.take() == []
        assert floor.exchange.market.live_orders == 1

    def test_requests_that_wait_for_the_disk_come_first(self, tmp_path: Path) -> None:
        floor = Floor(tmp_path, fsync="always")
        connections, _ = self.rested(floor, "0,7,,0,1")
        connections[0].dataReceived(b"2,0,0,7,B,5,91,ACME\n")
        self.leave(floor, connections)
        assert floor.exchange.market.live_orders == 0
        assert floor.exchange.market.orders == 2
        floor.close()

    def test_an_exchange_that_ends_has_ended_its_connections(self, tmp_path: Path) -> None:
        floor = Floor(tmp_path)
        self.rested(floor, "0,7,,0,1")
        floor.close()
        again = Floor(tmp_path)
        assert again.exchange.market.live_orders == 0
        _, wire = again.connect("0,7,,1")
        assert fields(wire.take())[-1][-1] == "disconnect"
        again.close()
        third = Floor(tmp_path)
        assert third.exchange.inputs == again.exchange.inputs
        third.close()


def test_unread_answers_are_bounded_before_a_login_too(floor: Floor) -> None:
    connection, wire = floor.connect("0")
    connection.dataReceived(b"nonsense\n")
    assert wire.producer is connection
    connection.pauseProducing()
    assert wire.producerState == "paused"
    wire.clear()
    connection.dataReceived(b"1,0,0,7,B,5,100,ACME\n")
    assert wire.value() == b""
    connection.resumeProducing()
    assert wire.producerState == "producing"
    assert [line[0] for line in fields(wire.take())] == ["A"]


class TestClosedSides:
    """Clients that close their side of the connection behind their last request."""

    @pytest.mark.parametrize("fsync", ["never", "always"])
    def test_requests_before_it_are_answered(self, tmp_path: Path, fsync: FsyncPolicy) -> None:
        """A program that pipes a file into the port gets the answers to it."""
        floor = Floor(tmp_path, fsync=fsync)
        connection, wire = floor.connect("0,7")
        wire.take()
        assert IHalfCloseableProtocol.providedBy(connection)
        connection.dataReceived(ROUND)
        connection.readConnectionLost()
        assert fields(wire.take()) == ANSWERS
        assert wire.disconnecting
        connection.connectionLost()
        assert floor.server.clients == 0
        floor.close()

    def test_a_listener_gets_what_it_has_asked_for(self, floor: Floor) -> None:
        """The feed until then."""
        floor.quote(5)
        connection, wire = floor.connect("1,,2")
        connection.readConnectionLost()
        assert sequenced(wire.take()) == [2, 3, 4, 5]
        assert wire.disconnecting
        floor.quote(1)
        assert wire.take() == []
        assert floor.server.listeners == 0

    def test_its_orders_are_cancelled_at_once(self, floor: Floor) -> None:
        """Whether or not the client ever reads the answers."""
        connection, _ = floor.connect("0,7,,0,1")
        connection.dataReceived(b"1,0,0,7,B,5,90,ACME\n")
        connection.readConnectionLost()
        assert floor.exchange.market.live_orders == 0
        assert floor.exchange.market.orders == 1

    def test_an_incomplete_login_is_closed(self, floor: Floor) -> None:
        """Nothing can complete it."""
        connection, wire = floor.connect()
        connection.dataReceived(b"0,")
        connection.readConnectionLost()
        assert wire.disconnecting
        assert wire.take() == []

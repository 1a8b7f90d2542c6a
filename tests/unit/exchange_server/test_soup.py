"""The SoupBinTCP server over in-memory transports, as the ITCH feed's port."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.interfaces import IHalfCloseableProtocol

from deltabook.wire.soupbin import (
    LoginAccepted,
    LoginRejected,
    LoginRequest,
    encode_login,
    encode_packet,
    parse_login_reply,
)
from exchange_server.readers import CHUNK_BYTES
from tests.generators.soup_lab import BEGINNING, START_NS, SoupFloor, messages, reasons, types


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[SoupFloor]:
    floor = SoupFloor(tmp_path)
    yield floor
    floor.close()


def test_a_listener_from_now_gets_events_and_a_heartbeat(floor: SoupFloor) -> None:
    floor.quote(2)
    _, wire = floor.connect(LoginRequest(sequence=0))
    reply, *rest = wire.take()
    assert parse_login_reply(reply) == LoginAccepted("SESSION1", BEGINNING + 3)
    assert types(rest) == "H"
    floor.quote(2)
    packets = wire.take()
    assert types(packets) == "SSH"
    assert messages(packets) == floor.whole_feed()[-2:]


def test_a_listener_may_begin_anywhere(floor: SoupFloor) -> None:
    floor.quote(1000)
    for first in (1, 2, BEGINNING, 500, 1000, BEGINNING + 1001):
        _, wire = floor.connect(LoginRequest("joe", "secret", "SESSION1", first))
        floor.quote(1)
        reply, *rest = wire.take()
        assert parse_login_reply(reply) == LoginAccepted("SESSION1", first)
        assert messages(rest) == floor.whole_feed()[first - 1 :]


def test_a_listener_between_batch_and_broadcast_gets_it_once(floor: SoupFloor) -> None:
    floor.quote(3)
    floor.quote(1, turn=False)
    _, first = floor.connect(LoginRequest())
    _, now = floor.connect(LoginRequest(sequence=0))
    floor.clock.advance(0)
    floor.quote(1)
    assert messages(first.take()) == floor.whole_feed()
    assert messages(now.take()) == floor.whole_feed()[-1:]


def test_a_burst_is_one_write_for_each_listener(floor: SoupFloor) -> None:
    floor.quote()
    wires = [floor.connect(LoginRequest())[1] for _ in range(3)]
    for wire in wires:
        wire.take()
    floor.quote(5, turn=False)
    floor.quote(5)
    assert [len(wire.writes) for wire in wires] == [1, 1, 1]
    assert wires[0].writes[0] is wires[1].writes[0] is wires[2].writes[0]


@pytest.mark.parametrize(
    ("login", "words"),
    [
        (LoginRequest(session="OTHER"), "expected session SESSION1, was OTHER"),
        (LoginRequest(sequence=9), "expected a sequence up to 1, was 9"),
    ],
)
def test_a_login_to_what_is_not_there_is_rejected(floor: SoupFloor, login: LoginRequest, words: str) -> None:
    _, wire = floor.connect(login)
    reply, *rest = wire.take()
    assert parse_login_reply(reply) == LoginRejected("S")
    assert words in reasons(rest)
    assert wire.disconnecting


@pytest.mark.parametrize(
    ("before", "data", "words"),
    [
        (False, b"GET / HTTP/1.1\r\n\r\n", "expected a packet of 3 to 1026 bytes, was 18247"),
        (False, encode_packet(b"R"), "expected a login request"),
        (False, encode_packet(b"L", b"short"), "expected 46 or 51 bytes of a login"),
        (True, b"\x00\x00", "expected a packet of 3 to 1026 bytes"),
        (True, encode_login(LoginRequest()), "was a second login"),
        (True, encode_packet(b"S", b"x"), "was a packet b'S'"),
        (True, encode_packet(b"?"), "was a packet b'?'"),
    ],
)
def test_malformed_bytes_close_that_connection_alone(floor: SoupFloor, before: bool, data: bytes, words: str) -> None:
    _, other = floor.connect(LoginRequest())
    connection, wire = floor.connect(LoginRequest() if before else None)
    connection.dataReceived(data)
    assert words in reasons(wire.take())
    assert wire.disconnecting
    connection.dataReceived(b"more")
    floor.quote()
    assert wire.writes == []
    assert messages(other.take()) == floor.whole_feed()
    assert not other.disconnecting


def test_debug_heartbeats_and_messages_have_no_effect(floor: SoupFloor) -> None:
    connection, wire = floor.connect()
    connection.dataReceived(encode_packet(b"+", b"hello") + encode_login(LoginRequest())[:20])
    connection.dataReceived(encode_login(LoginRequest())[20:] + encode_packet(b"R") + encode_packet(b"U", b"order"))
    assert types(wire.take()) == "AH"
    assert not wire.disconnecting


def test_a_logout_closes(floor: SoupFloor) -> None:
    connection, wire = floor.connect(LoginRequest())
    connection.dataReceived(encode_packet(b"O"))
    assert wire.disconnecting
    assert not wire.aborting


def test_heartbeats_follow_silence_and_nothing_else(floor: SoupFloor) -> None:
    connection, wire = floor.connect(LoginRequest())
    wire.take()
    floor.pass_time(0.75, connection)
    assert wire.take() == []
    floor.pass_time(0.25, connection)
    assert types(wire.take()) == "H"
    floor.quote()
    floor.pass_time(0.75, connection)
    assert types(wire.take()) == "S" * (BEGINNING + 1) + "H"
    floor.pass_time(60, connection)
    assert 55 <= len(wire.take()) <= 60
    assert not wire.disconnecting


def test_a_client_that_says_nothing_is_cut(floor: SoupFloor) -> None:
    talking, wire = floor.connect(LoginRequest())
    _, silent = floor.connect(LoginRequest())
    _, hasty = floor.connect(LoginRequest(heartbeat_ms=3000))
    _, patient = floor.connect(LoginRequest(heartbeat_ms=60_000))
    floor.pass_time(2.75, talking)
    assert not hasty.disconnecting
    floor.pass_time(0.25, talking)
    assert hasty.disconnecting
    floor.pass_time(11.75, talking)
    assert not silent.disconnecting
    floor.pass_time(0.25, talking)
    assert silent.disconnecting
    assert "idle: no message for 15 s" in reasons(silent.take())
    floor.pass_time(44.75, talking)
    assert not patient.disconnecting
    floor.pass_time(0.25, talking)
    assert patient.disconnecting
    assert not wire.disconnecting


def test_a_connection_without_a_login_is_closed(floor: SoupFloor) -> None:
    connection, wire = floor.connect()
    connection.dataReceived(b"\x00")
    floor.clock.advance(10)
    assert wire.disconnecting
    assert "no login within 10 s" in reasons(wire.take())


def test_there_is_room_for_so_many_connections(tmp_path: Path) -> None:
    floor = SoupFloor(tmp_path, connections=2)
    first, _ = floor.connect(LoginRequest())
    floor.connect()
    _, third = floor.connect()
    assert parse_login_reply(third.take()[0]) == LoginRejected("A")
    assert third.disconnecting
    first.connectionLost()
    assert not floor.connect(LoginRequest())[1].disconnecting
    floor.close()


def test_a_slow_listener_gets_the_rest_from_disk(floor: SoupFloor) -> None:
    slow, wire = floor.connect(LoginRequest())
    _, other = floor.connect(LoginRequest())
    slow.pauseProducing()
    wire.take()
    floor.quote(5000)
    assert wire.writes == []
    assert len(messages(other.take())) == BEGINNING + 5000
    slow.resumeProducing()
    assert max(map(len, wire.writes)) <= CHUNK_BYTES + 3
    floor.quote()
    assert messages(wire.take()) == floor.whole_feed()


def test_a_gap_is_filled_as_the_transport_takes_chunks(floor: SoupFloor) -> None:
    floor.quote(20_000)
    connection, wire = floor.connect()
    write = wire.write

    def write_and_fill(data: bytes) -> None:
        write(data)
        connection.pauseProducing()

    wire.write = write_and_fill
    connection.dataReceived(encode_login(LoginRequest()))
    for _ in range(20):
        floor.quote()
        connection.resumeProducing()
    assert len(wire.writes) > 5
    assert messages(wire.take()) == floor.whole_feed()


@pytest.mark.parametrize("limit", [{"lag_bytes": 4000}, {"stall_s": 3.0}])
def test_a_listener_that_is_too_slow_is_cut_alone(tmp_path: Path, limit: dict[str, Any]) -> None:
    floor = SoupFloor(tmp_path, **limit)
    slow, wire = floor.connect(LoginRequest())
    other, quick = floor.connect(LoginRequest())
    slow.pauseProducing()
    floor.quote(50)
    assert not wire.disconnecting
    floor.quote(100)
    floor.pass_time(3, slow, other)
    assert wire.aborting
    assert len(messages(quick.take())) == BEGINNING + 150
    assert not quick.disconnecting
    floor.close()


def test_the_session_ends_with_its_timestamps(floor: SoupFloor) -> None:
    floor.quote()
    connection, wire = floor.connect(LoginRequest())
    floor.exchange.clock.advance_to(START_NS + 2**48)
    floor.quote()
    packets = wire.take()
    assert types(packets) == "A" + "S" * (BEGINNING + 1) + "H" + "SZ"
    floor.pass_time(6, connection)
    assert wire.disconnecting
    late, again = floor.connect(LoginRequest(sequence=BEGINNING + 1))
    assert types(again.take()) == "ASSZ"
    floor.pass_time(6, late)
    assert again.disconnecting
    assert again.take() == []


def test_a_restarted_exchange_gives_the_same_bytes(tmp_path: Path) -> None:
    floor = SoupFloor(tmp_path)
    for count in (3, 500, 40):
        floor.quote(count)
    before = floor.feed.read(0, 1 << 30)
    floor.close()
    again = SoupFloor(tmp_path)
    assert again.feed.read(0, 1 << 30) == before
    assert again.feed.next_number == BEGINNING + 544
    _, wire = again.connect(LoginRequest(session="SESSION1", sequence=again.feed.next_number))
    again.quote()
    assert types(wire.take()) == "AHSH"
    again.close()


def test_an_exchange_that_stops_sends_what_there_is_first(floor: SoupFloor) -> None:
    _, wire = floor.connect(LoginRequest())
    floor.quote(turn=False)
    floor.server.close()
    packets = wire.take()
    assert messages(packets) == floor.whole_feed()
    assert "the exchange stops" in reasons(packets)
    assert "Z" not in types(packets), "the session goes on when it is started again"
    assert (wire.disconnecting, wire.aborting) == (True, False)


class Later:
    """A gate that answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str]] = []
        self.answers: list[Callable[[Any, str], None]] = []

    def check(self, name: str, password: str, host: str, then: Callable[[Any, str], None]) -> None:
        """Somebody knocks."""
        self.asked.append((name, password, host))
        self.answers.append(then)


def test_what_a_client_sends_before_its_login_is_answered_waits(tmp_path: Path) -> None:
    gate = Later()
    floor = SoupFloor(tmp_path, gate=gate)
    connection, wire = floor.connect(LoginRequest("joe", "secret"))
    connection.dataReceived(encode_packet(b"R") + encode_packet(b"O")[:2])
    connection.dataReceived(encode_packet(b"O")[2:])
    assert wire.take() == []
    assert gate.asked == [("joe", "secret", "?")]
    assert not wire.disconnecting
    gate.answers[0]("joe", "")
    assert types(wire.take()) == "AH+"
    assert wire.disconnecting
    floor.close()


def test_a_login_refused_by_the_gate_gets_its_reason(tmp_path: Path) -> None:
    gate = Later()
    floor = SoupFloor(tmp_path, gate=gate)
    _, wire = floor.connect(LoginRequest("joe", "wrong"))
    gate.answers[0](None, "expected a user and its password")
    reply, *rest = wire.take()
    assert parse_login_reply(reply) == LoginRejected("A")
    assert "expected a user and its password" in reasons(rest)
    assert wire.disconnecting
    floor.close()


def test_an_answer_to_a_client_that_has_gone_has_no_effect(tmp_path: Path) -> None:
    gate = Later()
    floor = SoupFloor(tmp_path, gate=gate)
    gone, wire = floor.connect(LoginRequest("joe", "secret"))
    gone.connectionLost()
    other, late = floor.connect(LoginRequest("joe", "secret"))
    floor.clock.advance(10)
    assert "no login within 10 s" in reasons(late.take())
    gate.answers[0]("joe", "")
    gate.answers[1](None, "no")
    assert wire.take() == late.take() == []
    assert floor.server.listeners == 0
    other.connectionLost()
    floor.close()


def test_bytes_held_before_a_login_are_bounded(tmp_path: Path) -> None:
    floor = SoupFloor(tmp_path, gate=Later())
    connection, wire = floor.connect(LoginRequest("joe", "secret"))
    for _ in range(70):
        connection.dataReceived(encode_packet(b"U", bytes(1000)))
    assert wire.disconnecting
    assert "before the answer to a login" in reasons(wire.take())
    floor.close()


def test_bursts_keep_their_distance_except_after_a_silence(tmp_path: Path) -> None:
    floor = SoupFloor(tmp_path, burst_interval_s=0.25)
    floor.quote()
    _, wire = floor.connect(LoginRequest(sequence=0))
    floor.clock.advance(0.25)
    wire.take()
    floor.quote(2)
    assert types(wire.take()) == "SSH"
    floor.quote(1)
    floor.quote(1)
    assert wire.take() == []
    floor.clock.advance(0.25)
    assert types(wire.take()) == "SSH"
    floor.clock.advance(0.25)
    floor.quote(1)
    assert types(wire.take()) == "SH"
    floor.close()


def test_a_client_that_closes_its_side_gets_the_feed_until_then(floor: SoupFloor) -> None:
    floor.quote(3)
    connection, wire = floor.connect(LoginRequest())
    assert IHalfCloseableProtocol.providedBy(connection)
    connection.readConnectionLost()
    packets = wire.take()
    assert messages(packets) == floor.whole_feed()
    assert reasons(packets) == "the client has closed its side"
    assert wire.disconnecting
    assert floor.server.listeners == 0


@pytest.mark.parametrize(("name", "types_", "listeners"), [("joe", "AH+", 0), (None, "J+", 0)])
def test_a_login_is_answered_to_a_half_closed_client(
    tmp_path: Path, name: str | None, types_: str, listeners: int
) -> None:
    gate = Later()
    floor = SoupFloor(tmp_path, gate=gate)
    connection, wire = floor.connect(LoginRequest("joe", "secret", sequence=0))
    connection.readConnectionLost()
    assert not wire.disconnecting
    gate.answers[0](name, "no")
    assert types(wire.take()) == types_
    assert wire.disconnecting
    assert floor.server.listeners == listeners
    floor.close()

"""The OUCH port over in-memory transports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from deltabook.wire.ouch5 import encode_request
from deltabook.wire.soupbin import UNSEQUENCED, LoginAccepted, LoginRejected, PacketSplitter, encode_packet
from exchange_server.errors import JournalError
from exchange_server.journal import FsyncPolicy
from exchange_server.matching.inputs import AnyInput
from exchange_server.matching.order import AccountLimits
from tests.generators.ouch_desk import enter, enter_42
from tests.generators.ouch_floor import Client, OuchFloor, user
from tests.generators.soup_lab import messages


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[OuchFloor]:
    floor = OuchFloor(tmp_path, user("ALPHA"), user("BRAVO", 8, protocol="ouch42"), user("EAR", protocol="itch"))
    yield floor
    floor.close()


def stream(floor: OuchFloor, name: str) -> list[bytes]:
    """All that an account was ever told."""
    account = floor.exchange.market.account_named(f"ouch:{name}")
    assert account is not None
    records = floor.exchange.stream(account).records
    return messages(PacketSplitter().split(records.read(0, 1 << 30)))


# -- logins ----------------------------------------------------------------------------------------------------------


def test_an_order_is_answered_in_its_users_protocol(floor: OuchFloor) -> None:
    alpha, bravo = floor.connect("ALPHA"), floor.connect("BRAVO")
    alpha.send(enter(1))
    assert [told.type for told in alpha.told()] == ["A"]
    bravo.send(enter_42("T", "S", 30))
    assert [told.type for told in bravo.told_42()] == ["A", "E"]
    floor.turn()
    assert [told.fields["quantity"] for told in alpha.told()] == [30]


def test_a_login_gets_the_session_and_the_first_number(floor: OuchFloor) -> None:
    client = floor.knock("alpha", "SECRET")
    assert client.reply() == LoginAccepted("SESSION1", 1)
    assert client.types(client.rest) == "SH"
    client.send(enter(1))
    assert floor.knock(sequence=0).reply() == LoginAccepted("SESSION1", 3)
    assert floor.knock(sequence=2, session="SESSION1").reply() == LoginAccepted("SESSION1", 2)


@pytest.mark.parametrize(
    ("name", "password", "session", "sequence", "code", "words"),
    [
        ("ALPHA", "wrong", "", 1, "A", "expected a user and its password"),
        ("NOBODY", "secret", "", 1, "A", "expected a user and its password"),
        ("EAR", "secret", "", 1, "A", "may listen to the feed and not trade"),
        ("ALPHA", "secret", "OTHER", 1, "S", "expected session SESSION1, was OTHER"),
        ("ALPHA", "secret", "", 99, "S", "expected a sequence up to 2, was 99"),
    ],
)
def test_logins_that_cannot_be_are_rejected_with_a_reason(
    floor: OuchFloor, name: str, password: str, session: str, sequence: int, code: str, words: str
) -> None:
    client = floor.knock(name, password, session, sequence)
    first, second = client.take()
    assert (first.type, first.payload) == (b"J", code.encode())
    assert words in second.payload.decode()
    assert client.wire.disconnecting
    assert floor.server.clients == 0


def test_a_session_that_comes_again_misses_and_doubles_nothing(floor: OuchFloor) -> None:
    client = floor.connect(sequence=1)
    heard = messages(client.rest)
    for ref in range(1, 40, 2):
        client.send(enter(ref))
        heard += messages(client.take())
        client.lose()
        floor.rest("S", 60, 1_000)
        client = floor.connect(sequence=len(heard) + 1)
        heard += messages(client.rest)
    assert heard == stream(floor, "ALPHA")
    assert {message[:1] for message in heard} == {b"S", b"A", b"E"}


def test_several_sessions_of_an_account_are_told_the_same(floor: OuchFloor) -> None:
    one, two = floor.connect(), floor.connect()
    one.send(enter(1))
    two.send(enter(2))
    floor.turn()
    assert messages(one.take()) == messages(two.take()) == stream(floor, "ALPHA")[1:]
    assert floor.server.clients == 2
    one.lose()
    assert floor.server.clients == 1


def test_requests_after_a_login_wait_for_the_password_check(floor: OuchFloor) -> None:
    floor.slow_gate = []
    client = floor.knock()
    client.send(enter(1))
    assert client.take() == []
    assert floor.live == 0
    floor.finish_comparisons()
    assert client.types(client.take()) == "ASHSH"
    assert floor.live == 1


def test_a_client_gone_before_its_check_is_no_session(floor: OuchFloor) -> None:
    floor.slow_gate = []
    client = floor.knock()
    client.lose()
    floor.finish_comparisons()
    assert floor.server.clients == 0
    assert client.take() == []


def test_an_account_keeps_the_protocol_that_it_began_with(floor: OuchFloor) -> None:
    floor.connect()
    floor.users["ALPHA"] = user("ALPHA", protocol="ouch42")
    client = floor.knock()
    assert client.reply() == LoginRejected("A")
    assert "expected ouch5, which the account began the session with" in client.rest[0].payload.decode()


# -- requests --------------------------------------------------------------------------------------------------------


def test_requests_may_come_cut_anywhere(floor: OuchFloor) -> None:
    client = floor.connect()
    data = b"".join(encode_packet(UNSEQUENCED, enter(ref)) for ref in range(1, 6))
    for byte in data:
        client.connection.dataReceived(bytes([byte]))
    assert client.letters() == "AAAAA"
    for cut in range(1, len(data)):
        client.connection.dataReceived(data[:cut])
        client.connection.dataReceived(data[cut:])
    assert client.letters() == ""
    client.send(enter(6))
    assert client.letters() == "A"


@pytest.mark.parametrize("odd", [b"", encode_packet(b"R"), encode_packet(b"+", b"x" * 48), encode_packet(b"U", b"Q")])
@pytest.mark.parametrize("at", [0, 1, 100, 199])
def test_many_requests_in_one_piece_are_all_carried_out_once(floor: OuchFloor, odd: bytes, at: int) -> None:
    packets = [encode_packet(UNSEQUENCED, enter(ref)) for ref in range(1, 201)]
    packets.insert(at, odd)
    data = b"".join(packets)
    client = floor.connect()
    client.connection.dataReceived(data[:-7])
    client.connection.dataReceived(data[-7:])
    letters = client.letters()
    assert letters.replace("Q", "") == "A" * 200
    assert letters.find("Q") == (at if odd[2:3] == b"U" else -1)


def test_heartbeats_and_debug_packets_have_no_effect(floor: OuchFloor) -> None:
    client = floor.connect()
    request = encode_packet(UNSEQUENCED, enter(1)), encode_packet(UNSEQUENCED, enter(2))
    client.connection.dataReceived(
        request[0] + encode_packet(b"R") + request[1] + encode_packet(b"+", b"hm") + encode_packet(b"R")
    )
    assert client.letters() == "AA"


def test_requests_before_a_logout_count_and_later_ones_do_not(floor: OuchFloor) -> None:
    client = floor.connect()
    data = [encode_packet(UNSEQUENCED, enter(ref)) for ref in (1, 2)]
    client.connection.dataReceived(data[0] + encode_packet(b"O") + data[1])
    assert client.end() == "logged out"
    assert floor.live == 1


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x00\x00", "packets of 3 to 1026 bytes, was 2"),
        (b"\x00\x00\x00", "packets of 3 to 1026 bytes, was 2"),
        (b"\x00\x00U\x00", "packets of 3 to 1026 bytes, was 2"),
        (b"\x00\x01U", "expected whole packets"),
        (b"\xff\xff", "packets of 3 to 1026 bytes, was 65537"),
        (encode_packet(UNSEQUENCED, bytes(1024)), "packets of 3 to 1026 bytes, was 1027"),
        (encode_packet(UNSEQUENCED, bytes(1024)) * 4, "packets of 3 to 1026 bytes, was 1027"),
        (b"\x00\x02U?", "expected a message O U X M C or Q"),
        (b"\x00\x03UQQ", "expected an appendage of as many bytes as its length says, was b'Q'"),
        (encode_packet(UNSEQUENCED, enter(9)[:-1] + b"\x01"), "an appendage of 0 bytes"),
        (encode_packet(UNSEQUENCED, enter(9) + b"\x07"), "an appendage of 1 bytes"),
        (encode_packet(b"L"), "a second login"),
        (encode_packet(b"S", enter(9)), "a packet b'S'"),
        (b"GET / HTTP/1.1\r\n\r\n", "packets of 3 to 1026 bytes"),
    ],
)
def test_malformed_bytes_end_their_session_alone(floor: OuchFloor, data: bytes, words: str) -> None:
    client, other, same = floor.connect(), floor.connect("BRAVO"), floor.connect()
    client.send(enter(1))
    client.connection.dataReceived(data)
    assert words in client.end()
    client.send(enter(2))
    other.send(enter_42("T"))
    same.send(enter(3))
    floor.turn()
    assert other.letters() == "A"
    assert not other.wire.disconnecting
    assert not same.wire.disconnecting
    assert floor.live == 3


def test_requests_before_an_offending_message_are_carried_out(floor: OuchFloor) -> None:
    client = floor.connect()
    client.send(enter(1), b"?", enter(2))
    told = client.take()
    assert client.types(told) == "SH+"
    assert floor.live == 1


# -- one batch a turn ------------------------------------------------------------------------------------------------


def test_with_sync_always_a_turns_requests_are_one_batch(tmp_path: Path) -> None:
    floor = OuchFloor(tmp_path, fsync="always")
    one, two = floor.connect("ALPHA"), floor.connect("BRAVO")
    batches: list[int] = []
    submit = floor.exchange.submit

    def counted(batch: Sequence[AnyInput]) -> list[int | str]:
        batches.append(len(batch))
        return submit(batch)

    floor.exchange.submit = counted  # type: ignore[method-assign]
    one.send(enter(1), enter(2))
    two.send(enter(1))
    one.send(b"?")
    assert floor.live == 0
    floor.turn()
    assert batches == [3]
    assert floor.live == 3
    assert "expected a message" in one.end()
    assert two.letters() == "A"
    floor.close()


def test_too_many_requests_to_wait_are_carried_out_at_once(tmp_path: Path) -> None:
    floor = OuchFloor(tmp_path, fsync="always", pending_bytes=150)
    client = floor.connect()
    client.send(enter(1), enter(2))
    assert floor.live == 0
    client.send(enter(3))
    assert floor.live == 3
    floor.close()


@pytest.mark.parametrize("fsync", ["always", "never"])
def test_a_failing_journal_ends_the_exchange_without_answers(tmp_path: Path, fsync: str) -> None:
    floor = OuchFloor(tmp_path, fsync=fsync)  # type: ignore[arg-type]
    client = floor.connect()

    def fail(_: object) -> list[int | str]:
        raise JournalError("no room")

    floor.exchange.submit = fail  # type: ignore[method-assign, assignment]
    client.send(enter(1))
    floor.turn()
    assert floor.failures == ["no room"]
    assert client.letters() == ""
    floor.exchange.close()


# -- who is cut ------------------------------------------------------------------------------------------------------


def test_a_silent_client_is_cut_and_a_beating_one_is_not(floor: OuchFloor) -> None:
    silent, other = floor.connect(), floor.connect("BRAVO")
    for _ in range(64):
        floor.clock.advance(0.25)
        other.beat()
    assert "idle: no message for 15 s" in silent.end()
    packets = other.take()
    assert set(other.types(packets)) == {"H"}
    assert len(packets) >= 12
    assert not other.wire.disconnecting


def test_a_connection_without_a_login_is_cut(floor: OuchFloor) -> None:
    client = Client(floor.server.buildProtocol(None))
    floor.clock.advance(10)
    assert client.end() == "no login within 10 s"


def test_a_client_that_does_not_read_is_cut_alone_at_a_bound(tmp_path: Path) -> None:
    floor = OuchFloor(tmp_path, lag_bytes=5_000)
    slow, other = floor.connect("ALPHA"), floor.connect("BRAVO")
    slow.connection.pauseProducing()
    for ref in range(1, 200):
        slow.send(enter(ref))
        floor.turn()
    assert slow.wire.aborting
    assert slow.take() == []
    other.send(enter(1))
    assert other.letters() == "A"
    again = floor.knock(sequence=1)
    again.reply()
    assert len(messages(again.rest)) == len(stream(floor, "ALPHA")) == floor.live
    floor.close()


def test_the_end_of_the_exchange_is_said(floor: OuchFloor) -> None:
    client = floor.connect()
    client.send(encode_request("Q"))
    floor.server.close()
    packets = client.take()
    assert client.types(packets)[0] == "S"
    assert packets[-1].payload == b"the exchange stops"


def test_users_that_must_go_are_cut_and_nobody_else(tmp_path: Path) -> None:
    floor = OuchFloor(tmp_path)
    alpha, bravo = floor.connect(), floor.connect("BRAVO")
    floor.server.end_sessions({"ALPHA"})
    assert alpha.end() == "the user was removed, or has another password or protocol"
    bravo.send(enter(1))
    floor.turn()
    assert (bravo.letters(), bravo.end()) == ("A", "")
    floor.close()


def test_settings_of_users_hold_for_sessions_that_there_are(tmp_path: Path) -> None:
    floor = OuchFloor(tmp_path)
    alpha = floor.connect()
    floor.users["ALPHA"] = user("ALPHA", limits=AccountLimits(open_orders=1))
    floor.server.apply_user_settings()
    alpha.send(enter(1), enter(2))
    floor.turn()
    assert alpha.letters() == "AJ"
    floor.close()


@pytest.mark.parametrize("fsync", ["never", "always"])
def test_requests_before_a_half_close_are_answered(tmp_path: Path, fsync: FsyncPolicy) -> None:
    """Also those that wait for the disk, and those behind a login that is being checked."""
    floor = OuchFloor(tmp_path, fsync=fsync)
    client = floor.connect("ALPHA")
    client.take()
    client.send(enter(1), enter(2))
    client.connection.readConnectionLost()
    assert client.letters() == "AA"
    assert client.wire.disconnecting
    floor.slow_gate = []
    late = floor.knock("BRAVO")
    late.send(enter(1))
    late.connection.readConnectionLost()
    floor.finish_comparisons()
    assert late.letters() == "SA"
    assert late.wire.disconnecting
    floor.close()

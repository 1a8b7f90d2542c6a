"""SoupBinTCP packets: byte for byte as the specification has them, however they are cut, and nothing else."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltabook.wire.errors import WireError
from deltabook.wire.soupbin import (
    CLIENT_HEARTBEAT,
    CLIENT_PACKET_LIMIT_BYTES,
    END_OF_SESSION,
    LOGIN,
    SEQUENCED,
    LoginAccepted,
    LoginRejected,
    LoginRequest,
    Packet,
    PacketSplitter,
    encode_login,
    encode_login_reply,
    encode_packet,
    parse_login,
    parse_login_reply,
)

packets = st.builds(
    Packet, st.sampled_from([b"S", b"H", b"U", b"+", b"Z"]), st.binary(max_size=40) | st.binary(min_size=300)
)


def test_a_login_has_the_widths_of_the_specification() -> None:
    data = encode_login(LoginRequest("joe", "secret", "S1", 42))
    assert data == b"\x00\x2fL" + b"joe   " + b"secret    " + b"S1        " + b"                  42"
    longer = encode_login(LoginRequest("joe", "secret", "S1", 42, heartbeat_ms=1500))
    assert longer == b"\x00\x34" + data[2:] + b" 1500"


def test_an_answer_has_the_widths_of_the_specification() -> None:
    assert encode_login_reply(LoginAccepted("S1", 7)) == b"\x00\x1fA        S1                   7"
    assert encode_login_reply(LoginRejected("S")) == b"\x00\x02JS"
    assert encode_packet(END_OF_SESSION) == b"\x00\x01Z"


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b"joe   secret    S1        42                  ", LoginRequest("joe", "secret", "S1", 42)),
        (b"   joe    secret        S1                  42", LoginRequest("joe", "secret", "S1", 42)),
        (
            b"joe\0\0\0secret\0\0\0\0S1\0\0\0\0\0\0\0\0" + b"42".ljust(20, b"\0"),
            LoginRequest("joe", "secret", "S1", 42),
        ),
        (b" " * 46, LoginRequest("", "", "", 1)),
        (b" " * 26 + b"0".rjust(20) + b"  200", LoginRequest("", "", "", 0, 200)),
        (b" " * 26 + b"9" * 20, LoginRequest("", "", "", 10**20 - 1)),
    ],
    ids=["left", "right", "zero bytes", "blank", "4.10", "twenty digits"],
)
def test_a_login_is_read_however_its_fields_are_justified(payload: bytes, expected: LoginRequest) -> None:
    assert parse_login(Packet(LOGIN, payload)) == expected


@pytest.mark.parametrize(
    ("packet", "words"),
    [
        (Packet(CLIENT_HEARTBEAT, b""), "expected a login request"),
        (Packet(LOGIN, b" " * 45), "expected 46 or 51 bytes of a login, was 45"),
        (Packet(LOGIN, b" " * 26 + b"-1".rjust(20)), "expected a sequence in decimal digits"),
        (Packet(LOGIN, b"\xff" * 46), "expected a username in ASCII"),
    ],
)
def test_what_is_no_login_is_named(packet: Packet, words: str) -> None:
    with pytest.raises(WireError, match=words):
        parse_login(packet)


@pytest.mark.parametrize(
    "login", [LoginRequest("toolong"), LoginRequest(session="x" * 11), LoginRequest("é"), LoginRequest(sequence=-1)]
)
def test_a_login_that_no_packet_can_hold_is_refused(login: LoginRequest) -> None:
    with pytest.raises(WireError, match="expected a"):
        encode_login(login)


@pytest.mark.parametrize("reply", [LoginAccepted("S1", 2**63 - 1), LoginRejected("A"), LoginRejected("S")])
def test_an_answer_is_read_as_it_was_written(reply: LoginAccepted | LoginRejected) -> None:
    (packet,) = PacketSplitter().split(encode_login_reply(reply))
    assert parse_login_reply(packet) == reply


def test_a_number_in_an_answer_fits_into_an_int64() -> None:
    with pytest.raises(WireError, match=f"expected a sequence up to {2**63 - 1}, was {2**63}"):
        parse_login_reply(Packet(b"A", b"S1".rjust(10) + str(2**63).encode().rjust(20)))


@pytest.mark.parametrize("packet", [Packet(b"S", b"x"), Packet(b"A", b"S1"), Packet(b"J", b"X"), Packet(b"", b"")])
def test_what_is_no_answer_is_named(packet: Packet) -> None:
    with pytest.raises(WireError, match="expected a login's answer"):
        parse_login_reply(packet)


@given(st.lists(packets, max_size=12), st.lists(st.integers(0, 2000), max_size=20))
def test_packets_are_the_same_however_the_stream_is_cut(whole: list[Packet], cuts: list[int]) -> None:
    data = b"".join(encode_packet(*packet) for packet in whole)
    places = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    splitter = PacketSplitter()
    parts = [data[start:stop] for start, stop in pairwise(places)]
    assert [packet for part in parts for packet in splitter.split(part)] == whole
    assert splitter.partial == b""


@given(packets, st.binary(max_size=60), st.integers(1, 50))
def test_the_first_packet_is_removed_and_the_rest_unchanged(packet: Packet, rest: bytes, size: int) -> None:
    data = encode_packet(*packet) + rest
    splitter = PacketSplitter()
    for at in range(0, len(data), size):
        found, behind = splitter.first(data[at : at + size])
        if found is not None:
            assert found == packet
            assert behind + data[at + size :] == rest
            return
        assert behind == b""
    raise AssertionError("the packet never came")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x00\x00", "expected a packet of 3 to 1026 bytes, was 2"),
        (b"\x04\x01U", "was 1027, in"),
        (b"GET / HTTP/1.1\r\n", "was 18247, in b'GET / HTTP/1.1"),
    ],
)
def test_a_length_that_no_packet_has_is_an_error_at_once(data: bytes, words: str) -> None:
    with pytest.raises(WireError, match=words):
        PacketSplitter(CLIENT_PACKET_LIMIT_BYTES).split(data)
    with pytest.raises(WireError, match=words):
        PacketSplitter(CLIENT_PACKET_LIMIT_BYTES).first(data)


def test_packets_before_a_broken_one_are_not_delivered() -> None:
    """The stream is not trusted any more: whoever reads it closes the connection."""
    with pytest.raises(WireError, match="expected a packet"):
        PacketSplitter().split(encode_packet(SEQUENCED, b"x") + b"\x00\x00")


def test_a_payload_that_no_packet_can_hold_is_refused() -> None:
    assert len(encode_packet(SEQUENCED, b"x" * 65_534)) == 65_537
    with pytest.raises(WireError, match="at most 65534 bytes"):
        encode_packet(SEQUENCED, b"x" * 65_535)

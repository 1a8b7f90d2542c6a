"""MoldUDP64's packets and requests, as bytes and back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltabook.wire.errors import WireError
from deltabook.wire.mold import (
    END_OF_SESSION,
    MoldPacket,
    encode_end,
    encode_head,
    encode_packet,
    parse_packet,
    parse_request,
)


@given(st.text("ABC123", max_size=10), st.integers(0, 2**64 - 1), st.lists(st.binary(max_size=60), max_size=30))
def test_a_packet_comes_back_as_it_was(session: str, sequence: int, messages: list[bytes]) -> None:
    packet = parse_packet(encode_packet(session, sequence, messages))
    assert packet == MoldPacket(session, sequence, tuple(messages))
    assert packet.next_sequence == sequence + len(messages)


def test_the_end_and_heartbeats_have_no_messages() -> None:
    assert encode_packet("S1", 7) == b"S1        " + bytes([0] * 7 + [7, 0, 0])
    assert parse_packet(encode_end("S1", 7)) == MoldPacket("S1", 7, (), is_end=True)
    assert encode_end("S1", 7)[-2:] == b"\xff\xff"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"short", "expected a packet of 20 bytes or more, was 5"),
        (encode_head("S1", 1, 2) + b"\0\1a", "expected 2 messages in a packet of 23 bytes, was 1"),
        (encode_head("S1", 1, 1) + b"\0\2a", "expected 1 messages in a packet of 23 bytes, was 0"),
        (encode_head("S1", 1, 1) + b"\0", "expected 1 messages in a packet of 21 bytes, was 0"),
        (encode_head("S1", 1, 1) + b"\0\1abc", "expected 1 messages in 23 bytes, was a packet of 25"),
        (b"\xff" * 20, "expected a session in ASCII"),
    ],
)
def test_a_packet_that_is_none_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(WireError, match=words):
        parse_packet(data)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "expected a request of 20 bytes, was 0"),
        (bytes(21), "expected a request of 20 bytes, was 21"),
        (encode_head("S1", 0, 1), "1 or more, was 0 and 1"),
        (encode_head("S1", 1, 0), "1 or more, was 1 and 0"),
    ],
)
def test_a_request_that_is_none_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(WireError, match=words):
        parse_request(data)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: encode_head("ELEVEN-LONG", 1, 1),
        lambda: encode_head("S1", 2**64, 1),
        lambda: encode_head("S1", 1, 2**16),
        lambda: encode_packet("S1", 1, [b""] * END_OF_SESSION),
        lambda: encode_packet("S1", 1, [bytes(2**16)]),
    ],
)
def test_what_a_packet_cannot_hold_is_refused(wrong: Callable[[], bytes]) -> None:
    with pytest.raises(WireError):
        wrong()

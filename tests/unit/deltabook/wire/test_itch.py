"""Single ITCH messages: the table, encoding, decoding, framing; brokers as four characters; the end of a snapshot."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from itch.messages import messages as reference_messages

from deltabook.wire.errors import WireError
from deltabook.wire.itch import (
    LARGEST_BROKER,
    LONGEST,
    MESSAGES,
    DecodedMessage,
    Kind,
    attribution_of,
    broker_of,
    decode_message,
    encode_message,
    encode_snapshot_end,
    frame,
    frames,
    parse_snapshot_end,
)

LENGTHS = dict(
    zip(
        "SRHYLVWKJhAFECXDUPQBINO",
        (12, 39, 25, 20, 26, 35, 12, 28, 35, 21, 36, 40, 31, 36, 23, 19, 35, 44, 40, 19, 50, 20, 48),
        strict=True,
    )
)
"""Of the specification."""


def sample(letter: str) -> DecodedMessage:
    """A message whose values all differ and use all bytes."""
    values: dict[str, int | str] = {}
    for number, field in enumerate(MESSAGES[letter].fields, start=1):
        if field.kind is Kind.ALPHA:
            values[field.name] = "".join(chr(65 + (number + i) % 26) for i in range(field.width))
        else:
            values[field.name] = int.from_bytes(bytes((number * 16 + i) % 128 for i in range(field.width)), "big")
    return DecodedMessage(letter, values)


class TestTable:
    def test_there_are_23_messages_of_the_specified_lengths(self) -> None:
        assert {letter: message.length for letter, message in MESSAGES.items()} == LENGTHS
        assert max(LENGTHS.values()) == LONGEST

    @pytest.mark.parametrize("letter", MESSAGES)
    def test_fields_follow_each_other_without_holes(self, letter: str) -> None:
        at = 1
        for field in MESSAGES[letter].fields:
            assert field.offset == at
            at += field.width
        assert at == MESSAGES[letter].length

    def test_a_name_means_the_same_in_every_message(self) -> None:
        shapes: dict[str, set[tuple[int, Kind]]] = {}
        for message in MESSAGES.values():
            for field in message.fields:
                shapes.setdefault(field.name, set()).add((field.width, field.kind))
        assert {name: shape for name, shape in shapes.items() if len(shape) > 1} == {}


class TestEncoding:
    @pytest.mark.parametrize("letter", MESSAGES)
    def test_what_is_encoded_decodes_to_the_same(self, letter: str) -> None:
        message = sample(letter)
        data = encode_message(letter, **message.fields)
        assert len(data) == LENGTHS[letter]
        assert decode_message(data) == message

    @pytest.mark.parametrize("letter", MESSAGES)
    def test_an_independent_parser_gives_the_same_bytes(self, letter: str) -> None:
        data = encode_message(letter, **sample(letter).fields)
        reference = reference_messages[data[:1]](data)
        assert reference.to_bytes() == data
        assert reference.timestamp == sample(letter).fields["timestamp"]

    def test_the_bytes_of_an_add_are_those_of_the_specification(self) -> None:
        data = encode_message(
            "A",
            stock_locate=1,
            tracking_number=2,
            timestamp=0x010203040506,
            order_reference_number=3,
            buy_sell_indicator="B",
            shares=100,
            stock="ACME",
            price=1_002_500,
        )
        assert data == (
            b"A\x00\x01\x00\x02\x01\x02\x03\x04\x05\x06"
            + b"\x00" * 7
            + b"\x03B\x00\x00\x00\x64ACME    \x00\x0f\x4c\x04"
        )

    def test_shared_fields_and_the_reserved_one_may_be_left_out(self) -> None:
        message = decode_message(encode_message("H", stock="ACME", trading_state="T", reason_code=""))
        assert message.fields == {
            **dict.fromkeys(("stock_locate", "tracking_number", "timestamp"), 0),
            "stock": "ACME",
            "trading_state": "T",
            **dict.fromkeys(("reserved", "reason_code"), ""),
        }

    @pytest.mark.parametrize(
        ("letter", "values", "text"),
        [
            ("Z", {}, "expected a type out of"),
            ("D", {}, "expected order_reference_number in a message D"),
            ("B", {"match_number": 1, "price": 2}, "expected fields of a message B, was price"),
            ("B", {"match_number": 1 << 64}, "expected an integer of 0 to"),
            ("B", {"match_number": -1}, "expected an integer of 0 to"),
            ("B", {"match_number": "1"}, "expected an integer of 0 to"),
            ("S", {"event_code": "OO"}, "expected at most 1 ASCII"),
            ("S", {"event_code": "é"}, "expected at most 1 ASCII"),
            ("S", {"event_code": 1}, "expected at most 1 ASCII"),
        ],
    )
    def test_what_does_not_fit_is_refused(self, letter: str, values: dict[str, int | str], text: str) -> None:
        with pytest.raises(WireError, match=text):
            encode_message(letter, **values)

    @pytest.mark.parametrize("data", [b"", b"Z" * 12, b"S" * 11, b"S" * 13, b"\xff" * 12])
    def test_unknown_types_and_wrong_lengths_are_refused(self, data: bytes) -> None:
        with pytest.raises(WireError):
            decode_message(data)


class TestFraming:
    def test_messages_come_back_out_of_their_frames(self) -> None:
        messages = [encode_message(letter, **sample(letter).fields) for letter in MESSAGES]
        assert list(frames(b"".join(map(frame, messages)))) == messages

    @pytest.mark.parametrize("cut", [1, 2, 3, 13])
    def test_bytes_that_end_inside_a_message_are_refused(self, cut: int) -> None:
        data = frame(encode_message("S", event_code="O"))
        with pytest.raises(WireError, match="expected a whole message at byte 0"):
            list(frames(data[:cut]))


@given(st.integers(0, LARGEST_BROKER) | st.integers(0, 10_100))
def test_every_broker_with_an_attribution_is_found_again(broker_id: int) -> None:
    text = attribution_of(broker_id)
    assert 1 <= len(text) <= 4
    assert broker_of(text.ljust(4)) == broker_id


@pytest.mark.parametrize("broker_id", [-1, LARGEST_BROKER + 1, 2**63 - 1])
def test_others_have_none(broker_id: int) -> None:
    assert attribution_of(broker_id) == ""


@pytest.mark.parametrize("text", ["", "    ", "007", "12345", "A00", "a000", "1A00", "A-00", "Ä000"])
def test_what_is_nobodys_attribution_is_no_broker(text: str) -> None:
    assert broker_of(text) is None


def test_the_ends_of_the_range() -> None:
    assert [attribution_of(n) for n in (0, 9_999, 10_000, LARGEST_BROKER)] == ["0", "9999", "A000", "ZZZZ"]


def test_the_end_of_a_snapshot_is_g_and_twenty_digits() -> None:
    assert encode_snapshot_end(61_235) == b"G               61235"
    assert parse_snapshot_end(b"G00000000000000061235") == 61_235
    assert parse_snapshot_end(b"G61235               ") == 61_235
    assert parse_snapshot_end(encode_snapshot_end(10**20 - 1)) == 10**20 - 1


@pytest.mark.parametrize("message", [b"", b"G", b"F" + b"1" * 20, b"G" + b" " * 20, b"G" + b"x" * 20, b"G" + b"1" * 21])
def test_another_end_of_a_snapshot_is_refused(message: bytes) -> None:
    with pytest.raises(WireError, match="20 digits"):
        parse_snapshot_end(message)


@pytest.mark.parametrize("sequence", [0, -1, 10**20])
def test_an_end_with_a_wrong_number_is_refused(sequence: int) -> None:
    with pytest.raises(WireError):
        encode_snapshot_end(sequence)

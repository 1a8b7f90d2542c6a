"""OUCH 5.0 and 4.2 byte by byte, against tables of their specifications that were typed independently."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltabook.wire import ouch5, ouch42
from deltabook.wire._messages import MessageTable
from deltabook.wire.errors import WireError

# letter, length, then offset:width of every field
REQUESTS_5 = """
O 47 1:4 5:1 6:4 10:8 18:8 26:1 27:1 28:1 29:1 30:1 31:14
U 40 1:4 5:4 9:4 13:8 21:1 22:1 23:1 24:14
X 9 1:4 5:4
C 19 1:4 5:4 9:8
M 10 1:4 5:1 6:4
Q 1
"""
REPLIES_5 = """
S 10 1:8 9:1
A 64 1:8 9:4 13:1 14:4 18:8 26:8 34:1 35:1 36:8 44:1 45:1 46:1 47:1 48:14
U 68 1:8 9:4 13:4 17:1 18:4 22:8 30:8 38:1 39:1 40:8 48:1 49:1 50:1 51:1 52:14
C 18 1:8 9:4 13:4 17:1
D 32 1:8 9:4 13:4 17:1 18:4 22:8 30:1 31:1
E 36 1:8 9:4 13:4 17:8 25:1 26:8
B 36 1:8 9:4 13:8 21:1 22:14
F 49 1:8 9:4 13:4 17:8 25:1 26:8 34:1 35:14
J 29 1:8 9:4 13:2 15:14
P 13 1:8 9:4
I 13 1:8 9:4
T 30 1:8 9:4 13:8 21:1 22:8
M 18 1:8 9:4 13:1 14:4
R 16 1:8 9:4 13:1
X 27 1:8 9:4 13:4 17:8
Q 13 1:8 9:4
"""
REQUESTS_42 = """
O 49 1:14 15:1 16:4 20:8 28:4 32:4 36:4 40:1 41:1 42:1 43:4 47:1 48:1
U 47 1:14 15:14 29:4 33:4 37:4 41:1 42:1 43:4
X 19 1:14 15:4
M 20 1:14 15:1 16:4
N 15 1:14
"""
REPLIES_42 = """
S 10 1:8 9:1
A 66 1:8 9:14 23:1 24:4 28:8 36:4 40:4 44:4 48:1 49:8 57:1 58:1 59:4 63:1 64:1 65:1
U 80 1:8 9:14 23:1 24:4 28:8 36:4 40:4 44:4 48:1 49:8 57:1 58:1 59:4 63:1 64:1 65:14 79:1
C 28 1:8 9:14 23:4 27:1
D 37 1:8 9:14 23:4 27:1 28:4 32:4 36:1
E 40 1:8 9:14 23:4 27:4 31:1 32:8
B 32 1:8 9:14 23:8 31:1
G 45 1:8 9:14 23:4 27:4 31:1 32:8 40:4 44:1
F 41 1:8 9:14 23:4 27:4 31:1 32:8 40:1
J 24 1:8 9:14 23:1
P 23 1:8 9:14
I 23 1:8 9:14
T 36 1:8 9:14 23:4 27:1 28:8
M 28 1:8 9:14 23:1 24:4
N 23 1:8 9:14
"""
ORDER_5: dict[str, Any] = {
    "user_ref_num": 0x01020304,
    "side": "B",
    "quantity": 0x0A0B0C,
    "symbol": "ACME",
    "price": 0x1122334455,
    "time_in_force": "0",
    "display": "Y",
    "capacity": "P",
    "inter_market_sweep_eligibility": "N",
    "cross_type": "N",
    "cl_ord_id": "mine",
}


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (ouch5.REQUESTS, REQUESTS_5),
        (ouch5.REPLIES, REPLIES_5),
        (ouch42.REQUESTS, REQUESTS_42),
        (ouch42.REPLIES, REPLIES_42),
    ],
)
def test_every_field_of_every_message_is_where_specified(table: MessageTable, expected: str) -> None:
    found = [
        " ".join([m.type, str(m.length), *(f"{field.offset}:{field.width}" for field in m.fields)])
        for m in table.values()
    ]
    assert found == expected.strip().splitlines()


def test_an_order_is_these_bytes() -> None:
    data = ouch5.encode_request("O", options={ouch5.Option.MAX_FLOOR: 7, ouch5.Option.FIRM: "AB"}, **ORDER_5)
    assert data == (
        b"O\x01\x02\x03\x04B\x00\x0a\x0b\x0cACME    \x00\x00\x00\x11\x22\x33\x44\x55" + b"0YPNN" + b"mine          "
        b"\x00\x0c" + b"\x05\x05\x00\x00\x00\x07" + b"\x05\x02AB  "
    )


def test_a_token_order_is_these_bytes() -> None:
    data = ouch42.encode_request(
        "O",
        order_token="T1",
        buy_sell_indicator="S",
        shares=1,
        stock="ACME",
        price=0x01020304,
        time_in_force=99_999,
        firm="ABCD",
        display="N",
        capacity="A",
        intermarket_sweep_eligibility="N",
        minimum_quantity=5,
        cross_type="C",
        customer_type="R",
    )
    assert data == (
        b"OT1            S\x00\x00\x00\x01ACME    \x01\x02\x03\x04\x00\x01\x86\x9fABCDNAN\x00\x00\x00\x05CR"
    )


@st.composite
def messages(draw: st.DrawFn) -> tuple[ModuleType, str, str, dict[str, int | str]]:
    module = draw(st.sampled_from([ouch5, ouch42]))
    direction = draw(st.sampled_from(["request", "reply"]))
    table = module.REQUESTS if direction == "request" else module.REPLIES
    message = draw(st.sampled_from(list(table.values())))
    words = st.text("ABCabc019 ", max_size=14)
    values = {
        field.name: draw(words)[: field.width].rstrip(" ")
        if field.kind == "alpha"
        else draw(st.integers(0, (1 << 8 * field.width) - 1))
        for field in message.fields
    }
    return module, direction, message.type, values


@given(messages())
def test_encoding_is_inverted_and_has_the_tables_length(
    drawn: tuple[ModuleType, str, str, dict[str, int | str]],
) -> None:
    module, direction, letter, values = drawn
    data = getattr(module, f"encode_{direction}")(letter, **values)
    assert len(data) == getattr(module, "REQUESTS" if direction == "request" else "REPLIES")[letter].length
    decoded = getattr(module, f"decode_{direction}")(data)
    assert (decoded.type, decoded.fields, decoded.options) == (letter, values, {})


def test_every_option_comes_back_and_has_its_width() -> None:
    widths = [8, 4, 4, 1, 4, 1, 4, 8, 1, 4, 1, 4, 4, 4, 1, 1, 1, 4, 8, 2, 1]
    tags = [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 22, 23, 24, 25]
    assert [(int(tag), field.width) for tag, field in ouch5.OPTIONS.items()] == list(zip(tags, widths, strict=True))
    options = {
        tag: "Y" if field.kind == "alpha" else -3 if field.kind == "signed" else 200
        for tag, field in ouch5.OPTIONS.items()
    }
    data = ouch5.encode_request("O", options=options, **ORDER_5)
    assert ouch5.decode_request(data).options == options
    assert int.from_bytes(data[45:47]) == len(data) - 47 == sum(widths) + 2 * len(widths)


@pytest.mark.parametrize(
    ("appendage", "words"),
    [
        (b"", "as many bytes as its length says"),
        (b"\x00\x01", "as many bytes as its length says"),
        (b"\x00\x00x", "as many bytes as its length says"),
        (b"\x00\x01\x05", "a tag and a value"),
        (b"\x00\x01\x00", "a tag and a value"),
        (b"\x00\x03\x02\x08x", "was tag 8"),
        (b"\x00\x03\x02\x63x", "was tag 99"),
        (b"\x00\x06\x02\x0cP\x02\x0cP", "was tag 12"),
        (b"\x00\x04\x03\x0cPP", "expected 1 bytes of option post_only, was 2"),
    ],
)
def test_appendages_that_are_none_are_refused(appendage: bytes, words: str) -> None:
    with pytest.raises(WireError, match=re.escape(words)):
        ouch5.decode_options(appendage)


def test_an_aiq_cancel_without_its_strategy_is_read_too() -> None:
    values: dict[str, Any] = dict.fromkeys(
        ("timestamp", "user_ref_num", "decrement_shares", "quantity_prevented_from_trading"), 1
    )
    letters: dict[str, Any] = {"reason": "Q", "liquidity_flag": "R", "aiq_strategy": ""}
    data = ouch5.encode_reply("D", execution_price=5, **values, **letters)
    assert ouch5.decode_reply(data[:-1]) == ouch5.decode_reply(data)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"quantity": -1}, "integer of 0 to 4294967295 for quantity of O, was -1"),
        ({"quantity": "x"}, "for quantity of O, was 'x'"),
        ({"symbol": "TOOLONGXX"}, "at most 8 ASCII characters for symbol of O"),
        ({"side": 3}, "for side of O, was 3"),
        ({"colour": 3}, "fields of a message O, was colour"),
    ],
)
def test_values_that_do_not_fit_are_named(values: dict[str, int | str], words: str) -> None:
    with pytest.raises(WireError, match=re.escape(words)):
        ouch5.encode_request("O", **(ORDER_5 | values))


def test_what_is_no_message_is_refused() -> None:
    for data, words in [(b"", "type out of"), (b"?", "type out of"), (b"X\x00", "9 bytes"), (b"Q?", "1 bytes")]:
        with pytest.raises(WireError, match=words):
            ouch5.decode_request(data)
    with pytest.raises(WireError, match="user_ref_num in a message X"):
        ouch5.encode_request("X", quantity=1)
    with pytest.raises(WireError, match="no options with a message X"):
        ouch5.encode_request("X", options={3: 1}, user_ref_num=1, quantity=1)
    with pytest.raises(WireError, match="an option out of"):
        ouch5.encode_options({99: 1})

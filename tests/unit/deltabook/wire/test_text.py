"""Lines of the text protocol."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltabook.wire import text
from deltabook.wire.text import PLAIN, InteractiveLogin, OrderOptions, PassiveLogin, Request, Response, WireError

int64s = st.integers(-(2**63), 2**63 - 1)
symbols = st.text("ABCXYZ.-0189", max_size=16)
maybe = st.none() | int64s
options = st.builds(
    OrderOptions,
    immediate=st.booleans(),
    post_only=st.booleans(),
    hidden=st.booleans(),
    minimum=maybe,
    display=maybe,
    stop_ticks=maybe,
    expire_ns=maybe,
    auction=st.sampled_from(["", "open", "close", "halt"]),
)
requests = st.builds(
    Request, int64s, int64s, int64s, st.sampled_from("BS"), int64s, int64s, symbols, time_ns=int64s, options=options
) | st.builds(Request, int64s, int64s, int64s, st.sampled_from("XDUM"), int64s, int64s, symbols)
responses = st.builds(
    Response,
    int64s,
    int64s,
    int64s,
    int64s,
    st.sampled_from("AEFXDUNTRH"),
    int64s,
    int64s,
    symbols,
    int64s,
    st.text("abc 17", max_size=40),
)


@given(requests)
def test_a_request_is_read_as_it_was_written(request: Request) -> None:
    line = text.encode_request(request)
    assert len(line) <= text.LINE_LIMIT_BYTES
    assert text.parse_request(line) == request


def test_a_request_without_options_is_the_line_of_eight_fields() -> None:
    request = Request(3, 0, 7, "B", 5, 100, "ACME")
    assert text.encode_request(request) == b"3,0,0,7,B,5,100,ACME\n"
    for line in (b"3,0,0,7,B,5,100,ACME", b"3,0,0,7,B,5,100,ACME,\r\n"):
        assert text.parse_request(line).options is PLAIN


def test_every_option_has_its_word() -> None:
    line = b"3,0,0,7,B,5,100,ACME,ioc;post;hidden;min=1;show=2;stop=3;until=4;close\n"
    request = text.parse_request(line)
    assert request.options == OrderOptions(True, True, True, 1, 2, 3, 4, "close")
    assert text.encode_request(request) == line


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"3,0,0,7,B,5,100", "expected 8 or 9 fields, was 7"),
        (b"3,0,0,7,B,5,100,ACME,,", "expected 8 or 9 fields, was 10"),
        (b"3,0,0,7,T,5,100,ACME", "expected an action out of B D M S U X, was 'T'"),
        (b"3,0,0,7,B, 5,100,ACME", "expected an int64 for volume, was ' 5'"),
        (b"3,0,0,7,B,+5,100,ACME", "expected an int64 for volume, was '+5'"),
        (b"3,0,0,7,B,1_0,100,ACME", "expected an int64 for volume, was '1_0'"),
        (b"3,0,0,7,B,,100,ACME", "expected an int64 for volume, was ''"),
        (b"3,0,0,7,B,9223372036854775808,100,ACME", "expected an int64 for volume"),
        (b"3,0,0,7,B,-9223372036854775809,100,ACME", "expected an int64 for volume"),
        (b"3,0,0,7,B,5,100,AC ME", "expected a symbol of up to 16 characters without blanks, was 'AC ME'"),
        (b"3,0,0,7,B,5,100,ABCDEFGHIJKLMNOPQ", "expected a symbol of up to 16 characters"),
        (b"3,0,0,7,B,5,100,\xe9", "expected ASCII"),
        (b"3,0,0,7,B,5,100,ACME,fok", "expected an option out of ioc, post, hidden, min=N"),
        (b"3,0,0,7,B,5,100,ACME,ioc;", "expected an option out of"),
        (b"3,0,0,7,B,5,100,ACME,ioc=1", "expected an option out of"),
        (b"3,0,0,7,B,5,100,ACME,min", "expected an option out of"),
        (b"3,0,0,7,B,5,100,ACME,min=", "expected an int64 for min, was ''"),
        (b"3,0,0,7,B,5,100,ACME,ioc;ioc", "expected each option once, and one auction"),
        (b"3,0,0,7,B,5,100,ACME,open;halt", "expected each option once, and one auction"),
        (b"3,0,4,7,U,5,100,ACME,ioc", "expected options with B and S only, was 'ioc' with U"),
    ],
)
def test_a_malformed_request_is_refused_with_what_was_expected(line: bytes, words: str) -> None:
    with pytest.raises(WireError) as raised:
        text.parse_request(line)
    assert words in str(raised.value)


@given(responses)
def test_a_response_is_read_as_it_was_written(response: Response) -> None:
    assert text.parse_response(text.encode_response(response)) == response


def test_no_reason_is_too_long_for_a_line_or_breaks_it() -> None:
    wrong = b"9" * 900
    with pytest.raises(WireError) as raised:
        text.parse_request(b"1,0,0,7,B," + wrong + b",1,ACME")
    for reason in (str(raised.value), "a,b\nc\rd", "x" * 5_000):
        line = text.encode_response(Response(1, 2, 3, 4, "R", 5, 6, "ACME", 7, reason))
        assert len(line) <= text.LINE_LIMIT_BYTES
        assert text.parse_response(line).detail == reason.replace(",", " ").replace("\n", " ").replace("\r", " ")[:500]
        assert len(text.encode_login_reply(text.Refused("login", reason))) <= text.LINE_LIMIT_BYTES


@pytest.mark.parametrize(
    ("line", "login"),
    [
        (b"1", PassiveLogin()),
        (b"1,S1,5", PassiveLogin("S1", 5)),
        (b"0", InteractiveLogin()),
        (b"0,7", InteractiveLogin(7)),
        (b"0,7,S1,5", InteractiveLogin(7, "S1", 5)),
        (b"0,7,,0,1", InteractiveLogin(7, "", 0, True)),
        (b"0,7,S1,5,0", InteractiveLogin(7, "S1", 5, False)),
    ],
)
def test_logins(line: bytes, login: PassiveLogin | InteractiveLogin) -> None:
    assert text.parse_login(line) == login
    assert text.parse_login(text.encode_login(login)) == login


@pytest.mark.parametrize(
    "line", [b"", b"2", b"1,S1", b"0,x", b"0,7,S1", b"0,7,S1,-1", b"0,7,,0,2", b"0,7,,0,", b"\xff"]
)
def test_what_is_no_login_is_refused(line: bytes) -> None:
    with pytest.raises(WireError, match="expected"):
        text.parse_login(line)

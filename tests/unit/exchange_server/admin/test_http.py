# mypy: disable-error-code="no-untyped-call"
# Twisted is typed in part only.
"""The admin port: who is let in, what it answers, and for what is not a line that says what was expected."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.python.failure import Failure

from deltabook.wire import admin
from deltabook.wire.site import MOST_BODY_BYTES
from tests.generators.operated import Operated

TOKEN = "a-token-of-more-than-sixteen"
SAYS_TOKEN = f"Authorization: Bearer {TOKEN}\r\n"
HEAD = b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nX: "
HALT = b'{"symbol":"ACME","phase":"halted"}'


@pytest.fixture
def operated(tmp_path: Path) -> Iterator[Operated]:
    operated = Operated(tmp_path)
    yield operated
    operated.close()


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Operated]:
    operated = Operated(tmp_path / "guarded", token=TOKEN)
    yield operated
    operated.close()


def test_an_answer_is_json_that_nobody_keeps(operated: Operated) -> None:
    answer = operated.ask(admin.STATUS_PATH)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.headers["cache-control"] == "no-store"
    assert operated.report(admin.STATUS_PATH, admin.Status).session == "SESSION1"


def test_a_head_is_an_answer_without_its_body(operated: Operated) -> None:
    answer = operated.ask(admin.STATISTICS_PATH, "HEAD")
    assert (answer.status, answer.body) == (200, b"")
    assert int(answer.headers["content-length"]) > 100


@pytest.mark.parametrize(
    ("path", "method", "body", "status", "words"),
    [
        ("/v2", "GET", b"", 404, "expected to get one of /, /metrics, /v1/accounts, /v1/books/SYMBOL"),
        ("/v1/status", "POST", b"", 404, "expected to post to one of /v1/accounts/kill"),
        ("/v1/status", "DELETE", b"", 405, "expected GET or POST, was DELETE"),
        ("/v1/phase", "POST", b"{", 400, "expected a SetPhase as JSON"),
        ("/v1/phase", "POST", b'{"symbol":"ACME","phase":"asleep"}', 400, "Invalid enum value 'asleep'"),
        ("/v1/phase", "POST", b'{"symbol":"ACME","phase":"halted","symbol":"GLOBEX"}', 400, "field `symbol` twice"),
        ("/v1/phase", "POST", b'{"symbol":"ACME","phase":"halted","why":1}', 400, "unknown field `why`"),
        ("/v1/phase", "POST", b'{"symbol":"ACME","phase":"halted","reason":"LONGER"}', 400, "length <= 4"),
        ("/v1/phase", "POST", b'{"symbol":"ACME","phase":"halted","reason":"\\n"}', 400, "matching regex"),
        ("/v1/phase", "POST", b'{"symbol":"NONE","phase":"halted"}', 404, "expected one of the symbols ACME, GLOBEX"),
        ("/v1/trades/bust", "POST", b'{"symbol":"ACME","match_id":0}', 400, ">= 1"),
        ("/v1/books/NONE", "GET", b"", 404, "expected one of the symbols ACME, GLOBEX, was 'NONE'"),
        ("/v1/books/ACME?depth=x", "GET", b"", 400, "expected a whole number as depth, was 'x'"),
        ("/v1/books/ACME?depth=0", "GET", b"", 409, "expected a depth from 1 to 1000, was 0"),
        ("/v1/books/ACME?depth=1001", "GET", b"", 409, "expected a depth from 1 to 1000, was 1001"),
        ("/v1/live/NONE", "GET", b"", 404, "expected one of the symbols ACME, GLOBEX, was 'NONE'"),
        ("/v1/live/ACME?after=-1", "GET", b"", 400, "expected a whole number as after, was '-1'"),
        ("/v1/accounts?after=text:7", "GET", b"", 404, "expected the name of an account"),
        ("/v1/replay", "GET", b"", 404, "expected an exchange that plays a recorded file"),
    ],
)
def test_what_cannot_be_is_a_line_and_changes_nothing(
    operated: Operated, path: str, method: str, body: bytes, status: int, words: str
) -> None:
    answer = operated.ask(path, method, body)
    assert (answer.status, answer.headers["content-type"]) == (status, "text/plain; charset=utf-8")
    assert words in answer.text
    assert "\n" not in answer.text
    assert operated.exchange.inputs == 0


def test_a_change_is_taken_whatever_its_content_is_called(operated: Operated) -> None:
    form = "Content-Type: application/x-www-form-urlencoded\r\n"
    assert operated.ask("/v1/phase", "POST", HALT, headers=form).status == 200
    assert operated.exchange.market.books["ACME"].phase == "halted"


def test_without_a_token_only_this_machine_is_admitted(operated: Operated) -> None:
    assert operated.ask(admin.STATUS_PATH, host="::ffff:127.0.0.1").status == 200
    answer = operated.ask("/v1/phase", "POST", HALT, host="10.0.0.7")
    assert (answer.status, answer.text) == (403, "expected a request from this machine, was 10.0.0.7")
    assert operated.ask("/metrics", host="10.0.0.7").status == 403
    assert operated.exchange.inputs == 0


def test_a_foreign_name_of_this_machine_is_not_admitted(operated: Operated, guarded: Operated) -> None:
    elsewhere = "Host: example.org:4712\r\n"
    assert operated.ask(admin.STATUS_PATH, headers=elsewhere).status == 403
    assert guarded.ask(admin.STATUS_PATH, headers=elsewhere + SAYS_TOKEN).status == 200


@pytest.mark.parametrize(
    ("path", "content_type", "words"),
    [
        ("/", "text/html; charset=utf-8", b'<script src="page.js" defer>'),
        ("/page.css", "text/css; charset=utf-8", b"prefers-color-scheme: dark"),
        ("/page.js", "text/javascript; charset=utf-8", b'"use strict"'),
    ],
)
def test_the_live_page_is_three_files_that_ask_nobody_else(
    operated: Operated, path: str, content_type: str, words: bytes
) -> None:
    answer = operated.ask(path)
    assert (answer.status, answer.headers["content-type"]) == (200, content_type)
    assert words in answer.body
    assert b"://" not in answer.body
    policy = answer.headers["content-security-policy"].split("; ")
    assert {"default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"} <= set(policy)
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert (answer.headers["x-content-type-options"], answer.headers["cache-control"]) == ("nosniff", "no-store")
    assert operated.ask(path, "HEAD").body == b""
    assert operated.ask(path, "POST").status == 404


def test_the_page_needs_no_token_and_its_frames_do(guarded: Operated) -> None:
    assert guarded.ask("/", host="10.0.0.7").status == 200
    assert guarded.ask("/page.js").status == 200
    assert guarded.ask("/v1/live/ACME").status == 401
    assert guarded.ask("/v1/live/ACME", headers=SAYS_TOKEN).status == 200


def test_the_page_is_for_this_machine_alone_without_a_token(operated: Operated) -> None:
    assert operated.ask("/", host="10.0.0.7").status == 403
    assert operated.ask("/", headers="Origin: http://localhost\r\n").status == 403


def test_pages_of_browsers_are_not_let_in(operated: Operated, guarded: Operated) -> None:
    origin = "Origin: http://localhost\r\n"
    assert operated.ask("/v1/phase", "POST", HALT, headers=origin).status == 403
    assert guarded.ask(admin.STATUS_PATH, headers=origin + SAYS_TOKEN).status == 403


@pytest.mark.parametrize("said", ["", "Authorization: Bearer other\r\n", f"Authorization: {TOKEN}\r\n",
                                  "Authorization: Bearer \xff\r\n"])  # fmt: skip
def test_with_a_token_nobody_is_let_in_without_it(guarded: Operated, said: str) -> None:
    answer = guarded.ask("/v1/phase", "POST", HALT, headers=said)
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "bearer")
    assert TOKEN not in answer.text
    assert guarded.ask("/metrics", headers=said).status == 401
    assert guarded.exchange.inputs == 0


def test_with_the_token_other_machines_are_let_in(guarded: Operated) -> None:
    assert guarded.ask("/v1/phase", "POST", HALT, headers=SAYS_TOKEN, host="10.0.0.7").status == 200
    assert guarded.exchange.market.books["ACME"].phase == "halted"


def test_of_a_body_that_is_too_long_little_is_kept(operated: Operated) -> None:
    answer = operated.ask("/v1/phase", "POST", b" " * MOST_BODY_BYTES + HALT)
    assert (answer.status, operated.exchange.inputs) == (413, 0)
    connection, transport = operated.dial()
    connection.dataReceived(b"POST /v1/phase HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(100):
        connection.dataReceived(b"4000\r\n" + b" " * 0x4000 + b"\r\n")
    assert transport.disconnecting
    (request,) = connection._channel.requests
    assert request.content.tell() <= MOST_BODY_BYTES + 1


@pytest.mark.parametrize("length", [str(MOST_BODY_BYTES + 1), str(10**18), "9" * 5000])
def test_a_length_beyond_the_limit_is_413_before_the_body(operated: Operated, length: str) -> None:
    connection, transport = operated.dial()
    connection.dataReceived(f"POST /v1/phase HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n".encode())
    connection.dataReceived(b"X: Y\r\n\r\n" + HALT)
    head, _, body = transport.value().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 413 Content Too Large\r\n")
    assert body == b"expected a body of at most 16384 bytes, was a longer one\n"
    assert operated.exchange.inputs == 0


def test_unfinished_requests_keep_nobody_out(operated: Operated) -> None:
    """Clients that drip a request take the places of each other, longest wait first, and not of a whole request."""
    dripping = [operated.dial() for _ in range(64)]
    for connection, _ in dripping:
        connection.dataReceived(b"GET /v1/stat")
    assert operated.ask(admin.STATUS_PATH).status == 200
    assert [transport.disconnecting for _, transport in dripping] == [True] + [False] * 63
    assert dripping[0][1].value().startswith(b"HTTP/1.1 503 ")


def test_a_silent_connection_that_makes_room_is_told_nothing(operated: Operated) -> None:
    """A client could take an answer that it has not asked for as that to its next request."""
    silent = [operated.dial() for _ in range(64)]
    assert operated.ask(admin.STATUS_PATH).status == 200
    assert (silent[0][1].value(), silent[0][1].disconnecting) == (b"", True)


def test_a_connection_is_refused_while_all_are_being_answered(operated: Operated) -> None:
    dialled = [operated.dial() for _ in range(64)]
    for _, transport in dialled:
        operated.site.request_arrived(transport)
    _, refused = operated.dial()
    head, _, body = refused.value().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert body == b"expected at most 64 connections, was one more\n"
    assert refused.disconnecting
    connection, _ = dialled[0]
    connection.connectionLost(Failure(ConnectionDone()))
    assert operated.ask(admin.STATUS_PATH).status == 200


def test_a_request_must_arrive_in_time(operated: Operated) -> None:
    """The limit on silence alone lets a client send a byte a minute for ever."""
    connection, transport = operated.dial()
    for byte in b"GET /v1":
        connection.dataReceived(bytes([byte]))
        assert not transport.disconnecting
        operated.clock.advance(14.9)
    assert transport.disconnecting
    assert transport.value().endswith(b"\r\n\r\nexpected a whole request within 90 s, was a slower one\n")


def test_each_request_of_a_connection_has_its_own_time(operated: Operated) -> None:
    connection, transport = operated.dial()
    for _ in range(4):
        operated.clock.advance(50)
        connection.dataReceived(b"GET /v1/status HTTP/1.1\r\nHost: localhost:4712\r\n\r\n")
    assert transport.value().count(b"HTTP/1.1 200 OK") == 4
    assert not transport.disconnecting


def test_what_nobody_expected_is_a_line_too_and_in_the_log(
    operated: Operated, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr(operated.exchange.market, "accounts")
    answer = operated.ask(admin.ACCOUNTS_PATH)
    assert (answer.status, answer.text) == (500, "expected an answer, was AttributeError: see the exchange's log")
    assert "Traceback" in capsys.readouterr().err


def test_a_client_that_closes_its_side_gets_its_answers(operated: Operated) -> None:
    """All that it has asked for; the rest of an incomplete request is not waited for."""
    connection, transport = operated.dial()
    connection.dataReceived(b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2)
    assert IHalfCloseableProtocol.providedBy(connection)
    connection.readConnectionLost()
    assert transport.value().count(b"HTTP/1.1 200") == 2
    assert transport.disconnecting
    assert transport.producer is None, "a transport with a producer would not end"
    connection, transport = operated.dial()
    connection.dataReceived(b"GET /v1/sta")
    connection.readConnectionLost()
    assert transport.disconnecting
    assert transport.value() == b""


@pytest.mark.parametrize(
    ("begin", "status", "words"),
    [(b"GET /v1/", b"414", b"expected a path and query within"), (HEAD, b"431", b"expected a header within")],
)
def test_a_line_beyond_the_limit_is_answered(operated: Operated, begin: bytes, status: bytes, words: bytes) -> None:
    """Once; what follows it is read, so that the answer arrives, and is no request of its own."""
    connection, transport = operated.dial()
    for _ in range(3):
        connection.dataReceived(begin + b"a" * 40_000)
    connection.dataReceived(b"\r\n\r\nGET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert transport.value().startswith(b"HTTP/1.1 " + status)
    assert transport.value().count(b"HTTP/1.1") == 1
    assert words in transport.value()
    assert not transport.disconnecting
    operated.clock.advance(5)
    assert transport.disconnecting

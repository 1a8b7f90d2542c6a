# mypy: disable-error-code="no-untyped-call"
# Twisted is typed in part only.
"""The site: who is let in, how much of everybody, and what is said to what is not understood."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionLost
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.testing import StringTransport
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure

from deltabook.wire.access import Access, PortSecurity
from deltabook.wire.service import RuntimeStatus, Statistics
from runtime.service.http import SiteLimits
from tests.generators.certificates import make_certificate
from tests.generators.results_lab import ResultsLab, parsed

PATHS = (
    "/v1/status, /v1/statistics, /v1/views, /v1/views/{view}, /v1/views/{view}/explain, /v1/views/{view}/cursor, "
    "/v1/cursors/{cursor}, /v1/changes, /v1/stream, /v1/openapi.json"
)
TOKEN = "0123456789abcdef"
BEARER = f"Authorization: Bearer {TOKEN}\r\n"


class Transport(StringTransport):
    def setTcpNoDelay(self, enabled: bool) -> None: ...


def test_the_status_is_what_the_runtime_says() -> None:
    answer = ResultsLab().ask("/v1/status")
    assert (answer.status, answer.headers["cache-control"]) == (200, "no-store")
    assert (answer.json(RuntimeStatus).epoch, answer.json()["feed_sequence"]) == (9, 77)


def test_statistics_tell_of_views_cursors_and_connections() -> None:
    lab = ResultsLab()
    lab.ask("/v1/views/m/cursor", "POST", b"{}")
    lab.ask("/v1/nothing")
    lab.clock.advance(2)
    found = lab.ask("/v1/statistics").json(Statistics)
    assert (found.up_s, found.epoch, found.subscribers, found.cursors.open) == (2.0, 9, 0, 1)
    plain = found.views[0]
    assert (plain.name, plain.rows, plain.changed_rows, plain.behind_epochs, plain.lag_ms) == ("plain", 2, 2, 6, 1.5)
    assert (found.site.requests, found.site.refused_requests, found.site.failed_requests) == (2, 1, 0)
    assert found.memory_bytes > 1_000_000


@pytest.mark.parametrize("path", ["/", "/v2/views", "/v1/nothing", "/v1/views/plain/more", "/v1", "//v1/views"])
def test_a_path_that_is_not_there_is_404_and_says_which_are(path: str) -> None:
    answer = ResultsLab().ask(path)
    assert (answer.status, answer.text) == (404, f"expected one of {PATHS}, was {path}")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/v1/status", "GET, HEAD, OPTIONS"),
        ("PUT", "/v1/views", "GET, HEAD, OPTIONS"),
        ("PATCH", "/v1/cursors/1", "GET, DELETE, HEAD, OPTIONS"),
        ("GET", "/v1/views/m/cursor", "POST, OPTIONS"),
        ("BREW", "/v1/changes", "GET, HEAD, OPTIONS"),
    ],
)
def test_another_method_is_405_with_the_allowed_methods(method: str, path: str, allowed: str) -> None:
    answer = ResultsLab().ask(path, method)
    assert (answer.status, answer.headers["allow"]) == (405, allowed)
    assert answer.text == f"expected one of {allowed}, was {method}"


def test_options_says_which_methods_there_are() -> None:
    answer = ResultsLab().ask("/v1/cursors/1", "OPTIONS")
    assert (answer.status, answer.headers["allow"], answer.body) == (204, "GET, DELETE, HEAD, OPTIONS", b"")


@pytest.mark.parametrize("path", ["/v1/views", "/v1/views/plain", "/v1/openapi.json", "/v1/nothing"])
def test_head_is_get_without_its_body(path: str) -> None:
    lab = ResultsLab()
    whole, head = lab.ask(path), lab.ask(path, "HEAD")
    assert (head.status, head.body) == (whole.status, b"")
    assert head.headers["content-length"] == str(len(whole.body))
    assert head.headers["content-type"] == whole.headers["content-type"]


def test_head_of_what_has_no_end_ends() -> None:
    answer = ResultsLab().ask("/v1/changes?views=m", "HEAD")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/vnd.deltabook.frames")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1/views?x=1", "expected parameters out of none, was 'x'"),
        ("/v1/views/plain?integers=text", "expected integers (how exact numbers are written in JSON; string: "),
        ("/v1/views/plain?integers=string&integers=string", "expected each parameter once, was 'integers' twice"),
        ("/v1/views/plain?integers=%ff", "expected at most 32 parameters in UTF-8, was b'integers=%ff'"),
        ("/v1/views?" + "&".join(["a=1"] * 33), "expected at most 32 parameters in UTF-8, was "),
        ("/v1/changes", "expected views (names of views, with commas between them), was none"),
    ],
)  # fmt: skip
def test_parameters_that_are_not_understood_are_400(path: str, expected: str) -> None:
    answer = ResultsLab().ask(path)
    assert answer.status == 400
    assert answer.text.startswith(expected)


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("application/json", 200),
        ("*/*", 200),
        ("application/*", 200),
        ("text/html", 406),
        ("*/*;q=0", 406),
    ],
)
def test_an_answer_of_a_type_that_nobody_makes_is_406(accept: str, status: int) -> None:
    assert ResultsLab().ask("/v1/views", headers=f"Accept: {accept}\r\n").status == status


def test_a_body_of_another_type_is_415_and_one_without_is_read() -> None:
    lab = ResultsLab()
    answer = lab.ask("/v1/views/m/cursor", "POST", b"rows=1", "Content-Type: application/x-www-form-urlencoded\r\n")
    assert answer.status == 415
    multipart = "Content-Type: multipart/form-data; boundary=x\r\n"
    assert lab.ask("/v1/views/m/cursor", "POST", b"broken", multipart).status == 415
    assert lab.ask("/v1/views/m/cursor", "POST", b'{"rows":1}').status == 201


def test_only_this_machine_is_answered_under_its_names() -> None:
    stranger = ResultsLab(host="192.0.2.7").ask("/v1/status")
    assert (stranger.status, stranger.text) == (403, "expected a request from this machine, was 192.0.2.7")
    page = ResultsLab().ask("/v1/status", headers="Origin: http://page.example\r\n")
    assert (page.status, page.text) == (403, "expected a program, was a page of http://page.example")
    rebound = parsed(ResultsLab().send("/v1/status", headers="Host: evil.example\r\n").value())
    assert (rebound.status, rebound.text) == (
        403,
        "expected a request to localhost or a loopback address, was one to evil.example",
    )


def test_with_a_token_whoever_says_it_is_answered_from_anywhere() -> None:
    lab = ResultsLab(access=Access(TOKEN), host="192.0.2.7")
    refused = lab.ask("/v1/status")
    assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert TOKEN not in refused.text
    assert lab.ask("/v1/status", headers=BEARER).status == 200
    assert lab.ask("/v1/status", headers="Authorization: Bearer 0123456789abcdee\r\n").status == 401


def test_a_page_that_is_known_may_ask_and_is_told_so() -> None:
    lab = ResultsLab(access=Access(TOKEN, ["http://localhost:1"]))
    before = lab.ask("/v1/views", "OPTIONS", headers="Origin: http://localhost:1\r\n")
    assert (before.status, before.headers["access-control-allow-headers"]) == (204, "authorization, content-type")
    answer = lab.ask("/v1/views", headers="Origin: http://localhost:1\r\n" + BEARER)
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, "http://localhost:1")
    shown = answer.headers["access-control-expose-headers"].split(", ")
    assert {"deltabook-run", "deltabook-epoch", "deltabook-step", "location", "retry-after"} == set(shown)
    other = lab.ask("/v1/views", "OPTIONS", headers="Origin: http://localhost:2\r\n" + BEARER)
    assert (other.status, "access-control-allow-origin" in other.headers) == (403, False)


def test_who_asks_too_often_waits_and_others_do_not() -> None:
    lab = ResultsLab(access=Access(TOKEN), limits=SiteLimits(requests_per_s=2, burst=3))
    assert [lab.ask("/v1/status", headers=BEARER).status for _ in range(4)] == [200, 200, 200, 429]
    refused = lab.ask("/v1/status", headers=BEARER)
    assert (refused.headers["retry-after"], refused.text) == (
        "1",
        "expected at most 2 requests a second, was more: try again in 0.500 s",
    )
    lab.host = "192.0.2.7"
    assert lab.ask("/v1/status", headers=BEARER).status == 200
    lab.host = "127.0.0.1"
    lab.clock.advance(0.5)
    assert [lab.ask("/v1/status", headers=BEARER).status for _ in range(2)] == [200, 429]


def test_guesses_of_the_token_are_counted_too() -> None:
    lab = ResultsLab(access=Access(TOKEN), limits=SiteLimits(requests_per_s=1, burst=2))
    assert [lab.ask("/v1/status").status for _ in range(3)] == [401, 401, 429]


def test_a_path_that_is_too_long_is_414() -> None:
    answer = ResultsLab(limits=SiteLimits(target_bytes=100)).ask("/v1/views/" + "x" * 100)
    assert (answer.status, answer.text) == (414, "expected a path and query of at most 100 bytes, was a longer one")


def test_a_body_that_is_too_long_is_413_and_not_kept() -> None:
    lab = ResultsLab(limits=SiteLimits(body_bytes=10))
    answer = lab.ask("/v1/views/m/cursor", "POST", b" " * 11)
    assert (answer.status, answer.text) == (413, "expected a body of at most 10 bytes, was a longer one")
    assert lab.site.bodies_bytes == 0


def test_who_sends_much_more_than_that_is_cut_off() -> None:
    lab = ResultsLab(limits=SiteLimits(body_bytes=10))
    protocol, transport = lab.connect()
    head = b"POST /v1/views/m/cursor HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    protocol.dataReceived(head + b"64\r\n" + b" " * 100)
    assert transport.disconnected or transport.disconnecting


@pytest.mark.parametrize("length", ["11", "0000000000000000000011", str(10**18), "9" * 5000])
@pytest.mark.parametrize("more", ["", "Expect: 100-continue\r\n", "Transfer-Encoding: chunked\r\n"])
def test_a_length_beyond_the_limit_is_413_before_the_body(length: str, more: str) -> None:
    """The client would wait until the deadline of its request, and Python converts no 5,000 digits."""
    lab = ResultsLab(limits=SiteLimits(body_bytes=10))
    protocol, transport = lab.connect()
    head = f"POST /v1/views/m/cursor HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{more}X: Y\r\n\r\n"
    protocol.dataReceived(head.encode() + b'{"rows":1}')
    protocol.dataReceived(b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n" + b"x" * 100_000)
    answer = parsed(transport.value())
    assert (answer.status, answer.text) == (413, "expected a body of at most 10 bytes, was a longer one")
    assert not transport.disconnecting, "the system would discard the answer while the client sends"
    lab.clock.advance(5)
    assert transport.disconnected or transport.disconnecting
    protocol.connectionLost(Failure(ConnectionLost()))
    lab.clock.advance(60)
    assert (lab.site.bodies_bytes, lab.site.figures().connections) == (0, 0)


@pytest.mark.parametrize("length", ["", "-1", "1e3", "+10", "1 0", "\xb2"])
def test_a_malformed_length_is_400(length: str) -> None:
    protocol, transport = ResultsLab().connect()
    head = f"POST /v1/views/m/cursor HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
    protocol.dataReceived(head.encode("latin-1"))
    assert transport.value().startswith(b"HTTP/1.1 400 ")


def test_bodies_of_all_requests_together_are_bounded() -> None:
    lab = ResultsLab(limits=SiteLimits(bodies_bytes=10))
    protocol, _ = lab.connect()
    protocol.dataReceived(b"POST /v1/views/m/cursor HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n1234567")
    assert lab.site.bodies_bytes == 7
    answer = lab.ask("/v1/views/m/cursor", "POST", b'{"rows":1}')
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    protocol.connectionLost(Failure(ConnectionLost()))
    assert lab.site.bodies_bytes == 0
    assert lab.ask("/v1/views/m/cursor", "POST", b'{"rows":1}').status == 201


def test_strangers_bodies_are_not_kept() -> None:
    lab = ResultsLab(access=Access(TOKEN))
    protocol, _ = lab.connect()
    protocol.dataReceived(b"POST /v1/views/m/cursor HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n1234567")
    assert lab.site.bodies_bytes == 0


def test_connections_are_bounded_in_all_and_by_client() -> None:
    lab = ResultsLab(limits=SiteLimits(connections=3, connections_per_client=2))
    held = [lab.connect("192.0.2.1"), lab.connect("192.0.2.1"), lab.connect("192.0.2.2")]
    _, transport = lab.connect("192.0.2.3")
    answer = parsed(transport.value())
    assert (answer.status, answer.text) == (503, "expected at most 3 connections, was one more")
    assert transport.disconnecting
    held[2][0].connectionLost(Failure(ConnectionLost()))
    _, transport = lab.connect("192.0.2.1")
    assert parsed(transport.value()).text == "expected at most 2 connections of 192.0.2.1, was one more"
    _, transport = lab.connect("192.0.2.3")
    assert transport.value() == b""


def test_a_network_of_ipv6_is_one_client() -> None:
    lab = ResultsLab(limits=SiteLimits(connections_per_client=1))
    lab.connect("2001:db8::1")
    assert lab.connect("2001:db8::2")[1].disconnecting
    assert not lab.connect("2001:db8:0:1::1")[1].disconnecting


def test_an_idle_connection_is_closed_and_a_waiting_one_is_not() -> None:
    lab = ResultsLab(limits=SiteLimits(idle_s=10))
    _, idle = lab.connect()
    endless = lab.send("/v1/changes?views=m")
    lab.clock.pump([5, 6])
    assert idle.disconnecting
    assert not endless.disconnecting


def test_a_request_that_arrives_drop_by_drop_is_cut_off() -> None:
    lab = ResultsLab(limits=SiteLimits(idle_s=10, request_s=30))
    protocol, transport = lab.connect()
    for byte in b"GET /v1/status HTTP":
        protocol.dataReceived(bytes([byte]))
        lab.clock.advance(1)
    protocol.dataReceived(b"/1.1\r\n")
    for _ in range(31):
        protocol.dataReceived(b"a")
        lab.clock.advance(1)
    assert transport.disconnected or transport.disconnecting


def test_a_first_line_that_arrives_drop_by_drop_is_cut_off() -> None:
    """The clock of a request begins with its first byte, not with the end of its first line."""
    lab = ResultsLab(limits=SiteLimits(idle_s=10, request_s=30))
    protocol, transport = lab.connect()
    for _ in range(29):
        protocol.dataReceived(b"G")
        lab.clock.advance(1)
    assert not transport.disconnecting
    protocol.dataReceived(b"G")
    lab.clock.advance(1)
    answer = parsed(transport.value())
    assert (answer.status, answer.text) == (408, "expected a whole request within 30 s, was a slower one")
    assert transport.disconnecting


def test_headers_that_arrive_too_late_are_answered() -> None:
    lab = ResultsLab(limits=SiteLimits(idle_s=99, request_s=30))
    protocol, transport = lab.connect()
    protocol.dataReceived(b"GET /v1/status HTTP/1.1\r\n")
    lab.clock.advance(30)
    assert parsed(transport.value()).status == 408


def test_no_clock_of_a_request_runs_between_two_of_them() -> None:
    lab = ResultsLab(limits=SiteLimits(idle_s=99, request_s=30))
    protocol, transport = lab.connect()
    for _ in range(3):
        protocol.dataReceived(b"GET /v1/status HTTP/1.1\r\nHo")
        lab.clock.advance(29)
        protocol.dataReceived(b"st: localhost\r\n\r\n")
        lab.clock.advance(29)
    assert transport.value().count(b"HTTP/1.1 200 OK") == 3
    assert not transport.disconnecting


def test_a_kept_connection_outlives_the_time_of_a_request() -> None:
    """Requests of one piece are answered within the call: no clock may remain of them."""
    lab = ResultsLab(limits=SiteLimits(idle_s=99, request_s=30))
    protocol, transport = lab.connect()
    for _ in range(3):
        protocol.dataReceived(b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n")
        lab.clock.advance(31)
    assert transport.value().count(b"HTTP/1.1 ") == transport.value().count(b"HTTP/1.1 200 OK") == 3
    assert not transport.disconnecting


@pytest.mark.parametrize("is_refused", [True, False])
@pytest.mark.parametrize("is_closed", [True, False])
def test_a_connection_without_a_handshake_ends_once(tmp_path: Path, is_refused: bool, is_closed: bool) -> None:
    """A probe of the port closes its connection, or says nothing: then TLS has no state left for a later abort."""
    certificate, key = make_certificate(tmp_path)
    tls = PortSecurity(tls_cert=str(certificate), tls_key=str(key)).context_factory()
    lab = ResultsLab(limits=SiteLimits(connections=1, idle_s=10))
    if is_refused:
        lab.connect()
    address: Any = IPv4Address("TCP", "127.0.0.1", 1)
    transport: Any = Transport(peerAddress=address)
    protocol = TLSMemoryBIOFactory(tls, False, lab.site, lab.clock).buildProtocol(address)
    protocol.makeConnection(transport)
    lost = Failure(ConnectionLost())
    if is_closed:
        protocol.connectionLost(lost)
    lab.clock.pump([1] * 11)
    assert transport.disconnected is not is_closed
    if not is_closed:
        protocol.connectionLost(lost)
    lab.clock.pump([1] * 100)


def test_bytes_behind_an_endless_request_end_nothing() -> None:
    lab = ResultsLab(limits=SiteLimits(idle_s=99, request_s=30))
    protocol, transport = lab.connect()
    protocol.dataReceived(b"GET /v1/changes?views=m HTTP/1.1\r\nHost: localhost\r\n\r\n")
    protocol.dataReceived(b"G")
    lab.clock.pump([20, 20])
    assert not transport.disconnecting


def test_what_goes_wrong_inside_is_500_without_its_inside(caplog: pytest.LogCaptureFixture) -> None:
    lab = ResultsLab()
    lab.hub.since.clear()
    answer = lab.ask("/v1/views")
    assert (answer.status, answer.text) == (500, "expected an answer, was KeyError: see the runtime's log")
    del caplog
    assert lab.ask("/v1/statistics").json(Statistics).site.failed_requests == 1


def test_a_client_that_closes_its_side_gets_its_answers() -> None:
    """They are in the transport's buffer, which is sent before the connection ends."""
    protocol, transport = ResultsLab().connect()
    protocol.dataReceived(b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2)
    assert IHalfCloseableProtocol.providedBy(protocol)
    protocol.readConnectionLost()
    assert transport.value().count(b"HTTP/1.1 200") == 2
    assert transport.disconnecting
    assert transport.producer is None, "a transport with a producer would not end"


def test_a_path_beyond_the_limit_is_answered() -> None:
    """Twisted alone would close the connection."""
    protocol, transport = ResultsLab().connect()
    protocol.dataReceived(b"GET /" + b"a" * 40_000)
    assert transport.value().startswith(b"HTTP/1.1 414 URI Too Long")

# mypy: disable-error-code="no-untyped-call"
# Twisted is typed in part only.
"""A web page of somebody else reaches no port with HTTP, whether by its address or by a name that leads to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from deltabook.dashboard.process import DashboardMetrics, dashboard_site
from deltabook.wire.access import Access
from tests.generators.operated import Operated
from tests.generators.results_lab import ResultsLab
from tests.generators.text_floor import Floor
from tests.unit.algo_engine.status.test_http import Port

Ask = Callable[[str, str, str], int]
"""Method, path, header lines → status."""

_READ = {"exchange": "/v1/status", "runtime": "/v1/status", "algo": "/v1/strategies", "dashboard": "/v1/status"}
_CHANGE = {"exchange": "/v1/phase", "runtime": "/v1/views", "algo": "/v1/kill"}


def asked(site: Any, method: str, path: str, lines: str, host: str = "127.0.0.1") -> int:
    """The status that a connection from an address is answered with."""
    address = IPv4Address("TCP", host, 40_000)
    connection, transport = site.buildProtocol(address), StringTransport(peerAddress=address)
    connection.makeConnection(transport)
    connection.dataReceived(f"{method} {path} HTTP/1.1\r\nContent-Length: 2\r\n{lines}\r\n{{}}".encode())
    return int(transport.value().split(b" ")[1])


@pytest.fixture(params=["exchange", "runtime", "algo", "dashboard"])
def port(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Any]]:
    """Name and site of each port with HTTP, without a token."""
    name = request.param
    if name == "exchange":
        operated = Operated(tmp_path)
        yield name, operated.site
        operated.close()
    elif name == "runtime":
        yield name, ResultsLab().site
    elif name == "algo":
        yield name, Port().site
    else:
        metrics = DashboardMetrics(lambda: cast(Any, SimpleNamespace()), "")
        yield name, dashboard_site(cast(Any, None), dict, metrics, Access(), Clock())


@pytest.mark.parametrize("host", ["localhost", "localhost:8080", "127.0.0.1:8080", "127.8.8.8", "[::1]:8080"])
def test_programs_of_this_machine_are_answered(port: tuple[str, Any], host: str) -> None:
    name, site = port
    assert asked(site, "GET", _READ[name], f"Host: {host}\r\n") == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "localhost@evil.example",
        "0.0.0.0:8080",
        "10.0.0.7:8080",
        "[::ffff:10.0.0.7]:8080",
        "",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_name_that_leads_to_this_machine_is_refused(port: tuple[str, Any], method: str, host: str) -> None:
    """DNS rebinding: the browser takes the page and the port for one site, and sends no origin with a GET."""
    name, site = port
    expected = 405 if (name, method) == ("dashboard", "POST") else 403
    path = _READ[name] if method == "GET" else _CHANGE.get(name, "/")
    assert asked(site, method, path, f"Host: {host}\r\n") == expected


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:1", "https://localhost:8080", "http://127.0.0.1"]
)
@pytest.mark.parametrize("content", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_form_of_another_page_changes_nothing(port: tuple[str, Any], origin: str, content: str) -> None:
    """Of these three types a browser sends a form without asking first."""
    name, site = port
    lines = f"Host: localhost:8080\r\nOrigin: {origin}\r\nContent-Type: {content}\r\n"
    expected = 405 if name == "dashboard" else 403
    assert asked(site, "POST", _CHANGE.get(name, "/"), lines) == expected
    assert asked(site, "GET", _READ[name], lines) == 403


def test_a_page_that_asks_before_it_sends_is_told_nothing(port: tuple[str, Any]) -> None:
    name, site = port
    lines = "Host: localhost:8080\r\nOrigin: http://evil.example\r\nAccess-Control-Request-Method: DELETE\r\n"
    assert asked(site, "OPTIONS", _READ[name], lines) in (403, 405)


def test_other_machines_are_refused(port: tuple[str, Any]) -> None:
    name, site = port
    assert asked(site, "GET", _READ[name], "Host: localhost\r\n", "10.0.0.7") == 403


def test_the_page_of_the_dashboard_itself_is_let_in() -> None:
    metrics = DashboardMetrics(lambda: cast(Any, SimpleNamespace()), "")
    site = dashboard_site(cast(Any, None), dict, metrics, Access(), Clock())
    own = "Host: localhost:8080\r\nOrigin: http://localhost:8080\r\n"
    assert asked(site, "GET", "/v1/status", own) == 200
    rebound = "Host: evil.example\r\nOrigin: http://evil.example\r\n"
    assert asked(site, "GET", "/v1/status", rebound) == 403


@pytest.mark.parametrize("names", [("dashboard.internal",), ("dashboard.internal", "10.0.0.9")])
def test_names_of_a_private_network_are_a_list(names: tuple[str, ...]) -> None:
    access = Access(names=names)
    assert access.refusal("10.0.0.7", None, None, f"{names[0]}:8080") is None
    assert access.refusal("10.0.0.7", None, None, "evil.example") is not None
    assert access.refusal("10.0.0.7", None, None, f"{names[0]}.evil.example") is not None


@pytest.mark.parametrize("first", [b"POST / HTTP/1.1\r\n", b"GET /0,7 HTTP/1.1\r\n", b"OPTIONS * HTTP/1.1\r\n"])
def test_a_page_that_posts_to_the_text_port_is_cut_off(tmp_path: Path, first: bytes) -> None:
    """What a page can choose of a request stands behind its first line, which is no login."""
    floor = Floor(tmp_path)
    connection, wire = floor.connect()
    connection.dataReceived(first + b"Host: localhost:4711\r\n\r\n0,7\n1,0,0,7,B,5,100,ACME\n")
    floor.clock.advance(0)
    assert wire.take()[0].startswith("J,login,")
    assert wire.disconnecting
    assert floor.exchange.market.orders == 0
    floor.close()

# mypy: disable-error-code="no-untyped-call"
# Twisted is typed in part only.
"""Results over HTTP: what is there, and for what is not a line that says what was expected."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionLost
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from deltabook.wire.results import CONTENT_TYPE, FrameDecoder
from runtime.compiler import Column, NamedSelect, Relation, compile_program, without_view
from runtime.epochs import Footer
from runtime.service.control import Control
from runtime.service.http import results_site
from runtime.service.hub import Hub
from runtime.service.metrics import RuntimeMetrics
from tests.unit.runtime.service.test_catalogue import Lab

R = Relation("r", (Column("a", "int64"), Column("s", "string", nullable=True)))
PATHS = "expected /v1/status, /v1/views, /v1/views/NAME, /v1/changes or /metrics"
PROGRAM = compile_program(
    [NamedSelect("plain", "SELECT a * 0.5 AS h, s FROM r"), NamedSelect("m", "SELECT MAX(a) AS x FROM r")], [R]
)


class Browser:
    """Sends requests to the site over a transport in memory."""

    def __init__(
        self,
        hub: Hub,
        control: Control | None = None,
        host: str = "127.0.0.1",
        metrics: RuntimeMetrics | None = None,
    ) -> None:
        self._host = host
        self._site = results_site(hub, lambda: {"epoch": hub.version, "lag_ms": None}, control, metrics)

    def connect(self) -> tuple[Any, Any]:
        site: Any = self._site
        protocol = site.buildProtocol(None)
        transport: Any = StringTransport(peerAddress=IPv4Address("TCP", self._host, 40000))
        transport.protocol = protocol
        protocol.makeConnection(transport)
        return protocol, transport

    def get(
        self, path: str, method: str = "GET", body: bytes = b"", headers: str = ""
    ) -> tuple[int, dict[str, str], bytes]:
        return parsed(self.send(path, method, body, headers).value())

    def send(self, path: str, method: str, body: bytes = b"", headers: str = "") -> Any:
        protocol, transport = self.connect()
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}"
        protocol.dataReceived(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        return transport


def parsed(data: bytes) -> tuple[int, dict[str, str], bytes]:
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:])
    return int(lines[0].split()[1]), headers, dechunked(body) if "transfer-encoding" in headers else body


def dechunked(body: bytes) -> bytes:
    whole = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        whole += rest[: int(size, 16)]
        body = rest[int(size, 16) + 2 :]
    return whole


@pytest.fixture
def hub() -> Hub:
    found = Hub(PROGRAM, lambda: 5)
    rows = pa.table({"h": pa.array([5, 10]).cast(pa.decimal128(38, 0)), "s": ["x", None], "weight": [1, 2]})
    found.publish(Footer(0, 3), {"plain": rows}, {})
    return found


def test_status_is_what_the_runtime_says(hub: Hub) -> None:
    status, headers, body = Browser(hub).get("/v1/status")
    assert (status, headers["content-type"], headers["cache-control"]) == (200, "application/json", "no-store")
    assert json.loads(body) == {"epoch": 3, "lag_ms": None}


def test_views_are_listed_with_class_columns_and_size(hub: Hub) -> None:
    _, _, body = Browser(hub).get("/v1/views")
    plain, largest = json.loads(body)
    assert (plain["name"], plain["class"], plain["rows"], plain["epoch"], plain["failed"]) == (
        "plain",
        "linear",
        2,
        3,
        None,
    )
    assert plain["columns"][0] == {"name": "h", "type": "int128", "nullable": False, "scale": 1}
    assert (largest["class"], bool(largest["reason"])) == (PROGRAM.views[1].view_class, True)
    assert Browser(hub).get("/v1/views/")[2] == body


def test_a_result_is_exact_sorted_and_repeated_by_weight(hub: Hub) -> None:
    _, _, body = Browser(hub).get("/v1/views/plain")
    assert json.loads(body) == {
        "view": "plain", "epoch": 3, "step": 0, "columns": ["h", "s"], "rows": [[0.5, "x"], [1.0, None], [1.0, None]],
    }  # fmt: skip
    assert b"[0.5," in body


def test_explain_is_text(hub: Hub) -> None:
    status, headers, body = Browser(hub).get("/v1/views/m/explain")
    assert (status, headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert body.startswith(f"view m: {PROGRAM.views[1].view_class}".encode())


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", PATHS + ", was /"),
        ("/v2/views", PATHS + ", was /v2/views"),
        ("/v1/nothing", PATHS + ", was /v1/nothing"),
        ("/v1/views/nowhere", "expected one of the views plain, m, was 'nowhere'"),
        ("/v1/views/plain/more", "expected /v1/views/plain or .../explain, was /v1/views/plain/more"),
        ("/v1/changes", "expected ?views= with names out of m, plain, was none"),
        ("/v1/changes?views=plain,zzz", "expected ?views= with names out of m, plain, was zzz"),
        ("/v1/views/%ff", "expected one of the views plain, m, was '\ufffd'"),
    ],
)
def test_what_is_not_there_is_404_and_says_what_is(hub: Hub, path: str, expected: str) -> None:
    status, headers, body = Browser(hub).get(path)
    assert (status, headers["content-type"]) == (404, "text/plain; charset=utf-8")
    assert body.decode() == expected + "\n"


def test_nothing_can_be_posted(hub: Hub) -> None:
    assert Browser(hub).get("/v1/views", "POST")[0] == 405


def test_a_failed_view_is_409_with_its_reason(hub: Hub) -> None:
    hub.publish(Footer(3, 4), {}, {"plain": "too long"})
    assert Browser(hub).get("/v1/views/plain")[::2] == (409, b"view plain failed: too long\n")


def test_changes_are_an_endless_stream_of_frames(hub: Hub) -> None:
    protocol, transport = Browser(hub).connect()
    protocol.dataReceived(b"GET /v1/changes?views=plain,m,plain HTTP/1.1\r\nHost: x\r\n\r\n")
    hub.publish(Footer(3, 4), {"m": pa.table({"x": pa.array([1]), "weight": [1]})}, {})
    hub.heartbeat()
    _, headers, body = parsed(transport.value())
    assert headers["content-type"] == CONTENT_TYPE
    seen = [(f.header.kind, f.header.view) for f in FrameDecoder().feed(body)]
    assert seen == [("snapshot", "plain"), ("snapshot", "m"), ("changes", "m"), ("heartbeat", "")]


def test_a_full_connection_pauses_its_subscription_and_a_lost_one_is_forgotten(hub: Hub) -> None:
    protocol, transport = Browser(hub).connect()
    protocol.dataReceived(b"GET /v1/changes?views=m HTTP/1.1\r\nHost: x\r\n\r\n")
    assert transport.producer is not None
    transport.clear()
    transport.producer.pauseProducing()
    hub.publish(Footer(3, 4), {"m": pa.table({"x": pa.array([1]), "weight": [1]})}, {})
    assert transport.value() == b""
    transport.producer.resumeProducing()
    assert transport.value() != b""
    protocol.connectionLost(Failure(ConnectionLost()))
    transport.clear()
    hub.publish(Footer(4, 5), {"m": pa.table({"x": pa.array([2]), "weight": [1]})}, {})
    assert transport.value() == b""


def test_too_many_subscribers_are_503() -> None:
    hub = Hub(PROGRAM, lambda: 5, most_subscribers=0)
    assert Browser(hub).get("/v1/changes?views=m")[::2] == (503, b"expected fewer subscribers\n")


def test_a_dropped_views_connection_is_closed(hub: Hub) -> None:
    protocol, transport = Browser(hub).connect()
    protocol.dataReceived(b"GET /v1/changes?views=m HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    hub.publish(Footer(3, 4), {}, {}, without_view(PROGRAM, "m"))
    _, _, body = parsed(transport.value())
    assert [(f.header.kind, f.header.reason) for f in FrameDecoder().feed(body)][1:] == [
        ("error", "dropped at epoch 4")
    ]
    assert transport.disconnecting


class Controlled:
    """A site whose catalogue changes when the test seals and publishes."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.lab = Lab()
        self.hub = Hub(self.lab.catalogue.program, lambda: 5)
        self.hub.publish(Footer(2, 3), {}, {})
        self.browser = Browser(self.hub, Control(self.hub, self.lab.catalogue), host)

    def publish(self, epoch: int, failed: dict[str, str] | None = None) -> None:
        self.hub.publish(Footer(epoch - 1, epoch), {}, failed or {}, self.lab.seal(epoch))
        self.lab.catalogue.published(epoch)

    def add(self, sql: str = "SELECT a FROM r", **options: Any) -> Any:
        body = json.dumps({"views": [{"name": "v", "sql": sql, "file": "v.sql", "line": 3}], **options})
        return self.browser.send("/v1/views", "POST", body.encode())


def test_an_added_view_is_answered_when_it_is_published() -> None:
    site = Controlled()
    transport = site.add()
    assert transport.value() == b""
    site.publish(4)
    status, headers, body = parsed(transport.value())
    assert (status, headers["content-type"]) == (200, "application/json")
    answer = json.loads(body)
    assert (answer["epoch"], answer["version"]) == (4, 4)
    assert [(view["name"], view["class"]) for view in answer["views"]] == [("v", "linear")]
    listed = {view["name"]: view["since"] for view in json.loads(site.browser.get("/v1/views")[2])}
    assert listed == {"first": 1, "v": 4}
    assert b"linear" in site.browser.get("/v1/views/v/explain")[2]


def test_a_dropped_view_is_answered_when_that_is_published() -> None:
    site = Controlled()
    transport = site.browser.send("/v1/views/first?timeout_s=9", "DELETE")
    site.publish(4)
    status, _, body = parsed(transport.value())
    assert (status, json.loads(body)["epoch"]) == (200, 4)
    assert site.browser.get("/v1/views")[2] == b"[]"


def test_one_that_is_not_published_in_time_is_202() -> None:
    site = Controlled()
    transport = site.add(timeout_s=2)
    site.lab.seal(4)
    site.lab.reactor.advance(2)
    status, _, body = parsed(transport.value())
    assert (status, json.loads(body)["epoch"], json.loads(body)["version"]) == (202, 4, 3)
    transport = site.browser.send("/v1/views/v", "DELETE")  # the catalogue knows it, published or not
    site.lab.seal(5)
    site.lab.catalogue.published(5)
    assert parsed(transport.value())[0] == 200


def test_one_that_fails_at_once_is_409_with_its_reason() -> None:
    site = Controlled()
    transport = site.add()
    site.publish(4, {"v": "expected less"})
    assert parsed(transport.value())[::2] == (409, b"view v failed: expected less\n")


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "expected"),
    [
        ("POST", "/v1/views", b"{", 400, "expected views with name and sql as JSON, was b'{'"),
        ("POST", "/v1/views", b'{"views":[]}', 400, "expected at least one view, was none"),
        ("POST", "/v1/views", b'{"views":[{"name":"v","sql":"SELECT z FROM r","file":"v.sql","line":3}]}', 400,
         "v.sql:3:8: unknown column 'z'"),
        ("POST", "/v1/views", b'{"views":[{"name":"a b","sql":"SELECT a FROM r"}]}', 400,
         "expected the name of a view in lower case without blanks, was 'a b'"),
        ("POST", "/v1/views", b" " * 1048577, 400, "expected a request of at most 1048576 bytes"),
        ("DELETE", "/v1/views/nothing", b"", 404, "expected one of the views first, was 'nothing'"),
        ("DELETE", "/v1/views/first?timeout_s=soon", b"", 400, "expected timeout_s in seconds, was b'soon'"),
    ],
)  # fmt: skip
def test_a_change_that_is_refused_says_why(method: str, path: str, body: bytes, status: int, expected: str) -> None:
    site = Controlled()
    found, headers, text = site.browser.get(path, method, body)
    assert (found, headers["content-type"]) == (status, "text/plain; charset=utf-8")
    assert text.decode().startswith(expected)
    assert text.count(b"\n") == 1
    assert site.lab.records == []


@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/views"), ("DELETE", "/v1/views/first")])
def test_only_programs_on_this_machine_change_the_catalogue(method: str, path: str) -> None:
    status, _, text = Controlled("192.0.2.7").browser.get(path, method)
    assert (status, text) == (403, b"expected a change of the catalogue from this machine, was 192.0.2.7\n")
    status, _, text = Controlled().browser.get(path, method, headers="Origin: http://page.example\r\n")
    assert (status, text) == (
        403,
        b"expected a change of the catalogue from a program, was a page of http://page.example\n",
    )


def test_a_client_that_does_not_wait_for_its_answer_changes_the_catalogue_all_the_same() -> None:
    site = Controlled()
    transport = site.add()
    transport.protocol.connectionLost(Failure(ConnectionLost()))
    site.publish(4)
    assert [view.name for view in site.hub.views] == ["first", "v"]

# mypy: disable-error-code="no-untyped-call"
# Twisted is typed in part only.
"""Clients that wait and clients on a reactor send the same requests and raise the same errors."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.web.client import ResponseDone, ResponseFailed

from deltabook.wire.admin import StateHash
from deltabook.wire.errors import AccessError
from deltabook.wire.http import blocking, reactor
from deltabook.wire.http.blocking import BlockingPort, decode_answer
from deltabook.wire.http.peer import (
    ClientError,
    ConnectionFailedError,
    GoneError,
    HttpPeer,
    NotFoundError,
    ProtocolError,
    RefusedError,
    split_address,
)
from deltabook.wire.http.reactor import ReactorPort

TOKEN = "0123456789abcdef"


class Response:
    """An answer of an agent in memory."""

    def __init__(self, code: int, body: bytes, end: Exception | None = None) -> None:
        self.code, self._body, self._end = code, body, end or ResponseDone()
        self.is_aborted = False

    def deliverBody(self, protocol: Any) -> None:
        protocol.makeConnection(self)
        protocol.dataReceived(self._body)
        protocol.connectionLost(Failure(self._end))

    def abortConnection(self) -> None:
        self.is_aborted = True


class Agent:
    """Takes requests down."""

    def __init__(self, response: Response) -> None:
        self.response = response
        self.requests: list[tuple[str, str, dict[str, list[str]]]] = []

    def request(self, method: bytes, uri: bytes, headers: Any, body: Any) -> Deferred[Any]:
        sent = {
            name.decode().lower(): [each.decode() for each in values] for name, values in headers.getAllRawHeaders()
        }
        self.requests.append((method.decode(), uri.decode(), sent))
        return succeed(self.response)


def asked_on_a_reactor(peer: HttpPeer, code: int, body: bytes) -> bytes:
    port = ReactorPort(peer, Clock(), connect_s=1, agent=Agent(Response(code, body)))
    found: list[Any] = []
    Deferred.fromCoroutine(port.ask("GET", "/v1/a")).addBoth(found.append)
    (result,) = found
    if isinstance(result, Failure):
        result.raiseException()
    return bytes(result)


class Server:
    """A socket that gives one answer to each connection."""

    def __init__(self) -> None:
        self.answer = b""
        self.asked: list[bytes] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.where = f"127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.asked.append(connection.recv(1 << 16))
            connection.sendall(self.answer)
            connection.close()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.close()


def http(code: int, body: bytes) -> bytes:
    return f"HTTP/1.1 {code} X\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


@pytest.fixture(params=["waits", "on a reactor"])
def ask(request: pytest.FixtureRequest, server: Server) -> Callable[[int, bytes], bytes]:
    """Asks a port that gives an answer of a status and a body."""
    peer = HttpPeer.of("an exchange", server.where, token=TOKEN)

    def wait(code: int, body: bytes) -> bytes:
        server.answer = http(code, body)
        return BlockingPort(peer, 20).ask("GET", "/v1/a")[0]

    return wait if request.param == "waits" else lambda code, body: asked_on_a_reactor(peer, code, body)


@pytest.mark.parametrize(
    ("code", "kind"), [(401, RefusedError), (404, NotFoundError), (410, GoneError), (503, RefusedError)]
)
def test_a_refusal_is_an_error_with_its_words(
    ask: Callable[[int, bytes], bytes], code: int, kind: type[RefusedError]
) -> None:
    with pytest.raises(kind) as raised:
        ask(code, b"expected this, was that\n")
    assert (raised.value.status, str(raised.value), type(raised.value)) == (code, "expected this, was that", kind)


def test_an_answer_is_its_body(ask: Callable[[int, bytes], bytes]) -> None:
    assert ask(200, b"[]") == b"[]"
    assert ask(204, b"") == b""
    with pytest.raises(RefusedError, match=r"^HTTP 302$"):
        ask(302, b"")


@pytest.mark.parametrize("words", [b"expected one of /v1/b, was /v1/a", b"expected to get one of /a, /b, was /v1/a"])
def test_another_port_of_ours_is_known_by_the_paths_it_names(ask: Callable[[int, bytes], bytes], words: bytes) -> None:
    with pytest.raises(ProtocolError, match=r"expected an exchange at 127\.0\.0\.1:\d+, was another port"):
        ask(404, words)
    with pytest.raises(RefusedError, match="expected"):
        ask(409, words)
    with pytest.raises(NotFoundError):
        ask(404, b"expected one of the views a, b, was 'c'")


def test_a_port_that_does_not_speak_http_is_another(server: Server) -> None:
    server.answer = b"J,login,expected a login\n"
    with pytest.raises(ProtocolError, match="was another port"):
        BlockingPort(HttpPeer.of("an exchange", server.where), 20).ask("GET", "/v1/a")


def test_a_connection_that_ends_early_is_lost(server: Server) -> None:
    port = BlockingPort(HttpPeer.of("an exchange", server.where), 20)
    for answer in (b"", http(200, b"[]")[:-1]):
        server.answer = answer
        with pytest.raises(ConnectionFailedError, match=r"expected an exchange at 127\.0\.0\.1:\d+, was: "):
            port.ask("GET", "/v1/a")


def test_an_answer_without_a_length_is_read_to_its_end(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    port = BlockingPort(HttpPeer.of("an exchange", server.where), 20)
    server.answer = b"HTTP/1.0 200 OK\r\n\r\n[1, 2]"
    assert port.get("/v1/a", list[int]) == [1, 2]
    monkeypatch.setattr(blocking, "_MOST_BYTES", 3)
    for answer in (server.answer, http(200, b"[1, 2]")):
        server.answer = answer
        with pytest.raises(ConnectionFailedError, match="an answer of more than 3 bytes"):
            port.get("/v1/a", list[int])


def test_both_send_the_token_and_the_kind_of_the_body(server: Server) -> None:
    peer = HttpPeer.of("an exchange", server.where, token=TOKEN)
    agent = Agent(Response(200, b""))
    ReactorPort(peer, Clock(), connect_s=1, agent=agent).begin("POST", "/v1/a", b"{}")
    ((method, url, headers),) = agent.requests
    assert (method, url) == ("POST", f"http://{server.where}/v1/a")
    assert headers == {"authorization": [f"Bearer {TOKEN}"], "content-type": ["application/json"]}
    server.answer = http(200, b"")
    BlockingPort(peer, 20).ask("POST", "/v1/a", b"{}")
    lines = server.asked[0].lower().split(b"\r\n")
    assert lines[0] == b"post /v1/a http/1.1"
    assert {f"authorization: bearer {TOKEN}".encode(), b"content-type: application/json"} < set(lines)


def test_an_answer_on_a_reactor_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reactor, "_MOST_BYTES", 3)
    peer, response = HttpPeer.of("an exchange", "here:1"), Response(200, b"long")
    found: list[Any] = []
    ReactorPort(peer, Clock(), connect_s=1, agent=Agent(response)).read(response).addErrback(found.append)
    assert str(found[0].value) == "expected at most 3 bytes in one answer, was more"
    assert response.is_aborted


def test_an_answer_on_a_reactor_that_ends_early_is_an_error() -> None:
    response = Response(200, b"half", ResponseFailed([]))
    found: list[Any] = []
    ReactorPort(HttpPeer.of("x", "here:1"), Clock(), connect_s=1, agent=Agent(response)).read(response).addErrback(
        found.append
    )
    assert found[0].check(ResponseFailed)


@pytest.mark.parametrize("address", ["", "host", "host:", ":80", "a:0", "a:99999", "a:b", "a:²", "ftp://a:1", "a/b:1"])
def test_an_address_is_a_host_and_a_port(address: str) -> None:
    with pytest.raises(ValueError, match="expected HOST:PORT, was"):
        HttpPeer.of("x", address)


def test_an_address_of_ipv6_and_one_with_tls_are_read() -> None:
    assert split_address("[::1]:80") == ("::1", 80)
    assert HttpPeer.of("x", "https://a:1", token=TOKEN).url == "https://a:1"
    assert HttpPeer.of("x", "a:1", ca_file="ca.pem").url == "https://a:1"


def test_a_token_crosses_machines_encrypted_or_not_at_all() -> None:
    with pytest.raises(AccessError, match="expected TLS to send a token to another machine"):
        HttpPeer.of("x", None, token=TOKEN).at("10.0.0.1:1")


@pytest.mark.parametrize(
    "port", [lambda peer: BlockingPort(peer, 1), lambda peer: ReactorPort(peer, Clock(), connect_s=1)]
)
def test_a_file_without_certificates_is_refused(tmp_path: Path, port: Callable[[HttpPeer], Any]) -> None:
    (tmp_path / "empty").touch()
    for name in ("missing", "empty"):
        with pytest.raises(AccessError, match=f"expected certificates in PEM in {tmp_path / name}, was: "):
            port(HttpPeer.of("x", "here:1", ca_file=str(tmp_path / name)))


@pytest.mark.parametrize("data", [b"{", b'{"hash": 7}', b'{"inputs": 1, "time_ns": 1, "hash": "\xff"}'])
def test_an_answer_of_another_form_is_a_protocol_error(data: bytes) -> None:
    """Text that is not UTF-8 too, for which msgspec has another error."""
    with pytest.raises(ProtocolError, match="expected StateHash from /v1/hash, was"):
        decode_answer(data, StateHash, "/v1/hash")


def test_every_error_is_one_of_the_client() -> None:
    for error in (ConnectionFailedError, GoneError, NotFoundError, ProtocolError, RefusedError):
        assert issubclass(error, ClientError)

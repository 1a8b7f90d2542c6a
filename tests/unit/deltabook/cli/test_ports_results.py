"""Requests to a runtime off this machine: with a token, over TLS, and with its failures as one line."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from deltabook.cli._options import ConfigFileError
from deltabook.cli._ports import ResultsPort
from tests.generators.certificates import make_certificate

TOKEN = "a token that nobody guesses".replace(" ", "-")


class Guarded(BaseHTTPRequestHandler):
    """Lets in who knows the token."""

    def do_GET(self) -> None:
        is_known = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        body = b"welcome" if is_known else b"expected the token, was another or none"
        self.send_response(200 if is_known else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base's own name
        del format, arguments


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of a service behind TLS, and a folder with its certificate and its token."""
    folder = tmp_path_factory.mktemp("guarded")
    certificate, key = make_certificate(folder)
    (folder / "token").write_text(TOKEN + "\n")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Guarded)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}", folder
    server.shutdown()
    thread.join()
    server.server_close()


def test_who_knows_the_token_and_the_authority_is_let_in(guarded: tuple[str, Path]) -> None:
    where, folder = guarded
    assert ResultsPort(where, folder / "token", folder / "cert.pem").ask("GET", "/v1/views") == b"welcome"


def test_a_missing_token_is_refused_with_the_option_for_it(guarded: tuple[str, Path]) -> None:
    where, folder = guarded
    with pytest.raises(ConfigFileError, match=r"expected the token, was another or none \(--token-file\)"):
        ResultsPort(where, None, folder / "cert.pem").ask("GET", "/v1/views")


def test_a_certificate_of_somebody_else_is_not_trusted(guarded: tuple[str, Path], tmp_path: Path) -> None:
    where, folder = guarded
    other, _ = make_certificate(tmp_path)
    with pytest.raises(ConfigFileError, match=r"results service at .*certificate verify failed"):
        ResultsPort(where, folder / "token", other).ask("GET", "/v1/views")


@pytest.mark.parametrize("name", ["token", "authority"])
def test_files_that_are_none_are_said(tmp_path: Path, name: str) -> None:
    missing = tmp_path / "missing"
    files = (missing, None) if name == "token" else (None, missing)
    with pytest.raises(ConfigFileError, match=rf"expected .* in {missing}, was"):
        ResultsPort("127.0.0.1:1", *files)


def test_the_token_is_in_no_message(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("short")
    with pytest.raises(ConfigFileError) as raised:
        ResultsPort("127.0.0.1:1", tmp_path / "token")
    assert "short" not in str(raised.value).replace(str(tmp_path), "")

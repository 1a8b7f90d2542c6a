"""Where a command finds the exchange that it asks, and what it says if there is none."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from deltabook.cli._options import ConfigFileError
from deltabook.cli._ports import AdminPort
from deltabook.wire import admin


def written(directory: Path, ports: dict[str, int], interface: str = "127.0.0.1") -> Path:
    listening = admin.Listening(7, "0.0.0.0", interface, ports)
    (directory / admin.PORTS_FILE).write_bytes(msgspec.json.encode(listening))
    return directory


@pytest.mark.parametrize(
    ("interface", "host"), [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("10.0.0.7", "10.0.0.7")]
)
def test_an_exchange_is_found_by_its_directory(tmp_path: Path, interface: str, host: str) -> None:
    port = AdminPort(None, written(tmp_path, {"text": 4711, "admin": 4712}, interface), None)
    assert port.where == f"{host}:4712"


def test_an_address_is_taken_before_a_directory(tmp_path: Path) -> None:
    assert AdminPort("10.0.0.7:99", written(tmp_path, {"admin": 1}), None).where == "10.0.0.7:99"


@pytest.mark.parametrize(
    ("where", "content", "words"),
    [
        (None, None, "expected an exchange that runs on"),
        (None, b"{", "expected the ports of an exchange in"),
        (None, b'{"pid":1,"interface":"","admin_interface":"","ports":{}}', "was one without --admin-port"),
        ("nonsense", None, "expected HOST:PORT for --admin, was 'nonsense'"),
    ],
)
def test_an_exchange_that_cannot_be_found_is_one_line(
    tmp_path: Path, where: str | None, content: bytes | None, words: str
) -> None:
    if content is not None:
        (tmp_path / admin.PORTS_FILE).write_bytes(content)
    with pytest.raises(ConfigFileError, match=words):
        AdminPort(where, tmp_path, None)


def test_neither_an_address_nor_a_directory_is_one_line() -> None:
    with pytest.raises(ConfigFileError, match="expected --admin HOST:PORT or --dir DIRECTORY"):
        AdminPort(None, None, None)


def test_a_port_where_nobody_is_is_one_line() -> None:
    with pytest.raises(ConfigFileError, match=r"expected an exchange's admin port at 127.0.0.1:1, was: .*refused"):
        AdminPort("127.0.0.1:1", None, None).get(admin.STATUS_PATH, admin.Status)


def test_a_token_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigFileError, match="expected a token in"):
        AdminPort("127.0.0.1:1", None, tmp_path / "nothing")


def test_a_file_that_is_no_token_is_refused_without_its_content(tmp_path: Path) -> None:
    (tmp_path / "users").write_text('name = "JOE"\npassword = "secret"\n')
    words = r"expected a token of 16 to 1000 characters without blanks in \S+users, was one of \d+$"
    with pytest.raises(ConfigFileError, match=words):
        AdminPort("127.0.0.1:1", None, tmp_path / "users")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            b"J,login,expected a login was b'GET /v1/status'\n",
            "expected an exchange's admin port at .*, was another port$",
        ),
        (b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 5\r\n\r\nnone\n", r"none \(--token-file\)$"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "^expected Status from /v1/status, was b'{}': "),
    ],
)
def test_a_port_that_answers_otherwise_is_one_line(said: bytes, words: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:

        def answer() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(said)

        answered = pool.submit(answer)
        with pytest.raises(ConfigFileError, match=words):
            AdminPort(f"127.0.0.1:{server.getsockname()[1]}", None, None).get(admin.STATUS_PATH, admin.Status)
        answered.result()

# mypy: disable-error-code="no-untyped-call"
# Twisted is typed in part only.
"""Tokens and addresses; files with secrets are believed only if nobody but their owner may write them."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from twisted.internet.testing import MemoryReactor
from twisted.web.resource import Resource
from twisted.web.server import Site

from deltabook.wire.access import Access, PortSecurity, check_way_of_token, is_loopback, misuse_of_trusted, read_token
from deltabook.wire.errors import AccessError
from runtime.spark.config import SparkLaneError
from runtime.spark.settings import read_secret
from tests.generators.certificates import make_certificate


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("example.org", False),
        ("", False),
    ],
)
def test_loopback_is_told_from_other_addresses(host: str, is_own: bool) -> None:
    assert is_loopback(host) == is_own


def test_a_token_is_read_without_the_end_of_its_line(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("0123456789abcdef\n")
    assert read_token(str(tmp_path / "token")) == "0123456789abcdef"


@pytest.mark.parametrize("content", [b"short\n", b"", b"two words of a token\n", b"\xff" * 32, b"x" * 2000])
def test_what_is_no_token_is_refused_without_being_shown(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(AccessError, match="expected a token") as error:
        read_token(str(tmp_path / "token"))
    assert not content.strip() or content.decode("latin-1").strip() not in str(error.value)


def test_a_token_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="No such file"):
        read_token(str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    ("asked", "is_ours"),
    [
        ("localhost", True),
        ("localhost:4712", True),
        ("127.0.0.1:4712", True),
        ("[::1]:4712", True),
        ("[::1]", True),
        (None, True),
        ("example.org", False),
        ("localhost.example.org:4712", False),
        ("[::2]:4712", False),
        ("", False),
    ],
)
def test_without_a_token_only_loopback_names_are_answered(asked: str | None, is_ours: bool) -> None:
    refusal = Access().refusal("127.0.0.1", None, None, asked)
    assert (
        refusal is None
        if is_ours
        else refusal
        == (
            403,
            f"expected a request to localhost or a loopback address, was one to {asked}",
        )
    )
    assert Access("0123456789abcdef").refusal("127.0.0.1", "Bearer 0123456789abcdef", None, asked) is None


@pytest.mark.parametrize(
    ("asked", "is_ours"),
    [("board:1", True), ("localhost:1", True), ("127.0.0.1", True), ("example.org", False), ("board.org", False)],
)
def test_a_port_in_a_private_network_answers_to_its_names_alone(asked: str, is_ours: bool) -> None:
    access = PortSecurity(private_names=("board",)).access()
    refusal = access.refusal("10.0.0.1", None, None, asked)
    assert refusal is None if is_ours else refusal is not None and refusal[0] == 403
    assert access.refusal("10.0.0.1", None, "http://example.org", "board") == (
        403,
        "expected a program, was a page of http://example.org",
    )


def test_a_private_network_replaces_token_and_tls(tmp_path: Path) -> None:
    PortSecurity(private_names=("board",)).check("0.0.0.0")
    (tmp_path / "token").write_text("0123456789abcdef\n")
    access = PortSecurity(str(tmp_path / "token"), private_names=("board",)).access()
    assert access.refusal("10.0.0.1", None, None, "board") == (401, "expected the token, was another or none")


def test_a_token_is_asked_of_this_machine_too() -> None:
    access = Access("0123456789abcdef")
    assert access.refusal("127.0.0.1", None, None) == (401, "expected the token, was another or none")
    assert access.refusal("127.0.0.1", "Bearer 0123456789abcdef", None) is None


def test_only_pages_that_are_known_are_let_in() -> None:
    access = Access("0123456789abcdef", ["http://127.0.0.1:1"])
    assert access.refusal("127.0.0.1", "Bearer 0123456789abcdef", "http://127.0.0.1:1") is None
    assert access.refusal("127.0.0.1", None, "http://127.0.0.1:1") == (401, "expected the token, was another or none")
    assert access.refusal("127.0.0.1", "Bearer 0123456789abcdef", "http://127.0.0.1:2") == (
        403,
        "expected a program, was a page of http://127.0.0.1:2",
    )


@pytest.fixture
def secured(tmp_path: Path) -> PortSecurity:
    (tmp_path / "token").write_text("0123456789abcdef\n")
    cert, key = make_certificate(tmp_path)
    return PortSecurity(str(tmp_path / "token"), str(cert), str(key))


def test_a_port_of_this_machine_needs_neither_token_nor_key() -> None:
    reactor = MemoryReactor()
    PortSecurity().listen(reactor, 0, Site(Resource()), "127.0.0.1")
    assert (len(reactor.tcpServers), len(reactor.sslServers)) == (1, 0)


def test_a_port_with_a_key_speaks_tls(secured: PortSecurity) -> None:
    reactor = MemoryReactor()
    secured.listen(reactor, 0, Site(Resource()), "0.0.0.0")
    assert (len(reactor.tcpServers), len(reactor.sslServers)) == (0, 1)


@pytest.mark.parametrize(
    ("without", "expected"),
    [
        ({"token_file": ""}, "expected a token for a port that is not on loopback, was none at 0.0.0.0"),
        ({"tls_key": "", "tls_cert": ""}, "expected TLS for a port that is not on loopback, was no certificate at"),
        ({"tls_key": ""}, "expected a TLS certificate and its key, was a certificate without a key"),
        ({"tls_cert": ""}, "expected a TLS certificate and its key, was a key without a certificate"),
    ],
)
def test_a_port_that_would_be_open_to_strangers_is_not_opened(
    secured: PortSecurity, without: dict[str, str], expected: str
) -> None:
    reactor, lax = MemoryReactor(), msgspec.structs.replace(secured, **without)
    with pytest.raises(AccessError) as refused:
        lax.listen(reactor, 0, Site(Resource()), "0.0.0.0")
    assert str(refused.value).startswith(expected)
    assert not reactor.tcpServers
    assert not reactor.sslServers


def test_the_key_has_to_be_that_of_the_certificate(secured: PortSecurity, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    _, other = make_certificate(tmp_path / "other")
    with pytest.raises(AccessError, match=r"expected a certificate in .*mismatch"):
        msgspec.structs.replace(secured, tls_key=str(other)).check("127.0.0.1")


@pytest.mark.parametrize("content", ["", "no PEM\n", "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"])
def test_what_is_no_certificate_is_refused(secured: PortSecurity, content: str) -> None:
    Path(secured.tls_cert).write_text(content)
    with pytest.raises(AccessError, match="expected a certificate"):
        secured.check("127.0.0.1")


def test_files_that_are_not_there_are_named(secured: PortSecurity) -> None:
    Path(secured.tls_key).unlink()
    with pytest.raises(AccessError, match=r"expected a readable file, was .*key\.pem: No such file or directory"):
        secured.check("127.0.0.1")


def test_a_key_with_a_password_is_refused_without_a_prompt(secured: PortSecurity) -> None:
    key = serialization.load_pem_private_key(Path(secured.tls_key).read_bytes(), None)
    sealed = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
    )
    Path(secured.tls_key).write_bytes(sealed)
    with pytest.raises(AccessError, match="its key without a password"):
        secured.check("127.0.0.1")


@pytest.mark.parametrize("address", ["10.0.0.1:80", "example.org:80", "[2001:db8::1]:80"])
def test_a_token_crosses_machines_encrypted_or_not_at_all(address: str) -> None:
    check_way_of_token("secret", address, is_encrypted=True)
    check_way_of_token("", address, is_encrypted=False)
    with pytest.raises(AccessError, match="expected TLS to send a token to another machine"):
        check_way_of_token("secret", address, is_encrypted=False)


@pytest.mark.parametrize("address", ["127.0.0.1:80", "localhost:80", "[::1]:80"])
def test_a_token_stays_on_this_machine_as_it_is(address: str) -> None:
    check_way_of_token("secret", address, is_encrypted=False)


def file(folder: Path, mode: int) -> Path:
    path = folder / "token"
    path.write_text("0123456789abcdef\n")
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o644, 0o640])
def test_a_file_that_its_owner_alone_writes_is_trusted(tmp_path: Path, mode: int) -> None:
    assert misuse_of_trusted(file(tmp_path, mode)) == ""


@pytest.mark.parametrize("mode", [0o602, 0o646, 0o666])
def test_a_file_that_everybody_writes_is_not(tmp_path: Path, mode: int) -> None:
    path = file(tmp_path, mode)
    assert misuse_of_trusted(path) == (
        f"expected {path} to be writable by its owner alone (chmod go-w), was mode {mode:04o}"
    )


def test_a_group_of_others_may_not_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = file(tmp_path, 0o660)
    group = path.stat().st_gid
    for user, is_trusted in ((group, True), (group + 1, False)):
        monkeypatch.setattr(os, "getegid", lambda: group)
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        assert (misuse_of_trusted(path) == "") is is_trusted


def test_a_token_that_everybody_writes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="to be writable by its owner alone"):
        read_token(str(file(tmp_path, 0o666)))


def test_a_port_with_such_a_token_does_not_open(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="to be writable by its owner alone"):
        PortSecurity(token_file=str(file(tmp_path, 0o622))).check("127.0.0.1")


def test_a_secret_of_spark_that_everybody_writes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SparkLaneError, match="to be writable by its owner alone"):
        read_secret(file(tmp_path, 0o666))

"""Tokens and addresses."""

from __future__ import annotations

from pathlib import Path

import pytest

from exchange_server.admin import Access, is_loopback, read_token
from exchange_server.errors import ExchangeConfigurationError


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
    with pytest.raises(ExchangeConfigurationError, match="expected a token") as error:
        read_token(str(tmp_path / "token"))
    assert not content.strip() or content.decode("latin-1").strip() not in str(error.value)


def test_a_token_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExchangeConfigurationError, match="No such file"):
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
def test_without_a_token_only_names_of_this_machine_are_answered(asked: str | None, is_ours: bool) -> None:
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


def test_a_token_is_asked_of_this_machine_too() -> None:
    access = Access("0123456789abcdef")
    assert access.refusal("127.0.0.1", None, None) == (401, "expected the token, was another or none")
    assert access.refusal("127.0.0.1", "Bearer 0123456789abcdef", None) is None

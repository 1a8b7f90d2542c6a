"""``deltabook reader`` says to a running runtime what its options say, and prints what it answers."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from deltabook.cli import main
from deltabook.cli import reader as cli_reader
from deltabook.wire.readers import ChangedReader, NewReader, Readers, ReaderStatus

STATUS = ReaderStatus(
    "prices", "rows", "prices.csv", "exactly-once", ("prices",), 7, "failed", reason="it broke", sequence=40, offset=900
)
OK = ["--results", "127.0.0.1:1"]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, Any]]:
    """What the service was asked: method, path, body."""
    found: list[tuple[str, str, Any]] = []

    def ask(self: Any, method: str, path: str, body: bytes | None = None, timeout: float = 0.0) -> bytes:
        found.append((method, path, None if body is None else msgspec.json.decode(body, type=NewReader)))
        return msgspec.json.encode(Readers((STATUS,)) if method == "GET" else ChangedReader(9, STATUS))

    monkeypatch.setattr("deltabook.cli._ports.ResultsPort.ask", ask)
    return found


def run(*arguments: str) -> Any:
    return CliRunner().invoke(cli_reader.command, [*arguments, *OK])


def test_add_says_everything(asked: list[tuple[str, str, Any]]) -> None:
    result = run(
        "add", "prices", "--file", "a/prices.csv", "--column", "t int64", "--column", "price int64(2) null",
        "--option", "delimiter=;", "--relation", "quotes", "--keep-rows", "100", "--keep-time", "t=60",
        "--format", "csv",
    )  # fmt: skip
    assert (result.exit_code, result.output) == (0, "reader prices added at epoch 9: prices\n"), result.output
    ((method, path, wanted),) = asked
    assert (method, path) == ("POST", "/v1/readers")
    assert json.loads(msgspec.json.encode(wanted)) == {
        "name": "prices",
        "connection": {"kind": "file", "path": "a/prices.csv"},
        "adaptor": "rows",
        "format": "csv",
        "options": {"delimiter": ";"},
        "relation": "quotes",
        "columns": [
            {"name": "t", "type": "int64", "nullable": False, "scale": 0},
            {"name": "price", "type": "int64", "nullable": True, "scale": 2},
        ],
        "keep": {"rows": 100, "time_column": "t", "time": 60},
    }


def test_a_stream_is_connected_to(asked: list[tuple[str, str, Any]]) -> None:
    assert run("add", "x", "--connect", "[::1]:5", "--at-most-once", "--column", "n int64").exit_code == 0
    assert msgspec.to_builtins(asked[0][2].connection) == {
        "kind": "socket", "host": "[::1]", "port": 5, "delivery": "at-most-once",
    }  # fmt: skip


def test_list_and_drop(asked: list[tuple[str, str, Any]]) -> None:
    listed = run("list").output
    assert "prices.csv" in listed
    assert listed.endswith("prices failed: it broke\n")
    assert json.loads(run("list", "--json").output)["sequence"] == 40
    assert (
        run("drop", "prices", "--existing-rows", "stay", "--timeout", "5").output
        == "reader prices dropped at epoch 9: prices\n"
    )
    assert asked[-1][:2] == ("DELETE", "/v1/readers/prices?rows=stay&timeout_s=5.0")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["add", "x"], "expected either --file or --connect, was none"),
        (["add", "x", "--file", "a", "--connect", "h:1"], "was both"),
        (["add", "x", "--file", "a", "--at-most-once"], "of a stream only"),
        (["add", "x", "--file", "a", "--column", "price"], "--column 'NAME TYPE"),
        (["add", "x", "--file", "a", "--column", "price money"], "for --column price, was 'money'"),
        (["add", "x", "--file", "a"], "expected --column for each column of the rows, was none"),
        (["add", "We ird", "--file", "a"], "expected a name of small letters, digits and _ for the reader"),
        (["add", "x", "--file", "a", "--option", "x"], "--option NAME=TEXT"),
        (["add", "x", "--file", "a", "--keep-time", "t=1"], "--keep-rows"),
        (["add", "x", "--file", "a", "--keep-rows", "1", "--keep-time", "t=x"], "whole number"),
        (["add", "x", "--connect", "nowhere"], "HOST:PORT for --connect"),
    ],
    ids=["none", "both", "once", "column", "type", "columns", "name", "option", "time", "span", "address"],
)
def test_what_is_wrong_is_said_before_anybody_is_asked(
    asked: list[tuple[str, str, Any]], arguments: list[str], said: str
) -> None:
    result = run(*arguments)
    assert result.exit_code != 0
    assert said in str(result.exception) + result.output
    assert asked == []


def test_it_is_a_command() -> None:
    assert "add" in CliRunner().invoke(main, ["reader", "--help"]).output


def test_types_may_have_their_names_in_sql(asked: list[tuple[str, str, Any]]) -> None:
    words = [("a", "BIGINT"), ("b", "varchar"), ("c", "Double"), ("d", "hugeint"), ("e", "boolean"), ("f", "date")]
    assert run("add", "x", "--file", "f", *(f"--column={name} {type_}" for name, type_ in words)).exit_code == 0
    types = [column.type for column in asked[0][2].columns]
    assert types == ["int64", "string", "float64", "int128", "bool", "date"]

"""Commands against the admin port: tables for people, JSON for programs, one line for what cannot be."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from deltabook.cli import main
from deltabook.cli._admin import AdminPort
from deltabook.cli._errors import ConfigurationError
from deltabook.wire import admin
from exchange_server.matching.inputs import Enter
from tests.generators.operated import Operated
from tests.unit.exchange_server.admin.test_changes import Playing

Invoke = Callable[..., Result]


@pytest.fixture
def operated(tmp_path: Path) -> Iterator[Operated]:
    operated = Operated(tmp_path, playing=Playing())
    yield operated
    operated.close()


@pytest.fixture
def invoke(operated: Operated, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    def ask(port: AdminPort, path: str, body: bytes | None) -> bytes:
        answer = operated.ask(path, "GET" if body is None else "POST", body or b"")
        if answer.status != 200:
            raise ConfigurationError(answer.text)
        return answer.body

    def run(*arguments: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["deltabook", *arguments])
        return CliRunner().invoke(main, ["exchange", *arguments, "--admin", "127.0.0.1:1"])

    monkeypatch.setattr(AdminPort, "_ask", ask)
    return run


def quoted(operated: Operated) -> None:
    operated.submit(Enter(0, 0, 4, 0, "ACME", "B", 5, 9_800), Enter(0, 0, 4, 0, "ACME", "S", 7, 10_150))


def says(result: Result) -> str:
    """The output of a command that went well, without the lines of its tables."""
    assert result.exit_code == 0, result.output
    return " ".join("".join(" " if c in "│┃┏┓┗┛━─┳┻┡┩╇┴└┘┼╋┄┏" else c for c in result.stdout).split())


def test_a_book_is_a_table_in_money_and_lots(operated: Operated, invoke: Invoke) -> None:
    quoted(operated)
    text = says(invoke("book", "ACME"))
    assert "ACME: continuous, last none" in text
    assert "1 5 98.00 101.50 7 1" in text


def test_a_book_is_the_ports_own_json(operated: Operated, invoke: Invoke) -> None:
    quoted(operated)
    found = msgspec.json.decode(says(invoke("book", "ACME", "--json", "--depth", "1")), type=admin.Book)
    assert found == operated.report("/v1/books/ACME?depth=1", admin.Book)


@pytest.mark.parametrize(
    ("command", "phase", "words"),
    [
        (["halt", "ACME", "--reason", "NEWS"], "halted", "ACME is halted"),
        (["pause", "ACME"], "paused", "ACME is paused"),
        (["auction", "open", "ACME"], "auction-open", "ACME is auction-open"),
        (["auction", "close", "ACME"], "auction-close", "ACME is auction-close"),
        (["auction", "halt", "ACME", "--reason", "LUDP"], "auction-halt", "ACME is auction-halt"),
        (["close", "ACME"], "closed", "ACME is closed"),
        (["halt", "--all"], "halted", "every symbol is halted"),
    ],
)
def test_a_symbol_is_brought_into_a_phase(
    operated: Operated, invoke: Invoke, command: list[str], phase: str, words: str
) -> None:
    assert says(invoke(*command)) == words
    assert operated.exchange.market.books["ACME"].phase == phase


def test_a_halt_is_lifted(operated: Operated, invoke: Invoke) -> None:
    says(invoke("halt", "ACME"))
    done = json.loads(says(invoke("resume", "ACME", "--json")))
    assert (done["what"], done["inputs"]) == ("ACME is continuous", 2)
    assert operated.exchange.market.books["ACME"].phase == "continuous"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["halt", "NONE"], "expected one of the symbols ACME, GLOBEX, was 'NONE'"),
        (["resume", "ACME"], "expected ACME in another phase than continuous, was in it already"),
        (["halt"], "expected a SYMBOL or --all, was neither"),
        (["halt", "ACME", "--all"], "expected a SYMBOL or --all, was both"),
        (["accounts", "cancel"], "expected an ACCOUNT or --all, was neither"),
        (["replay", "seek"], "expected a RECORD or --time-ns, was neither"),
        (["replay", "speed", "0"], "expected `max` or a number above 0, was '0'"),
        (["hash", "--at", "3"], "expected the directory of a journal with --at and --at-message, was none"),
        (["sessions", "cut", "text:x"], "expected a session as they are listed (FACE:HOST:PORT), was 'text:x'"),
    ],
)
def test_what_cannot_be_is_one_line(invoke: Invoke, command: list[str], words: str) -> None:
    result = invoke(*command)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert words in result.stderr.splitlines()[-1]


def test_sessions_are_listed_and_cut(operated: Operated, invoke: Invoke) -> None:
    trader, wire = operated.connect("0,7,,1")
    trader.peer = "127.0.0.1:9"
    trader.dataReceived(b"1,0,0,7,B,5,100,ACME\n")
    operated.clock.advance(0)
    for command in (["sessions"], ["sessions", "list"]):
        text = says(invoke(*command))
        assert "1 sessions" in text
        assert "text:127.0.0.1:9 text:7 yes 0" in text
    assert says(invoke("sessions", "cut", "text:127.0.0.1:9")) == "session text:127.0.0.1:9 is cut: by the operator"
    assert wire.disconnecting


def test_all_accounts_are_listed_however_many_an_answer_holds(
    operated: Operated, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin, "MOST_ACCOUNTS", 2)
    for broker in range(1, 6):
        trader, _ = operated.connect(f"0,{broker},,1")
        trader.dataReceived(f"1,0,0,{broker},B,5,100,ACME\n".encode())
        operated.clock.advance(0)
    found = json.loads(says(invoke("accounts", "list", "--json")))
    assert [line["name"] for line in found["accounts"]] == [f"text:{broker}" for broker in range(1, 6)]
    assert "text:3 text 3 yes 1 0 allow 1" in says(invoke("accounts"))


def test_an_account_is_killed_revived_and_its_orders_cancelled(operated: Operated, invoke: Invoke) -> None:
    trader, _ = operated.connect("0,7,,1")
    trader.dataReceived(b"1,0,0,7,B,5,100,ACME\n")
    operated.clock.advance(0)
    assert says(invoke("accounts", "cancel", "text:7", "--symbol", "GLOBEX")).startswith("0 orders of text:7")
    assert says(invoke("accounts", "kill", "text:7")).startswith("account text:7 is stopped, 1 of its orders")
    assert "text:7 text 7 stopped 0" in says(invoke("accounts", "list"))
    assert says(invoke("accounts", "revive", "text:7")) == "account text:7 may trade again"
    operated.quote(4)
    assert says(invoke("accounts", "cancel", "--all")) == "4 orders of everybody in all symbols are cancelled"


def test_statistics_are_counts_and_a_line_for_each_symbol(operated: Operated, invoke: Invoke) -> None:
    quoted(operated)
    text = says(invoke("statistics"))
    assert "2 requests, 2 orders, 0 trades, 2 live orders; refused: none" in text
    assert "ACME continuous 98.00 5 101.50 7 2" in text
    assert json.loads(says(invoke("statistics", "--json")))["live_orders"] == 2


def test_status_says_what_runs_where(invoke: Invoke) -> None:
    text = says(invoke("status"))
    assert "session SESSION1" in text
    assert "ports text 4711, admin 4712" in text
    assert json.loads(says(invoke("status", "--json")))["session"] == "SESSION1"


def test_the_hash_is_the_markets(operated: Operated, invoke: Invoke) -> None:
    quoted(operated)
    assert says(invoke("hash")).startswith(f"{operated.exchange.market.state_hash()} after 2 requests")


def test_a_recording_is_shown_and_driven(invoke: Invoke) -> None:
    assert says(invoke("replay")) == "day.csv is played at 1 times real time as REPLAY, last record 12"
    assert says(invoke("replay", "pause")) == "day.csv is paused"
    assert says(invoke("replay", "speed", "max")) == "day.csv is paused"
    assert says(invoke("replay", "resume")) == "day.csv is played as fast as possible"
    assert says(invoke("replay", "seek", "40")) == "day.csv is played as fast as possible"
    assert json.loads(says(invoke("replay", "show", "--json")))["position"] == 40


def test_a_trade_is_bust_and_a_snapshot_written(operated: Operated, invoke: Invoke) -> None:
    operated.submit(Enter(0, 0, 4, 0, "ACME", "B", 5, 98), Enter(0, 0, 4, 0, "ACME", "S", 5, 98))
    match = operated.exchange.market.next_match_id - 1
    assert says(invoke("bust", "ACME", str(match))) == f"match {match} of ACME is void"
    assert says(invoke("snapshot")) == "a snapshot after 3 requests is written"
    assert operated.exchange.snapshot_inputs == 3

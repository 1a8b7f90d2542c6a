"""Commands against the admin port: tables for people, JSON for programs, one line for what cannot be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from deltabook.wire import admin
from exchange_server.matching.inputs import Enter
from tests.generators.operated import Operated, Playing
from tests.generators.operator import Operator


@pytest.fixture
def operated(tmp_path: Path) -> Iterator[Operated]:
    operated = Operated(tmp_path, playing=Playing())
    yield operated
    operated.close()


@pytest.fixture
def operator(operated: Operated) -> Operator:
    return Operator(operated)


def quoted(operated: Operated) -> None:
    operated.submit(Enter(0, 0, 4, 0, "ACME", "B", 5, 9_800), Enter(0, 0, 4, 0, "ACME", "S", 7, 10_150))


def test_a_book_is_a_table_in_money_and_lots(operated: Operated, operator: Operator) -> None:
    quoted(operated)
    text = operator.says("book", "ACME")
    assert "ACME: continuous, last none" in text
    assert "1 5 98.00 101.50 7 1" in text


def test_a_book_is_the_ports_own_json(operated: Operated, operator: Operator) -> None:
    quoted(operated)
    found = msgspec.json.decode(operator.says("book", "ACME", "--json", "--depth", "1"), type=admin.Book)
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
    operated: Operated, operator: Operator, command: list[str], phase: str, words: str
) -> None:
    assert operator.says(*command) == words
    assert operated.exchange.market.books["ACME"].phase == phase


def test_a_halt_is_lifted(operated: Operated, operator: Operator) -> None:
    operator.says("halt", "ACME")
    done = json.loads(operator.says("resume", "ACME", "--json"))
    assert (done["what"], done["inputs"]) == ("ACME is continuous", 2)
    assert operated.exchange.market.books["ACME"].phase == "continuous"


@pytest.mark.parametrize(
    ("command", "words", "code"),
    [
        (["halt", "NONE"], "expected one of the symbols ACME, GLOBEX, was 'NONE'", 1),
        (["resume", "ACME"], "expected ACME in another phase than continuous, was in it already", 1),
        (["halt", "ACME", "--reason", "LONGER"], "expected up to 4 ASCII characters, was 'LONGER'", 2),
        (["pause", "ACME", "--reason", "ÄÖ"], "expected up to 4 ASCII characters, was 'ÄÖ'", 2),
        (["halt"], "expected a SYMBOL or --all, was neither", 2),
        (["halt", "ACME", "--all"], "expected a SYMBOL or --all, was both", 2),
        (["accounts", "cancel"], "expected an ACCOUNT or --all, was neither", 2),
        (["replay", "seek"], "expected a RECORD or --time-ns, was neither", 2),
        (["replay", "speed", "0"], "expected `max` or a number above 0, was '0'", 2),
        (
            ["hash", "--at-request", "3"],
            "expected the directory of a journal with --at-request and --at-message, was none",
            2,
        ),
        (["sessions", "cut", "text:x"], "expected a session as they are listed (FACE:HOST:PORT), was 'text:x'", 1),
    ],
)
def test_what_cannot_be_is_one_line(operator: Operator, command: list[str], words: str, code: int) -> None:
    result = operator.run(*command)
    assert result.exit_code == code
    assert result.stdout == ""
    assert words in result.stderr.splitlines()[-1]


def test_sessions_are_listed_and_cut(operated: Operated, operator: Operator) -> None:
    trader, wire = operated.connect("0,7,,1")
    trader.peer = "127.0.0.1:9"
    trader.dataReceived(b"1,0,0,7,B,5,100,ACME\n")
    operated.clock.advance(0)
    for command in (["sessions"], ["sessions", "list"]):
        text = operator.says(*command)
        assert "1 sessions" in text
        assert "text:127.0.0.1:9 text:7 yes 0" in text
    assert operator.says("sessions", "cut", "text:127.0.0.1:9") == "session text:127.0.0.1:9 is cut: by the operator"
    assert wire.disconnecting


def test_all_accounts_are_listed_however_many_an_answer_holds(
    operated: Operated, operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin, "MOST_ACCOUNTS", 2)
    for broker in range(1, 6):
        trader, _ = operated.connect(f"0,{broker},,1")
        trader.dataReceived(f"1,0,0,{broker},B,5,100,ACME\n".encode())
        operated.clock.advance(0)
    found = json.loads(operator.says("accounts", "list", "--json"))
    assert [line["name"] for line in found["accounts"]] == [f"text:{broker}" for broker in range(1, 6)]
    assert "text:3 text 3 yes 1 allow 1" in operator.says("accounts")


def test_an_account_is_killed_revived_and_its_orders_cancelled(operated: Operated, operator: Operator) -> None:
    trader, _ = operated.connect("0,7,,1")
    trader.dataReceived(b"1,0,0,7,B,5,100,ACME\n")
    operated.clock.advance(0)
    assert operator.says("accounts", "cancel", "text:7", "--symbol", "GLOBEX").startswith("0 orders of text:7")
    assert operator.says("accounts", "kill", "text:7").startswith("account text:7 is stopped, 1 of its orders")
    assert "text:7 text 7 stopped 0" in operator.says("accounts", "list")
    assert operator.says("accounts", "revive", "text:7") == "account text:7 may trade again"
    operated.quote(4)
    assert operator.says("accounts", "cancel", "--all") == "4 orders of everybody in all symbols are cancelled"


def test_statistics_are_counts_and_a_line_for_each_symbol(operated: Operated, operator: Operator) -> None:
    quoted(operated)
    text = operator.says("statistics")
    assert "2 requests, 2 orders, 0 trades, 2 live orders; refused: none" in text
    assert "ACME continuous 98.00 5 101.50 7 2" in text
    assert json.loads(operator.says("statistics", "--json"))["live_orders"] == 2


def test_statistics_cover_all_symbols_over_several_answers(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "MOST_SYMBOLS", 1)
    found = json.loads(operator.says("statistics", "--json"))
    assert [line["symbol"] for line in found["symbols"]] == ["ACME", "GLOBEX"]


def test_status_says_what_runs_where(operator: Operator) -> None:
    text = operator.says("status")
    assert "session SESSION1" in text
    assert "ports text 4711, admin 4712" in text
    assert json.loads(operator.says("status", "--json"))["session"] == "SESSION1"


def test_the_hash_is_the_markets(operated: Operated, operator: Operator) -> None:
    quoted(operated)
    assert operator.says("hash").startswith(f"{operated.exchange.market.state_hash()} after 2 requests")


def test_a_recording_is_shown_and_driven(operator: Operator) -> None:
    assert operator.says("replay") == "day.csv is played at 1 times real time, as REPLAY, last record 12"
    assert operator.says("replay", "pause") == "day.csv is paused"
    assert operator.says("replay", "speed", "max") == "day.csv is paused"
    assert operator.says("replay", "resume") == "day.csv is played as fast as possible"
    assert operator.says("replay", "seek", "40") == "day.csv is played as fast as possible"
    assert json.loads(operator.says("replay", "show", "--json"))["position"] == 40


def test_a_trade_is_bust_and_a_snapshot_written(operated: Operated, operator: Operator) -> None:
    operated.submit(Enter(0, 0, 4, 0, "ACME", "B", 5, 98), Enter(0, 0, 4, 0, "ACME", "S", 5, 98))
    match = operated.exchange.market.next_match_id - 1
    assert operator.says("bust", "ACME", str(match)) == f"match {match} of ACME is void"
    assert operator.says("snapshot") == "a snapshot after 3 requests is written"
    assert operated.exchange.snapshot_inputs == 3

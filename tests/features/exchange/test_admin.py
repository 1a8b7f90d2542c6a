"""Rows 35 to 37 of docs/features/exchange.md: commands of an operator, metrics, and the live page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from deltabook.wire import admin
from exchange_server.matching.inputs import Enter, Phase
from tests.generators.operated import Operated
from tests.generators.operator import Operator
from tests.generators.text_floor import fields


@pytest.fixture
def operated(tmp_path: Path) -> Iterator[Operated]:
    operated = Operated(tmp_path)
    yield operated
    operated.close()


@pytest.fixture
def operator(operated: Operated) -> Operator:
    return Operator(operated)


def sent(operated: Operated, connection: Any, wire: Any, *requests: str) -> list[list[str]]:
    """What a client is told of its requests."""
    wire.take()
    connection.dataReceived("".join(f"{line}\n" for line in requests).encode())
    operated.clock.advance(0)
    return fields(wire.take())


def test_row_35_a_halted_symbol_takes_cancels_alone(operated: Operated, operator: Operator) -> None:
    client = operated.connect("0,7,,1")
    sent(operated, *client, "1,0,0,7,B,5,100,ACME")
    assert operator.says("halt", "ACME", "--reason", "NEWS") == "ACME is halted"
    told = sent(operated, *client, "2,0,0,7,S,5,100,ACME", "3,0,0,7,S,5,100,GLOBEX", "4,0,1,7,D,0,0,ACME")
    assert [line[0] for line in told] == ["R", "A", "D"]
    assert "ACME halted" in operator.says("statistics")
    assert "GLOBEX continuous" in operator.says("statistics")


def test_row_35_a_symbol_that_resumes_trades_again(operated: Operated, operator: Operator) -> None:
    client = operated.connect("0,7,,1")
    operator.says("halt", "ACME")
    assert operator.says("resume", "ACME") == "ACME is continuous"
    told = sent(operated, *client, "1,0,0,7,B,5,100,ACME", "2,0,0,7,S,5,100,ACME")
    assert [line[0] for line in told] == ["A", "A", "F", "F"]
    assert operator.run("resume", "ACME").exit_code == 1


def test_row_35_commands_that_change_the_market_are_logged(operated: Operated, operator: Operator) -> None:
    operated.quote(1)
    operator.says("halt", "ACME", "--reason", "NEWS")
    operator.says("resume", "ACME")
    items = [item for _, batch in operated.exchange.journal.reader.batches(1) for item in batch]
    assert [(type(item), item.symbol, item.phase, item.reason) for item in items if isinstance(item, Phase)] == [
        (Phase, "ACME", "halted", "NEWS"),
        (Phase, "ACME", "continuous", ""),
    ]


def test_row_35_a_book_is_shown_best_prices_first(operated: Operated, operator: Operator) -> None:
    for side, price, volume in (("B", 98, 5), ("B", 99, 3), ("S", 101, 7), ("S", 105, 8)):
        operated.submit(Enter(0, 0, 4, 0, "ACME", side, volume, price))
    found = json.loads(operator.says("book", "ACME", "--json"))
    assert (found["bids"], found["asks"]) == ([[99, 3, 1], [98, 5, 1]], [[101, 7, 1], [105, 8, 1]])
    assert json.loads(operator.says("book", "ACME", "--depth", "1", "--json"))["bids"] == [[99, 3, 1]]
    assert "1 3 0.99 1.01 7 1" in operator.says("book", "ACME")


def test_row_35_sessions_are_listed_and_cut_singly(operated: Operated, operator: Operator) -> None:
    (one, first), (two, second) = operated.connect("0,7,,1"), operated.connect("0,8,,1")
    for connection, port, broker in ((one, 1, 7), (two, 2, 8)):
        connection.peer = f"127.0.0.1:{port}"
        connection.dataReceived(f"1,0,0,{broker},B,5,100,ACME\n".encode())
    operated.clock.advance(0)
    listed = json.loads(operator.says("sessions", "--json"))["sessions"]
    assert {line["session"]: line["account"] for line in listed} == {
        "text:127.0.0.1:1": "text:7",
        "text:127.0.0.1:2": "text:8",
    }
    operator.says("sessions", "cut", "text:127.0.0.1:1")
    assert (first.disconnecting, second.disconnecting) == (True, False)


def test_row_35_statistics_count_requests_by_outcome(operated: Operated, operator: Operator) -> None:
    client = operated.connect("0,7,,1")
    sent(operated, *client, "1,0,0,7,B,5,100,ACME", "2,0,0,7,S,2,100,ACME", "3,0,0,7,S,2,100,NONE")
    found = json.loads(operator.says("statistics", "--json"))
    assert (found["inputs"], found["orders"], found["trades"], found["live_orders"]) == (4, 2, 1, 1)
    assert found["refused"] == {"unknown_symbol": 1}
    acme = found["symbols"][0]
    assert (acme["symbol"], acme["phase"], acme["bid_ticks"], acme["bid_volume"]) == ("ACME", "continuous", 100, 3)
    assert (acme["ask_ticks"], acme["last_ticks"], acme["live_orders"]) == (None, 100, 1)


def test_row_36_metrics_are_valid_and_match_the_exchange(operated: Operated) -> None:
    client = operated.connect("0,7,,1")
    listener, _ = operated.connect("1,,1")
    listener.pauseProducing()
    sent(operated, *client, "1,0,0,7,B,5,100,ACME", "2,0,0,7,S,2,100,ACME", "3,0,0,7,S,2,100,NONE")
    operated.submit(Phase(0, "GLOBEX", "halted"))
    operated.fsyncs.add(0.003)
    answer = operated.ask("/metrics")
    assert (answer.status, answer.headers["content-type"].split(";")[0]) == (200, "text/plain")
    found = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }
    prefix = "deltabook_exchange"
    assert found[f"{prefix}_orders_total",] == 2
    assert found[f"{prefix}_trades_total",] == 1
    assert found[f"{prefix}_live_orders",] == 1
    assert found[f"{prefix}_refused_total", "unknown_symbol"] == 1
    assert found[f"{prefix}_messages_total", "text"] == operated.next_number - 1
    assert found[f"{prefix}_listeners", "text"] == 2
    assert found[f"{prefix}_lag_bytes", "text"] > 0
    assert found[f"{prefix}_phase", "GLOBEX", "halted"] == 1
    assert found[f"{prefix}_phase", "GLOBEX", "continuous"] == 0
    assert found[f"{prefix}_journal_bytes",] == operated.exchange.journal.size_bytes
    assert found[f"{prefix}_fsync_seconds_count",] == 1
    assert found[f"{prefix}_fsync_seconds_bucket", "0.004096"] == 1
    assert found[f"{prefix}_fsync_seconds_bucket", "0.002048"] == 0


def test_row_37_the_live_page_is_served_whole(operated: Operated) -> None:
    page = operated.ask("/")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "default-src 'none'; script-src 'self'; style-src 'self'" in page.headers["content-security-policy"]
    named = re.findall(rb'(?:src|href)="(?!data:)([^"]+)"', page.body)
    assert named == [b"page.css", b"page.js"]
    assert [operated.ask(f"/{name.decode()}").status for name in named] == [200, 200]
    assert not re.search(rb" on[a-z]+=| style=|<style|<script>", page.body)


def test_row_37_a_frame_has_ladder_phase_and_last_trade(operated: Operated) -> None:
    for side, price, volume in (("B", 9_998, 5), ("B", 9_999, 3), ("S", 10_101, 7), ("S", 10_105, 8), ("B", 10_101, 2)):
        operated.submit(Enter(0, 0, 4, 0, "ACME", side, volume, price))
    operated.submit(Phase(0, "ACME", "halted"))
    found = operated.report(f"{admin.LIVE_PATH}ACME", admin.Live)
    assert [(level.price, level.quantity) for level in found.bids] == [("99.99", "3"), ("99.98", "5")]
    assert [(level.price, level.quantity) for level in found.asks] == [("101.01", "5"), ("101.05", "8")]
    assert (found.phase, found.last, found.spread) == ("halted", "101.01", "1.02")
    assert (found.figures.orders, found.figures.trades, found.figures.live_orders) == (5, 1, 4)


def test_row_37_recent_trades_are_sent_once(operated: Operated) -> None:
    for volume in (2, 3):
        for side in "BS":
            operated.submit(Enter(0, 0, 4, 0, "ACME", side, volume, 100))
    assert len(operated.exchange.feeds["text"].on_append) == 1, "the feed's own port, and nobody else"
    found = operated.report(f"{admin.LIVE_PATH}ACME", admin.Live)
    assert [(trade.price, trade.quantity) for trade in found.trades] == [("1.00", "2"), ("1.00", "3")]
    path = f"{admin.LIVE_PATH}ACME?after={found.next_after}"
    assert operated.report(path, admin.Live).trades == ()
    operated.submit(Enter(0, 0, 4, 0, "ACME", "B", 4, 101), Enter(0, 0, 4, 0, "ACME", "S", 4, 101))
    assert [(trade.price, trade.quantity) for trade in operated.report(path, admin.Live).trades] == [("1.01", "4")]

"""The dashboard over a real run of the loop: exchange, runtime, a strategy; what a page shows is what they say."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Sequence
from decimal import Decimal
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest

from queries import query_path
from tests.generators.browser import Browser
from tests.integration._processes import Results, Running, exchange, runtime
from tests.integration.exchange.test_operation import QUIET, Trader, trading

pytestmark = pytest.mark.process

VIEWS = ("best_quote", "book_depth", "tape", "vwap_book", "vwap_trades")
TICK = Decimal("0.01")
ROWS = "[...document.querySelectorAll('#{} tr')].map(row => [...row.cells].map(cell => cell.innerText.trim()))"


def engine(directory: Path, feed_port: int, http_port: int = 0) -> Running:
    """A runtime of the express lane alone."""
    express = ",".join(str(query_path(view)) for view in VIEWS)
    return runtime(directory, feed_port, [], "--express", express, "--http-port", str(http_port))


def strategies(directory: Path, results: int, orders: int) -> Running:
    ends = ("--results", f"127.0.0.1:{results}", "--orders", f"127.0.0.1:{orders}", "--dir", str(directory))
    return Running("algo", "run", "market_maker", *ends, "--http-port", "0", "--status-interval", "0.1")


def dashboard(results: int, algo: int, admin: int) -> Running:
    peers = {"--results": results, "--algo": algo, "--exchange": admin}
    return Running("dashboard", *(word for name, port in peers.items() for word in (name, f"127.0.0.1:{port}")))


def report(port: int, path: str) -> Any:
    """What a service says, from JSON."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/{path}", timeout=60) as answer:
        return json.load(answer)


def ladder(browser: Browser) -> dict[str, list[list[str]]]:
    """Side → price, quantity and orders of each level that is shown, best first."""
    shown = {
        "B": [[*row[1:3], row[4]] for row in browser.ask(ROWS.format("bids")) if row[0]],
        "S": [[*row[1:3], row[4]] for row in reversed(browser.ask(ROWS.format("asks"))) if row[0]],
    }
    assert all(shown.values())
    return shown


def expected_ladder(rows: Sequence[Sequence[Any]], symbol: str) -> dict[str, list[list[str]]]:
    """The same from the rows of ``book_depth``."""
    found: dict[str, list[list[str]]] = {}
    for side in "BS":
        levels = sorted((tuple(row[2:]) for row in rows if row[:2] == [symbol, side]), reverse=side == "B")
        found[side] = [[str(price * TICK), str(volume), str(orders)] for price, volume, orders in levels[:10]]
    return found


def trade(trader: Trader, first: int) -> None:
    """Five levels a side around a price, and three trades."""
    number = first
    for level in range(5):
        for side, sign in (("B", -1), ("S", 1)):
            assert trader.ask(number, side, 10 + level, 10_000 + sign * (3 + level)) == "A"
            number += 1
    for side, volume, price in (("S", 4, 9_997), ("B", 10, 10_003), ("B", 1, 10_004)):
        trader.ask(number, side, volume, price)
        number += 1


def test_panels_show_the_services_and_survive_a_restart(tmp_path: Path, browser: Browser) -> None:
    with exchange(tmp_path / "exchange", *QUIET) as market, trading(market, 7) as trader:
        ports = market.ready().ports
        engine_ports = {}
        with engine(tmp_path / "runtime", ports["text"]) as running:
            engine_ports = running.ready().ports
            with strategies(tmp_path / "algo", engine_ports["http"], ports["text"]) as algo:
                algo_port = algo.ready().ports["http"]
                with dashboard(engine_ports["http"], algo_port, ports["admin"]) as board:
                    browser.open(f"http://127.0.0.1:{board.ready().ports['http']}/")
                    trade(trader, 1)
                    browser.until("document.getElementById('symbol')?.innerText === 'ACME'")
                    check_panels(browser, running, algo_port)
                    running.kill()
                    browser.until("document.getElementById('notice-title').innerText === 'The runtime does not answer'")
                    trade(trader, 100)
                    with engine(tmp_path / "runtime", ports["text"], engine_ports["http"]) as again:
                        browser.until("document.getElementById('link-results').dataset.state === 'live'")
                        check_panels(browser, again, algo_port)
                        assert browser.ask("document.getElementById('notice').hidden")
                    assert browser.complaints == []


def check_panels(browser: Browser, running: Running, algo_port: int) -> None:
    """The market stands still once the strategy has quoted: page and services are compared until both say the same."""
    results = Results(running)
    for _ in range(200):
        rows = {view: results.get(f"views/{view}")["rows"] for view in VIEWS}
        said = report(algo_port, "strategies")["strategies"][0]
        browser.ask("new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 400)))")
        shown = {
            "ladder": ladder(browser),
            "tape": [row[1:] for row in browser.ask(ROWS.format("trades"))],
            "legend": browser.ask("[...document.querySelectorAll('#legend .value')].map(each => each.textContent)"),
            "views": {row[0]: row[3] for row in browser.ask(ROWS.format("views"))},
            "strategy": browser.ask(ROWS.format("strategies"))[0][2:],
        }
        wanted = {
            "ladder": expected_ladder(rows["book_depth"], "ACME"),
            "tape": expected_tape(rows["tape"]),
            "legend": expected_legend(rows),
            "views": {view: f"{len(found):,}" for view, found in rows.items()},
            "strategy": expected_strategy(said),
        }
        if shown == wanted:
            return
    assert shown == wanted


def expected_tape(rows: Sequence[Sequence[Any]]) -> list[list[str]]:
    """Price with its arrow, and quantity, newest first; columns as in queries/tape.sql. Trades of one moment at one
    price are one row."""
    trades = sorted((row for row in rows if row[0] == "ACME"), key=lambda row: int(row[1]), reverse=True)
    groups = [list(group) for _, group in groupby(trades, key=lambda row: (row[2], row[4]))]
    prices = [int(group[0][4]) for group in groups]
    ways = [(a > b) - (a < b) for a, b in pairwise(prices)] + [0]
    arrows = {1: "↑ ", -1: "↓ ", 0: ""}
    counts = [f"×{len(group)} " if len(group) > 1 else "" for group in groups]
    return [
        [f"{arrows[way]}{price * TICK}", f"{count}{sum(row[5] for row in group)}"]
        for group, price, way, count in zip(groups, prices, ways, counts, strict=True)
    ][:30]


def expected_legend(rows: dict[str, list[list[Any]]]) -> list[str]:
    """Mid, and the averages of trades, of bids and of asks."""
    quote = next(row for row in rows["best_quote"] if row[0] == "ACME")
    sums = [(quote[1] + quote[3], 2)]
    sums += [(row[1], row[2]) for row in rows["vwap_trades"] if row[0] == "ACME"]
    sums += [(row[2], row[3]) for side in "BS" for row in rows["vwap_book"] if row[:2] == ["ACME", side]]
    return [str((Decimal(total) * TICK / Decimal(count)).quantize(Decimal("0.0001"))) for total, count in sums]


def expected_strategy(line: dict[str, Any]) -> list[str]:
    """Position, profit, open orders, orders sent, fills."""
    held = [p for p in line["positions"] if p["position_lots"]]
    words = f"{held[0]['position_lots']} {held[0]['symbol']}".replace("-", "−") if held else "flat"
    profit = (line["realised"] + line["unrealised"] - line["fees"]) * TICK
    money = f"{profit:+,.2f}".replace("-", "−") if profit else "0.00"
    return [words, money, str(line["orders_open"]), str(line["orders_sent"]), str(line["fills"])]

"""The live page, in a real browser over a real exchange: what a person sees is what the market is.

Not collected where there is no Chromium (see conftest.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from deltabook.cli import main
from tests.generators.browser import Browser
from tests.integration._processes import Running, exchange
from tests.integration.exchange.test_operation import QUIET, TOKEN, trading

pytestmark = pytest.mark.process

LEVELS = "[...document.querySelectorAll('#{side} tr')].map(row => row.innerText.split(/\\s+/)).filter(row => row[1])"
TRADES = "[...document.querySelectorAll('#trades tr')].map(row => [...row.cells].slice(1).map(x => x.innerText.trim()))"


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path / "profile") as browser:
        yield browser


def address(process: Running) -> str:
    return f"http://127.0.0.1:{process.ready().ports['admin']}/"


def operate(directory: Path, *arguments: str) -> None:
    result = CliRunner().invoke(main, ["exchange", *arguments, "--dir", str(directory)])
    assert result.exit_code == 0, result.output


def says(element: str, words: str) -> str:
    """A claim about the text of an element."""
    return f"document.getElementById({element!r})?.innerText === {words!r}"


def is_in(state: str) -> str:
    """A claim about the state of the page."""
    return f"document.body?.dataset.state === {state!r}"


def test_the_page_shows_book_trades_and_halt_as_they_change(tmp_path: Path, browser: Browser) -> None:
    directory = tmp_path / "exchange"
    with exchange(directory, *QUIET) as process, trading(process, 7) as trader:
        browser.open(address(process))
        browser.until(says("symbol", "ACME"))
        assert browser.ask("document.getElementById('empty').innerText") == "No orders\nThe book is empty."
        for number, (side, volume, price) in enumerate((("B", 5, 9_998), ("B", 3, 9_998), ("S", 7, 10_001)), 1):
            trader.ask(number, side, volume, price)
        browser.until("document.querySelectorAll('#asks td .bar + span')[9].innerText === '7'")
        assert browser.ask(LEVELS.format(side="bids")) == [["Bid", "99.98", "8", "2"]]
        assert browser.ask(LEVELS.format(side="asks")) == [["Ask", "100.01", "7", "1"]]
        assert browser.ask("document.getElementById('spread').innerText") == "0.03"
        trader.ask(4, "S", 2, 9_998)
        trader.ask(5, "B", 1, 10_001)
        browser.until(says("trades-count", "2"))
        assert browser.ask(TRADES) == [["▲ 100.01", "1"], ["99.98", "2"]]
        assert browser.ask("document.getElementById('last').innerText") == "100.01"
        operate(directory, "halt", "ACME")
        browser.until("document.getElementById('phase').innerText.includes('Halted')")
        operate(directory, "resume", "ACME")
        browser.until("document.getElementById('phase').innerText.includes('Continuous')")
        assert browser.complaints == []


def test_a_symbol_is_chosen_by_keyboard_and_kept_in_the_address(tmp_path: Path, browser: Browser) -> None:
    with exchange(tmp_path / "exchange", *QUIET) as process, trading(process, 7) as trader:
        trader.ask(1, "B", 5, 100, "GLOBEX")
        browser.open(address(process))
        browser.until(says("symbol", "ACME"))
        browser.press("Tab")
        browser.press("ArrowDown")
        browser.until(says("symbol", "GLOBEX"))
        assert browser.ask(LEVELS.format(side="bids")) == [["Bid", "1.00", "5", "1"]]
        assert browser.ask("location.hash") == "#GLOBEX"
        browser.ask("location.reload()")
        browser.until(says("symbol", "GLOBEX"))
        assert browser.complaints == []


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_nothing_is_wider_than_the_window(tmp_path: Path, browser: Browser, width: int, height: int) -> None:
    browser.resize(width, height)
    symbols = ",".join(f"SYMBOL{number}" for number in range(40))
    with exchange(tmp_path / "exchange", "--agents", "none", "--instruments", symbols) as process:
        browser.open(address(process))
        browser.until(is_in("live"))
        assert browser.ask("document.documentElement.scrollWidth <= innerWidth")
        assert browser.ask("document.getElementById('ladder').getBoundingClientRect().right < innerWidth")


def test_a_lost_exchange_is_said_so_and_found_again(tmp_path: Path, browser: Browser) -> None:
    with exchange(tmp_path / "exchange", *QUIET) as process:
        browser.open(address(process))
        browser.until(is_in("live"))
        port = process.ready().ports["admin"]
        process.stop()
    browser.until(is_in("lost"))
    assert "What is shown is old." in browser.ask("document.getElementById('notice-words').innerText")
    with exchange(tmp_path / "exchange", *QUIET, "--admin-port", str(port)) as process, trading(process, 7) as trader:
        trader.ask(1, "B", 5, 100)
        browser.ask("document.getElementById('retry').click()")
        browser.until(is_in("live"))
        browser.until("document.querySelectorAll('#bids td')[0].innerText === '1.00'")
        assert browser.ask("document.getElementById('notice').hidden")


def test_the_token_is_asked_for_and_kept_for_the_tab_alone(tmp_path: Path, browser: Browser) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    with exchange(tmp_path / "exchange", *QUIET, "--admin-token-file", str(tmp_path / "token")) as process:
        browser.open(address(process))
        browser.until(is_in("token"))
        browser.type("another-token-than-it-is")
        browser.press("Enter")
        browser.until(says("token-words", "That is not this exchange's token."))
        browser.type(TOKEN)
        browser.press("Enter")
        browser.until(is_in("live"))
        assert browser.ask("[Object.values(sessionStorage), localStorage.length, document.cookie]") == [[TOKEN], 0, ""]

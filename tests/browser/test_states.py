"""Every state of the dashboard's page, in a real browser: peers say what they are told to, the page shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from deltabook.wire.strategies import FillLine, OrderLine, PositionLine, StrategyLine, StrategyState
from deltabook.wire.symbols import Instrument
from tests.browser.peers import Peers
from tests.generators.browser import Browser
from tests.integration._processes import Running

pytestmark = pytest.mark.process

TOKEN = "a-token-of-more-than-sixteen"
SECOND = 10**9


@pytest.fixture
def peers() -> Iterator[Peers]:
    with Peers() as peers:
        yield peers


def dashboard(results: str, *options: str) -> Running:
    return Running("dashboard", "--results", results, "--status-interval", "0.1", *options)


def address(process: Running) -> str:
    return f"http://127.0.0.1:{process.ready().ports['http']}/"


def is_in(state: str) -> str:
    """A claim about the state of the page."""
    return f"document.body?.dataset.state === {state!r}"


def says(element: str, words: str) -> str:
    """A claim about the words of an element that is to be seen."""
    return f"document.getElementById({element!r})?.innerText?.includes({words!r})"


def market(peers: Peers, symbols: Sequence[str] = ("ACME",)) -> None:
    """A book of two levels a side, three trades, and averages, of each symbol."""
    peers.keep("best_quote", [(symbol, 9_999, 8, 10_001, 7) for symbol in symbols])
    depth = (("B", 9_999, 8, 2), ("B", 9_998, 30, 1), ("S", 10_001, 7, 1), ("S", 10_003, 1, 1))
    peers.keep("book_depth", [(symbol, *level) for symbol in symbols for level in depth])
    trades = ((1, 3_600 * SECOND, 9_999, 5), (2, 3_601 * SECOND, 10_001, 6), (3, 3_602 * SECOND + 7_000_000, 10_000, 1))
    peers.keep("tape", [(symbol, *trade) for symbol in symbols for trade in trades])
    peers.keep("vwap_book", [(symbol, side, 700_003, 70) for symbol in symbols for side in "BS"])
    peers.keep("vwap_trades", [(symbol, 120_001, 12, 3) for symbol in symbols])


def strategy(name: str, state: StrategyState, reason: str = "", position: int = 12) -> StrategyLine:
    return StrategyLine(
        name=name,
        broker_id=9001,
        state=state,
        reason=reason,
        is_connected=True,
        parameters={"size": msgspec.Raw(b"5")},
        views=("best_quote",),
        orders_sent=9,
        orders_filled=4,
        orders_open=2,
        orders_rejected=1,
        orders_refused=0,
        fills=2,
        realised=1_234,
        unrealised=-34,
        fees=100,
        positions=(PositionLine("ACME", position, 9_999, 1_234, -34, 100),),
    )


def rows(body: str) -> str:
    """The words of a table's cells, row by row."""
    return f"[...document.querySelectorAll('#{body} tr')].map(row => [...row.cells].map(c => c.innerText.trim()))"


def test_figures_equal_those_of_peers_at_the_exchange_scale(peers: Peers, browser: Browser) -> None:
    market(peers)
    peers.instruments = {"ACME": (Instrument("ACME", "0.01", "0.001"), "halted")}
    peers.strategies = (strategy("sobi", "running"),)
    peers.orders = (OrderLine("sobi", 5, 6, "ACME", "B", 10, 3, 9_998, "partially_filled"),)
    with dashboard(peers.address, "--algo", peers.address, "--exchange", peers.address) as process:
        browser.open(address(process))
        browser.until(says("last", "100.00"))
        browser.until("document.querySelectorAll('#bids tr')[1].cells[5].innerText !== ''")
        bids, asks = browser.ask(rows("bids")), browser.ask(rows("asks"))
        assert bids[:2] == [
            ["Bid", "99.99", "0.008", "0.008", "2", ""],
            ["Bid", "99.98", "0.030", "0.038", "1", "◂ 0.007"],
        ]
        assert asks[-2:] == [
            ["Ask", "100.03", "0.001", "0.008", "1", ""],
            ["Ask", "100.01", "0.007", "0.007", "1", ""],
        ]
        assert [
            browser.ask(f"document.querySelectorAll('#bids tr')[{row}].style.getPropertyValue('--part')")
            for row in range(3)
        ] == ["0.211", "1", "0"]
        assert browser.ask(rows("trades")) == [
            ["01:00:02.007", "↓ 100.00", "0.001"],
            ["01:00:01.000", "↑ 100.01", "0.006"],
            ["01:00:00.000", "99.99", "0.005"],
        ]
        legend = browser.ask("[...document.querySelectorAll('#legend .value')].map(each => each.textContent)")
        assert legend == ["100.0000", "100.0008", "100.0004", "100.0004"]
        assert browser.ask("document.getElementById('spread').innerText") == "0.02"
        assert browser.ask("document.getElementById('phase').innerText") == "■ Halted"
        browser.until(says("profit", "+0.011"))
        assert browser.ask(rows("strategies")) == [["sobi", "● running", "0.012 ACME", "+0.011", "2", "9", "2"]]
        assert browser.ask(rows("views"))[0] == ["best_quote", "express", "linear", "1", "2"]
        assert [browser.ask(f"document.getElementById('{name}').innerText") for name in ("epoch", "step")] == [
            "7",
            "41",
        ]
        assert browser.ask("document.getElementById('messages_per_s').innerText") == "1,234"
        assert browser.complaints == []


def test_missing_peers_are_shown_when_they_come(tmp_path: Path, browser: Browser) -> None:
    file = tmp_path / "peers.json"
    with Running("dashboard", "--peers", str(file), "--status-interval", "0.1") as process:
        browser.open(address(process))
        browser.until(is_in("live"))
        browser.until(says("chart-empty", "Waiting for the runtime"))
        assert browser.ask("document.getElementById('link-results').dataset.state") == "connecting"
        with Peers() as peers:
            market(peers)
            file.write_text(f'{{"results": "{peers.address}"}}')
            browser.until("document.getElementById('link-results').dataset.state === 'live'")
            browser.until(says("symbol", "ACME"))
            browser.until("document.querySelectorAll('#bids tr')[0].cells[1].innerText === '9999'")
            assert browser.ask("document.getElementById('book-words').innerText") == "in ticks and lots"
        browser.until("document.getElementById('link-results').dataset.state === 'lost'")
        browser.until(says("notice-title", "The runtime does not answer"))
        assert "9999" in browser.ask("document.getElementById('bids').innerText"), "what was last known stays"


def test_an_absent_view_is_shown_with_the_command_to_add_it(peers: Peers, browser: Browser) -> None:
    with dashboard(peers.address, "--scale", "*=0.01,1") as process:
        browser.open(address(process))
        browser.until(says("book-empty", f"deltabook query add queries/book_depth.sql --results {peers.address}"))
        assert "queries/tape.sql" in browser.ask("document.getElementById('tape-empty').innerText")
        assert "No strategies are followed." in browser.ask("document.getElementById('strategies-empty').innerText")
        for view in ("best_quote", "book_depth", "tape"):
            peers.keep(view, [])
        browser.until(says("book-empty", "The runtime has seen no order yet."))
        market(peers)
        browser.until("document.querySelectorAll('#bids tr')[0].cells[1].innerText === '99.99'")
        assert browser.ask("document.getElementById('book-empty').hidden")
        peers.keep("book_depth", [("ACME", "B", 9_999, 8, 2)])
        browser.until(says("book-words", "No asks"))
        peers.keep("book_depth", [])
        browser.until(says("book-empty", "No orders: the book is empty."))
        peers.keep("tape", [], failed="a sum of more than 126 bits")
        browser.until(says("tape-empty", "No view tape: it failed: a sum of more than 126 bits."))
        browser.until("document.getElementById('views').innerText.includes('✕ failed')")


@pytest.mark.slow
def test_views_that_stand_still_are_said_to(peers: Peers, browser: Browser) -> None:
    market(peers)
    with dashboard(peers.address) as process:
        browser.open(address(process))
        browser.until(says("symbol", "ACME"))
        peers.is_silent = True
        browser.until(says("notice-title", "The runtime's views are not updated"))
        peers.is_silent = False
        browser.until("document.getElementById('notice').hidden")


def test_a_dialog_says_that_its_rows_are_not_updated(peers: Peers, browser: Browser) -> None:
    """It covers the notice of the page."""
    market(peers)
    peers.strategies = (strategy("sobi", "running"),)
    with dashboard(peers.address, "--algo", peers.address) as process:
        browser.open(address(process))
        browser.until(says("symbol", "ACME"))
        browser.until("document.querySelectorAll('#strategies tr').length === 1")
        browser.ask("document.querySelector('#views .row-button').click()")
        browser.until("document.getElementById('view-rows').rows.length === 1")
        assert browser.ask("document.getElementById('view-notice').hidden")
        peers.is_down = True
        browser.until(says("view-notice", "The runtime does not answer. Books, prices and views are of "))
        browser.press("Escape")
        browser.ask("document.querySelector('#strategies .row-button').click()")
        browser.until(says("strategy-notice", "The strategies do not answer. Their figures are of "))
        peers.is_down = False
        browser.until("document.getElementById('strategy-notice').hidden")
        process.stop()
        browser.until(says("strategy-notice", "The dashboard does not answer. The page shows the state of "))


@pytest.mark.slow
def test_strategies_have_states_and_their_own_connection(peers: Peers, browser: Browser) -> None:
    states: tuple[StrategyState, ...] = ("running", "waiting", "suspended", "killed", "failed", "stopped")
    peers.strategies = tuple(strategy(f"of_{state}", state, f"why {state}", position=0) for state in states)
    market(peers)
    with dashboard(peers.address, "--algo", peers.address) as process:
        browser.open(address(process))
        browser.until("document.querySelectorAll('#strategies tr').length === 6")
        shown = [row[1] for row in browser.ask(rows("strategies"))]
        assert shown == ["● running", "○ waiting", "▮▮ suspended", "■ killed", "✕ failed", "□ stopped"]
        assert browser.ask("document.querySelectorAll('#strategies tr')[3].cells[1].title") == "why killed"
        peers.strategies = None
        browser.until(says("notice-title", "The strategies do not answer"))
        assert browser.ask("document.getElementById('link-results').dataset.state") == "live"


def test_a_view_and_a_strategy_open_with_the_keyboard_alone(peers: Peers, browser: Browser) -> None:
    market(peers, ("ACME", "GLOBEX"))
    peers.strategies = (strategy("sobi", "killed", "max_loss"),)
    peers.fills = (FillLine(1, 5 * SECOND, "sobi", "ACME", "S", 3, 9_999, "maker", 1, 5),)
    with dashboard(peers.address, "--algo", peers.address) as process:
        browser.open(address(process))
        browser.until("document.querySelectorAll('#strategies tr').length === 1")
        browser.until(says("symbol", "ACME"))
        browser.press("Tab")
        browser.press("Tab")
        browser.press("ArrowRight")
        browser.until(says("symbol", "GLOBEX"))
        assert browser.ask("location.hash") == "#GLOBEX"
        browser.ask("document.querySelector('#views .row-button').focus()")
        browser.press("Enter")
        browser.until("document.getElementById('view-rows').rows.length === 2")
        assert browser.ask(rows("view-rows")) == [[s, "9999", "8", "10001", "7"] for s in ("ACME", "GLOBEX")]
        assert browser.ask("document.getElementById('view-count').innerText").startswith("2 rows at step")
        browser.until(says("view-sql", "SELECT * FROM the_best_quote"))
        browser.until(says("view-explain", "map 0 over bids"))
        browser.ask("document.getElementById('tab-rows').focus()")
        browser.press("ArrowRight")
        browser.until(says("pane-changes", "Nothing has changed since it was opened."))
        browser.press("Escape")
        browser.until("!document.getElementById('view-dialog').open")
        browser.ask("document.querySelector('#strategies .row-button').focus()")
        browser.press("Enter")
        browser.until(says("strategy-about", "■ killed: max_loss"))
        browser.ask("document.getElementById('tab-positions').focus()")
        browser.press("ArrowRight")
        browser.press("ArrowRight")
        browser.until("document.getElementById('fills').rows[0].cells.length === 7")
        assert browser.ask(rows("fills")) == [["00:00:05.000", "ACME", "▽ Sell", "9999", "3", "1.00", "maker"]]
        assert browser.complaints == []


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (1920, 1080), (390, 844)])
def test_nothing_is_wider_than_the_window(peers: Peers, browser: Browser, width: int, height: int) -> None:
    browser.resize(width, height)
    market(peers, [f"SYMBOL{number}" for number in range(60)])
    peers.strategies = (strategy("a_strategy_of_a_rather_long_name_indeed", "suspended", "x" * 200),)
    with dashboard(peers.address, "--algo", peers.address) as process:
        browser.open(address(process))
        browser.until("document.querySelectorAll('#strategies tr').length === 1")
        browser.until(says("symbols-more", "60") if width < 500 else says("symbol", "SYMBOL0"))
        assert browser.ask("document.documentElement.scrollWidth <= innerWidth")
        assert width < 1280 or browser.ask("document.documentElement.scrollHeight <= innerHeight")
        panels = (
            "[...document.querySelectorAll('main > section')].every(x => x.getBoundingClientRect().right <= innerWidth)"
        )
        assert browser.ask(panels)
        browser.ask("document.querySelector('#strategies .row-button').click()")
        assert browser.ask("document.getElementById('strategy-dialog').getBoundingClientRect().left >= 0")


@pytest.mark.parametrize("width", [320, 360])
def test_no_figure_of_the_book_is_cut_on_a_telephone(peers: Peers, browser: Browser, width: int) -> None:
    """Five digits of every quantity and total are there, and so are the words above them."""
    browser.resize(width, 800)
    peers.keep("best_quote", [("ACME", 99_990, 12_345, 100_010, 23_456)])
    peers.keep("book_depth", [("ACME", "B", 99_990, 12_345, 21), ("ACME", "S", 100_010, 23_456, 3)])
    peers.instruments = {"ACME": (Instrument("ACME", "0.01", "1"), "continuous")}
    with dashboard(peers.address, "--exchange", peers.address) as process:
        browser.open(address(process))
        browser.until("document.querySelectorAll('#bids tr')[0]?.cells[1].innerText === '999.90'")
        cells = "[...document.querySelectorAll('#ladder th, #ladder td')].filter(each => each.cellIndex !== 4)"
        cut = f"{cells}.filter(each => each.scrollWidth > each.clientWidth).map(each => each.innerText)"
        assert browser.ask(cut) == []


def test_the_token_is_asked_for_and_kept_for_the_tab_alone(tmp_path: Path, peers: Peers, browser: Browser) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    market(peers)
    with dashboard(peers.address, "--token-file", str(tmp_path / "token")) as process:
        browser.open(address(process))
        browser.until(is_in("token"))
        assert "ACME" not in browser.ask("document.documentElement.outerHTML")
        browser.type("another-token-than-it-is")
        browser.press("Enter")
        browser.until(says("token-words", "That is not this dashboard's token."))
        browser.ask("document.getElementById('token').value = ''")
        browser.type(TOKEN)
        browser.press("Enter")
        browser.until(says("symbol", "ACME"))
        assert browser.ask("[Object.values(sessionStorage), localStorage.length, document.cookie]") == [[TOKEN], 0, ""]


def test_a_dashboard_that_goes_is_said_so(peers: Peers, browser: Browser) -> None:
    market(peers)
    with dashboard(peers.address) as process:
        browser.open(address(process))
        browser.until(says("symbol", "ACME"))
        process.stop()
    browser.until(is_in("lost"))
    assert "The page shows the state of" in browser.ask("document.getElementById('notice-words').innerText")
    assert not browser.ask("document.getElementById('retry').hidden")


def test_a_view_whose_lanes_differ_has_a_chip_until_they_agree(peers: Peers, browser: Browser) -> None:
    """And a view that has failed says that first."""
    market(peers)
    chip = "document.querySelector('#views .chip')"
    agreed = {"epoch": 7, "behind_epochs": 0, "comparison": "equal", "compared_epoch": 7, "differs_since": 0}
    differing = {**agreed, "comparison": "differs", "differs_since": 6}
    quote = [("ACME", 9_999, 8, 10_001, 7)]
    with dashboard(peers.address) as process:
        browser.open(address(process))
        peers.keep("best_quote", quote, record=agreed)
        browser.until(says("views", "best_quote"))
        assert browser.ask(f"{chip} === null")
        peers.keep("best_quote", quote, record=differing)
        browser.until(f"{chip}?.innerText === '✕ differs from Spark'")
        assert browser.ask(rows("views"))[0][:3] == ["best_quote", "express", "✕ differs from Spark"]
        assert browser.ask(f"{chip}.dataset.state") == "failed"
        title = browser.ask(f"{chip}.parentElement.title")
        assert title == "Spark has other rows, and its rows are the rows of record."
        assert browser.ask("document.querySelectorAll('#views .chip').length") == 1, "the other views agree"
        peers.keep("best_quote", quote, record=differing, failed="too large")
        browser.until(f"{chip}?.innerText === '✕ failed'")
        assert browser.ask(f"{chip}.parentElement.title") == "too large"
        peers.keep("best_quote", quote, record=agreed)
        browser.until(f"{chip} === null")
        assert browser.ask(rows("views"))[0][:3] == ["best_quote", "express", "linear"]
        assert browser.ask("document.querySelector('#views tr').cells[2].title") == ""
        assert browser.complaints == []

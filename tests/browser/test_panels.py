"""What each panel of the dashboard's page does: money, candles, depth over time, the changes of a view, the legend."""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec
import pytest

from deltabook.wire.strategies import FillLine, PositionLine, StrategyLine
from deltabook.wire.symbols import Instrument
from tests.browser.peers import Peers
from tests.browser.test_states import address, dashboard, market, rows, says, strategy
from tests.generators.browser import Browser

pytestmark = pytest.mark.process

SECOND = 10**9
DAY = 1_717_400_000
"""2024-06-03 07:33:20 UTC: of a recorded day."""
INSTRUMENTS = {"ACME": (Instrument("ACME", "0.01", "1"), "continuous")}


@pytest.fixture
def peers() -> Iterator[Peers]:
    with Peers() as peers:
        peers.instruments = dict(INSTRUMENTS)
        yield peers


def text(element: str) -> str:
    """The words of an element, in the page's language."""
    return f"document.getElementById({element!r}).innerText"


def bars(count: int) -> list[tuple[object, ...]]:
    """Candles of a recorded day, each a tick above the one before."""
    return [
        ("ACME", (DAY + at) * SECOND, 10_000 + at, 10_005 + at, 9_990 + at, 10_001 + at, 10, 3) for at in range(count)
    ]


def priced(name: str, *positions: PositionLine) -> StrategyLine:
    return msgspec.structs.replace(strategy(name, "running"), positions=positions)


def test_money_leads_with_profit_and_exposure_of_all_strategies(peers: Peers, browser: Browser) -> None:
    market(peers)
    peers.strategies = (
        priced("sobi", PositionLine("ACME", 10, 10_000, 500, 1_200, 100)),
        priced("maker", PositionLine("ACME", -4, 10_000, 0, -300, 0), PositionLine("NONE", 7, None, 0, 0, 0)),
    )
    with dashboard(peers.address, "--algo", peers.address, "--exchange", peers.address) as process:
        browser.open(address(process))
        browser.until(says("profit", "+13.00"))
        parts = [browser.ask(text(name)) for name in ("realised", "unrealised", "fees", "gross", "net")]
        assert parts == ["+5.00", "+9.00", "1.00", "1,400.00", "+600.00"]
        assert "1 position" in browser.ask("document.getElementById('gross').title")
        browser.until("document.querySelector('#curve canvas') !== null")
        browser.until(says("last", "100.00"))
        assert browser.ask(text("price-of")) == "ACME: last price"
        assert browser.ask(text("change")) == "↑ +0.01 (+0.01 %) since 01:00", "since the first trade that is known"
        browser.ask("document.getElementById('fills-of').value = 'maker'")
        browser.ask("document.getElementById('fills-of').dispatchEvent(new Event('change', {bubbles: true}))")
        browser.until(says("curve-words", "P&L of maker"))
        assert browser.complaints == []


def test_derived_candles_have_keyboard_access_and_their_own_day(peers: Peers, browser: Browser) -> None:
    market(peers)
    peers.keep("tape", [])
    peers.keep("bars_1s", bars(90), lane="stream")
    with dashboard(peers.address, "--exchange", peers.address) as process:
        browser.open(address(process))
        browser.until(
            says("readout", "07:34:49  O 100.89  H 100.94  L 100.79  C 100.90  +0.01  quantity 10 in 3 trades")
        )
        assert browser.ask(text("market-day")) == "2024-06-03"
        browser.ask("document.querySelector('[name=range]:checked').focus()")
        browser.press("ArrowLeft")
        browser.until("document.querySelector('[name=range]:checked').value === '60'")
        browser.until("document.querySelector('#plot canvas') !== null")
        browser.ask("document.getElementById('plot').focus()")
        browser.press("ArrowLeft")
        browser.press("ArrowLeft")
        browser.until(says("readout", "07:34:48  O 100.88"))
        browser.press("Escape")
        browser.until(says("readout", "07:34:49"))
        for _ in range(3):
            browser.ask("document.querySelector('[name=range]:checked').focus()")
            browser.press("ArrowRight")
        browser.until("document.querySelector('[name=range]:checked').value === '0'")
        browser.until(says("readout", "07:34:49"))
        assert browser.complaints == []


def test_fills_of_a_candle_share_a_mark(peers: Peers, browser: Browser) -> None:
    market(peers)
    peers.keep("tape", [])
    peers.keep("bars_1s", bars(30), lane="stream")
    peers.strategies = (strategy("sobi", "running"), strategy("maker", "running"))
    peers.fills = tuple(
        FillLine(number, (DAY + 29) * SECOND, name, "ACME", "B", 5, 10_020 + number, "maker", 0, number)
        for number, name in enumerate(("sobi", "sobi", "maker"), 1)
    )
    with dashboard(peers.address, "--algo", peers.address, "--exchange", peers.address) as process:
        browser.open(address(process))
        browser.until(says("readout", "07:33:49"))
        browser.until(
            "document.querySelector('#plot canvas') !== null && document.getElementById('fills-of').length === 3"
        )
        browser.ask("document.getElementById('plot').focus()")
        browser.press("ArrowLeft")
        browser.until(says("readout", "▲ Bought 15 in 3 fills at 100.2200 on average: sobi, maker"))
        browser.ask("document.getElementById('fills-of').value = 'maker'")
        browser.ask("document.getElementById('fills-of').dispatchEvent(new Event('change', {bubbles: true}))")
        browser.until(says("readout", "▲ Bought 5 at 100.23: maker"))


def test_what_happened_while_nobody_looked_is_on_the_chart(peers: Peers, browser: Browser) -> None:
    """Trades that are in no view any more when the first page opens, and were there before their scale was known."""
    peers.instruments = None
    peers.keep("best_quote", [("ACME", 9_999, 8, 10_001, 7)])
    peers.keep("tape", [("ACME", 1, (DAY + 1) * SECOND, 10_007, 3)])
    with dashboard(peers.address, "--exchange", peers.address) as process:
        process.figures(lambda figures: figures["symbols"] == 1, "a symbol")
        peers.keep("tape", [("ACME", 2, (DAY + 9) * SECOND, 10_010, 4)])
        peers.instruments = dict(INSTRUMENTS)
        process.figures(lambda figures: figures["exchange"] == "live", "the exchange")
        browser.open(address(process))
        browser.until(says("readout", "07:33:29  O 100.10"))
        browser.until("document.querySelector('#plot canvas') !== null")
        browser.ask("document.getElementById('plot').focus()")
        for _ in range(9):
            browser.press("ArrowLeft")
        browser.until(says("readout", "07:33:21  O 100.07"))
        browser.until(says("change", "↑ +0.03 (+0.03 %) since 07:33"))


def test_a_time_without_the_runtime_is_a_gap(peers: Peers, browser: Browser) -> None:
    market(peers)
    with dashboard(peers.address) as process:
        browser.open(address(process))
        browser.until(says("symbol", "ACME"))
        peers.is_down = True
        gap = "document.getElementById('plot').getAttribute('aria-label').includes('1 gap in which')"
        browser.until(gap)
        browser.until("document.getElementById('link-results').dataset.state === 'lost'")
        peers.is_down = False
        browser.until("document.getElementById('link-results').dataset.state === 'live'")
        assert browser.ask(gap), "what was not seen stays so"


def test_depth_over_time_is_drawn(peers: Peers, browser: Browser) -> None:
    market(peers)
    with dashboard(peers.address) as process:
        browser.open(address(process))
        browser.until(says("symbol", "ACME"))
        browser.until(
            "(() => { const c = document.getElementById('heat'); return c.width > 0 && c.getContext('2d')"
            ".getImageData(0, 0, c.width, c.height).data.some((value, at) => at % 4 === 3 && value > 0); })()"
        )


def test_trades_of_one_order_at_one_price_are_one_row(peers: Peers, browser: Browser) -> None:
    market(peers)
    trades = ((1, 5, 10_000, 3), (2, 6, 10_001, 4), (3, 6, 10_001, 5), (4, 6, 10_002, 1))
    peers.keep("tape", [("ACME", number, at * SECOND, price, lots) for number, at, price, lots in trades])
    with dashboard(peers.address) as process:
        browser.open(address(process))
        browser.until("document.getElementById('trades')?.rows.length === 3")
        shown = [
            ["00:00:06.000", "↑ 10002", "1"],
            ["00:00:06.000", "↑ 10001", "×2 9"],
            ["00:00:05.000", "10000", "3"],
        ]
        assert browser.ask(rows("trades")) == shown


def test_an_open_view_lists_its_changes_newest_first(peers: Peers, browser: Browser) -> None:
    market(peers)
    with dashboard(peers.address, "--exchange", peers.address) as process:
        browser.open(address(process))
        browser.until("document.querySelectorAll('#views tr').length === 5")
        browser.ask("[...document.querySelectorAll('#views .row-button')][1].click()")
        browser.until("document.getElementById('view-rows').rows.length === 4")
        assert browser.ask("document.querySelectorAll('#view-rows .is-new').length") == 0, "what was there is not new"
        peers.keep("book_depth", [("ACME", "B", 9_999, 5, 1), ("ACME", "S", 10_001, 7, 1)])
        browser.until("document.querySelectorAll('#view-rows .is-new').length === 1")
        browser.until("document.querySelectorAll('#view-rows .is-new').length === 0")
        assert browser.ask(text("view-counts")) == "+1 −3"
        assert browser.ask(rows("view-rows")) == [["ACME", "B", "99.99", "5", "1"], ["ACME", "S", "100.01", "7", "1"]]
        browser.ask("document.getElementById('tab-changes').click()")
        changes = browser.ask(rows("view-changes"))
        assert [row[0] for row in changes].count("−1") == 3
        assert ["+1", "ACME", "B", "99.99", "5", "1"] in [[row[0], *row[2:]] for row in changes]
        peers.keep("book_depth", [("ACME", "B", 9_999, 5, 1)])
        browser.until("document.getElementById('view-changes').rows.length === 5")
        newest = browser.ask(rows("view-changes"))[0]
        assert [newest[0], *newest[2:]] == ["−1", "ACME", "S", "100.01", "7", "1"]
        assert browser.complaints == []


def test_rows_are_sorted_filtered_and_scaled(peers: Peers, browser: Browser) -> None:
    market(peers)
    peers.keep("tape", [("ACME", n, (DAY + n) * SECOND, 10_000 - n, n) for n in (9, 10, 11)])
    with dashboard(peers.address, "--exchange", peers.address) as process:
        browser.open(address(process))
        browser.until("document.querySelectorAll('#views tr').length === 5")
        browser.ask("[...document.querySelectorAll('#views .row-button')][2].click()")
        browser.until("document.getElementById('view-rows').rows.length === 3")
        browser.until("document.getElementById('view-rows').rows[0].cells[3].innerText === '99.91'")
        assert browser.ask(rows("view-rows"))[0] == ["ACME", "9", "07:33:29.000", "99.91", "9"]
        browser.ask("document.querySelectorAll('#view-columns .sort')[3].focus()")
        browser.press("Enter")
        browser.until("document.getElementById('view-columns').cells[3].getAttribute('aria-sort') === 'ascending'")
        browser.until("document.getElementById('view-rows').rows[0].cells[1].innerText === '11'")
        assert browser.ask("document.activeElement.innerText") == "price", "the focus stays in the head"
        browser.press("Enter")
        browser.until("document.getElementById('view-rows').rows[0].cells[1].innerText === '9'")
        browser.ask("document.getElementById('view-scaled').click()")
        browser.until(f"document.getElementById('view-rows').rows[0].cells[2].innerText === '{(DAY + 9) * SECOND}'")
        browser.ask("document.getElementById('view-filter').focus()")
        browser.type("9990")
        browser.until("document.getElementById('view-rows').rows.length === 1")
        browser.until(says("view-count", "1 with this text"))
        assert browser.ask("['view-sql', 'view-explain'].every(name => document.getElementById(name).offsetWidth > 0)")


def test_the_legend_says_what_every_mark_means(peers: Peers, browser: Browser) -> None:
    market(peers)
    with dashboard(peers.address) as process:
        browser.open(address(process))
        browser.until(says("symbol", "ACME"))
        browser.ask("document.getElementById('legend-open').focus()")
        browser.press("Enter")
        browser.until("document.getElementById('legend-dialog').open")
        marks = browser.ask(
            "[...document.querySelectorAll('.marks dt')].map(each => each.innerText.trim()).filter(Boolean)"
        )
        assert len(set(marks)) == len(marks), "a mark has one meaning"
        assert {"▲", "▽", "◂", "+", "−", "●", "○", "▮▮", "■", "□", "✕", "◆"} <= set(marks)
        browser.press("Escape")
        browser.until("!document.getElementById('legend-dialog').open")


def test_starting_spark_and_restarted_parts_are_shown(peers: Peers, browser: Browser) -> None:
    peers.instruments = None
    market(peers)
    peers.status |= {"spark": "starting", "lag_ms": None, "express_lag_ms": 12.5}
    with dashboard(peers.address) as process:
        browser.open(address(process))
        browser.until(says("notice-title", "Spark is starting, usually 20 s"))
        browser.until(says("lag_ms", "starting"))
        assert browser.ask(text("express_lag_ms")) == "12.5 ms"
        peers.status |= {"spark": "up", "lag_ms": 850.0}
        browser.until("document.getElementById('notice').hidden")
        browser.until(says("lag_ms", "850 ms"))
        assert browser.ask("document.querySelector('#link-results .restarted').innerText") == ""
        peers.begun_s = time.monotonic()
        browser.until("document.querySelector('#link-results .restarted').innerText.startsWith('restarted ')")

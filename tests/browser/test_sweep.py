"""The heat map of a sweep: fields of one size, each of which leads to the report of its point."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltabook.backtest import BacktestConfig, DataFile
from deltabook.backtest.grid import Point
from deltabook.backtest.sweep import SweepResult, run_point
from queries import QUERIES_DIR
from tests.generators.browser import Browser

CONFIG = BacktestConfig(("market_maker",), (DataFile(QUERIES_DIR / "trace-5000.csv"),), limit_records=500)
FIELDS = "[...document.querySelectorAll('#heat .cell')]"


@pytest.fixture
def page(tmp_path: Path) -> str:
    """Address of the report of four points, of which one failed and one was kept."""
    axes = (("size", ("1", "22222")), ("replace_ticks", ("1", "3")))
    points = [
        Point(1, ("1", "1"), profit=7),
        Point(2, ("1", "3"), profit=-123_456_789_012),
        Point(3, ("22222", "1"), error="expected a size of at most 1000, was 22222"),
        Point(4, ("22222", "3"), profit=1_234_567),
    ]
    (tmp_path / "points").mkdir()
    run_point(CONFIG, 4, (), str(tmp_path / "points"))
    SweepResult(CONFIG, axes, points).write(tmp_path)
    return (tmp_path / "sweep.html").as_uri()


@pytest.mark.parametrize("width", [1280, 390])
def test_fields_are_equal_whatever_stands_in_them(page: str, browser: Browser, width: int) -> None:
    browser.resize(width, 800)
    browser.open(page)
    browser.until("document.body?.dataset.state === 'drawn'")
    sizes = browser.ask(f"{FIELDS}.map(each => [each.offsetWidth, each.offsetHeight])")
    assert sizes == [sizes[0]] * 4
    assert browser.ask(f"{FIELDS}.every(each => each.scrollWidth <= each.clientWidth)"), "nothing is cut"
    assert browser.ask(f"{FIELDS}.map(each => each.innerText)") == ["7", "failed", "−123.5B", "★ 1.235M"]
    assert "profit -123,456,789,012" in browser.ask(f"{FIELDS}[2].title")
    assert browser.complaints == []


def test_a_field_links_to_the_kept_report_of_its_point(page: str, browser: Browser) -> None:
    browser.open(page)
    browser.until("document.body?.dataset.state === 'drawn'")
    assert browser.ask("[...document.querySelectorAll('#heat a')].map(each => each.innerText)") == ["★ 1.235M"]
    browser.ask("document.querySelector('#heat a').focus()")
    browser.press("Enter")
    browser.until("document.title.includes('Backtest of market_maker')")
    assert browser.ask("location.pathname").endswith("/points/00004.html")

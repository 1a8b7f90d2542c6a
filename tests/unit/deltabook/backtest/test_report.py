"""The report: one file with everything inside, exact figures, nothing of a file's text taken for HTML."""

from __future__ import annotations

import re
import shlex
from html.parser import HTMLParser
from pathlib import Path
from typing import cast

import msgspec
import pytest

from algo_engine import Strategy, ViewChange
from algo_engine.strategy import NoParameters
from deltabook.backtest import Backtest, BacktestConfig, DataFile, Result
from deltabook.backtest.report.backtest import command_of
from deltabook.backtest.report.figures import Money, chart_data
from deltabook.wire.symbols import Instrument
from queries import QUERIES_DIR
from tests.generators.backtests import adds, backtest

CONFIG = BacktestConfig(
    ("market_maker",), (DataFile(QUERIES_DIR / "trace-5000.csv", symbol="ACME"),), ("replace_ticks=2",),
    latency="fixed:order=1ms", fees="maker=-20,taker=50", limit_records=2000,
)  # fmt: skip


@pytest.fixture(scope="module")
def result() -> Result:
    """A run with trades."""
    return Backtest(CONFIG).run()


class Page(HTMLParser):
    """What a page refers to and says."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("src", "href") and value:
                self.addresses.append(value)
            if name == "id" and value:
                self.ids.add(value)


def test_the_page_needs_nothing_from_anywhere(result: Result, tmp_path: Path) -> None:
    text = (result.write(tmp_path)[-1]).read_text("utf-8")
    page = Page(text)
    assert page.addresses == ["data:,"]
    assert {"profit", "drawdown", "price", "position", "symbol", "data"} <= page.ids
    assert "default-src 'none'" in text
    assert not re.search(r"@import|url\(http|fetch\(|XMLHttpRequest", text.replace("// Nothing is fetched", ""))


def test_the_page_says_the_figures_of_the_result_exactly(result: Result, tmp_path: Path) -> None:
    text = (result.write(tmp_path)[-1]).read_text("utf-8")
    money = Money(result.instruments)
    for value in (result.figures.profit, result.figures.fees, result.figures.max_drawdown):
        assert f"<dd>{money.text(value)} " in text
    assert f"{result.figures.records:,} records" in text
    assert "fixed:order=1ms" in text
    assert result.sources[0].sha256 in text
    assert f"bought</td><td>{result.fills[0].volume_lots}" in text or "sold</td>" in text


def test_charts_have_a_value_for_every_sample(result: Result) -> None:
    data = chart_data(result)
    lines = [*data["profit"], data["drawdown"], data["symbols"]["ACME"]["bid"], *data["symbols"]["ACME"]["position"]]
    assert {len(line) for line in lines} == {len(data["time"])}
    assert len(data["fills"]["ACME"]) == len(result.fills)
    assert max(data["drawdown"]) <= 0
    assert min(data["drawdown"]) == -Money(result.instruments).number(result.figures.max_drawdown)


def test_the_command_line_gives_the_same_configuration(result: Result) -> None:
    words = shlex.split(command_of(cast(BacktestConfig, result.config)))
    assert words[:3] == ["deltabook", "backtest", "market_maker"]
    for pair in (["--param", "replace_ticks=2"], ["--latency", "fixed:order=1ms"], ["--limit", "2000"]):
        assert pair[1] in words
        assert words[words.index(pair[1]) - 1] == pair[0]
    assert "--seed" not in words


def test_a_class_has_no_command_line(result: Result, tmp_path: Path) -> None:
    config = msgspec.structs.replace(cast(BacktestConfig, result.config), strategies=("Mine", "sobi"))
    text = (msgspec.structs.replace(result, config=config).write(tmp_path)[-1]).read_text("utf-8")
    assert "Mine: given as a class" in text
    assert "<pre>deltabook backtest" not in text


def test_the_page_shows_the_statistics(result: Result, tmp_path: Path) -> None:
    text = (result.write(tmp_path)[-1]).read_text("utf-8")
    total = result.statistics.total
    assert f"<td>{total.turnover:,f}</td>" in text
    assert f"capital {result.statistics.capital:,f}" in text


def test_what_a_strategy_says_is_text(tmp_path: Path) -> None:
    class Fails(Strategy[NoParameters]):
        def on_view_change(self, change: ViewChange) -> None:
            raise ValueError("<script>alert(1)</script>")

    result = backtest(Fails, adds((1, "B", 1, 1))).run()
    config = msgspec.structs.replace(cast(BacktestConfig, result.config), parameters=("</script><b>",))
    text = (msgspec.structs.replace(result, config=config).write(tmp_path)[-1]).read_text("utf-8")
    assert "<script>alert" not in text
    assert "</script><b>" not in text


def test_money_is_exact_and_ticks_times_lots_at_any_scale() -> None:
    one = Money([Instrument("BTCUSD", "0.01", "0.00000001")])
    assert one.text(-123_456_789_012_345) == "-12,345.6789012345"
    assert one.unit == ""
    two = Money([Instrument("A", "0.01"), Instrument("B", "0.05")])
    assert (two.text(1234), two.unit) == ("1,234", "ticks × lots")

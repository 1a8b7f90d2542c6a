"""Reports and what a notebook shows: one file with all inside, exact figures, nothing of a file taken for HTML."""

from __future__ import annotations

import re
import shlex
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import cast

import msgspec
import pytest

from algo_engine import Strategy, ViewChange
from algo_engine.strategy import NoParameters
from deltabook.backtest import Backtest, BacktestConfig, DataFile, Result
from deltabook.backtest.grid import Point
from deltabook.backtest.presentation import Money
from deltabook.backtest.report import command_of
from deltabook.backtest.statistics import STATISTICS_HEAD, statistics_note, statistics_rows
from deltabook.backtest.sweep import SweepResult
from deltabook.backtest.tables import chart_data
from deltabook.wire.symbols import Instrument
from queries import QUERIES_DIR
from tests.generators.backtests import adds, backtest
from tests.generators.results import fill, result_of, sample

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
    text = (result.write(str(tmp_path))[-1]).read_text("utf-8")
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


def test_a_command_line_shows_where_files_differ() -> None:
    files = (DataFile(Path("a"), "depth", queue="front"), DataFile(Path("b"), "depth", queue="back"))
    words = shlex.split(command_of(BacktestConfig(("sobi",), data=files)))
    assert words[words.index("--queue") + 1] == "front|back"
    assert words.count("--format") == 1
    words = shlex.split(command_of(BacktestConfig(("sobi",), data=(DataFile(Path("a"), day="2012-06-21"), files[1]))))
    assert words[words.index("--day") + 1] == "2012-06-21|"
    words = shlex.split(command_of(BacktestConfig(("sobi",), data=(DataFile(Path("a"), day="2012-06-21"),) * 2)))
    assert [words[n + 1] for n, word in enumerate(words) if word == "--day"] == ["2012-06-21"] * 2
    words = shlex.split(command_of(BacktestConfig(("sobi",), data=files[:1])))
    assert words[words.index("--queue") + 1] == "front"


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


SECOND = 1_000_000_000


def test_a_result_shows_figures_and_statistics() -> None:
    moments = [sample(n * SECOND, [[profit]]) for n, profit in enumerate([0, 500, 200])]
    shown = result_of(moments, [fill(5, "B", 10, 300), fill(6, "S", 10, 350)])._repr_html_()
    assert "Backtest of one" in shown
    assert "<td>total</td><td>2.00</td>" in shown
    assert "<td>100 %</td><td>100 %</td><td>65.00</td>" in shown
    assert not re.search(r"<script|src=|href=|http|@import|url\(", shown)


def test_a_notebook_shows_words_of_a_strategy_as_text() -> None:
    class Fails(Strategy[NoParameters]):
        def on_view_change(self, change: ViewChange) -> None:
            raise ValueError("<script>alert(1)</script>")

    shown = backtest(Fails, adds((1, "B", 1, 1))).run()._repr_html_()
    assert "&lt;script&gt;alert(1)" in shown
    assert "<script" not in shown


def test_parts_are_shown_where_there_are_several() -> None:
    moments = [sample(n * SECOND, [[n], [2 * n]]) for n in range(3)]
    found = result_of(moments, names=("one", "two")).statistics
    assert [row[0] for row in statistics_rows(found)] == ["total", "one", "two"]
    assert {len(row) for row in statistics_rows(found)} == {len(STATISTICS_HEAD)}
    assert statistics_rows(found)[0][1:3] == ["0.06", "–"]
    assert statistics_note(found) == "capital 0.00, 20 intervals of 0.1 s, 58,968,000 a year"


def test_shares_and_money_are_written_for_people() -> None:
    moments = [sample(n * SECOND, [[profit]]) for n, profit in enumerate([0, 123_456_700, 3])]
    found = result_of(moments).stats(capital=Decimal(1000000), interval_s=1)
    (row,) = statistics_rows(found)
    assert dict(zip(STATISTICS_HEAD, row, strict=True)) | {"volatility": "", "Sharpe": "", "Sortino": ""} == {
        "of": "total", "profit": "0.03", "return": "3e-06 %", "volatility": "", "Sharpe": "", "Sortino": "",
        "drawdown": "1,234,566.97", "longest": "1.0 s", "fills": "0", "maker": "–", "hit rate": "–",
        "turnover": "0.00", "mean exposure": "0.00",
    }  # fmt: skip


def test_a_sweep_shows_its_best_points_and_why_others_failed() -> None:
    points = [Point(1, ("1",), profit=5), Point(2, ("2",), error="<b>no</b>"), Point(3, ("3",), profit=1_000)]
    result = SweepResult(BacktestConfig(("one",)), (("a", ("1", "2", "3")),), points)
    shown = result._repr_html_()
    assert shown.index("<td>3</td><td>1,000</td>") < shown.index("<td>1</td><td>5</td>")
    assert "1 failed, the first with: &lt;b&gt;no&lt;/b&gt;" in shown
    one = msgspec.structs.replace(result, points=points[1:2])
    assert "The best 0 of 1 points" in one._repr_html_()

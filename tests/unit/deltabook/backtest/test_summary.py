"""What a notebook shows: figures as the report has them, text as text, nothing from elsewhere."""

from __future__ import annotations

import re
from decimal import Decimal

import msgspec

from algo_engine import Strategy, ViewChange
from algo_engine.strategy import NoParameters
from deltabook.backtest import BacktestConfig
from deltabook.backtest.report.measures import STATISTICS_HEAD, statistics_note, statistics_rows
from deltabook.backtest.sweep import Point, SweepResult
from tests.generators.backtests import adds, backtest
from tests.generators.results import fill, result_of, sample

SECOND = 1_000_000_000


def test_a_result_shows_figures_and_statistics() -> None:
    moments = [sample(n * SECOND, [[profit]]) for n, profit in enumerate([0, 500, 200])]
    shown = result_of(moments, [fill(5, "B", 10, 300), fill(6, "S", 10, 350)])._repr_html_()
    assert "Backtest of one" in shown
    assert "<td>total</td><td>2.00</td>" in shown
    assert "<td>100 %</td><td>100 %</td><td>65.00</td>" in shown
    assert not re.search(r"<script|src=|href=|http|@import|url\(", shown)


def test_what_a_strategy_says_is_text() -> None:
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

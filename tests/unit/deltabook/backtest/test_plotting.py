"""Pictures have the figures of the result, and say so where they cannot be drawn."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from matplotlib.lines import Line2D

from deltabook.backtest import BacktestConfig, ConfigurationError, PlottingError, Result
from deltabook.backtest.grid import Point
from deltabook.backtest.plotting import Drawing
from deltabook.backtest.sweep import SweepResult
from tests.generators.results import fill, result_of, sample

SECOND = 1_000_000_000


def heights(line: Line2D) -> list[float]:
    found: list[float] = np.asarray(line.get_ydata()).tolist()
    return found


@pytest.fixture
def result() -> Result:
    moments = [
        sample(n * SECOND, [[profit], [0]], [(99, 101 + n)], [[n], [-n]]) for n, profit in enumerate([0, 500, 200])
    ]
    return result_of(moments, [fill(5, "B", 1, 99), fill(6, "S", 1, 102), fill(7, "B", 1, 98)], names=("one", "two"))


def test_a_tearsheet_has_price_profit_drawdown_and_position(result: Result) -> None:
    drawing = result.plot()
    price, profit, drawdown, position = drawing.axes
    bid, ask = (heights(line) for line in price.lines)
    assert (bid, ask) == ([0.99] * 3, [1.01, 1.02, 1.03])
    bought, sold = (np.asarray(each.get_offsets())[:, 1].tolist() for each in price.collections)
    assert (bought, sold) == ([0.99, 0.98], [1.02])
    assert [line.get_label() for line in profit.lines[:3]] == ["one", "two", "all"]
    assert heights(profit.lines[2]) == [0.0, 5.0, 2.0]
    assert drawdown.dataLim.y0 == -3.0
    assert [heights(line) for line in position.lines[:2]] == [[0.0, 1.0, 2.0], [0.0, -1.0, -2.0]]
    assert "drawdown 3.00 · 3 fills" in price.get_title(loc="left")
    assert np.asarray(position.lines[0].get_xdata())[2] == np.datetime64("1970-01-01T00:00:02")


def test_a_notebook_shows_it_without_pyplot(result: Result) -> None:
    drawing = result.plot("ACME")
    assert isinstance(drawing, Drawing)
    assert drawing._repr_png_().startswith(b"\x89PNG")


def test_a_symbol_that_was_not_traded_is_refused(result: Result) -> None:
    with pytest.raises(ConfigurationError, match="expected one of the symbols ACME, was 'OTHER'"):
        result.plot("OTHER")


def test_without_the_library_it_says_what_to_install(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "deltabook.backtest.plotting")
    monkeypatch.setitem(sys.modules, "matplotlib.dates", None)
    with pytest.raises(PlottingError, match=r"expected matplotlib .* pip install 'deltabook\[plot\]'"):
        result.plot()


@pytest.fixture
def sweep() -> SweepResult:
    values = [("1", "x"), ("1", "y"), ("2", "x"), ("2", "y"), ("3", "x"), ("3", "y")]
    points = [Point(n, at, profit=100 * n, fees=n, sharpe=None if n == 1 else n / 2) for n, at in enumerate(values, 1)]
    points[5] = Point(6, values[5], error="failed")
    return SweepResult(BacktestConfig(("one",)), (("a", ("1", "2", "3")), ("b", ("x", "y"))), points)


def test_a_map_has_a_field_for_each_point(sweep: SweepResult) -> None:
    axis = sweep.plot().axes[0]
    (image,) = axis.images
    found: Any = np.ma.filled(np.ma.asarray(image.get_array()), np.nan)
    assert np.array_equal(found, np.asarray([[100, 300, 500], [200, 400, np.nan]]), equal_nan=True)
    assert [text.get_text() for text in axis.texts] == ["100", "300", "500", "200", "400", "none"]
    assert (axis.get_xlabel(), axis.get_ylabel(), axis.get_title()) == ("a", "b", "profit, ticks × lots")


def test_the_axes_can_be_chosen(sweep: SweepResult) -> None:
    axis = sweep.plot("sharpe", across="b", down="a").axes[0]
    assert [text.get_text() for text in axis.texts] == ["none", "1", "1.5", "2", "2.5", "none"]
    assert (axis.get_xlabel(), axis.get_ylabel(), axis.get_title()) == ("b", "a", "sharpe")


def test_over_one_parameter_it_is_a_line_of_the_best(sweep: SweepResult) -> None:
    """The best are the lowest where less is better."""
    assert heights(sweep.plot(across="a").axes[0].lines[0]) == [200, 400, 500]
    assert heights(sweep.plot("fees", across="a").axes[0].lines[0]) == [1, 3, 5]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"figure": "beauty"}, "one of the figures profit, .*, was 'beauty'"),
        ({"across": "c"}, "one of the parameters a, b, was 'c'"),
        ({"down": "c"}, "one of the parameters a, b, was 'c'"),
    ],
)
def test_what_there_is_none_of_is_refused(sweep: SweepResult, given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        sweep.plot(**given)

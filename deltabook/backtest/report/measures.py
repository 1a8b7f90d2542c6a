"""Statistics as people read them: the same lines on a terminal, in a report and in a notebook."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from deltabook.backtest.statistics import Measures, Statistics

__all__ = ["STATISTICS_HEAD", "statistics_note", "statistics_rows"]


def _money(value: Decimal | float) -> str:
    return f"{value:,f}" if isinstance(value, Decimal) else f"{value:,.2f}"


def _percent(value: float) -> str:
    """Per cent with three digits, however small."""
    return f"{100 * value:.3g} %" if abs(value) < 10 else f"{100 * value:,.0f} %"


def _seconds(value: float) -> str:
    return f"{value:,.1f} s"


_COLUMNS: Final[tuple[tuple[str, str, Callable[[Any], str]], ...]] = (
    ("profit", "profit", _money),
    ("return", "total_return", _percent),
    ("volatility", "volatility", _percent),
    ("Sharpe", "sharpe", "{:,.2f}".format),
    ("Sortino", "sortino", "{:,.2f}".format),
    ("drawdown", "max_drawdown", _money),
    ("longest", "longest_drawdown_s", _seconds),
    ("fills", "fills", "{:,}".format),
    ("maker", "maker_share", _percent),
    ("hit rate", "hit_rate", _percent),
    ("turnover", "turnover", _money),
    ("mean exposure", "mean_exposure", _money),
)
"""Head, field of `Measures`, and how its value is written."""
STATISTICS_HEAD: Final = ("of", *(head for head, _, _ in _COLUMNS))


def statistics_rows(statistics: Statistics) -> list[list[str]]:
    """Return a row for the total and each part; parts of which there is only one, which is the total, are left out."""
    scopes = {
        "strategy": statistics.by_strategy,
        "symbol": statistics.by_symbol,
        "day": statistics.by_day,
    }
    return [
        [name or scope, *_cells(measures)]
        for scope, name, measures in statistics.lines()
        if scope == "total" or len(scopes[scope]) > 1
    ]


def _cells(measures: Measures) -> list[str]:
    values = [getattr(measures, field) for _, field, _ in _COLUMNS]
    return ["–" if value is None else write(value) for value, (_, _, write) in zip(values, _COLUMNS, strict=True)]


def statistics_note(statistics: Statistics) -> str:
    """Return what the ratios are of."""
    return (
        f"capital {_money(statistics.capital)}, {statistics.intervals:,} intervals of {statistics.interval_s:g} s, "
        f"{statistics.periods_a_year:,.0f} a year"
    )

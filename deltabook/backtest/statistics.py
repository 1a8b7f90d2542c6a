"""Statistics of a backtest, in total and by strategy, symbol and day, and their rows in tables and pages.

`measuring` defines and computes the measures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec
import pyarrow as pa

from deltabook.backtest.presentation import escaped, table

__all__ = [
    "STATISTICS_HEAD",
    "Measures",
    "Statistics",
    "statistics_html",
    "statistics_note",
    "statistics_rows",
]

_DECIMAL_DIGITS: Final = 38
"""Number of digits of a decimal column."""


class Measures(msgspec.Struct, frozen=True):
    """One row of statistics; a ratio whose divisor is 0 or unknown is None."""

    profit: Decimal
    """Profit: realised + unrealised - fees, as money."""
    fees: Decimal
    """Fees paid, as money."""
    total_return: float | None
    """Return: profit / capital."""
    annual_return: float | None
    """Annual return: mean return of an interval × intervals a year."""
    volatility: float | None
    """Annual volatility."""
    sharpe: float | None
    """Annual Sharpe ratio."""
    sortino: float | None
    """Annual Sortino ratio."""
    max_drawdown: Decimal
    """Largest fall of the profit, as money."""
    drawdown_share: float | None
    """Largest fall of the profit / capital."""
    longest_drawdown_s: float
    """Longest time in which the profit was below an earlier profit, in seconds of market time."""
    fills: int
    """Number of own executions."""
    maker_share: float | None
    """Share of own executions that were of resting orders."""
    closing_fills: int
    """Number of executions that closed a position or a part of it."""
    hit_rate: float | None
    """Share of the closing executions that earned more than their fee."""
    turnover: Decimal
    """Price × quantity of all executions, as money."""
    turnover_ratio: float | None
    """Turnover / capital."""
    max_exposure: Decimal
    """Largest gross exposure, as money."""
    mean_exposure: float | None
    """Mean of the gross exposure over time, as money."""
    mean_net_exposure: float | None
    """Mean of the net exposure over time, as money: below 0 for a strategy that is mostly short."""


class Statistics(msgspec.Struct, frozen=True):
    """Statistics of one run. The returns of strategies, symbols and days refer to the capital of the whole run, so they
    add up to the run's return.
    """

    capital: Decimal
    """Capital that returns refer to; the largest gross exposure if none was given."""
    interval_s: float
    """Length of the intervals of the returns, in seconds."""
    intervals: int
    """Number of intervals."""
    periods_a_year: float
    """Number of intervals in a year."""
    total: Measures
    """Measures of all strategies and symbols."""
    by_strategy: dict[str, Measures]
    """Measures by the strategy's name."""
    by_symbol: dict[str, Measures]
    """Measures by symbol."""
    by_day: dict[str, Measures]
    """Measures by UTC day, as in 2012-06-21."""

    def lines(self) -> Iterator[tuple[str, str, Measures]]:
        """Yield scope (total, strategy, symbol, day), name and measures of each line."""
        yield "total", "", self.total
        for scope, parts in (("strategy", self.by_strategy), ("symbol", self.by_symbol), ("day", self.by_day)):
            for name, measures in parts.items():
                yield scope, name, measures

    def to_arrow(self) -> pa.Table:
        """Return a row for each of `lines`: scope, name and the fields of `Measures`."""
        lines = list(self.lines())
        columns: dict[str, pa.Array] = {
            "scope": pa.array([scope for scope, _, _ in lines], pa.string()),
            "name": pa.array([name for _, name, _ in lines], pa.string()),
        }
        for field in msgspec.structs.fields(Measures):
            values = [getattr(measures, field.name) for _, _, measures in lines]
            columns[field.name] = _measured(values, field.type)
        return pa.table(columns)

    def _repr_html_(self) -> str:
        return statistics_html(self)


def _measured(values: Sequence[Any], type_: Any) -> pa.Array:
    if type_ is Decimal:
        return pa.array(values, pa.decimal128(_DECIMAL_DIGITS, max(-value.as_tuple().exponent for value in values)))
    return pa.array(values, pa.int64() if type_ is int else pa.float64())


def _money(value: Decimal | float) -> str:
    return f"{value:,f}" if isinstance(value, Decimal) else f"{value:,.2f}"


def _percent(value: float) -> str:
    """Return a share as a percentage with three digits, however small."""
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
"""Head, field of `Measures`, and function that formats its value."""
STATISTICS_HEAD: Final = ("of", *(head for head, _, _ in _COLUMNS))
"""Heads of the columns of `statistics_rows`."""


def statistics_rows(statistics: Statistics) -> list[list[str]]:
    """Return a row for the total and for each part; a scope with a single part has no rows, since they would equal the
    total.
    """
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
    """Return the note on the basis of the ratios."""
    return (
        f"capital {_money(statistics.capital)}, {statistics.intervals:,} intervals of {statistics.interval_s:g} s, "
        f"{statistics.periods_a_year:,.0f} a year"
    )


def statistics_html(statistics: Statistics) -> str:
    """Return statistics as an HTML table, with a note on the basis of the ratios."""
    shown = table(STATISTICS_HEAD, statistics_rows(statistics), name="Statistics")
    return f"<div>{shown}<p>{escaped(statistics_note(statistics))}</p></div>"

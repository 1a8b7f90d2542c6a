"""Results of the cases as the rows of a Markdown table."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from bench.strategies.cases import Case
from deltabook.backtest import Result

__all__ = ["COLUMNS", "markdown", "placed"]

COLUMNS: Final = (
    "strategy",
    "orders",
    "executions",
    "of these, as maker",
    "traded, $",
    "largest position",
    "at the end",
    "profit, $",
    "drawdown, $",
    "break-even fee, bps",
)
"""Headings of the columns. The break-even fee is the fee, in hundredths of a percent of what was traded, at which the
profit would be zero."""


def markdown(played: Sequence[tuple[Case, Result]]) -> str:
    """Return the table, one row for each case."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" + "|---:" * (len(COLUMNS) - 1) + "|"]
    lines += [f"| {' | '.join(_cells(case, result))} |" for case, result in played]
    return "\n".join(lines)


def _cells(case: Case, result: Result) -> list[str]:
    figures, (instrument,) = result.strategies[0], result.instruments
    orders, symbol = figures.orders, instrument.symbol
    lot = Decimal(instrument.lot_size)
    unit = Decimal(instrument.tick_size) * lot
    free_bps = f"{figures.profit / orders.volume * 10_000:.1f}" if orders.volume and figures.profit > 0 else "–"
    return [
        case.title,
        f"{orders.submitted:,}",
        f"{orders.fills:,}",
        f"{orders.maker_fills:,}",
        f"{orders.volume * unit:,.0f}",
        _short(figures.max_position_lots[symbol] * lot),
        _short(figures.position_lots[symbol] * lot),
        f"{figures.profit * unit:+,.2f}" if figures.profit else "0",
        f"{figures.max_drawdown * unit:,.2f}" if figures.max_drawdown else "0",
        free_bps,
    ]


def _short(value: Decimal) -> str:
    return f"{value:,.2f}" if value % 1 else f"{value:,.0f}"


def placed(page: str, place: str, text: str) -> str:
    """Return the page with this text between the marks of a place; raise `ValueError` if it has no such place."""
    begin, end = f"<!-- {place} -->\n", f"<!-- end of {place} -->\n"
    head, found, rest = page.partition(begin)
    _, closed, tail = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"expected a place for {place} between two marks, was none")
    return f"{head}{begin}{text}\n{end}{tail}"

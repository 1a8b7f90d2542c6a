"""Tables of a result on a terminal: of a backtest and of a simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from deltabook.cli._tables import print_table

if TYPE_CHECKING:
    from deltabook.backtest import Result

__all__ = ["print_result"]


def print_result(result: Result, played: str = "records") -> None:
    """Print what strategies earned, the run in a line, and what went wrong.

    ``played`` is what `Figures.records` counts.
    """
    from deltabook.backtest.inspection import dropped_line, source_lines
    from deltabook.backtest.presentation import STATISTICS_HEAD, statistics_note, statistics_rows

    names = [
        "strategy",
        "profit",
        "realised",
        "unrealised",
        "fees",
        "max drawdown",
        "orders",
        "fills",
        "maker %",
        "position",
    ]
    rows = []
    for s in result.strategies:
        maker = f"{100 * s.orders.maker_fills // s.orders.fills}" if s.orders.fills else "–"
        position = " ".join(f"{symbol}:{lots}" for symbol, lots in s.position_lots.items())
        rows.append(
            [s.name, s.profit, s.realised, s.unrealised, s.fees, s.max_drawdown, s.orders.submitted, s.orders.fills,
             maker, position]
        )  # fmt: skip
    if rows:
        print_table("profits in ticks × lots", names, rows, left=["strategy", "position"])
        title = f"statistics: {statistics_note(result.statistics)}"
        print_table(title, STATISTICS_HEAD, statistics_rows(result.statistics), left=["of"])
    f = result.figures
    click.echo(
        f"{f.records:,} {played}, {f.market_trades:,} trades, {f.own_trades:,} own; "
        f"{result.elapsed_s:.2f} s, {result.messages_per_s:,.0f} {played}/s"
    )
    for source in result.sources:
        for line in source_lines(source):
            click.echo(line)
    if result.sources:
        click.echo(dropped_line(f.dropped))
    for view, reason in result.slow_views.items():
        click.echo(f"the view {view} is kept batch by batch, which is slow: {reason}")
    for s in result.strategies:
        if s.orders.refused or s.orders.rejected:
            click.echo(f"{s.name}: {s.orders.refused:,} orders refused by its limits, {s.orders.rejected:,} rejected")
            for reason, count in s.orders.reasons.items():
                click.echo(f"  {count:,} orders ended with: {reason}")
        if s.failure:
            click.echo(f"{s.name} was stopped: {s.failure}")

"""`deltabook backtest`: run strategies on recorded days, in one process and as fast as it goes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deltabook.cli._backtest_options import backtest_options, config_of
from deltabook.cli._progress import progress
from deltabook.cli._tables import print_table

if TYPE_CHECKING:
    from deltabook.backtest import Result

__all__ = ["command"]


@click.command("backtest")
@click.argument("strategies", metavar="STRATEGY...", nargs=-1, required=True)
@backtest_options
@click.option(
    "--out",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the report, the result as JSON, trades and orders.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(strategies: tuple[str, ...], directory: Path | None, as_json: bool, **options: Any) -> None:
    """Run strategies (built-in names or .py files) on recorded order flow.

    The flow trades in a real market, in which the strategies' orders have their queue positions; their views are
    updated message by message. Equal files, parameters and seeds give equal bytes.
    """
    from deltabook.backtest import Backtest, BacktestError

    backtest = Backtest(config_of(strategies, options))
    with progress("playing the records"):
        result = backtest.run()
    written = result.write(directory) if directory is not None else []
    if as_json:
        sys.stdout.buffer.write(result.to_json())
        sys.stdout.buffer.flush()
    else:
        _print(result)
        for path in written:
            click.echo(str(path))
    if result.failure:
        raise BacktestError(f"the backtest ended before its data: {result.failure}")


def _print(result: Result) -> None:
    from deltabook.backtest.report.measures import STATISTICS_HEAD, statistics_note, statistics_rows

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
    print_table("profits in ticks × lots", names, rows, left=["strategy", "position"])
    print_table(
        f"statistics: {statistics_note(result.statistics)}", STATISTICS_HEAD, statistics_rows(result.statistics),
        left=["of"],
    )  # fmt: skip
    f = result.figures
    click.echo(
        f"{f.records:,} records, {f.market_trades:,} trades, {f.own_trades:,} own; "
        f"{result.elapsed_s:.2f} s, {result.messages_per_s:,.0f} records/s"
    )
    for view, reason in result.slow_views.items():
        click.echo(f"the view {view} is kept batch by batch, which is slow: {reason}")
    for s in result.strategies:
        if s.orders.refused or s.orders.rejected:
            click.echo(f"{s.name}: {s.orders.refused:,} orders refused by its limits, {s.orders.rejected:,} rejected")
            for reason, count in s.orders.reasons.items():
                click.echo(f"  {count:,} orders ended with: {reason}")
        if s.failure:
            click.echo(f"{s.name} was stopped: {s.failure}")

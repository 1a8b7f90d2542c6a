"""`deltabook backtest`: run strategies on recorded days, in one process and at full speed.

Simulations and sweeps share the options and the tables of results.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from deltabook.cli._options import (
    BACKTEST_FORMATS,
    FloatRange,
    first_broker_option,
    json_option,
    parameters_option,
    queue_option,
)
from deltabook.cli._terminal import print_table, progress

if TYPE_CHECKING:
    from deltabook.backtest import Result

__all__ = ["backtest_options", "command", "config_of", "print_result", "views_of"]

_OPTIONS: Final = (
    click.option(
        "--data",
        "data",
        multiple=True,
        required=True,
        metavar="[SYMBOL=]FILE",
        help="Recorded file; repeatable. Files of one symbol are concatenated, those of several merged by time.",
    ),
    click.option(
        "--format", "form", type=click.Choice(BACKTEST_FORMATS), help="Format of the files.  [default: detected]"
    ),
    click.option(
        "--symbol", default="REPLAY", help="Symbol of files that contain none; for ITCH, the stocks, as in A,B."
    ),
    click.option(
        "--day",
        "days",
        multiple=True,
        metavar="YYYY-MM-DD",
        help="Day of recordings whose times count from midnight; repeatable: one for each file.",
    ),
    click.option(
        "--orderbook",
        "orderbooks",
        multiple=True,
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        help="LOBSTER's order book file of a --data, which corrects its book; repeatable, in the order of --data.",
    ),
    click.option(
        "--trades",
        "trades",
        multiple=True,
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        help="File with the trades of a --data of depth; repeatable, in the order of --data.",
    ),
    queue_option,
    click.option(
        "--max-crossed",
        "max_crossed_percent",
        type=FloatRange(0, 100),
        metavar="PERCENT",
        help="Fail if a recording's own book is crossed after more than PERCENT of its records.  [default: 5 for "
        "LOBSTER and ITCH]",
    ),
    click.option(
        "--tick",
        default="",
        metavar="SIZE",
        help="Price of one tick, such as 0.01 for stocks.  [default: 0.0001, Bitstamp 0.01]",
    ),
    parameters_option,
    click.option(
        "--latency",
        default="zero",
        metavar="MODEL",
        help="Latencies: zero, fixed:feed=100us,order=50us,answer=50us, normal:order=50us~10us, "
        "lognormal:order=50us~1.5, distance:1200km~20us or file:F.",
    ),
    click.option("--seed", default=1, help="Seed of random latencies."),
    click.option("--fees", default="", metavar="FEES", help="Fees of trades, as for `deltabook algo run`."),
    click.option(
        "--views",
        "folders",
        multiple=True,
        type=click.Path(path_type=Path, exists=True),
        help="SQL file, or folder of .sql files, with additional views; repeatable.",
    ),
    click.option(
        "--step-us",
        type=click.IntRange(0),
        default=0,
        help="Update the views at this interval in microseconds; 0 updates them after every request.",
    ),
    click.option(
        "--warm-up",
        type=click.IntRange(0),
        default=0,
        metavar="N",
        help="Number of records to play before the strategies start.",
    ),
    click.option(
        "--limit", type=click.IntRange(0), default=0, metavar="N", help="Maximum number of records; 0 plays all."
    ),
    first_broker_option,
)


def backtest_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `config_of` to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def config_of(strategies: tuple[str, ...], options: dict[str, Any]) -> Any:
    """Return the `BacktestConfig` of a command line; remove the options that it uses from ``options``."""
    from deltabook.backtest import BacktestConfig, DataFile

    symbol, form = options.pop("symbol"), options.pop("form")
    days, orderbooks, tick = options.pop("days"), options.pop("orderbooks"), options.pop("tick")
    given = options.pop("data")
    if len(days) not in {0, 1, len(given)}:
        raise click.UsageError(f"expected one --day, or one for each of {len(given)} files, was {len(days)}")
    trades, queue = options.pop("trades"), options.pop("queue")
    for name, beside in (("--orderbook", orderbooks), ("--trades", trades)):
        if len(beside) not in {0, len(given)}:
            raise click.UsageError(f"expected one {name} for each of {len(given)} files, was {len(beside)}")
    files = []
    for number, text in enumerate(given):
        name, equals, path = text.rpartition("=")
        day = days[number % len(days)] if days else ""
        book = orderbooks[number] if orderbooks else None
        trade_file = trades[number] if trades else None
        files.append(
            DataFile(Path(path if equals else text), form or "", name or symbol, day, tick, book, trade_file, queue)
        )
    return BacktestConfig(
        strategies=strategies,
        data=tuple(files),
        parameters=options.pop("parameters"),
        views=views_of(options.pop("folders")),
        latency=options.pop("latency"),
        seed=options.pop("seed"),
        fees=options.pop("fees"),
        step_us=options.pop("step_us"),
        warm_up_records=options.pop("warm_up"),
        limit_records=options.pop("limit"),
        first_broker_id=options.pop("first_broker_id"),
        max_crossed_percent=options.pop("max_crossed_percent"),
    )


def views_of(places: Iterable[Path]) -> dict[str, str]:
    """Return the SQL of the views in files and folders, by name."""
    from runtime.compiler import read_script

    views = {}
    for place in places:
        for path in sorted(place.glob("*.sql")) if place.is_dir() else [place]:
            views.update({select.name: select.sql for select in read_script(path).selects})
    return views


def print_result(result: Result, played: str = "records") -> None:
    """Print the strategies' profits, a summary of the run in one line, and its problems.

    ``played`` is the noun for what `Figures.records` counts.
    """
    from deltabook.backtest.inspection import dropped_line, source_lines
    from deltabook.backtest.statistics import STATISTICS_HEAD, statistics_note, statistics_rows

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


@click.command("backtest")
@click.argument("strategies", metavar="STRATEGY...", nargs=-1, required=True)
@backtest_options
@click.option(
    "--out",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the report, the result as JSON, trades and orders.",
)
@json_option
def command(strategies: tuple[str, ...], directory: Path | None, as_json: bool, **options: Any) -> None:
    """Run strategies (built-in names or .py files) on recorded order flow.

    The exchange's matching engine matches the recorded orders and those of the strategies, each at its place in the
    queue; views are updated message by message. Equal files, parameters and seeds give equal bytes.
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
        print_result(result)
        for path in written:
            click.echo(str(path))
    if result.failure:
        raise BacktestError(f"the backtest ended before the end of its data: {result.failure}")

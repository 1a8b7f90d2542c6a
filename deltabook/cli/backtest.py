"""`deltabook backtest`: run strategies on recorded days, in one process and as fast as it goes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from deltabook.cli._backtest_options import backtest_options, config_of
from deltabook.cli._progress import progress
from deltabook.cli._result_tables import print_result

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
        print_result(result)
        for path in written:
            click.echo(str(path))
    if result.failure:
        raise BacktestError(f"the backtest ended before its data: {result.failure}")

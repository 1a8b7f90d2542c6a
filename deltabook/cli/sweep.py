"""`deltabook sweep`: a backtest for each point of a grid of parameters, in processes or spread over Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from deltabook.cli._backtest_options import backtest_options, config_of
from deltabook.cli._sweep_options import run_and_print, sweep_options
from runtime.spark.config import SparkConfig

__all__ = ["command"]


@click.command("sweep")
@click.argument("strategies", metavar="STRATEGY...", nargs=-1, required=True)
@sweep_options(required=True)
@backtest_options
@click.option(
    "--out",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the heat map and the points as JSON.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(  # noqa: PLR0917 - click passes every option by name
    strategies: tuple[str, ...],
    grids: tuple[str, ...],
    spark: SparkConfig,
    jobs: int | None,
    directory: Path | None,
    keep_results: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Run a backtest for every combination of parameters.

    The result of a point equals that of `deltabook backtest` with its parameters, byte for byte. A failed point is
    reported with its reason, and the others continue. Points are tasks of Spark, or of processes with --jobs.
    """
    from deltabook.backtest.sweep import Sweep, parse_axis

    sweep = Sweep(config_of(strategies, options), [parse_axis(grid) for grid in grids])
    run_and_print(sweep, spark, jobs, directory, keep_results=keep_results, as_json=as_json)

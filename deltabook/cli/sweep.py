"""`deltabook sweep`: a backtest for each point of a grid of parameters, in processes or spread over Spark."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from deltabook.cli._backtest_options import backtest_options, config_of
from deltabook.cli._progress import progress
from deltabook.cli._spark_options import spark_options
from deltabook.cli._tables import print_table
from runtime.spark.config import SparkConfig

if TYPE_CHECKING:
    from deltabook.backtest.sweep import Sweep, SweepResult

__all__ = ["command"]

_SHOWN: Final = 20


@click.command("sweep")
@click.argument("strategies", metavar="STRATEGY...", nargs=-1, required=True)
@click.option(
    "--grid",
    "grids",
    multiple=True,
    required=True,
    metavar="[STRATEGY.]KEY=V,V,…",
    help="Values of a parameter, or FIRST..LAST..STEP; repeatable, all combinations run.",
)
@backtest_options
@spark_options(shards=False)
@click.option("--jobs", type=click.IntRange(1, 64), help="Processes on this machine, instead of Spark.")
@click.option(
    "--out",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the heat map and the points as JSON.",
)
@click.option("--keep-results", is_flag=True, help="Write the result and report of each point to --out too.")
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
    if keep_results and directory is None:
        raise click.UsageError("--keep-results needs --out")
    from deltabook.backtest.grid import parse_axis
    from deltabook.backtest.sweep import Sweep

    sweep = Sweep(config_of(strategies, options), [parse_axis(grid) for grid in grids])
    folder = directory / "points" if directory is not None and keep_results else None
    result = _run(sweep, spark, folder, jobs or 0)
    written = result.write(directory) if directory is not None else []
    if as_json:
        sys.stdout.buffer.write(result.to_json())
        sys.stdout.buffer.flush()
        return
    _print(result)
    for path in written:
        click.echo(str(path))


def _run(sweep: Sweep, spark: SparkConfig, folder: Path | None, jobs: int) -> SweepResult:
    """With a progress bar where somebody sees it."""
    with progress("processes are starting" if jobs else "Spark is starting", len(sweep.points)) as advance:
        return sweep.run(spark, lambda done, _: advance(done, "points"), folder, jobs)


def _print(result: SweepResult) -> None:
    keys = [key for key, _ in result.axes]
    best = result.best
    rows = [[*p.values, p.profit, p.fees, p.max_drawdown, p.orders, p.fills] for p in best[:_SHOWN]]
    title = f"best {min(_SHOWN, len(best))} of {len(result.points)} points, profits in ticks × lots"
    print_table(title, [*keys, "profit", "fees", "max drawdown", "orders", "fills"], rows, left=[])
    for point in result.points:
        if point.error:
            at = " ".join(f"{key}={value}" for key, value in zip(keys, point.values, strict=True))
            click.echo(f"failed: {at}: {point.error}")
    if best:
        dropped = [point.dropped for point in best]
        click.echo(f"records without effect: {min(dropped):,} to {max(dropped):,} of a point")
    click.echo(f"{len(result.points)} points in {result.elapsed_s:.1f} s")

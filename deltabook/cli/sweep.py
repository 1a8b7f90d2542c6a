"""`deltabook sweep`: a backtest for each point of a grid of parameters, in processes or spread over Spark.

A grid of simulations has the same options and the same output.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from deltabook.cli._options import json_option
from deltabook.cli._spark_options import spark_options
from deltabook.cli._terminal import print_table, progress
from deltabook.cli.backtest import backtest_options, config_of
from runtime.spark.config import SparkConfig

if TYPE_CHECKING:
    from deltabook.backtest.sweep import Sweep, SweepResult

__all__ = ["command", "require_grid", "run_and_print", "sweep_options"]

_SHOWN: Final = 20
"""Largest number of points that are printed."""
_BESIDE_GRID: Final = ("jobs", "keep_results")
"""Options that require --grid, in addition to those of Spark."""


def sweep_options(*, required: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds --grid, --jobs, --keep-results and Spark's options, which are passed as ``spark``.

    Without ``required`` the command may be called without a grid.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(
            (
                click.option(
                    "--grid",
                    "grids",
                    multiple=True,
                    required=required,
                    metavar="[STRATEGY.]KEY=V,V,…",
                    help="Values of a parameter, or FIRST..LAST..STEP; repeatable, all combinations run.",
                ),
                spark_options(shards=False),
                click.option("--jobs", type=click.IntRange(1, 64), help="Processes on this machine, instead of Spark."),
                click.option(
                    "--keep-results", is_flag=True, help="Write the result and report of each point to --out too."
                ),
            )
        ):
            command = option(command)
        return command

    return decorate


def require_grid(context: click.Context) -> None:
    """Raise `click.UsageError` if a command line without --grid has an option that requires it."""
    spark = {option.name for option in _parameters_of(spark_options(shards=False))}
    for parameter in context.command.params:
        is_of_grid = parameter.name in spark or parameter.name in _BESIDE_GRID
        if is_of_grid and context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{parameter.opts[0]} needs --grid")


def _parameters_of(decorate: Callable[..., Any]) -> list[click.Parameter]:
    def nothing(**values: Any) -> None:
        del values

    return click.command()(decorate(nothing)).params


def run_and_print(
    sweep: Sweep, spark: SparkConfig, jobs: int | None, directory: Path | None, *, keep_results: bool, as_json: bool
) -> None:
    """Run a sweep, write its files to a directory if one is given, and print the best points, or the result as JSON."""
    if keep_results and directory is None:
        raise click.UsageError("--keep-results needs --out")
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
    """Run a sweep, with a progress bar on a terminal."""
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
@json_option
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
    reported with its reason, and the others continue. Each point is a task of Spark, or with --jobs of a process on
    this machine.
    """
    from deltabook.backtest.grid import parse_axis
    from deltabook.backtest.sweep import Sweep

    sweep = Sweep(config_of(strategies, options), [parse_axis(grid) for grid in grids])
    run_and_print(sweep, spark, jobs, directory, keep_results=keep_results, as_json=as_json)

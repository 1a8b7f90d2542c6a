"""The calls: each checks its inputs, runs in the calling thread, and returns a result."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from deltabook.backtest.backtest import Backtest
from deltabook.backtest.errors import ConfigurationError, StrategyStopped
from deltabook.backtest.replaying import Replay
from deltabook.backtest.result import Result
from deltabook.backtest.sweep import Sweep, SweepResult
from deltabook.notebook.inputs import DataLike, StrategyLike, axes_of, check_counts, data_files
from deltabook.notebook.options import BacktestOptions, configuration, shows_options
from exchange_server.replay import RecordingFormat
from runtime.spark.config import SparkConfig

__all__ = ["replay", "run_backtest", "sweep"]

_MOST_JOBS = 64


@shows_options
def run_backtest(
    strategy: StrategyLike | Sequence[StrategyLike],
    data: DataLike,
    *,
    points: int = 2_000,
    **options: Unpack[BacktestOptions],
) -> Result:
    """Run strategies on recorded order flow and return the result.

    The strategies' orders have the queue positions that they would have had in the recorded market; equal inputs give
    equal results.

    Args:
        strategy: A subclass of `Strategy`, a built-in name, a path to a ``.py`` file, or a list of those.
        data: A recorded file; several files of one symbol, which are concatenated; or ``{symbol: file}``, which are
            merged by time.
        points: Maximum number of samples of the curves.
        options: See `BacktestOptions`.

    Raises:
        ConfigurationError: Data, latency, views or other inputs cannot be used.
        AlgoError: A strategy or a parameter does not exist, or fees cannot be read.
        StrategyStopped: All strategies were stopped before the data ended. Its cause is the error that a strategy
            raised, and its ``result`` is the result up to that moment.

    """
    config, classes = configuration(strategy, data, options, points=points)
    run = Backtest(config, classes=classes)
    result = run.run()
    if result.failure:
        cause = next((host.error for host in run.hosts if host.error is not None), None)
        raise StrategyStopped(f"the backtest ended before its data: {result.failure}", result) from cause
    return result


@shows_options
def sweep(
    strategy: StrategyLike | Sequence[StrategyLike],
    data: DataLike,
    grid: Mapping[str, Iterable[Any]],
    *,
    jobs: int = 1,
    master: str = "",
    folder: str | os.PathLike[str] | None = None,
    on_progress: Callable[[int, int], None] = lambda done, of: None,
    **options: Unpack[BacktestOptions],
) -> SweepResult:
    """Run a backtest for each combination of parameters and return the figures of all points.

    Args:
        strategy: See `run_backtest`. Other processes receive a class by value if it is from a notebook or a script,
            else by the name of its module, which they have to import.
        data: See `run_backtest`.
        grid: ``{parameter: values}``; all combinations run.
        jobs: Number of processes; 1 runs the sweep in this one. A script with more than one job calls `sweep` below
            ``if __name__ == "__main__":``.
        master: ``local[2]``, ``spark://HOST:PORT``, …: the points are tasks on Spark, and ``jobs`` is ignored.
        folder: Folder for the whole result of each point as JSON; None writes none.
        on_progress: Called with the number of finished points and of all points.
        options: See `BacktestOptions`; ``parameters`` are common to all points.

    Raises:
        ConfigurationError: The grid, or another input, cannot be used.
        AlgoError: A strategy does not exist.
        SweepError: No point could be run, or Spark or the processes could not be started.

    """
    if not 1 <= jobs <= _MOST_JOBS:
        raise ConfigurationError(f"expected 1 to {_MOST_JOBS} jobs, was {jobs}")
    config, classes = configuration(strategy, data, options)
    return Sweep(config, axes_of(grid), classes).run(
        SparkConfig(master=master) if master else None,
        on_progress,
        None if folder is None else Path(folder),
        0 if master else jobs,
    )


def replay(
    data: DataLike,
    views: Mapping[str, str] | Sequence[str],
    *,
    epoch_ms: int = 1_000,
    symbol: str = "REPLAY",
    format: RecordingFormat | None = None,  # noqa: A002 - what the command line calls it
    day: str = "",
    tick: str = "",
    limit: int = 0,
    trades_rows: int = 20_000,
    trades_time_s: int = 300,
) -> Replay:
    """Return the epochs of a recording with their changes of SQL views over BIDS, ASKS and TRADES.

    Each iteration plays the recording from its beginning. An `Epoch` is a mapping of the views: ``epoch["spread"]`` has
    the rows that were ``added`` and ``removed`` as Arrow tables, and the full ``result()`` on request.

    Args:
        data: See `run_backtest`.
        views: ``{name: sql}``, or names of views that ship.
        epoch_ms: Length of an epoch in market time.
        symbol, format, day, tick, limit: See `BacktestOptions`.
        trades_rows: Maximum number of rows of TRADES.
        trades_time_s: Maximum age of the rows of TRADES.

    Raises:
        ConfigurationError: Data or SQL cannot be used.

    """
    check_counts(limit=limit, trades_rows=trades_rows, trades_time_s=trades_time_s)
    files = data_files(data, symbol, format, day, tick)
    return Replay(
        files, views, epoch_ms=epoch_ms, limit_records=limit, trades_rows=trades_rows, trades_time_s=trades_time_s
    )

"""One backtest for each point of a grid, spread over a Spark cluster.

A point is a task: its configuration goes there as data, its figures come back, and its whole result is the bytes that
`deltabook backtest` with the same parameters gives. Workers open the files by the same names, from the same directory:
on a cluster they lie on a volume that all have. A point that fails says why, and the others go on.
"""

from __future__ import annotations

import hashlib
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any, Final

import msgspec

from algo_engine.errors import AlgoError
from algo_engine.loader import load_strategies
from deltabook.backtest.backtest import Backtest
from deltabook.backtest.config import BacktestConfig
from deltabook.backtest.errors import BacktestError, SweepError
from deltabook.backtest.grid import Axis, points_of
from runtime.spark.config import SparkConfig
from runtime.spark.errors import SparkLaneError

__all__ = ["Point", "Sweep", "SweepResult", "run_point"]

_POLL_S: Final = 0.1


class Point(msgspec.Struct, frozen=True):
    """What one point gave; money in ticks × lots, over all strategies."""

    number: int
    """From 1, the last axis fastest."""
    values: tuple[str, ...]
    """Of the axes."""
    profit: int = 0
    """After fees."""
    fees: int = 0
    """Paid."""
    max_drawdown: int = 0
    """See `Figures`."""
    orders: int = 0
    """Submitted."""
    fills: int = 0
    """Executions."""
    filled_lots: int = 0
    """Executed."""
    sha256: str = ""
    """Of the point's ``result.json``."""
    error: str = ""
    """Why there are no figures, empty where there are."""


class SweepResult(msgspec.Struct, frozen=True):
    """All points; the same bytes for the same inputs, wherever they were computed."""

    config: BacktestConfig
    """What all points have in common."""
    axes: tuple[Axis, ...]
    """What differs."""
    points: list[Point]
    """In their order."""
    elapsed_s: float = 0.0
    """How long it took; in no file."""

    @property
    def best(self) -> list[Point]:
        """The points by profit, the best first; those that failed are left out."""
        return sorted((p for p in self.points if not p.error), key=lambda p: (-p.profit, p.number))

    def to_json(self) -> bytes:
        """All but how long it took."""
        plain = msgspec.structs.asdict(self)
        del plain["elapsed_s"]
        plain["best"] = [point.number for point in self.best[:10]]
        return msgspec.json.format(msgspec.json.encode(plain, enc_hook=str), indent=1) + b"\n"

    def write(self, directory: Path) -> list[Path]:
        """``sweep.json`` and ``sweep.html``; gives the files."""
        from deltabook.backtest.report import write_sweep_report

        directory.mkdir(parents=True, exist_ok=True)
        path = directory / "sweep.json"
        path.write_bytes(self.to_json())
        return [path, write_sweep_report(directory / "sweep.html", self)]


def run_point(config: BacktestConfig, number: int, values: tuple[str, ...], folder: str = "") -> Point:
    """One backtest; with a folder its whole result and its report are written there.

    Never raises for what a point can do wrong.
    """
    try:
        result = Backtest(config).run()
        # A strategy that was stopped says nothing of its parameters, even where others have gone on.
        stopped = [
            f"{strategy.name} was stopped: {strategy.failure}" for strategy in result.strategies if strategy.failure
        ]
        if result.failure or stopped:
            return Point(number, values, error=result.failure or stopped[0])
        data = result.to_json()
        if folder:
            from deltabook.backtest.report import write_report

            Path(folder, f"{number:05}.json").write_bytes(data)
            write_report(Path(folder, f"{number:05}.html"), result)
    except (BacktestError, AlgoError, OSError, ValueError) as error:
        return Point(number, values, error=" ".join(str(error).split()))
    except Exception as error:  # noqa: BLE001 - a strategy's own code, whatever it raises, ends its point alone
        return Point(number, values, error=f"{type(error).__name__}: {' '.join(str(error).split())}")
    orders = [strategy.orders for strategy in result.strategies]
    return Point(
        number=number,
        values=values,
        profit=result.figures.profit,
        fees=result.figures.fees,
        max_drawdown=result.figures.max_drawdown,
        orders=sum(each.submitted for each in orders),
        fills=sum(each.fills for each in orders),
        filled_lots=sum(each.filled_lots for each in orders),
        sha256=hashlib.sha256(data).hexdigest(),
    )


class Sweep:
    """A grid of backtests; raises `ConfigurationError` for one that has no points or too many."""

    def __init__(self, config: BacktestConfig, axes: Sequence[Axis]) -> None:
        self.config, self.axes = config, tuple(axes)
        self.points = points_of(axes)
        """Values by point."""

    def config_of(self, values: Sequence[str]) -> BacktestConfig:
        """The configuration of a point."""
        own = tuple(f"{key}={value}" for (key, _), value in zip(self.axes, values, strict=True))
        return msgspec.structs.replace(self.config, parameters=(*self.config.parameters, *own))

    def run(
        self,
        spark: SparkConfig | None = None,
        on_progress: Callable[[int, int], None] = lambda done, of: None,
        folder: Path | None = None,
    ) -> SweepResult:
        """Run all points on Spark; ``folder`` gets each point's result as JSON.

        ``on_progress`` hears how many are done, on this thread. Raises `SweepError` if Spark cannot be had, or if every
        point fails.
        """
        begin_s = time.perf_counter()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        self._check_parameters()
        if unseen := _unseen(self.config):
            raise SweepError(f"expected a file at {unseen}, was none")
        target, place = "" if folder is None else str(folder.resolve()), str(Path.cwd())
        tasks = [(self.config_of(values), n, values, target, place) for n, values in enumerate(self.points, 1)]
        points = sorted(_on_spark(tasks, spark or SparkConfig(), on_progress), key=lambda point: point.number)
        if all(point.error for point in points):
            raise SweepError(f"expected a point that can be run, was none: {points[0].error}")
        return SweepResult(self.config, self.axes, points, time.perf_counter() - begin_s)

    def _check_parameters(self) -> None:
        """Raise `SweepError` if no point can have its strategies: before Spark is started, which takes long."""
        reason = ""
        for values in self.points:
            config = self.config_of(values)
            try:
                load_strategies(config.strategies, config.parameters)
            except AlgoError as error:
                reason = reason or str(error)
            else:
                return
        raise SweepError(f"expected a point that can be run, was none: {reason}")


def _unseen(config: BacktestConfig) -> str:
    """The first file of a configuration that is not there; empty if all are."""
    files = [*(data.path for data in config.data), *(Path(name) for name in config.strategies if name.endswith(".py"))]
    return next((str(path) for path in files if not path.is_file()), "")


def _on_spark(
    tasks: Sequence[tuple[Any, ...]], config: SparkConfig, on_progress: Callable[[int, int], None]
) -> list[Point]:
    from runtime.spark.session import start_session, stop_session

    with tempfile.TemporaryDirectory(prefix="deltabook-sweep-") as folder:
        try:
            session = start_session(config, Path(folder))
        except SparkLaneError as error:
            raise SweepError(str(error)) from error
        try:
            context = session.sparkContext
            rows = context.parallelize([msgspec.msgpack.encode(_plain(task)) for task in tasks], len(tasks))
            return _collected(context, rows.map(_task), len(tasks), on_progress)
        finally:
            stop_session(session)


def _plain(task: tuple[Any, ...]) -> tuple[Any, ...]:
    config, *rest = task
    return (msgspec.to_builtins(config, enc_hook=str), *rest)


def _task(data: bytes) -> bytes:
    """On a worker: the point of a task, as bytes."""
    config, number, values, folder, place = msgspec.msgpack.decode(data)
    given = msgspec.convert(config, BacktestConfig, dec_hook=lambda type_, value: type_(value))
    return msgspec.msgpack.encode(_point_at(place, given, number, tuple(values), folder))


def _point_at(place: str, config: BacktestConfig, number: int, values: tuple[str, ...], folder: str) -> Point:
    """A point where the sweep was started, as its files may be named from there; a worker runs a task at a time."""
    try:
        with chdir(place):
            if unseen := _unseen(config):
                return Point(number, values, error=_not_here(unseen))
            if folder and not Path(folder).is_dir():
                return Point(number, values, error=_not_here(folder))
            return run_point(config, number, values, folder)
    except OSError:
        return Point(number, values, error=_not_here(place))


def _not_here(path: str) -> str:
    return (
        f"expected {path} on {socket.gethostname()} under the same name as where the sweep was started, was not there; "
        "a cluster's machines share a volume"
    )


def _collected(context: Any, rows: Any, number: int, on_progress: Callable[[int, int], None]) -> list[Point]:
    """Collect on a thread of its own, as that says nothing before the end, and look how many tasks are done."""
    from pyspark import InheritableThread

    found: list[bytes] = []
    failures: list[Exception] = []

    def collect() -> None:
        try:
            found.extend(rows.collect())
        except Exception as error:  # noqa: BLE001 - whatever Spark raises is said on the caller's thread
            failures.append(error)

    thread: threading.Thread = InheritableThread(target=collect, daemon=True)
    thread.start()
    tracker, done = context.statusTracker(), 0
    while thread.is_alive():
        thread.join(_POLL_S)
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        # A stage that is over is not there any more before the thread knows of it.
        done = max(done, sum(stage.numCompletedTasks for stage in stages if stage is not None))
        on_progress(done, number)
    if failures:
        raise SweepError(f"expected Spark to run {number} points, was {str(failures[0]).splitlines()[0]}")
    on_progress(number, number)
    return [msgspec.msgpack.decode(each, type=Point) for each in found]

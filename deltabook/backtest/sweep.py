"""A backtest or a simulation for each point of a grid: in this process, in several processes, or on a Spark cluster.

A point is a task: its configuration is sent as data, and its figures come back. Its whole result has the same bytes as
that of `deltabook backtest` with the same parameters. Workers open files by the same names, from the same directory, so
on a cluster the files must be on a shared volume. Strategies that are in no file are sent as pickled classes, by value
if they come from a notebook or a script. A point that fails is returned with its error, and the others continue.
"""

from __future__ import annotations

import hashlib
import importlib
import multiprocessing
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import chdir
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, get_args

import msgspec
import pyarrow as pa

from algo_engine.errors import AlgoError
from algo_engine.loader import load_strategies
from algo_engine.strategy import Strategy
from deltabook.backtest.backtest import Backtest
from deltabook.backtest.config import BacktestConfig, RunConfig
from deltabook.backtest.errors import BacktestError, SweepError
from deltabook.backtest.grid import Axis, Point, best_of, points_of
from deltabook.backtest.pickling import pickled_classes, unpickled_classes
from deltabook.backtest.report import sweep_html, write_report, write_sweep_report
from deltabook.backtest.result import Result
from runtime.spark.config import SparkConfig, SparkLaneError
from runtime.spark.requirements import missing_requirement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["BacktestExperiment", "Experiment", "Sweep", "SweepResult", "run_point"]

_POLL_S: Final = 0.1
"""Interval at which the number of Spark's finished tasks is polled, in seconds."""

Classes = Mapping[str, type[Strategy[Any]]]
"""Strategies that are in no file, by name."""


class Experiment(Protocol):
    """Kind of run that a sweep repeats: a backtest or a simulation. Workers import the experiment by the names of its
    module and class.
    """

    config_type: type[Any]
    """Class of its configurations, which have ``strategies`` and ``parameters``."""

    @staticmethod
    def run(config: Any, classes: Classes) -> Result:
        """Run a configuration once; an error that is raised fails only this point of the sweep."""
        ...

    @staticmethod
    def at(config: Any, values: Sequence[tuple[str, str]]) -> Any:
        """Return the configuration with these values of the axes."""
        ...

    @staticmethod
    def files(config: Any) -> list[Path]:
        """Return the files that a worker needs."""
        ...


class BacktestExperiment:
    """A backtest; the axes are parameters of its strategies."""

    config_type = BacktestConfig

    @staticmethod
    def run(config: BacktestConfig, classes: Classes) -> Result:
        """See `Experiment.run`."""
        return Backtest(config, classes=classes).run()

    @staticmethod
    def at(config: BacktestConfig, values: Sequence[tuple[str, str]]) -> BacktestConfig:
        """See `Experiment.at`."""
        own = tuple(f"{key}={value}" for key, value in values)
        return msgspec.structs.replace(config, parameters=(*config.parameters, *own))

    @staticmethod
    def files(config: BacktestConfig) -> list[Path]:
        """See `Experiment.files`."""
        return [path for data in config.data for path in (data.path, data.orderbook, data.trades) if path is not None]


class SweepResult(msgspec.Struct, frozen=True):
    """All points of a sweep; equal inputs give equal bytes, wherever the points were computed."""

    config: RunConfig
    """Configuration that all points share."""
    axes: tuple[Axis, ...]
    """Parameters that differ, with their values."""
    points: list[Point]
    """Points in the order of their numbers."""
    elapsed_s: float = 0.0
    """Duration of the sweep in seconds; it is in no file."""

    @property
    def best(self) -> list[Point]:
        """Points sorted by profit, the best first; failed ones are left out."""
        return best_of(self.points)

    def parameters_of(self, point: Point) -> dict[str, str]:
        """Return the values of a point by parameter, as `deltabook.run_backtest` takes them."""
        return {key: value for (key, _), value in zip(self.axes, point.values, strict=True)}

    def to_arrow(self) -> pa.Table:
        """Return a row for each point: the values of the axes, as texts, and its figures, NULL if it failed."""
        columns = {
            key: pa.array([point.values[place] for point in self.points], pa.string())
            for place, (key, _) in enumerate(self.axes)
        }
        for field in msgspec.structs.fields(Point):
            if field.name == "values":
                continue
            is_text = field.type is str
            values = [
                None if point.error and field.name not in {"number", "error"} else getattr(point, field.name)
                for point in self.points
            ]
            is_float = float in get_args(field.type)
            columns[field.name] = pa.array(values, pa.string() if is_text else pa.float64() if is_float else pa.int64())
        return pa.table(columns)

    def plot(self, figure: str = "profit", across: str = "", down: str = "") -> Figure:
        """Draw a figure of the points over the parameters ``across`` and ``down``, by default the first two; if only
        ``across`` is given, over that parameter alone.

        Of points that differ only in other parameters, the best value is shown. Raise `PlottingError` if matplotlib
        is not installed, and `ConfigurationError` for an unknown figure or parameter.
        """
        from deltabook.backtest.plotting import sweep_plot

        return sweep_plot(self.axes, self.points, figure, across, down)

    def _repr_html_(self) -> str:
        return sweep_html(self.axes, self.points)

    def to_json(self) -> bytes:
        """Return everything except the duration as JSON."""
        plain = msgspec.structs.asdict(self)
        del plain["elapsed_s"]
        plain["best"] = [point.number for point in self.best[:10]]
        return msgspec.json.format(msgspec.json.encode(plain, enc_hook=str), indent=1) + b"\n"

    def write(self, directory: Path) -> list[Path]:
        """Write ``sweep.json`` and ``sweep.html``; return their paths."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / "sweep.json"
        path.write_bytes(self.to_json())
        return [path, write_sweep_report(directory / "sweep.html", self.config.strategies, self.axes, self.points)]


def run_point(
    config: Any,
    number: int,
    values: tuple[str, ...],
    folder: str = "",
    classes: Classes = MappingProxyType({}),
    *,
    experiment: type[Experiment] = BacktestExperiment,
) -> Point:
    """Run one point; with a folder, write its whole result and its report there.

    An error of the point is returned in the point's record, not raised.
    """
    try:
        result = experiment.run(config, classes)
        # A stopped strategy gives no information about its parameters, even if others have continued.
        stopped = [
            f"{strategy.name} was stopped: {strategy.failure}" for strategy in result.strategies if strategy.failure
        ]
        if result.failure or stopped:
            return Point(number, values, error=result.failure or stopped[0])
        data = result.to_json()
        if folder:
            Path(folder, f"{number:05}.json").write_bytes(data)
            write_report(Path(folder, f"{number:05}.html"), result)
    except (BacktestError, AlgoError, OSError, ValueError) as error:
        return Point(number, values, error=" ".join(str(error).split()))
    except Exception as error:  # noqa: BLE001 - an error of a strategy ends only its point
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
        dropped=sum(result.figures.dropped.values()),
        sharpe=result.statistics.total.sharpe,
        sha256=hashlib.sha256(data).hexdigest(),
    )


class Sweep:
    """A grid of backtests, or of another experiment; raises `ConfigurationError` for no points or too many.

    ``classes`` are the strategies of the configuration that are in no file, by name.
    """

    def __init__(
        self,
        config: Any,
        axes: Sequence[Axis],
        classes: Classes = MappingProxyType({}),
        experiment: type[Experiment] = BacktestExperiment,
    ) -> None:
        self.config, self.axes, self._classes = config, tuple(axes), dict(classes)
        self._experiment = experiment
        self.points = points_of(axes)
        """Values of the axes, by point."""

    def config_of(self, values: Sequence[str]) -> Any:
        """Return the configuration of a point; raise the experiment's error for impossible values."""
        return self._experiment.at(
            self.config, [(key, value) for (key, _), value in zip(self.axes, values, strict=True)]
        )

    def run(
        self,
        spark: SparkConfig | None = None,
        on_progress: Callable[[int, int], None] = lambda done, of: None,
        folder: Path | None = None,
        jobs: int = 0,
    ) -> SweepResult:
        """Run all points in ``jobs`` processes (1: in this process; 0: on Spark).

        ``folder`` receives each point's result as JSON and its report. ``on_progress`` is called on this thread with
        the numbers of finished points and of all points. Raise `SweepError` if Spark or processes cannot be started, or
        if every point fails.
        """
        begin_s = time.perf_counter()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        self._check_parameters()
        if missing := _missing_file(self.config, self._experiment):
            raise SweepError(f"expected a file at {missing}, was none")
        target, place = "" if folder is None else str(folder.resolve()), str(Path.cwd())
        tasks = [(self.config_of(values), n, values, target, place) for n, values in enumerate(self.points, 1)]
        unordered = self._run_tasks(tasks, spark or SparkConfig(), on_progress, jobs)
        points = sorted(unordered, key=lambda point: point.number)
        if all(point.error for point in points):
            raise SweepError(f"expected a point that can be run, was none: {points[0].error}")
        return SweepResult(self.config, self.axes, points, time.perf_counter() - begin_s)

    def _run_tasks(
        self,
        tasks: Sequence[tuple[Any, ...]],
        spark: SparkConfig,
        on_progress: Callable[[int, int], None],
        jobs: int,
    ) -> list[Point]:
        if jobs == 1:
            return _in_this_process(tasks, self._classes, self._experiment, on_progress)
        pickled = pickled_classes(self._classes)
        name = f"{self._experiment.__module__}:{self._experiment.__qualname__}"
        encoded = [msgspec.msgpack.encode(_plain((*task, pickled, name))) for task in tasks]
        if jobs:
            return _in_processes(encoded, jobs, on_progress)
        return _on_spark(encoded, spark, on_progress)

    def _check_parameters(self) -> None:
        """Raise `SweepError` if no point has valid parameters: before Spark is started, which takes long."""
        reason = ""
        for values in self.points:
            config = self.config_of(values)
            if not config.strategies:
                return
            try:
                load_strategies((self._classes.get(name, name) for name in config.strategies), config.parameters)
            except AlgoError as error:
                reason = reason or str(error)
            else:
                return
        raise SweepError(f"expected a point that can be run, was none: {reason}")


def _missing_file(config: Any, experiment: type[Experiment]) -> str:
    """Return the first missing file of a configuration; empty if none is missing."""
    files = [*experiment.files(config), *(Path(name) for name in config.strategies if name.endswith(".py"))]
    return next((str(path) for path in files if not path.exists()), "")


def _in_this_process(
    tasks: Sequence[tuple[Any, ...]],
    classes: Classes,
    experiment: type[Experiment],
    on_progress: Callable[[int, int], None],
) -> list[Point]:
    points = []
    for config, number, values, folder, _ in tasks:
        points.append(run_point(config, number, values, folder, classes, experiment=experiment))
        on_progress(len(points), len(tasks))
    return points


def _in_processes(tasks: Sequence[bytes], jobs: int, on_progress: Callable[[int, int], None]) -> list[Point]:
    """Run tasks in spawned processes; a forked process would inherit locks held by threads that it does not
    have.
    """
    points: list[Point] = []
    pool = ProcessPoolExecutor(min(jobs, len(tasks)), mp_context=multiprocessing.get_context("spawn"))
    try:
        for done in as_completed([pool.submit(_task, task) for task in tasks]):
            points.append(msgspec.msgpack.decode(done.result(), type=Point))
            on_progress(len(points), len(tasks))
    except BrokenProcessPool as error:
        raise SweepError(
            "expected the processes of the sweep to run to its end, was a process that ended; a script that starts "
            'a sweep does so below `if __name__ == "__main__":`'
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)
    return points


def _on_spark(tasks: Sequence[bytes], config: SparkConfig, on_progress: Callable[[int, int], None]) -> list[Point]:
    if missing := missing_requirement(os.environ):
        raise SweepError(missing)
    from runtime.spark.session import start_session, stop_session

    with tempfile.TemporaryDirectory(prefix="deltabook-sweep-") as folder:
        try:
            session = start_session(config, Path(folder))
        except SparkLaneError as error:
            raise SweepError(str(error)) from error
        try:
            context = session.sparkContext
            rows = context.parallelize(list(tasks), len(tasks))
            return _collected(context, rows.map(_task), len(tasks), on_progress)
        finally:
            stop_session(session)


def _plain(task: tuple[Any, ...]) -> tuple[Any, ...]:
    config, *rest = task
    return (msgspec.to_builtins(config, enc_hook=str), *rest)


def _task(data: bytes) -> bytes:
    """Run a task on a worker; return its point as bytes."""
    config, number, values, folder, place, pickled, name = msgspec.msgpack.decode(data)
    experiment = _experiment_named(name)
    given = msgspec.convert(config, experiment.config_type, dec_hook=lambda type_, value: type_(value))
    point = _point_at(place, given, number, tuple(values), folder, unpickled_classes(pickled), experiment)
    return msgspec.msgpack.encode(point)


def _experiment_named(name: str) -> type[Experiment]:
    module, _, attribute = name.partition(":")
    experiment: type[Experiment] = getattr(importlib.import_module(module), attribute)
    return experiment


def _point_at(  # noqa: PLR0917 - the parts of a task
    place: str,
    config: Any,
    number: int,
    values: tuple[str, ...],
    folder: str,
    classes: Classes,
    experiment: type[Experiment],
) -> Point:
    """Run a point in the directory where the sweep was started, since paths may be relative to it; a worker runs one
    task at a time.
    """
    try:
        with chdir(place):
            if missing := _missing_file(config, experiment):
                return Point(number, values, error=_not_here(missing))
            if folder and not Path(folder).is_dir():
                return Point(number, values, error=_not_here(folder))
            return run_point(config, number, values, folder, classes, experiment=experiment)
    except OSError:
        return Point(number, values, error=_not_here(place))


def _not_here(path: str) -> str:
    return (
        f"expected {path} on {socket.gethostname()} under the same name as where the sweep was started, was not there; "
        "a cluster's machines share a volume"
    )


def _collected(context: Any, rows: Any, number: int, on_progress: Callable[[int, int], None]) -> list[Point]:
    """Collect the points on a separate thread, and poll the number of finished tasks on this one, since Spark's
    ``collect`` reports no progress.
    """
    from pyspark import InheritableThread

    collected: list[bytes] = []
    failures: list[Exception] = []

    def collect() -> None:
        try:
            collected.extend(rows.collect())
        except Exception as error:  # noqa: BLE001 - every error of Spark is raised on the caller's thread
            failures.append(error)

    thread: threading.Thread = InheritableThread(target=collect, daemon=True)
    thread.start()
    tracker, done = context.statusTracker(), 0
    while thread.is_alive():
        thread.join(_POLL_S)
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        # A finished stage disappears before the collecting thread notices.
        done = max(done, sum(stage.numCompletedTasks for stage in stages if stage is not None))
        on_progress(done, number)
    if failures:
        raise SweepError(f"expected Spark to run {number} points, was {str(failures[0]).splitlines()[0]}")
    on_progress(number, number)
    return [msgspec.msgpack.decode(each, type=Point) for each in collected]

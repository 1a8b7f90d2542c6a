"""Functions that `import deltabook` offers a notebook or a script: backtests, simulations, sweeps and replays.

```
run_backtest ─┬─ arguments ─▶ BacktestConfig ─▶ Backtest ─▶ Result: tables, statistics, plot
sweep ────────┤                            └──▶ Sweep, in processes or on Spark ─▶ SweepResult
replay ───────┤            ─▶ Replay ─▶ Epoch
simulate ─────┘            ─▶ SimulationConfig ─▶ Simulation ─▶ Result
```

A call runs in the calling thread; only the points of a sweep with several jobs or on Spark run elsewhere. No reactor is
started, so a call can be repeated in one process. Inputs are checked before anything runs: errors are a
`BacktestError`, or an `AlgoError` for strategies and their parameters.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, TypedDict, TypeVar, Unpack

from algo_engine.errors import StrategyNotFound
from algo_engine.loader import load_strategies
from algo_engine.strategy import Strategy
from deltabook.backtest.backtest import Backtest
from deltabook.backtest.config import BacktestConfig, DataFile
from deltabook.backtest.errors import ConfigurationError
from deltabook.backtest.grid import Axis
from deltabook.backtest.replaying import Replay
from deltabook.backtest.result import Result, StrategyStopped
from deltabook.backtest.sweep import Sweep, SweepResult
from deltabook.backtest.views import BacktestViews, find_views, named_sql
from deltabook.simulation import Simulation, SimulationConfig
from deltabook.simulation.simulation import SimulationExperiment
from deltabook.wire.symbols import Instrument
from exchange_server.config import DEFAULT_INSTRUMENTS
from exchange_server.replay import SCALES, RecordingFormat
from runtime.spark.config import SparkConfig

__all__ = ["BacktestOptions", "replay", "run_backtest", "simulate", "sweep", "sweep_simulations"]


StrategyLike: TypeAlias = str | os.PathLike[str] | type[Strategy[Any]]
"""Strategy: a built-in name, a path to a file, or a class."""
DataLike: TypeAlias = (
    str
    | os.PathLike[str]
    | DataFile
    | Sequence[str | os.PathLike[str] | DataFile]
    | Mapping[str, str | os.PathLike[str]]
)
"""Data: a recorded file, several, or files by the symbol that they play."""


def strategies_of(
    given: StrategyLike | Sequence[StrategyLike],
) -> tuple[tuple[str, ...], dict[str, type[Strategy[Any]]]]:
    """Return the names of strategies for a configuration, and the strategies that are classes, by name.

    Raises `StrategyNotFound` for a value that is not a strategy, and for a name that occurs twice.

    >>> strategies_of(["market_maker", Strategy])
    (('market_maker', 'Strategy'), {'Strategy': <class 'algo_engine.strategy.Strategy'>})
    """
    several: Sequence[Any] = given if isinstance(given, (list, tuple)) else [given]
    names: list[str] = []
    classes: dict[str, type[Strategy[Any]]] = {}
    for each in several:
        if isinstance(each, (str, os.PathLike)):
            names.append(os.fspath(each))
        else:
            (loaded,) = load_strategies([each])
            classes[loaded.name] = each
            names.append(loaded.name)
    if not names or len(set(names)) != len(names):
        raise StrategyNotFound(f"expected strategies with different names, was {', '.join(names) or 'none'}")
    return tuple(names), classes


def data_files(given: DataLike, symbol: str, form: RecordingFormat | None, day: str, tick: str) -> tuple[DataFile, ...]:
    """Return the files of a configuration; those without a symbol of their own play ``symbol``.

    Raises `ConfigurationError` for a missing file, for a value that names no file, and for an unknown format.
    """
    if form is not None and form not in SCALES:
        raise ConfigurationError(f"expected one of the formats {', '.join(SCALES)}, was {form!r}")
    if isinstance(given, Mapping):
        pairs: list[tuple[str, Any]] = [(str(name), path) for name, path in given.items()]
    elif isinstance(given, (str, os.PathLike, DataFile)):
        pairs = [(symbol, given)]
    elif isinstance(given, Iterable):
        pairs = [(symbol, path) for path in given]
    else:
        raise ConfigurationError(f"expected a recorded file, or several, was {given!r}")
    files = []
    for name, path in pairs:
        if not isinstance(path, (str, os.PathLike, DataFile)):
            raise ConfigurationError(f"expected a path to a recorded file, was {path!r}")
        file = path if isinstance(path, DataFile) else DataFile(Path(path), form or "", name, day, tick)
        if not (file.path.is_file() or any(file.path.glob("day=*"))):
            raise ConfigurationError(f"expected a recorded file, was nothing at {file.path}")
        files.append(file)
    return tuple(files)


def checked_views(views: Mapping[str, str] | None) -> dict[str, str]:
    """Return views by their names in lower case; raise `ConfigurationError` for SQL that cannot be used."""
    given = named_sql(views or {})
    if given:
        BacktestViews(find_views(list(given), given))
    return given


def check_counts(**counts: int) -> None:
    """Raise `ConfigurationError`, which names the option, for a negative number."""
    for name, value in counts.items():
        if value < 0:
            raise ConfigurationError(f"expected {name} of 0 or more, was {value}")


def parameter_texts(given: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return parameters as a command line has them.

    >>> parameter_texts({"factor": 1.5, "symbols": ("A", "B"), "limits": {"A": 3}, "is_passive": True})
    ('factor=1.5', 'symbols=A,B', 'limits=A:3', 'is_passive=true')
    """
    return tuple(f"{key}={_text(key, value)}" for key, value in (given or {}).items())


def axes_of(grid: Any) -> list[Axis]:
    """Return the axes of a grid; raise `ConfigurationError` for an axis without values or with equal values.

    >>> axes_of({"interval_ms": range(50, 151, 50)})
    [('interval_ms', ('50', '100', '150'))]
    """
    if not (isinstance(grid, Mapping) and grid):
        raise ConfigurationError(f"expected a grid as in {{parameter: [values]}}, was {grid!r}")
    axes: list[Axis] = []
    for key, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise ConfigurationError(f"expected values of {key}, as in [1, 2, 4], was {values!r}")
        texts = tuple(_text(key, value) for value in values)
        if not texts or len(set(texts)) != len(texts):
            raise ConfigurationError(f"expected different values of {key}, was {', '.join(texts) or 'none'}")
        axes.append((key, texts))
    return axes


def _text(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return ",".join(f"{name}:{_text(key, each)}" for name, each in value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return ",".join(_text(key, each) for each in value)
    if value is None or callable(value):
        raise ConfigurationError(f"expected a value of the parameter {key}, was {value!r}")
    return str(value)


F = TypeVar("F", bound=Callable[..., Any])


class BacktestOptions(TypedDict, total=False):
    """Keyword arguments of `run_backtest` and `sweep`."""

    parameters: Mapping[str, Any] | None
    """``{field: value}`` of one strategy, or ``{"strategy.field": value}``; ``risk.field`` sets a limit."""
    latency: str
    """``zero``, ``fixed:feed=100us,order=50us,answer=50us``, ``normal:…``, ``lognormal:…``, ``distance:…`` or
    ``file:PATH``.
    """
    fees: str
    """``maker=-20,taker=50`` in millionths of the notional, or a TOML file; empty for none."""
    views: Mapping[str, str] | None
    """``{name: sql}`` of views that strategies read in addition to those that ship."""
    symbol: str
    """Symbol of files that contain none; for ITCH, the stocks that are replayed, as in ``A,B``."""
    format: RecordingFormat | None
    """One of `exchange_server.replay.opening.RecordingFormat`, such as ``lobster``; None detects it."""
    day: str
    """Day, as in 2012-06-21, from whose midnight the times of the files count."""
    tick: str
    """Price of one tick, such as ``0.01``; empty for the smallest price of the format."""
    seed: int
    """Seed of random latencies."""
    step_us: int
    """Microseconds of market time between updates of the views; 0 updates them after every request."""
    warm_up: int
    """Number of records that build the books before the strategies start."""
    limit: int
    """Maximum number of records; 0 plays all."""


_DEFAULTS: Final[BacktestOptions] = {
    "parameters": None,
    "latency": "zero",
    "fees": "",
    "views": None,
    "symbol": "REPLAY",
    "format": None,
    "day": "",
    "tick": "",
    "seed": 1,
    "step_us": 0,
    "warm_up": 0,
    "limit": 0,
}


def configuration(
    strategy: StrategyLike | Sequence[StrategyLike], data: DataLike, options: BacktestOptions, **others: int
) -> tuple[BacktestConfig, dict[str, type[Strategy[Any]]]]:
    """Return the configuration of a call, and those of its strategies that are classes, by name.

    ``others`` are further fields of `BacktestConfig`. Raises `TypeError` for an unknown option, and the errors of
    `run_backtest`.
    """
    unknown = ", ".join(options.keys() - _DEFAULTS.keys())
    if unknown:
        raise TypeError(f"expected keyword arguments out of {', '.join(_DEFAULTS)}, was {unknown}")
    values: BacktestOptions = {**_DEFAULTS, **options}
    check_counts(step_us=values["step_us"], warm_up=values["warm_up"], limit=values["limit"])
    names, classes = strategies_of(strategy)
    config = BacktestConfig(
        strategies=names,
        data=data_files(data, values["symbol"], values["format"], values["day"], values["tick"]),
        parameters=parameter_texts(values["parameters"]),
        views=checked_views(values["views"]),
        latency=values["latency"],
        seed=values["seed"],
        step_us=values["step_us"],
        fees=values["fees"],
        warm_up_records=values["warm_up"],
        limit_records=values["limit"],
        **others,
    )
    return config, classes


def shows_options(call: F) -> F:
    """Make `help` and a notebook's tooltip show each option instead of ``**options``.

    >>> str(inspect.signature(shows_options(lambda data, **options: None)))[:61]
    "(data, *, parameters: 'Mapping[str, Any] | None' = None, late"
    """
    signature = inspect.signature(call)
    own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    kinds = BacktestOptions.__annotations__
    shared = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=getattr(kinds[name], "__forward_arg__", ""),
        )
        for name, default in _DEFAULTS.items()
    ]
    call.__signature__ = signature.replace(parameters=[*own, *shared])  # type: ignore[attr-defined]
    return call


_MOST_JOBS = 64
"""Largest number of processes of a sweep."""


@shows_options
def run_backtest(
    strategy: StrategyLike | Sequence[StrategyLike],
    data: DataLike,
    *,
    points: int = 2_000,
    **options: Unpack[BacktestOptions],
) -> Result:
    """Run strategies on recorded order flow and return the result.

    On data with every order (L3), the strategies' orders have the queue positions that they would have had in the
    recorded market; on other data the queue positions are modelled. Equal inputs give equal results.

    Args:
        strategy: A subclass of `Strategy`, a built-in name, a path to a ``.py`` file, or a list of these.
        data: A recorded file; several files of one symbol, which are concatenated; or ``{symbol: file}``, which are
            merged by time.
        points: Maximum number of samples of the curves.
        options: See `BacktestOptions`.

    Raises:
        ConfigurationError: Data, latency, views or other inputs cannot be used.
        AlgoError: A strategy or a parameter does not exist, or fees cannot be read.
        StrategyStopped: All strategies were stopped before the data ended. The cause of this error is the error that a
            strategy raised, and ``result`` is the result up to that moment.

    """
    config, classes = configuration(strategy, data, options, points=points)
    run = Backtest(config, classes=classes)
    return _whole(run.run(), run, "the backtest ended before the end of its data")


def _whole(result: Result, run: Backtest | Simulation, problem: str) -> Result:
    """Return a result; raise `StrategyStopped` if all strategies were stopped before the end of the run."""
    if result.failure:
        cause = next((host.error for host in run.hosts if host.error is not None), None)
        raise StrategyStopped(f"{problem}: {result.failure}", result) from cause
    return result


def simulate(
    strategy: StrategyLike | Sequence[StrategyLike] = (),
    *,
    hours: float = 6.5,
    seed: int = 1,
    agents: str = "day",
    settings: Mapping[str, Any] | None = None,
    rate_per_s: float = 160.0,
    agent_delay: str = "0us",
    instruments: Sequence[Instrument] = DEFAULT_INSTRUMENTS[:1],
    opening_s: float = 0.0,
    closing_s: float = 0.0,
    halts: Sequence[str] = (),
    collar_bps: int = 0,
    start: str = "2026-01-05T09:30:00",
    warm_up_s: float = 0.0,
    parameters: Mapping[str, Any] | None = None,
    latency: str | Mapping[str, str] = "zero",
    compute: str | Mapping[str, str] = "0us",
    fees: str = "",
    views: Mapping[str, str] | None = None,
    step_us: int = 0,
    directory: str | os.PathLike[str] | None = None,
    points: int = 2_000,
    on_progress: Callable[[float, float], None] = lambda done_s, of_s: None,
) -> Result:
    """Run strategies, or none, in a market of background agents that react to them, and return the result.

    The agents, the matching and the phases of the day are those of the live exchange; the same inputs give the same
    result.

    Args:
        strategy: See `run_backtest`; several compete in one market.
        hours: Length of continuous trading in hours of market time.
        seed: Seed of the agents and of random latencies.
        agents: ``day``, ``calibrated``, ``lively``, ``calm``, a JSON file of settings, or ``none``.
        settings: ``{"noise.market": 0.1}``: single settings of the agents that replace the preset's.
        rate_per_s: Requests per second of all agents together.
        agent_delay: Time from the moment at which the agents read the books to the arrival of their requests, as in
            ``1ms``.
        instruments: Instruments that are traded.
        opening_s, closing_s: Seconds of the auctions before and after the hours; 0: none.
        halts: Halts of trading, ``[SYMBOL:]AT+TIME[+AUCTION]`` as in ``2h+5m+30s``.
        collar_bps: Largest distance of executions from the reference price, in basis points; 0: any distance.
        start: Market time of the beginning, in UTC.
        warm_up_s: Seconds of market time that pass before strategies connect.
        parameters, fees, step_us, points: See `run_backtest`.
        latency: A model for all strategies, see `run_backtest`, or ``distance:1200km~20us``; or ``{strategy: model}``.
        compute: Time that a strategy takes for each event, as in ``20us``; or ``{strategy: time}``.
        views: ``{name: sql}`` of views that strategies read in addition to those that ship.
        directory: New directory for the journal and the feed of the exchange; None: nothing is written.
        on_progress: Called with the seconds of market time that have passed, and with their total.

    Raises:
        ConfigurationError: An input cannot be used.
        AlgoError: There is no such strategy or parameter, or fees cannot be read.
        StrategyStopped: All strategies were stopped before the end of the day; see `run_backtest`.
        SimulationError: The journal cannot be written.
    """
    config, classes = _simulation_of(
        strategy,
        hours=hours,
        seed=seed,
        agents=agents,
        settings=settings,
        rate_per_s=rate_per_s,
        agent_delay=agent_delay,
        instruments=instruments,
        opening_s=opening_s,
        closing_s=closing_s,
        halts=halts,
        collar_bps=collar_bps,
        start=start,
        warm_up_s=warm_up_s,
        parameters=parameters,
        latency=latency,
        compute=compute,
        fees=fees,
        views=views,
        step_us=step_us,
        points=points,
    )
    run = Simulation(config, directory=None if directory is None else Path(directory), classes=classes)
    return _whole(run.run(on_progress), run, "the simulation ended before the end of its day")


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
        strategy: See `run_backtest`. A class from a notebook or a script is sent to other processes by value. Any
            other class is sent by name, and the processes have to import its module.
        data: See `run_backtest`.
        grid: ``{parameter: values}``; all combinations run.
        jobs: Number of processes; 1 runs the sweep in this process. A script with more than one job calls `sweep` below
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
    _check_jobs(jobs)
    config, classes = configuration(strategy, data, options)
    return _run_sweep(Sweep(config, axes_of(grid), classes), jobs, master, folder, on_progress)


def sweep_simulations(
    strategy: StrategyLike | Sequence[StrategyLike],
    grid: Mapping[str, Iterable[Any]],
    *,
    jobs: int = 1,
    master: str = "",
    folder: str | os.PathLike[str] | None = None,
    on_progress: Callable[[int, int], None] = lambda done, of: None,
    **market: Any,
) -> SweepResult:
    """Run a simulation for each point of a grid and return the figures of all points.

    Args:
        strategy: See `simulate`; ``()`` for the agents alone.
        grid: ``{axis: values}``; all combinations run. An axis is ``seed``, ``hours``, ``agents``, ``rate``,
            ``agent_delay``, ``collar_bps``, ``latency``, ``compute``, ``step_us`` or a setting of the agents such as
            ``agents.noise.market``. Any other name is a parameter of a strategy.
        jobs, master, folder, on_progress: See `sweep`.
        market: Inputs that all points share: see `simulate`.

    Raises:
        ConfigurationError: The grid, or another input, cannot be used.
        AlgoError: There is no such strategy.
        SweepError: No point could be run, or Spark or the processes could not be started.

    """
    _check_jobs(jobs)
    config, classes = _simulation_of(strategy, **market)
    points = Sweep(config, axes_of(grid), classes, SimulationExperiment)
    return _run_sweep(points, jobs, master, folder, on_progress)


def _check_jobs(jobs: int) -> None:
    if not 1 <= jobs <= _MOST_JOBS:
        raise ConfigurationError(f"expected 1 to {_MOST_JOBS} jobs, was {jobs}")


def _run_sweep(
    points: Sweep,
    jobs: int,
    master: str,
    folder: str | os.PathLike[str] | None,
    on_progress: Callable[[int, int], None],
) -> SweepResult:
    """Run a sweep in ``jobs`` processes, or on Spark if there is a ``master``."""
    return points.run(
        SparkConfig(master=master) if master else None,
        on_progress,
        None if folder is None else Path(folder),
        0 if master else jobs,
    )


def _simulation_of(
    strategy: StrategyLike | Sequence[StrategyLike],
    *,
    settings: Mapping[str, Any] | None = None,
    instruments: Sequence[Instrument] = DEFAULT_INSTRUMENTS[:1],
    halts: Sequence[str] = (),
    parameters: Mapping[str, Any] | None = None,
    latency: str | Mapping[str, str] = "zero",
    compute: str | Mapping[str, str] = "0us",
    views: Mapping[str, str] | None = None,
    step_us: int = 0,
    **others: Any,
) -> tuple[SimulationConfig, dict[str, type[Strategy[Any]]]]:
    """Return the configuration for a simulation's inputs, and those of its strategies that are classes, by name."""
    check_counts(step_us=step_us)
    names, classes = strategies_of(strategy) if strategy else ((), {})
    if unknown := sorted(set(others) - set(SimulationConfig.__struct_fields__)):
        raise ConfigurationError(f"expected inputs that a simulation has, was {', '.join(unknown)}")
    config = SimulationConfig(
        strategies=names,
        settings=parameter_texts(settings),
        instruments=tuple(instruments),
        halts=tuple(halts),
        parameters=parameter_texts(parameters),
        views=checked_views(views),
        latency=latency if isinstance(latency, str) else "zero",
        latencies={} if isinstance(latency, str) else dict(latency),
        compute=compute if isinstance(compute, str) else "0us",
        computes={} if isinstance(compute, str) else dict(compute),
        step_us=step_us,
        **others,
    )
    return config, classes


def replay(
    data: DataLike,
    views: Mapping[str, str] | Sequence[str],
    *,
    epoch_ms: int = 1_000,
    symbol: str = "REPLAY",
    format: RecordingFormat | None = None,  # noqa: A002 - the name of the command line's option
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

"""Arguments of the calls, turned into configurations: strategies, data, parameters, grids, and shared options."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, TypedDict, TypeVar

from algo_engine.errors import StrategyNotFound
from algo_engine.loader import load_strategies
from algo_engine.strategy import Strategy
from deltabook.backtest.config import BacktestConfig, DataFile
from deltabook.backtest.errors import ConfigurationError
from deltabook.backtest.grid import Axis
from deltabook.backtest.views import BacktestViews, find_views, named_sql
from exchange_server.replay import SCALES, RecordingFormat

__all__ = [
    "BacktestOptions",
    "DataLike",
    "StrategyLike",
    "axes_of",
    "check_counts",
    "checked_views",
    "configuration",
    "data_files",
    "parameter_texts",
    "shows_options",
    "strategies_of",
]

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
    """Return the names of strategies for a configuration, and those of them that are classes.

    Raises `StrategyNotFound` for anything else, and for a name that occurs twice.

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
    """Raise `ConfigurationError` for a negative number."""
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
    """Return the axes of a grid; raise `ConfigurationError` for an axis without values or with equal ones.

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
    """Day (2012-06-21) whose midnight the times of the files count from."""
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
    """Return the configuration of a call, and those of its strategies that are classes.

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

"""Options that `run_backtest` and `sweep` share: their names, types, meanings and default values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypedDict, TypeVar

from algo_engine.strategy import Strategy
from deltabook.backtest.config import BacktestConfig
from deltabook.notebook.inputs import (
    DataLike,
    StrategyLike,
    check_counts,
    checked_views,
    data_files,
    parameter_texts,
    strategies_of,
)
from exchange_server.replay import RecordingFormat

__all__ = ["BacktestOptions", "configuration", "shows_options"]

F = TypeVar("F", bound=Callable[..., Any])


class BacktestOptions(TypedDict, total=False):
    """Keyword arguments of `run_backtest` and `sweep`."""

    parameters: Mapping[str, Any] | None
    """``{field: value}`` of one strategy, or ``{"strategy.field": value}``; ``risk.field`` sets a limit."""
    latency: str
    """``zero``, ``fixed:feed=100us,order=50us,answer=50us``, ``normal:…``, ``lognormal:…`` or ``file:PATH``."""
    fees: str
    """``maker=-20,taker=50`` in millionths of the notional, or a TOML file; empty for none."""
    views: Mapping[str, str] | None
    """``{name: sql}`` of views that strategies read in addition to those that ship."""
    symbol: str
    """Symbol of files that contain none; for ITCH the stocks that are replayed, ``A,B``."""
    format: RecordingFormat | None
    """``dbtoaster``, ``bitstamp``, ``lobster`` or ``itch``; None detects it."""
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
    """Have `help` and a notebook's tooltip show each of the options in place of ``**options``.

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

"""Finds strategies by name, file or class, and parses ``NAME.field=value`` into their typed parameters.

The name may be left out, as ``field=value``, if there is one strategy.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final, get_origin

import msgspec

from algo_engine.desk.risk import RiskLimits
from algo_engine.errors import ParameterError, StrategyNotFound
from algo_engine.strategy import Strategy
from deltabook.wire.advice import did_you_mean

__all__ = ["BUILT_IN", "LoadedStrategy", "load_strategies"]

BUILT_IN: Final = {
    "market_maker": "algo_engine.strategies.market_maker",
    "market_players": "algo_engine.strategies.market_players",
    "sobi": "algo_engine.strategies.sobi",
    "timed_sobi": "algo_engine.strategies.timed_sobi",
    "volatile_sobi": "algo_engine.strategies.volatile_sobi",
}
_RISK: Final = "risk"
"""First part of the names of parameters that are limits."""
_METHODS: Final = ("on_start", "on_view_change", "on_view_error", "on_order_event", "on_timer", "on_stop")
"""Methods that the engine calls."""
_NEVER_RUN: Final = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
"""Tests for methods whose call returns an object without running a statement of the method."""


class LoadedStrategy(msgspec.Struct, frozen=True):
    """A strategy that is ready to run."""

    name: str
    """Name of the strategy: the built-in name, the name of the class, or the file's name without ``.py`` and with ``_``
    in place of all characters other than letters and digits.
    """
    strategy: Strategy[Any]
    """The strategy, with its parameters."""
    limits: RiskLimits
    """Limits, from the parameters ``NAME.risk.field``."""


def load_strategies(
    specifications: Iterable[str | type[Strategy[Any]]], parameters: Iterable[str] = ()
) -> list[LoadedStrategy]:
    """Load strategies in the order given: built-in names, paths to files, or classes.

    Of several values of a parameter the last one counts. Raise `StrategyNotFound` if a strategy is missing, invalid or
    given twice. Raise `ParameterError` for a parameter that no strategy has, and for an invalid value.

    >>> [loaded.name for loaded in load_strategies(["sobi"], ["sobi.factor=3", "sobi.risk.max_open_orders=5"])]
    ['sobi']
    """
    classes: dict[str, type[Strategy[Any]]] = {}
    for specification in specifications:
        name, strategy_class = _find(specification)
        if name in classes:
            raise StrategyNotFound(f"expected each strategy once, was {name} twice")
        classes[name] = strategy_class
    given = _grouped(parameters, classes)
    loaded = []
    for name, strategy_class in classes.items():
        own = {key: value for key, value in given[name].items() if not key.startswith(_RISK + ".")}
        risk = {key.removeprefix(_RISK + "."): value for key, value in given[name].items() if key not in own}
        strategy = _made(name, strategy_class, own)
        loaded.append(LoadedStrategy(name, strategy, _converted(f"{name}.{_RISK}", risk, RiskLimits)))
    return loaded


def _made(name: str, strategy_class: type[Strategy[Any]], given: Mapping[str, str]) -> Strategy[Any]:
    """Return the strategy of a class; raise `StrategyNotFound` for a class that the engine cannot call."""
    parameters_type: object = strategy_class.parameters_type
    if not (isinstance(parameters_type, type) and issubclass(parameters_type, msgspec.Struct)):
        raise StrategyNotFound(
            f"expected a subclass of msgspec.Struct as parameters_type of {name}, was {parameters_type!r}"
        )
    for method in _METHODS:
        if any(is_it(getattr(strategy_class, method)) for is_it in _NEVER_RUN):
            raise StrategyNotFound(
                f"expected a method {method} without async and yield in {name}, was one whose call does nothing"
            )
    parameters = _converted(name, given, parameters_type)
    try:
        strategy = strategy_class(parameters)
    except (Exception, SystemExit) as error:
        raise StrategyNotFound(f"expected {name} to be created, was {type(error).__name__}: {error}") from error
    views: object = strategy.views
    queries: object = strategy.queries
    if not hasattr(strategy, "parameters"):
        raise StrategyNotFound(f"expected __init__ of {name} to call super().__init__(parameters), was no such call")
    if not (isinstance(views, Collection) and not isinstance(views, str) and _are_texts(views)):
        raise StrategyNotFound(f"expected a tuple of names as views of {name}, was {views!r}")
    if not (isinstance(queries, Mapping) and _are_texts([*queries, *queries.values()])):
        raise StrategyNotFound(f"expected SQL by name as queries of {name}, was {queries!r}")
    return strategy


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _find(specification: str | type[Strategy[Any]]) -> tuple[str, type[Strategy[Any]]]:
    if not isinstance(specification, str):
        return _checked_class(specification)
    if specification in BUILT_IN:
        return specification, _only_strategy(importlib.import_module(BUILT_IN[specification]), specification)
    path = Path(specification)
    if path.suffix != ".py":
        meant = did_you_mean(specification, BUILT_IN)
        raise StrategyNotFound(
            f"expected one of {', '.join(BUILT_IN)} or a path to a .py file, was {specification}{meant}"
        )
    if not path.is_file():
        raise StrategyNotFound(f"expected a strategy file, was nothing at {specification}")
    name = re.sub(r"\W", "_", path.stem)
    spec = importlib.util.spec_from_file_location(f"_deltabook_strategy_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    # Register the module, because the names of types are looked up in it: with `from __future__ import annotations`,
    # annotations are text.
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[spec.name]
        raise StrategyNotFound(f"expected a strategy in {path}, was {type(error).__name__}: {error}") from error
    return name, _only_strategy(module, specification)


def _checked_class(given: object) -> tuple[str, type[Strategy[Any]]]:
    if not (isinstance(given, type) and issubclass(given, Strategy)):
        raise StrategyNotFound(f"expected a subclass of Strategy, a name or a path to a .py file, was {given!r}")
    return given.__name__, given


def _only_strategy(module: ModuleType, where: str) -> type[Strategy[Any]]:
    classes = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Strategy) and value.__module__ == module.__name__
    ]
    if len(classes) != 1:
        names = ", ".join(value.__name__ for value in classes) or "none"
        raise StrategyNotFound(f"expected one subclass of Strategy in {where}, was {names}")
    return classes[0]


def _grouped(parameters: Iterable[str], names: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    given: dict[str, dict[str, str]] = {name: {} for name in names}
    for parameter in parameters:
        key, equals, value = parameter.partition("=")
        name, dot, field = key.partition(".")
        if len(given) == 1 and name not in given and (not dot or name == _RISK):
            # A single strategy needs no name.
            (name,), dot, field = given, ".", key
        if not (equals and dot and field):
            raise ParameterError(f"expected a parameter [STRATEGY.]field=value, was {parameter}")
        if name not in given:
            raise ParameterError(f"expected a parameter of {' or '.join(given)}, was {parameter}")
        given[name][field] = value
    return given


def _converted(name: str, given: Mapping[str, str], to: type[Any]) -> Any:
    fields = {field.name: field for field in msgspec.structs.fields(to)}
    values: dict[str, Any] = {}
    for key, text in given.items():
        if key not in fields:
            raise ParameterError(f"expected a parameter of {name} out of {', '.join(fields) or 'none'}, was {key}")
        values[key] = _value(text, get_origin(fields[key].type))
    try:
        return msgspec.convert(values, to, strict=False)
    except msgspec.ValidationError as error:
        raise ParameterError(f"expected valid parameters of {name}, was {dict(given)}: {error}") from None


def _value(text: str, container: Any) -> Any:
    """Parse ``a,b`` for tuples; ``10`` or ``ACME:10,BTCUSD:500`` for figures by symbol."""
    if container is tuple:
        return [part for part in text.split(",") if part]
    if container is dict:
        pairs = (part.rpartition(":") for part in text.split(",") if part)
        return {symbol or "*": value for symbol, _, value in pairs}
    return text

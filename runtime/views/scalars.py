"""Expressions over one row at a time, in exact Python numbers: for conditions that are searched and for few rows."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from runtime.compiler.program import Call, Col, Expr, Lit
from runtime.views.evaluate import EXACT_OPERATIONS, evaluate, exact_value

__all__ = ["Scalar", "scalar"]

Scalar = Callable[[Mapping[str, Any]], Any]
"""From a row's values by name to the expression's value; NULL is None."""


def scalar(expr: Expr) -> Scalar:
    """The expression as a function; it gives what `evaluate.evaluate` gives for the same row."""
    if isinstance(expr, Lit):
        constant = expr.value
        return lambda _: constant
    if isinstance(expr, Col):
        return operator.itemgetter(expr.name)
    op, args = expr.op, [scalar(argument) for argument in expr.args]
    if op in EXACT_OPERATIONS and len(args) == 2:
        return _binary(EXACT_OPERATIONS[op], *args)
    if op in _CHOICES:
        choose = _CHOICES[op]
        return lambda row: choose([argument(row) for argument in args])
    if op in _STRICT:
        return lambda row: exact_value(op, tuple(argument(row) for argument in args))
    return _columnwise(expr, args)


def _columnwise(expr: Call, args: list[Scalar]) -> Scalar:
    """Anything else, as a column of one row: constants stay, as a pattern must be one."""
    names = [f"{place}" for place in range(len(args))]
    plain = Call(expr.op, tuple(argument if isinstance(argument, Lit) else Col(name)
                                for argument, name in zip(expr.args, names, strict=True)))  # fmt: skip

    def value(row: Mapping[str, Any]) -> Any:
        values = [argument(row) for argument in args]
        if None in values:
            return None
        columns = {name: pa.array([argument]) for name, argument in zip(names, values, strict=True)}
        return evaluate(plain, columns, 1)[0].as_py()

    return value


def _case(values: list[Any]) -> Any:
    tests = zip(values[:-1:2], values[1::2], strict=True)
    return next((value for test, value in tests if test is True), values[-1])


def _present(choose: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """A choice that passes over NULL."""

    def of_present(values: list[Any]) -> Any:
        present = [value for value in values if value is not None]
        return choose(present) if present else None

    return of_present


_STRICT: Final = frozenset({"and", "or", "not", "neg", "floordiv", "mod", "div", *EXACT_OPERATIONS})
_CHOICES: Final[dict[str, Callable[[list[Any]], Any]]] = {
    "is_null": lambda values: values[0] is None,
    "case": _case,
    "coalesce": _present(operator.itemgetter(0)),
    "least": _present(min),
    "greatest": _present(max),
}


def _binary(function: Callable[[Any, Any], Any], left: Scalar, right: Scalar) -> Scalar:
    def value(row: Mapping[str, Any]) -> Any:
        a, b = left(row), right(row)
        return None if a is None or b is None else function(a, b)

    return value

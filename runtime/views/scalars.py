"""Expressions over one row at a time, in exact Python numbers: for conditions that are searched and for few rows."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from runtime.compiler.program import Col, Expr, Lit
from runtime.views.evaluate import exact_value

__all__ = ["Scalar", "scalar"]

Scalar = Callable[[Mapping[str, Any]], Any]
"""From a row's values by name to the expression's value; NULL is None."""

_PLAIN: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def scalar(expr: Expr) -> Scalar:
    """The expression as a function; it gives what `evaluate.evaluate` gives for the same row."""
    if isinstance(expr, Lit):
        constant = expr.value
        return lambda _: constant
    if isinstance(expr, Col):
        return operator.itemgetter(expr.name)
    op, args = expr.op, [scalar(argument) for argument in expr.args]
    if op in _PLAIN and len(args) == 2:
        return _binary(_PLAIN[op], *args)
    return lambda row: exact_value(op, tuple(argument(row) for argument in args))


def _binary(function: Callable[[Any, Any], Any], left: Scalar, right: Scalar) -> Scalar:
    def value(row: Mapping[str, Any]) -> Any:
        a, b = left(row), right(row)
        return None if a is None or b is None else function(a, b)

    return value

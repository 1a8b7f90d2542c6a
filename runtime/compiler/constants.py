"""Evaluation of expressions in Python, for the row of an aggregate without GROUP BY whose input is empty."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from runtime.compiler.operands import NotIncremental
from runtime.plan import EXACT_OPERATIONS, Col, Expr, Lit, exact_result

__all__ = ["Constant", "empty_row", "evaluate_constant"]

Constant = int | float | str | bool | None
"""Value of a column; NULL is None."""


def evaluate_constant(expr: Expr, row: Mapping[str, Constant]) -> Constant:
    """Return the value of an expression for a row; raise `NotIncremental` for an operation that only maps support."""
    if isinstance(expr, Col):
        return row[expr.name]
    if isinstance(expr, Lit):
        return expr.value
    result: Constant = _result(expr.op, [evaluate_constant(arg, row) for arg in expr.args])
    return result


def _result(op: str, values: list[Any]) -> Any:
    if op in EXACT_OPERATIONS:
        try:
            return exact_result(op, values)
        except OverflowError:  # a quotient of integers beyond the range of floats
            raise NotIncremental(f"expected a constant in the range of DOUBLE, was that of {op}") from None
    if op == "is_null":
        return values[0] is None
    if op == "case":
        branches = zip(values[:-1:2], values[1::2], strict=True)
        return next((value for test, value in branches if test is True), values[-1])
    present = [value for value in values if value is not None]
    if op in ("coalesce", "least", "greatest"):
        if not present:
            return None
        return present[0] if op == "coalesce" else min(present) if op == "least" else max(present)
    if values[0] is None or (op != "in" and len(present) < len(values)):
        return None
    if op == "in":
        return values[0] in values[1:]
    if op == "sqrt":
        return math.sqrt(values[0])
    if op != "digits":
        raise NotIncremental(f"{op.upper()} of constants alone")
    if abs(values[0]) >= 10 ** values[1]:
        raise NotIncremental(f"a constant of more than {values[1]} digits")
    return values[0]


def empty_row(
    outputs: Iterable[Expr], having: Expr | None, sums: Iterable[str], *, zero: bool
) -> tuple[Constant, ...] | None:
    """Return the row of a view whose only group is empty; None if HAVING excludes this row.

    ``zero`` is True if a sum of no values is 0, not NULL.
    """
    row: dict[str, Constant] = {"weight": 0, **dict.fromkeys(sums, 0 if zero else None)}
    if having is not None and evaluate_constant(having, row) is not True:
        return None
    return tuple(evaluate_constant(output, row) for output in outputs)

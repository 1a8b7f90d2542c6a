"""Evaluation of an expression of the program for one row, in Python: used for the row of a view without input."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from runtime.compiler.operands import NotIncremental
from runtime.plan import Col, Expr, Lit

__all__ = ["Constant", "empty_row", "evaluate_constant"]

Constant = int | float | str | bool | None


def evaluate_constant(expr: Expr, row: Mapping[str, Constant]) -> Constant:
    """Return the value; raise `NotIncremental` for an operation that only rows support."""
    if isinstance(expr, Col):
        return row[expr.name]
    if isinstance(expr, Lit):
        return expr.value
    values: list[Any] = [evaluate_constant(arg, row) for arg in expr.args]
    op = expr.op
    if op == "and":
        return False if False in _truths(values) else None if None in values else True
    if op == "or":
        return True if True in _truths(values) else None if None in values else False
    if op == "is_null":
        return values[0] is None
    if op == "in":
        return None if values[0] is None else values[0] in values[1:]
    if op == "case":
        chosen = (value for test, value in zip(values[:-1:2], values[1::2], strict=True) if test is True)
        branch: Constant = next(chosen, values[-1])
        return branch
    present = [value for value in values if value is not None]
    if op in ("coalesce", "least", "greatest"):
        if not present:
            return None
        result: Constant = present[0] if op == "coalesce" else min(present) if op == "least" else max(present)
        return result
    if len(present) < len(values):
        return None
    if op not in _OPERATIONS:
        raise NotIncremental(f"{op.upper()} of constants alone")
    return _OPERATIONS[op](*values)


def empty_row(
    outputs: Iterable[Expr], having: Expr | None, sums: Iterable[str], *, zero: bool
) -> tuple[Constant, ...] | None:
    """Return the row of a single group without rows, unless HAVING excludes it; ``zero`` if sums of nothing are 0."""
    row: dict[str, Constant] = {"weight": 0, **dict.fromkeys(sums, 0 if zero else None)}
    if having is not None and evaluate_constant(having, row) is not True:
        return None
    return tuple(evaluate_constant(output, row) for output in outputs)


def _truths(values: list[Any]) -> list[bool]:
    return [value for value in values if isinstance(value, bool)]


def _quotient(left: Any, right: Any) -> float | None:
    return left / right if right else None


def _whole_quotient(left: int, right: int) -> int | None:
    if right == 0:
        return None
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


def _remainder(left: int, right: int) -> int | None:
    whole = _whole_quotient(left, right)
    return None if whole is None else left - whole * right


def _with_digits(value: int, digits: int) -> int:
    if abs(value) >= 10**digits:
        raise NotIncremental(f"a constant of more than {digits} digits")
    return value


_OPERATIONS: Final[dict[str, Callable[..., Constant]]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "neg": operator.neg, "not": operator.not_,
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "div": _quotient, "floordiv": _whole_quotient, "mod": _remainder, "sqrt": math.sqrt,
    "digits": _with_digits,
}  # fmt: skip

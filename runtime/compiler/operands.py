"""Typed expressions of the view program, and operations on them, which first convert the operands to one type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from runtime.compiler.types import BOOL, FLOAT, Type, common_type
from runtime.plan import Call, Expr, Lit, ViewBody, ViewClass

__all__ = [
    "Candidate",
    "Lowered",
    "NotIncremental",
    "aligned",
    "alike",
    "arithmetic",
    "as_condition",
    "at_type",
    "call",
    "choose",
    "compare",
    "floor_quotient",
    "is_encodable",
    "logic",
    "quotient",
]


class NotIncremental(Exception):  # a finding, not a failure
    """Reason why a class of views does not support a query or an expression, in words for `explain`."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A query compiled in one class of views, without a name."""

    body: ViewBody
    """Body of the view."""
    types: tuple[Type, ...]
    """Types of its columns."""
    view_class: ViewClass
    """Class of the view."""
    reason: str
    """Reason for the class, for `explain`."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """Expression of the program and its type."""

    expr: Expr
    """Expression over scaled integers, or floats."""
    type: Type
    """Type of the value."""


def is_encodable(part: object) -> bool:
    """Return True if all constants of a part of a program have at most 64 bits: MessagePack has no wider integers."""
    try:
        msgspec.msgpack.encode(part)
    except OverflowError:
        return False
    return True


def call(op: Any, *args: Expr) -> Call:
    """Return a call of an operation of the program, such as ``mul``."""
    return Call(op, args)


def at_type(value: Lowered, target: Type) -> Expr:
    """Return a value at another type: an integer rescaled or as a float, a date as a timestamp, NULL at any type."""
    if value.type.kind == "null" != target.kind:
        return Lit(None)
    if value.type.kind == target.kind == "int" and target.scale > value.type.scale:
        factor = 10 ** (target.scale - value.type.scale)
        if isinstance(value.expr, Lit) and isinstance(value.expr.value, int):
            return Lit(value.expr.value * factor)
        return call("mul", value.expr, Lit(factor))
    if value.type.kind == "int" and target.kind == "float64":
        if isinstance(value.expr, Lit) and isinstance(value.expr.value, int):
            return Lit(value.expr.value / 10**value.type.scale)
        return call("div", value.expr, Lit(10**value.type.scale))
    if value.type.kind == "string" and target.kind in ("date", "timestamp"):
        return _moment(value.expr, target)
    if value.type.kind == "date" and target.kind == "timestamp":
        return call("timestamp", value.expr)
    return value.expr


def _moment(expr: Expr, target: Type) -> Expr:
    """Return a literal string as a date or timestamp; raise `NotIncremental` if it is not in the form of ISO 8601."""
    text = str(expr.value) if isinstance(expr, Lit) else ""
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise NotIncremental(f"the {target} {text!r}, which only DuckDB can read") from None
    if read.tzinfo is not None or (target.kind == "date" and (read.hour, read.minute, read.second) != (0, 0, 0)):
        raise NotIncremental(f"the {target} {text!r}, which only DuckDB can read")
    return call(target.kind, Lit(read.date().isoformat() if target.kind == "date" else read.isoformat(" ")))


def _meeting(left: Lowered, right: Lowered) -> Type | None:
    """Return the type in which two values are compared; None if there is no such type.

    A literal string that is compared with a date or timestamp gets the type of the other value.
    """
    kinds = {left.type.kind, right.type.kind}
    nullable = left.type.nullable or right.type.nullable
    if kinds == {"date", "timestamp"}:
        return Type("timestamp", nullable=nullable)
    for text, other in ((left, right), (right, left)):
        if text.type.kind == "string" and isinstance(text.expr, Lit) and other.type.kind in ("date", "timestamp"):
            return other.type.with_null(nullable)
    return common_type((left.type, right.type))


def compare(op: str, left: Lowered, right: Lowered) -> Lowered:
    """Return a comparison, which is true, false or NULL."""
    first, second = aligned(left, right)
    return Lowered(call(op, first.expr, second.expr), BOOL.with_null(first.type.nullable or second.type.nullable))


def as_condition(value: Lowered) -> Expr:
    """Return the expression of a condition; raise `NotIncremental` for a value that is not a boolean."""
    if value.type.kind not in ("bool", "null"):
        raise NotIncremental("a condition that is not a boolean")
    return value.expr


def aligned(left: Lowered, right: Lowered) -> tuple[Lowered, Lowered]:
    """Return two values converted to the type and scale in which they are compared.

    Raise `NotIncremental` if there is no such type.
    """
    target = _meeting(left, right)
    if target is None or target.kind in ("null", "other"):
        raise NotIncremental("a comparison that only DuckDB supports")
    first, second = (Lowered(at_type(value, target), target.with_null(value.type.nullable)) for value in (left, right))
    return first, second


def logic(op: str, left: Lowered, right: Lowered) -> Lowered:
    """Return two conditions joined by ``op``, AND or OR."""
    kind = BOOL.with_null(left.type.nullable or right.type.nullable)
    return Lowered(call(op, as_condition(left), as_condition(right)), kind)


def arithmetic(op: str, left: Lowered, right: Lowered) -> Lowered:
    """Return a sum, difference, product, integer quotient or remainder; raise `NotIncremental` for other types."""
    nullable = left.type.nullable or right.type.nullable
    target = common_type((left.type, right.type))
    if target is None or not target.is_numeric:
        raise NotIncremental("arithmetic that only DuckDB supports")
    if target.kind == "float64":
        if op in ("floordiv", "mod"):
            raise NotIncremental("integer division of floats")
        return Lowered(call(op, at_type(left, target), at_type(right, target)), FLOAT.with_null(nullable))
    if op == "mul":
        return Lowered(call("mul", left.expr, right.expr), Type("int", left.type.scale + right.type.scale, True,
                                                                nullable))  # fmt: skip
    parts = (at_type(left, target), at_type(right, target))
    if op in ("add", "sub"):
        return Lowered(call(op, *parts), Type("int", target.scale, True, nullable))
    constant = isinstance(right.expr, Lit) and bool(right.expr.value)
    wide = not constant or left.type.wide or left.type.scale != target.scale or right.expr == Lit(-1)
    kind = Type("int", target.scale if op == "mod" else 0, wide, nullable or not constant)
    return Lowered(call(op, *parts), kind)


def quotient(left: Lowered, right: Lowered, *, never_zero: bool = False) -> Lowered:
    """Return the real quotient: a float, or NULL for a divisor of 0.

    If ``never_zero`` is True, the divisor must never be 0. Raise `NotIncremental` for values that are not numbers.
    """
    target = common_type((left.type, right.type))
    if target is None or not target.is_numeric:
        raise NotIncremental("arithmetic that only DuckDB supports")
    divided = call("div", at_type(left, target), at_type(right, target))
    return Lowered(divided, Type("float64", nullable=not never_zero or target.nullable))


def floor_quotient(top: Expr, bottom: Expr) -> Expr:
    """Return the greatest integer not above top / bottom, by the program's division, which rounds towards zero."""
    rest = call("mod", call("add", call("mod", top, bottom), bottom), bottom)
    return call("floordiv", call("sub", top, rest), bottom)


def alike(values: Sequence[Lowered], what: str = "a choice between values") -> tuple[Type, tuple[Expr, ...]]:
    """Return the common type of values, and the values converted to it; ``what`` describes the values in words.

    Raise `NotIncremental` if there is no common type.
    """
    target = common_type([value.type for value in values])
    if target is None or target.kind == "other":
        raise NotIncremental(f"{what} of different types")
    return target, tuple(at_type(value, target) for value in values)


def choose(condition: Lowered, value: Lowered, default: Lowered) -> Lowered:
    """Return CASE WHEN condition THEN value ELSE default END."""
    target, parts = alike((value, default))
    return Lowered(call("case", condition.expr, *parts), target)

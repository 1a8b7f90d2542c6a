"""Expressions of a program as Python source: exact integers, SQL's three-valued logic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from runtime.compiler.program import Call, Col, ColumnType, Expr, Lit
from runtime.views.tuplewise.errors import UnsupportedError
from runtime.views.tuplewise.functions import FUNCTIONS, PARTIAL, like, plain_float
from runtime.views.tuplewise.source import Source, Value

__all__ = ["columns_of", "converted", "expression", "product"]

_INFIX: Final = {"add": "+", "sub": "-", "mul": "*", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">",
                 "ge": ">="}  # fmt: skip


def expression(source: Source, expr: Expr, columns: Mapping[str, Value]) -> Value:
    """Lines that evaluate an expression, and what its value is then; raises `UnsupportedError`."""
    if isinstance(expr, Lit):
        return source.constant(expr.value)
    if isinstance(expr, Col):
        if expr.name not in columns:
            raise UnsupportedError(f"expected one of the columns {', '.join(columns)}, was {expr.name}")
        return columns[expr.name]
    if expr.op == "like":
        text = expression(source, expr.args[0], columns)
        return _called(source, source.hold("f", like(expr.args[1])), [text], may_be_null=True)
    args = [expression(source, argument, columns) for argument in expr.args]
    if expr.op in _INFIX or expr.op in ("and", "or"):
        value = args[0]
        for argument in args[1:]:
            value = _infix(source, expr.op, value, argument)
        return value
    return _operation(source, expr.op, args)


def _infix(source: Source, op: str, left: Value, right: Value) -> Value:
    if op in _INFIX:
        return _strict(source, f"({left.text} {_INFIX[op]} {right.text})", [left, right])
    if not left.nullable and not right.nullable:
        return Value(f"({left.text} {op} {right.text})")
    decided = op == "or"
    is_decided = f"{left.text} is {decided} or {right.text} is {decided}"
    nulls = " or ".join(f"{value.text} is None" for value in (left, right) if value.nullable)
    return source.assign("v", f"{decided} if {is_decided} else None if {nulls} else {not decided}", nullable=True)


def _operation(source: Source, op: str, args: list[Value]) -> Value:
    texts = [argument.text for argument in args]
    if op == "is_null":
        return Value(f"({texts[0]} is None)")
    if op == "case":
        parts = [f"{value} if {condition} else " for condition, value in zip(texts[:-1:2], texts[1::2], strict=True)]
        nullable = any(value.nullable for value in [*args[1::2], args[-1]])
        return source.assign("v", f"{''.join(parts)}{texts[-1]}", nullable=nullable)
    if op == "not":
        return _strict(source, f"(not {texts[0]})", args)
    if op == "neg":
        return _strict(source, f"(-{texts[0]})", args)
    if op in PARTIAL:
        nullable = all(argument.nullable for argument in args)
        return source.assign("v", f"{source.hold('f', PARTIAL[op])}({', '.join(texts)})", nullable=nullable)
    if op in FUNCTIONS:
        is_quotient = op in ("div", "floordiv", "mod")
        may_be_null = is_quotient and (not texts[1].isdigit() or texts[1] == "0")
        return _called(source, source.hold("f", FUNCTIONS[op]), args, may_be_null=may_be_null)
    raise UnsupportedError(f"the operation {op}")


def _called(source: Source, function: str, args: list[Value], *, may_be_null: bool) -> Value:
    value = _strict(source, f"{function}({', '.join(argument.text for argument in args)})", args)
    if value.nullable or not may_be_null:
        return value
    return source.assign("v", value.text, nullable=True)


def _strict(source: Source, text: str, args: list[Value]) -> Value:
    """NULL if one of the arguments is."""
    nulls = [f"{argument.text} is None" for argument in args if argument.nullable]
    return source.assign("v", f"None if {' or '.join(nulls)} else {text}", nullable=True) if nulls else Value(text)


def product(factor: int, columns: list[Value]) -> str:
    """``factor × Π columns``, 0 where a column is NULL."""
    texts = [column.text for column in columns]
    if factor not in (1, -1) or not texts:
        texts.insert(0, f"({factor!r})")
    nulls = [f"{column.text} is None" for column in columns if column.nullable]
    text = f"({'-' if factor == -1 and columns else ''}{' * '.join(texts)})"
    return f"(0 if {' or '.join(nulls)} else {text})" if nulls else text


def converted(source: Source, value: Value, type_: ColumnType) -> Value:
    """The value as one of a column; only floats have more than one form."""
    if type_ != "float64":
        return value
    return Value(f"{source.hold('f', plain_float)}({value.text})", value.nullable)


def columns_of(expr: Expr) -> set[str]:
    """The columns that an expression reads."""
    if isinstance(expr, Col):
        return {expr.name}
    return set().union(*map(columns_of, expr.args)) if isinstance(expr, Call) else set()

"""Exact arithmetic in DuckDB's SQL: scaled integers, computed in HUGEINT, in which an overflow is always an error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from runtime.compiler.types import BOOL, Type, common_type

__all__ = [
    "Value",
    "arithmetic",
    "as_type",
    "cast",
    "comparison",
    "decimal",
    "decimal_of",
    "floor_quotient",
    "huge",
    "number",
    "quotient",
    "scaled",
    "wrap",
]

_DIGITS: Final = 38
"""Most digits of a DECIMAL."""
_INT64_DIGITS: Final = 18
"""Most digits of a DECIMAL that DuckDB stores in 64 bits; it rounds quantiles of wider decimals in another way."""


@dataclass(slots=True)
class Value:
    """Rewritten expression."""

    sql: exp.Expr
    """Expression that DuckDB computes; for an integer, the scaled integer."""
    type: Type
    """Type of the value."""
    widened: bool = False
    """True if DuckDB computes integers of at most 64 bits in a wider type."""
    literal: bool = False
    """True for a constant."""
    is_whole: bool = False
    """True for a call of an aggregate or window function to which FILTER and OVER have been applied."""

    @property
    def is_raw(self) -> bool:
        """True for an integer in a type of 64 bits or fewer, which must be widened before arithmetic."""
        return self.type.kind == "int" and not self.type.wide and not self.widened


def cast(sql: exp.Expr, kind: str) -> exp.Expr:
    """Return CAST(sql AS kind)."""
    return exp.Cast(this=sql, to=exp.DataType.build(kind, dialect="duckdb"))


def wrap(sql: exp.Expr) -> exp.Expr:
    """Return the expression in parentheses, if an operand needs them."""
    if isinstance(sql, (exp.Binary, exp.Unary, exp.Between, exp.In, exp.Not)) and not isinstance(sql, exp.Paren):
        return exp.Paren(this=sql)
    return sql


def decimal(value: int) -> exp.Expr:
    """Return an integer constant."""
    text = exp.Literal.number(abs(value))
    return exp.Neg(this=text) if value < 0 else text


def huge(value: Value, scale: int | None = None) -> exp.Expr:
    """Return the integer as HUGEINT, at this scale; for None at the value's own scale."""
    sql = cast(value.sql, "HUGEINT") if value.is_raw else value.sql
    shift = 0 if scale is None else scale - value.type.scale
    if shift == 0:
        return sql
    return exp.Paren(this=exp.Mul(this=wrap(sql), expression=cast(decimal(10**shift), "HUGEINT")))


def number(value: Value) -> exp.Expr:
    """Return the value as DOUBLE."""
    if value.type.kind == "float64":
        return value.sql
    sql = cast(value.sql, "DOUBLE")
    if not value.type.scale:
        return sql
    return exp.Paren(this=exp.Div(this=sql, expression=cast(decimal(10**value.type.scale), "DOUBLE")))


def decimal_of(value: Value) -> tuple[exp.Expr, str]:
    """Return a scaled integer as a DECIMAL of its value, and the name of this type.

    If the scale is larger than that of any DECIMAL, return a DOUBLE.
    """
    scale = value.type.scale
    if scale > _DIGITS:
        return number(value), "DOUBLE"
    kind = f"DECIMAL({_DIGITS if value.type.wide else max(_INT64_DIGITS, scale)}, {scale})"
    unit = cast(exp.Literal.number(f"0.{'1'.rjust(scale, '0')}"), f"DECIMAL({scale}, {scale})")
    return cast(exp.Mul(this=cast(value.sql, f"DECIMAL({_DIGITS}, 0)"), expression=unit), kind), kind


def scaled(sql: exp.Expr, scale: int) -> exp.Expr:
    """Return a DECIMAL of this scale as a scaled integer; DuckDB's computation fails for too many digits."""
    if not scale:
        return cast(sql, "HUGEINT")
    factor = cast(decimal(10**scale), f"DECIMAL({min(scale + 1, _DIGITS)}, 0)")
    return cast(exp.Mul(this=wrap(sql), expression=factor), "HUGEINT")


def as_type(value: Value, target: Type) -> exp.Expr:
    """Return the value in the DuckDB type and scale of ``target``, which must be able to represent the value."""
    if target.kind == "int" and value.type.kind == "int":
        if not target.wide:
            return value.sql
        return huge(value, target.scale)
    if target.kind == "float64" and value.type.kind == "int":
        return number(value)
    if value.type.kind == "null" and target.kind != "null":
        return cast(exp.Null(), target.duckdb)
    return value.sql


def arithmetic(kind: type[exp.Binary], left: Value, right: Value) -> Value:
    """Return a sum, difference, product, integer quotient or remainder: exact for integers, otherwise in floats.

    As in DuckDB, ``//`` is the real quotient if a value is a decimal or a float.
    """
    if kind is exp.IntDiv and any(each.type.kind != "int" or each.type.scale for each in (left, right)):
        return quotient(left, right)
    nullable = left.type.nullable or right.type.nullable
    if left.type.kind != "int" or right.type.kind != "int":
        sql = kind(this=wrap(number(left)), expression=wrap(number(right)))
        if kind is exp.Mod:
            nullable = True
            sql.set("expression", exp.Nullif(this=number(right), expression=exp.Literal.number(0)))
        return Value(sql, Type("float64", nullable=nullable))
    if kind is exp.Mul:
        sql = exp.Mul(this=wrap(huge(left)), expression=wrap(huge(right)))
        return Value(sql, Type("int", left.type.scale + right.type.scale, True, nullable))
    scale = max(left.type.scale, right.type.scale)
    if kind in (exp.Add, exp.Sub):
        sql = kind(this=wrap(huge(left, scale)), expression=wrap(huge(right, scale)))
        return Value(sql, Type("int", scale, True, nullable))
    divisor = huge(right, scale)
    if not (right.literal and right.sql.sql() != "0"):  # by default DuckDB 2 raises for a division by 0
        divisor, nullable = exp.Nullif(this=divisor, expression=exp.Literal.number(0)), True
    narrow = not left.type.wide and right.literal and left.type.scale == scale
    sql = kind(this=wrap(huge(left, scale)), expression=wrap(divisor))
    return Value(sql, Type("int", scale if kind is exp.Mod else 0, not narrow, nullable), widened=True)


def quotient(left: Value, right: Value) -> Value:
    """Return the real quotient: a float, NULL for a divisor of 0."""
    if left.type.kind == "int" and right.type.kind == "int":
        scale = max(left.type.scale, right.type.scale)
        top, bottom = cast(huge(left, scale), "DOUBLE"), cast(huge(right, scale), "DOUBLE")
    else:
        top, bottom = number(left), number(right)
    divisor = exp.Nullif(this=bottom, expression=exp.Literal.number(0))
    return Value(exp.Div(this=wrap(top), expression=divisor), Type("float64", nullable=True))


def floor_quotient(left: Value, right: Value) -> Value:
    """Return FLOOR(left / right) of integers: (l - ((l % r) + r) % r) // r, as DuckDB's ``//`` rounds towards zero."""
    scale = max(left.type.scale, right.type.scale)
    top, bottom = wrap(huge(left, scale)), huge(right, scale)
    nullable = left.type.nullable or right.type.nullable
    if not (right.literal and right.sql.sql() != "0"):
        bottom, nullable = exp.Nullif(this=bottom, expression=exp.Literal.number(0)), True
    bottom = wrap(bottom)
    inner = exp.Paren(this=exp.Add(this=exp.Mod(this=top, expression=bottom), expression=bottom.copy()))
    rest = exp.Paren(this=exp.Mod(this=inner, expression=bottom.copy()))
    sql = exp.IntDiv(this=exp.Paren(this=exp.Sub(this=top.copy(), expression=rest)), expression=bottom.copy())
    narrow = not left.type.wide and right.literal and left.type.scale == scale
    return Value(sql, Type("int", 0, not narrow, nullable), widened=True)


def comparison(kind: type[exp.Binary], left: Value, right: Value) -> Value | None:
    """Return a comparison, with integers brought to one scale; None if the values cannot be compared."""
    nullable = left.type.nullable or right.type.nullable
    if kind in (exp.NullSafeEQ, exp.NullSafeNEQ):
        nullable = False
    left_sql, right_sql = left.sql, right.sql
    if left.type.is_numeric and right.type.is_numeric:
        target = common_type((left.type, right.type))
        assert target is not None
        if target.kind == "float64" or left.type.scale != right.type.scale:
            left_sql, right_sql = as_type(left, target), as_type(right, target)
    elif left.type.is_numeric != right.type.is_numeric and "null" not in (left.type.kind, right.type.kind):
        return None
    return Value(kind(this=wrap(left_sql), expression=wrap(right_sql)), BOOL.with_null(nullable))

"""CASE and its kin, casts, and the functions of numbers that stay exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runtime.compiler.fixedpoint import Value, cast, decimal, floor_quotient, huge, number
from runtime.compiler.types import FLOAT, INT, NULL, Type

if TYPE_CHECKING:
    from runtime.compiler.expressions import Rewriter
    from runtime.compiler.scope import Scope

__all__ = ["CHOICES"]

_INTEGER_TYPES = {
    "INT": "INTEGER",
    "BIGINT": "BIGINT",
    "SMALLINT": "SMALLINT",
    "TINYINT": "TINYINT",
    "INT128": "HUGEINT",
}
_INTEGER_PARTS = frozenset({"YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"})


def _case(rewriter: Rewriter, node: exp.Case, scope: Scope) -> Value:
    tests: list[exp.Expr] = []
    for branch in node.args["ifs"]:
        test = branch.this if node.this is None else exp.EQ(this=node.this.copy(), expression=branch.this)
        tests.append(rewriter.condition(test, scope))
    values = [rewriter.rewrite(branch.args["true"], scope) for branch in node.args["ifs"]]
    default = node.args.get("default")
    values.append(Value(exp.Null(), NULL) if default is None else rewriter.rewrite(default, scope))
    target, parts = rewriter.unify(values, node, scope)
    ifs = [exp.If(this=test, true=part) for test, part in zip(tests, parts, strict=False)]
    return Value(exp.Case(ifs=ifs, default=parts[-1]), target, raw=target.kind == "int" and not target.wide)


def _if(rewriter: Rewriter, node: exp.If, scope: Scope) -> Value:
    branch = exp.If(this=node.this, true=node.args["true"])
    return _case(rewriter, exp.Case(ifs=[branch], default=node.args.get("false")), scope)


def _coalesce(rewriter: Rewriter, node: exp.Func, scope: Scope) -> Value:
    values = [rewriter.rewrite(part, scope) for part in (node.this, *node.expressions)]
    target, parts = rewriter.unify(values, node, scope)
    nullable = all(value.type.nullable for value in values)  # GREATEST and LEAST pass over NULL as COALESCE does
    call = exp.func(node.key, *parts, dialect="duckdb")
    return Value(call, target.with_null(nullable), raw=target.kind == "int" and not target.wide)


def _nullif(rewriter: Rewriter, node: exp.Nullif, scope: Scope) -> Value:
    left, right = rewriter.rewrite(node.this, scope), rewriter.rewrite(node.expression, scope)
    target, parts = rewriter.unify([left, right], node, scope)
    raw = target.kind == "int" and not target.wide
    return Value(exp.Nullif(this=parts[0], expression=parts[1]), target.with_null(), raw=raw)


def _abs(rewriter: Rewriter, node: exp.Abs, scope: Scope) -> Value:
    value = rewriter.rewrite(node.this, scope)
    if value.type.kind != "int":
        return rewriter.foreign(node, scope)
    kind = Type("int", value.type.scale, True, value.type.nullable)
    return Value(exp.Abs(this=huge(value)), kind)


def _floor(rewriter: Rewriter, node: exp.Floor, scope: Scope) -> Value:
    inner = node.this.unnest()
    if node.args.get("decimals") is not None:
        return rewriter.foreign(node, scope)
    if isinstance(inner, exp.Div):
        left, right = rewriter.rewrite(inner.left, scope), rewriter.rewrite(inner.right, scope)
        if left.type.kind == "int" and right.type.kind == "int":
            return floor_quotient(left, right)
    value = rewriter.rewrite(node.this, scope)
    if value.type.kind != "int":
        return rewriter.foreign(node, scope)
    return floor_quotient(value, Value(decimal(1), INT, raw=True, literal=True)) if value.type.scale else value


def _cast(rewriter: Rewriter, node: exp.Cast, scope: Scope) -> Value:
    value = rewriter.rewrite(node.this, scope)
    target = node.to
    name = target.this.name
    sizes = [int(part.name) for part in target.expressions]
    if value.type.kind == "int" and name == "DECIMAL":
        scale = sizes[1] if len(sizes) > 1 else (0 if sizes else 3)
        if scale >= value.type.scale:
            return Value(huge(value, scale), Type("int", scale, True, value.type.nullable))
    if value.type.kind == "int" and name in _INTEGER_TYPES and not value.type.scale and type(node) is exp.Cast:
        sql = cast(value.sql, _INTEGER_TYPES[name])
        return Value(sql, Type("int", 0, name == "INT128", value.type.nullable), raw=name != "INT128")
    if value.type.kind == "int" and name in ("DOUBLE", "FLOAT"):
        rewriter.floats["CAST"] = None
        return Value(number(value), FLOAT.with_null(value.type.nullable))
    return rewriter.foreign(node, scope)


def _extract(rewriter: Rewriter, node: exp.Extract, scope: Scope) -> Value:
    """Parts of a date are integers; asked with a NULL in its place, DuckDB would say DOUBLE."""
    value = rewriter.rewrite(node.expression, scope)
    if value.type.kind not in ("date", "timestamp") or node.name.upper() not in _INTEGER_PARTS:
        return rewriter.foreign(node, scope)
    return Value(exp.Extract(this=node.this.copy(), expression=value.sql), INT.with_null(value.type.nullable), raw=True)


CHOICES: dict[Any, Callable[..., Value]] = {
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _coalesce,
    exp.Greatest: _coalesce,
    exp.Least: _coalesce,
    exp.Nullif: _nullif,
    exp.Abs: _abs,
    exp.Floor: _floor,
    exp.Extract: _extract,
    exp.Cast: _cast,
    exp.TryCast: _cast,
}

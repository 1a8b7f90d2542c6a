"""Rules that rewrite the aggregates and window functions of a re-evaluated query."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from runtime.compiler.expressions import Rewriter, Rules
from runtime.compiler.fixedpoint import Value, as_type, cast, decimal, wrap
from runtime.compiler.types import Type, common_type

__all__ = ["AGGREGATES"]

_EXACT = (exp.Sum, exp.Count, exp.Avg, exp.Min, exp.Max)
"""Aggregates that are rewritten together with the FILTER and OVER around them."""


def _sum(rewriter: Rewriter, node: exp.Sum) -> Value:
    """Rewrite SUM as a HUGEINT of the same scale; floats are added in order of value, so that rounding is fixed."""
    value, argument = _argument(rewriter, node)
    if value.type.kind == "null":
        value, argument = Value(value.sql, Type("int", nullable=True)), cast(exp.Null(), "HUGEINT")
    if value.type.kind == "bool" and not isinstance(node.this, exp.Distinct):
        argument = cast(argument, "BIGINT")
        value = Value(argument, Type("int", nullable=value.type.nullable))
    if not value.type.is_numeric:
        raise rewriter.error(f"expected SUM of a number, was {value.type}", node)
    exact = value.type.kind == "int"
    call: exp.Expr = exp.Sum(this=argument if exact else _in_order(argument, value.sql))
    if not exact:
        rewriter.floats["SUM of floats"] = None
    nullable = _may_be_empty(node, rewriter) or value.type.nullable
    kind = Type("int", value.type.scale, True, nullable) if exact else Type("float64", nullable=nullable)
    total = rewriter.with_filter_and_over(node, call)
    if not rewriter.queries.zero:
        return Value(total, kind)
    zero = exp.Literal.number(0) if exact else cast(exp.Literal.number(0), "DOUBLE")
    return Value(exp.Coalesce(this=total, expressions=[zero]), kind.with_null(False))


def _count(rewriter: Rewriter, node: exp.Count) -> Value:
    if node.this is None or isinstance(node.this, exp.Star):
        call = node.copy()
    elif isinstance(node.this, exp.Distinct):
        parts = [rewriter.rewrite(part).sql for part in node.this.expressions]
        if len(parts) > 1:  # DuckDB refuses several values; sqlglot would translate the call as one of MySQL
            raise rewriter.error(
                f"expected one value in COUNT(DISTINCT …), was {len(parts)}: COUNT(DISTINCT ROW(a, b)) counts distinct "
                "rows, including those with NULL",
                node,
            )
        call = exp.Count(this=exp.Distinct(expressions=parts))
    else:
        call = exp.Count(this=rewriter.rewrite(node.this).sql)
    return Value(rewriter.with_filter_and_over(node, call), Type("int"))


def _avg(rewriter: Rewriter, node: exp.Avg) -> Value:
    """Rewrite AVG of integers as the exact sum divided, as a DOUBLE, by the count: the order of rows has no effect."""
    value, argument = _argument(rewriter, node)
    if not value.type.is_numeric:
        raise rewriter.error(f"expected AVG of a number, was {value.type}", node)
    rewriter.floats["AVG"] = None
    kind = Type("float64", nullable=_may_be_empty(node, rewriter) or value.type.nullable)
    if value.type.kind == "float64":
        return Value(rewriter.with_filter_and_over(node, exp.Avg(this=_in_order(argument, value.sql))), kind)
    top = cast(rewriter.with_filter_and_over(node, exp.Sum(this=argument)), "DOUBLE")
    bottom = rewriter.with_filter_and_over(node, exp.Count(this=argument.copy()))
    divisor: exp.Expr = exp.Nullif(this=bottom, expression=exp.Literal.number(0))
    if value.type.scale:
        divisor = exp.Paren(this=exp.Mul(this=cast(divisor, "DOUBLE"), expression=decimal(10**value.type.scale)))
    return Value(exp.Paren(this=exp.Div(this=top, expression=divisor)), kind)


def _extreme(rewriter: Rewriter, node: exp.Min | exp.Max) -> Value:
    value, argument = _argument(rewriter, node)
    nullable = _may_be_empty(node, rewriter) or value.type.nullable
    call = rewriter.with_filter_and_over(node, type(node)(this=argument))
    return Value(call, value.type.with_null(nullable), value.widened)


def _arg_extreme(rewriter: Rewriter, node: exp.ArgMin | exp.ArgMax) -> Value:
    """Rewrite ARG_MIN(x, y) as FIRST(x ORDER BY y, x): x breaks ties; rows with a NULL are ignored, as in DuckDB."""
    value, by = rewriter.rewrite(node.this), rewriter.rewrite(node.expression)
    down = isinstance(node, exp.ArgMax)
    order = [exp.Ordered(this=by.sql, desc=down), exp.Ordered(this=value.sql.copy())]
    first = exp.First(this=exp.Order(this=value.sql, expressions=order))
    present = [exp.Not(this=exp.Is(this=wrap(part.copy()), expression=exp.Null())) for part in (value.sql, by.sql)]
    sql: exp.Expr = exp.Filter(this=first, expression=exp.Where(this=exp.and_(*present)))
    if isinstance(node.parent, (exp.Filter, exp.Window)):
        raise rewriter.error(f"{node.key.upper()} with FILTER or OVER is not supported", node)
    nullable = not rewriter.scope.grouped or value.type.nullable or by.type.nullable
    return Value(sql, value.type.with_null(nullable), value.widened)


def _mode(rewriter: Rewriter, node: exp.Mode) -> Value:
    """Rewrite MODE as the least of the most frequent values; DuckDB's own returns any of them."""
    if node.this is None or isinstance(node.this, exp.Order):
        return rewriter.foreign(node)
    value = rewriter.rewrite(node.this)
    order = exp.Order(this=value.sql, expressions=[exp.Ordered(this=value.sql.copy(), nulls_first=False)])
    return Value(exp.Mode(this=order), value.type.with_null(), value.widened)


def _may_be_empty(node: exp.Expr, rewriter: Rewriter) -> bool:
    """Return True if the aggregate may be over no rows."""
    return not rewriter.scope.grouped or isinstance(node.parent, (exp.Filter, exp.Window))


def _filter(rewriter: Rewriter, node: exp.Filter) -> Value:
    value = rewriter.rewrite(node.this)
    if isinstance(node.this, _EXACT) or value.is_whole:
        return value  # the aggregate's rule has applied the condition
    return Value(exp.Filter(this=value.sql, expression=rewriter.filter_condition(node)), value.type)


def _window(rewriter: Rewriter, node: exp.Window) -> Value:
    value = rewriter.rewrite(node.this)
    inner = node.this.this if isinstance(node.this, exp.Filter) else node.this
    if isinstance(inner, _EXACT) or value.is_whole:
        return value  # the function's rule has applied the OVER
    ranks = isinstance(inner, (exp.RowNumber, exp.Rank, exp.DenseRank))
    return Value(rewriter.over(node, value.sql), value.type.with_null(not ranks))


def _value_of_a_row(rewriter: Rewriter, node: exp.Func) -> Value:
    """Rewrite LAG, FIRST_VALUE and other functions that return a value of another row; type and scale are unchanged."""
    value, call = rewriter.rewrite(node.this), node.copy()
    default = node.args.get("default")
    if default is None:
        call.set("this", value.sql)
        return Value(call, value.type, value.widened)
    other = rewriter.rewrite(default)
    target = common_type((value.type, other.type))
    if target is None or (value.type.kind, value.type.scale) not in ((target.kind, target.scale), ("null", 0)):
        raise rewriter.error(f"expected a default of the type {value.type}, was {other.type}", node)
    call.set("this", as_type(value, target))
    call.set("default", as_type(other, target))
    return Value(call, target, value.widened or other.widened)


def _nulls(rewriter: Rewriter, node: exp.IgnoreNulls | exp.RespectNulls) -> Value:
    """Rewrite IGNORE NULLS or RESPECT NULLS, which is written inside the call of a window function."""
    value = rewriter.rewrite(node.this)
    return Value(type(node)(this=value.sql), value.type, value.widened)


def _argument(rewriter: Rewriter, node: exp.AggFunc) -> tuple[Value, exp.Expr]:
    """Return the rewritten value that an aggregate reads, and the aggregate's new argument, with DISTINCT if given."""
    inner = node.this
    if isinstance(inner, exp.Distinct):
        value = rewriter.rewrite(inner.expressions[0])
        return value, exp.Distinct(expressions=[value.sql])
    if isinstance(inner, exp.Order):
        inner = inner.this
    value = rewriter.rewrite(inner)
    return value, value.sql


def _in_order(argument: exp.Expr, by: exp.Expr) -> exp.Expr:
    """Sort the values of float aggregates, as their rounding must not depend on the order of rows."""
    if isinstance(argument, exp.Distinct):
        return argument
    return exp.Order(this=argument, expressions=[exp.Ordered(this=by.copy(), nulls_first=False)])


AGGREGATES: Final[Rules] = {
    exp.Sum: _sum,
    exp.Count: _count,
    exp.Avg: _avg,
    exp.Min: _extreme,
    exp.Max: _extreme,
    exp.ArgMin: _arg_extreme,
    exp.ArgMax: _arg_extreme,
    exp.Mode: _mode,
    exp.Filter: _filter,
    exp.Window: _window,
    **dict.fromkeys((exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue), _value_of_a_row),
    **dict.fromkeys((exp.IgnoreNulls, exp.RespectNulls), _nulls),
}

"""Aggregates as sums, counts and extremes, which is what views keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from sqlglot import exp

from runtime.compiler.lower import Leaf, lower
from runtime.compiler.operands import Lowered, NotIncremental, call, choose, quotient
from runtime.compiler.program import Lit
from runtime.compiler.types import INT, NULL, Type

__all__ = ["Accumulator", "accumulate", "is_accumulated"]

_VARIANCES: dict[type[exp.Expr], tuple[bool, bool]] = {  # (root, of the whole population)
    exp.Stddev: (True, False),
    exp.StddevSamp: (True, False),
    exp.StddevPop: (True, True),
    exp.Variance: (False, False),
    exp.VariancePop: (False, True),
}


class Accumulator(Protocol):
    """What can be kept of the rows of a group; each gives its value once the group is read."""

    may_be_empty: bool
    """Whether a group without rows is read too."""

    def rows(self) -> Lowered:
        """COUNT(*)."""

    def count(self, value: Lowered) -> Lowered:
        """COUNT of what may be NULL."""

    def total(self, value: Lowered) -> Lowered:
        """SUM of integers; of nothing NULL, or 0 where the dialect says so."""

    def extreme(self, kind: Literal["min", "max"], value: Lowered) -> Lowered:
        """MIN or MAX."""

    def distinct(self, kind: Literal["count_distinct", "sum_distinct"], value: Lowered) -> Lowered:
        """COUNT or SUM of every value once."""

    def arg_extreme(self, kind: Literal["min", "max"], value: Lowered, by: Lowered) -> Lowered:
        """ARG_MIN or ARG_MAX, the least value among equals; rows in which either is NULL are left out."""


def is_accumulated(node: exp.Expr) -> bool:
    """Whether this is an aggregate, with its FILTER if it has one."""
    return isinstance(node, exp.AggFunc) or (isinstance(node, exp.Filter) and isinstance(node.this, exp.AggFunc))


def accumulate(node: exp.Expr, leaf: Leaf, into: Accumulator) -> Lowered:
    """The aggregate's value; ``leaf`` knows the columns of its rows. Raises `NotIncremental`."""
    kept: Callable[[Lowered], Lowered] = lambda value: value  # noqa: E731  # one of two
    if isinstance(node, exp.Filter):
        condition = lower(node.expression.this, leaf)
        kept = lambda value: choose(condition, value, Lowered(Lit(None), NULL))  # noqa: E731
        node = node.this
    assert isinstance(node, exp.AggFunc)
    unknown = [name for name, part in node.args.items() if part and name not in ("this", "expression", "big_int")]
    if unknown:
        raise NotIncremental(f"{node.sql_name()} with more than one argument")
    if any(inner is not node and isinstance(inner, (exp.AggFunc, exp.Window)) for inner in node.find_all(exp.Func)):
        raise NotIncremental("nested aggregate")

    def value_of(part: exp.Expr) -> Lowered:
        return kept(lower(part, leaf))

    name, inner = node.sql_name(), node.this
    if isinstance(inner, exp.Distinct):
        return _distinct(node, inner, value_of, into)
    if isinstance(node, exp.Count):
        star = inner is None or isinstance(inner, exp.Star)
        return _count(kept(Lowered(Lit(1), INT)) if star else value_of(inner), into)
    if isinstance(node, exp.CountIf):
        count = _count(choose(value_of(inner), Lowered(Lit(1), INT), Lowered(Lit(None), NULL)), into)
        return Lowered(count.expr, Type("int", wide=True))
    if isinstance(node, (exp.Sum, exp.Avg)):
        value = _exact(value_of(inner), name)
        total = into.total(value)
        if isinstance(node, exp.Sum):
            return total
        return quotient(total, _count(value, into), never_zero=not (into.may_be_empty or value.type.nullable))
    if type(node) in _VARIANCES:
        return _variance(_exact(value_of(inner), name), into, *_VARIANCES[type(node)])
    if isinstance(node, (exp.Min, exp.LogicalAnd)):
        return into.extreme("min", value_of(inner))
    if isinstance(node, (exp.Max, exp.LogicalOr)):
        return into.extreme("max", value_of(inner))
    if isinstance(node, (exp.ArgMin, exp.ArgMax)):
        kind: Literal["min", "max"] = "min" if isinstance(node, exp.ArgMin) else "max"
        return into.arg_extreme(kind, value_of(inner), lower(node.expression, leaf))
    raise NotIncremental(f"{name} cannot be kept by adding up and taking back")


def _distinct(
    node: exp.AggFunc, inner: exp.Distinct, value_of: Callable[[exp.Expr], Lowered], into: Accumulator
) -> Lowered:
    if len(inner.expressions) != 1:
        raise NotIncremental(f"{node.sql_name()}(DISTINCT) of several values")
    value = value_of(inner.expressions[0])
    if isinstance(node, exp.Count):
        return into.distinct("count_distinct", value)
    if isinstance(node, (exp.Sum, exp.Avg)):
        total = into.distinct("sum_distinct", _exact(value, node.sql_name()))
        return total if isinstance(node, exp.Sum) else quotient(total, into.distinct("count_distinct", value))
    if isinstance(node, (exp.Min, exp.Max)):
        return into.extreme("min" if isinstance(node, exp.Min) else "max", value)
    raise NotIncremental(f"{node.sql_name()}(DISTINCT)")


def _count(value: Lowered, into: Accumulator) -> Lowered:
    return into.count(value) if value.type.nullable else into.rows()


def _exact(value: Lowered, name: str) -> Lowered:
    if value.type.kind != "int":
        raise NotIncremental(f"{value.type} {name}: floats cannot be taken back exactly")
    return value


def _variance(value: Lowered, into: Accumulator, root: bool, population: bool) -> Lowered:
    """(n·Σx² - (Σx)²) / (n·(n - 1)), or by n² of a population, from exact integers; NULL where that divides by 0."""
    number, total = _count(value, into), into.total(value)
    squares = into.total(Lowered(call("mul", value.expr, value.expr), Type("int", 2 * value.type.scale, True,
                                                                           value.type.nullable)))  # fmt: skip
    top = call("sub", call("mul", number.expr, squares.expr), call("mul", total.expr, total.expr))
    other = number.expr if population else call("sub", number.expr, Lit(1))
    bottom = call("mul", number.expr, other)
    if value.type.scale:
        bottom = call("mul", bottom, Lit(10 ** (2 * value.type.scale)))
    result = call("div", top, bottom)
    return Lowered(call("sqrt", result) if root else result, Type("float64", nullable=True))

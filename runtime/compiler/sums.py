"""Lowering of SQL's aggregates to those that are maintained incrementally: sums, counts, extremes and quantiles."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Literal

from sqlglot import exp

from runtime.compiler.lower import Leaf, lower
from runtime.compiler.operands import Lowered, NotIncremental, call, choose, compare, quotient
from runtime.compiler.types import BOOL, INT, NULL, Type, decimal_literal
from runtime.plan import Expr, Lit, Quantile

__all__ = ["Accumulator", "Extreme", "Sums", "accumulate", "group_leaf", "is_accumulated"]

_VARIANCES: dict[type[exp.Expr], tuple[bool, bool]] = {  # (root, of the whole population)
    exp.Stddev: (True, False),
    exp.StddevSamp: (True, False),
    exp.StddevPop: (True, True),
    exp.Variance: (False, False),
    exp.VariancePop: (False, True),
}
Extreme = Literal["min", "max"]


class Accumulator(ABC):
    """Interface for the aggregates of one class of views; each method returns the expression of one aggregate."""

    def __init__(self, *, may_be_empty: bool, zero: bool) -> None:
        """Begin with no aggregates.

        ``may_be_empty`` is True if the aggregates of a group without rows are also read; ``zero`` is True if SUM of no
        values is 0, not NULL.
        """
        self.may_be_empty, self._zero = may_be_empty, zero

    @abstractmethod
    def rows(self) -> Lowered:
        """Return COUNT(*)."""

    @abstractmethod
    def count(self, value: Lowered) -> Lowered:
        """Return COUNT of a value that may be NULL."""

    @abstractmethod
    def total(self, value: Lowered) -> Lowered:
        """Return SUM of integers."""

    def extreme(self, kind: Extreme, value: Lowered) -> Lowered:
        """Return MIN or MAX."""
        raise NotIncremental("MIN/MAX is not a sum")

    def distinct(self, kind: Literal["count_distinct", "sum_distinct"], value: Lowered) -> Lowered:
        """Return COUNT or SUM of the distinct values."""
        raise NotIncremental(f"{kind.partition('_')[0].upper()}(DISTINCT) is not a sum")

    def quantile(self, place: Quantile, value: Lowered) -> Lowered:
        """Return the value at a place in ascending order."""
        raise NotIncremental("a quantile is not a sum")

    def arg_extreme(self, kind: Extreme, value: Lowered, by: Lowered) -> Lowered:
        """Return ARG_MIN or ARG_MAX: the least value of the rows in which ``by`` is the extreme.

        Rows in which ``value`` or ``by`` is NULL are ignored.
        """
        raise NotIncremental("ARG_MIN/ARG_MAX is not a sum")


class Sums(Accumulator):
    """Accumulator of aggregates as sums over the rows of a map; other aggregates are refused."""

    def __init__(self, sum_of: Callable[[Expr | None], Expr], *, may_be_empty: bool, zero: bool) -> None:
        """Prepare the accumulator.

        ``sum_of`` returns the map's sum of an expression that is never NULL, or for None the number of rows.
        """
        super().__init__(may_be_empty=may_be_empty, zero=zero)
        self.sum_of = sum_of

    def value_sum(self, value: Lowered) -> Expr:
        """Return the sum of a value; a NULL counts as 0."""
        return self.sum_of(call("coalesce", value.expr, Lit(0)) if value.type.nullable else value.expr)

    def presence_sum(self, value: Lowered) -> Expr:
        """Return the number of rows in which a value is not NULL."""
        return self.sum_of(call("case", call("is_null", value.expr), Lit(0), Lit(1)))

    def rows(self) -> Lowered:
        return Lowered(self.sum_of(None), INT)

    def count(self, value: Lowered) -> Lowered:
        number = self.presence_sum(value)
        return Lowered(call("coalesce", number, Lit(0)) if self.may_be_empty else number, INT)

    def total(self, value: Lowered) -> Lowered:
        kind, total = Type("int", value.type.scale, True, not self._zero), self.value_sum(value)
        if not value.type.nullable:
            return Lowered(total, kind.with_null(self.may_be_empty and not self._zero))
        if self._zero:
            return Lowered(total, kind)
        return Lowered(call("case", call("gt", self.count(value).expr, Lit(0)), total, Lit(None)), kind)


def group_leaf(keys: Mapping[str, Lowered], columns: Leaf, into: Accumulator) -> Leaf:
    """Return the function with which `lower` resolves the keys and aggregates of a grouped SELECT.

    The function recognises a key by its SQL. The arguments of aggregates are expressions over the columns of the rows,
    which ``columns`` resolves; ``into`` returns the aggregates' values.
    """

    def leaf(node: exp.Expr) -> Lowered | None:
        key = keys.get(node.unnest().sql())
        if key is not None:
            return key
        if is_accumulated(node):
            return accumulate(node, columns, into)
        if isinstance(node, exp.Column):
            raise NotIncremental("a column that is neither grouped nor summed")
        return None

    return leaf


def is_accumulated(node: exp.Expr) -> bool:
    """Return True for an aggregate, with its FILTER if it has one."""
    return isinstance(node, exp.AggFunc) or (isinstance(node, exp.Filter) and isinstance(node.this, exp.AggFunc))


def accumulate(node: exp.Expr, leaf: Leaf, into: Accumulator) -> Lowered:
    """Return the value of an aggregate; ``leaf`` resolves the columns of the rows over which it is computed.

    Raise `NotIncremental` if the aggregate cannot be maintained incrementally.
    """
    condition = None
    if isinstance(node, exp.Filter):
        if isinstance(node.this, exp.CountIf):
            raise NotIncremental("COUNT_IF with FILTER")
        condition = lower(node.expression.this, leaf)
        node = node.this
    assert isinstance(node, exp.AggFunc)
    if isinstance(node.parent, exp.WithinGroup):
        raise NotIncremental(f"{node.sql_name()} WITHIN GROUP in such an order")
    if any(part and name not in ("this", "expression", "big_int") for name, part in node.args.items()):
        raise NotIncremental(f"{node.sql_name()} with more than one argument")
    inside = (part for part in node.find_all(exp.AggFunc, exp.Window) if part is not node)
    if any(leaf(part) is None for part in inside):  # an argument under OVER may be an aggregate of the SELECT
        raise NotIncremental("nested aggregate")

    def value_of(part: exp.Expr) -> Lowered:
        value = Lowered(Lit(1), INT) if isinstance(part, exp.Star) else lower(part, leaf)
        return value if condition is None else choose(condition, value, Lowered(Lit(None), NULL))

    if isinstance(node, _QUANTILES):
        return _quantile(node, value_of(node.this), into)
    if isinstance(node.this, exp.Distinct):
        return _distinct(node, node.this, value_of, into)
    if isinstance(node, (exp.ArgMin, exp.ArgMax)):
        kind: Extreme = "min" if isinstance(node, exp.ArgMin) else "max"
        return into.arg_extreme(kind, value_of(node.this), lower(node.expression, leaf))
    return _of_values(node, value_of(node.this or exp.Star()), into)


def _of_values(node: exp.AggFunc, value: Lowered, into: Accumulator) -> Lowered:
    """Return an aggregate that uses the value of every row, not only distinct values."""
    name = node.sql_name()
    if isinstance(node, exp.Count):
        return _count(value, into)
    if isinstance(node, exp.CountIf):
        return _count_if(value, into)
    if isinstance(node, exp.Sum):
        return into.total(_truths(value) if value.type.kind == "bool" else _exact(value, name))
    if isinstance(node, exp.Avg):
        total = into.total(_exact(value, name))
        return quotient(total, _count(value, into), never_zero=not (into.may_be_empty or value.type.nullable))
    if type(node) in _VARIANCES:
        return _variance(_exact(value, name), into, *_VARIANCES[type(node)])
    if isinstance(node, (exp.Min, exp.LogicalAnd)):
        return into.extreme("min", value)
    if isinstance(node, (exp.Max, exp.LogicalOr)):
        return into.extreme("max", value)
    raise NotIncremental(f"{name} cannot be maintained by addition and subtraction")


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


_QUANTILES = (exp.Median, exp.PercentileCont, exp.PercentileDisc)
_MOST_PARTS = 10**6


def _quantile(node: exp.AggFunc, value: Lowered, into: Accumulator) -> Lowered:
    """Return a quantile: QUANTILE_DISC is one of the values; MEDIAN and QUANTILE_CONT interpolate between two."""
    share = (5, 1) if isinstance(node, exp.Median) else None
    if isinstance(node.expression, exp.Literal) and not node.expression.is_string:
        share = decimal_literal(node.expression.this)
    if share is None or not 0 <= share[0] <= 10 ** share[1] <= _MOST_PARTS:
        raise NotIncremental(
            f"{node.sql_name()} of a share that is not a constant from 0 to 1, with 6 decimals at most"
        )
    part, whole = share[0], 10 ** share[1]
    if value.type.scale or value.type.kind in ("null", "other"):
        raise NotIncremental(f"{node.sql_name()} of {value.type}: of whole numbers it is incremental")
    if isinstance(node, exp.PercentileDisc):
        return into.quantile(Quantile("disc", part, whole), value)
    if value.type.kind != "int":
        raise NotIncremental(f"{node.sql_name()} of {value.type}: QUANTILE_DISC is incremental")
    low, high = (into.quantile(Quantile(kind, part, whole), value) for kind in ("floor", "ceil"))
    number = _count(value, into)
    steps = call("mul", call("sub", number.expr, Lit(1)), Lit(part))
    rest = call("mod", steps, Lit(whole))
    weighted = call("add", call("mul", low.expr, call("sub", Lit(whole), rest)), call("mul", high.expr, rest))
    return Lowered(call("div", weighted, Lit(whole)), Type("float64", nullable=True))


def _count(value: Lowered, into: Accumulator) -> Lowered:
    return into.count(value) if value.type.nullable else into.rows()


def _count_if(condition: Lowered, into: Accumulator) -> Lowered:
    """Return COUNT_IF, which in DuckDB is NULL if there are no rows, or if the condition is NULL in all rows."""
    total = into.total(_truths(condition))
    if not into.may_be_empty:
        return total
    return choose(compare("gt", into.rows(), Lowered(Lit(0), INT)), total, Lowered(Lit(None), NULL))


def _truths(condition: Lowered) -> Lowered:
    """Return 1 where the condition is true, 0 where it is false, and NULL where it is NULL."""
    number = choose(condition, Lowered(Lit(1), INT), Lowered(Lit(0), INT))
    if not condition.type.nullable:
        return number
    return choose(Lowered(call("is_null", condition.expr), BOOL), Lowered(Lit(None), NULL), number)


def _exact(value: Lowered, name: str) -> Lowered:
    if value.type.kind != "int":
        raise NotIncremental(f"{value.type} {name}: floats cannot be subtracted exactly")
    return value


def _variance(value: Lowered, into: Accumulator, root: bool, population: bool) -> Lowered:
    """Return the variance (n·Σx² - (Σx)²) / (n·(n - 1)), or its square root if ``root`` is True.

    For a population the divisor is n². The variance is computed from exact integers, and NULL if the divisor is 0.
    """
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

"""What a SELECT makes of the groups of a join: keys, sums of products, and expressions over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from sqlglot import exp

from runtime.compiler.constants import evaluate_constant
from runtime.compiler.factored.polynomial import Monomial, local, owners
from runtime.compiler.factored.summands import Summands
from runtime.compiler.factored.tables import Tables
from runtime.compiler.lower import Lowered, NotIncremental, lower
from runtime.compiler.operands import call, no_null
from runtime.compiler.sums import accumulate, is_accumulated
from runtime.compiler.types import INT, Type
from runtime.plan import Col, Expr, Lit

__all__ = ["GroupKey", "Totals", "group_keys"]

Value = int | float | str | bool | None
GroupKey = tuple[str, Lowered]
"""The SQL of a key, and what it is over the relations' columns."""


def group_keys(select: exp.Select, tables: Tables) -> list[GroupKey]:
    """The keys of GROUP BY."""
    group = select.args.get("group")
    if group is None:
        return []
    if any(group.args.get(name) for name in ("rollup", "cube", "grouping_sets", "totals")):
        raise NotIncremental("GROUPING SETS")
    parts = list(group.expressions)
    if group.args.get("all"):
        parts = [part.unalias() for part in select.expressions if part.find(exp.AggFunc) is None]
    keys = []
    for part in parts:
        value = lower(part, tables.column)
        if value.type.kind in ("null", "other"):
            raise NotIncremental("GROUP BY a constant NULL")
        keys.append((part.unnest().sql(), value))
    return keys


class Totals:
    """Lowers outputs and HAVING, collecting the sums that they need."""

    def __init__(
        self, select: exp.Select, tables: Tables, keys: Mapping[str, Lowered], name: Callable[[int], str], *, zero: bool
    ) -> None:
        self._tables = tables
        self._keys = keys
        self._name = name
        self.may_be_empty = select.args.get("group") is None
        self._zero = zero
        self._summands = Summands(self._is_nullable)
        self.sums: dict[str, tuple[Monomial, ...]] = {}
        """Name → what is summed."""
        if self.may_be_empty and not any(part.find(exp.AggFunc) for part in select.expressions):
            raise NotIncremental("the rows of a join, not sums over them")
        outputs = [lower(part.unalias(), self._leaf) for part in select.expressions]
        self.outputs = tuple(output.expr for output in outputs)
        self.types = tuple(output.type for output in outputs)
        having = select.args.get("having")
        self.having: Expr | None = None
        if having is not None:
            condition = lower(having.this, self._leaf)
            if condition.type.kind not in ("bool", "null"):
                raise NotIncremental("a condition that is no condition")
            self.having = condition.expr

    @property
    def empty(self) -> tuple[Value, ...] | None:
        """The row while there is nothing to sum; None where there is none then."""
        if not self.may_be_empty:
            return None
        nothing: dict[str, Value] = {"weight": 0, **dict.fromkeys(self.sums, 0 if self._zero else None)}
        if self.having is not None and evaluate_constant(self.having, nothing) is not True:
            return None
        return tuple(evaluate_constant(output, nothing) for output in self.outputs)

    def _leaf(self, node: exp.Expr) -> Lowered | None:
        key = self._keys.get(node.unnest().sql())
        if key is not None:
            return key
        if is_accumulated(node):
            return accumulate(node, self._tables.column, self)
        if isinstance(node, exp.Column):
            raise NotIncremental("a column that is neither grouped nor summed")
        return None

    def _is_nullable(self, expr: Expr) -> bool:
        (name,) = owners(expr)
        return self._tables.is_nullable(name, local(expr))

    def _sum_of(self, parts: tuple[Monomial, ...]) -> Col:
        for name, known in self.sums.items():
            if known == parts:
                return Col(name)
        name = self._name(len(self.sums) + 1)
        self.sums[name] = parts
        return Col(name)

    # --- aggregates, as runtime.compiler.sums.Accumulator wants them

    def rows(self) -> Lowered:
        """COUNT(*)."""
        return Lowered(Col("weight"), INT)

    def count(self, value: Lowered) -> Lowered:
        """COUNT of what may be NULL."""
        total = self._sum_of(self._summands.presence(value.expr))
        return no_null(Lowered(total, INT.with_null(self.may_be_empty)), 0)

    def total(self, value: Lowered) -> Lowered:
        """SUM of integers."""
        kind = Type("int", value.type.scale, True, not self._zero)
        total = self._sum_of(self._summands.value(value.expr))
        if not value.type.nullable:
            return Lowered(total, kind.with_null(self.may_be_empty and not self._zero))
        if self._zero:
            return Lowered(total, kind)
        some = call("gt", self.count(value).expr, Lit(0))
        return Lowered(call("case", some, total, Lit(None)), kind)

    def extreme(self, kind: Literal["min", "max"], value: Lowered) -> Lowered:
        """MIN and MAX have no place here."""
        raise NotIncremental("MIN/MAX is not a sum")

    def distinct(self, kind: Literal["count_distinct", "sum_distinct"], value: Lowered) -> Lowered:
        """Nor has DISTINCT."""
        raise NotIncremental(f"{kind.partition('_')[0].upper()}(DISTINCT) is not a sum")

    def arg_extreme(self, kind: Literal["min", "max"], value: Lowered, by: Lowered) -> Lowered:
        """Nor have these."""
        raise NotIncremental("ARG_MIN/ARG_MAX is not a sum")

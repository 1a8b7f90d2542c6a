"""What a SELECT makes of the groups of a join: keys, sums of products, and expressions over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from runtime.compiler.constants import evaluate_constant
from runtime.compiler.factored.polynomial import Monomial, polynomial
from runtime.compiler.factored.tables import Tables
from runtime.compiler.lower import Lowered, NotIncremental, lower
from runtime.compiler.operands import quotient
from runtime.compiler.program import Col, Expr
from runtime.compiler.types import INT, Type

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
        self._may_be_empty = select.args.get("group") is None
        self._zero = zero
        self.sums: dict[str, tuple[Monomial, ...]] = {}
        """Name → what is summed."""
        if self._may_be_empty and not any(part.find(exp.AggFunc) for part in select.expressions):
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
        if not self._may_be_empty:
            return None
        nothing: dict[str, Value] = {"weight": 0, **dict.fromkeys(self.sums, 0 if self._zero else None)}
        if self.having is not None and evaluate_constant(self.having, nothing) is not True:
            return None
        return tuple(evaluate_constant(output, nothing) for output in self.outputs)

    def _leaf(self, node: exp.Expr) -> Lowered | None:
        key = self._keys.get(node.unnest().sql())
        if key is not None:
            return key
        if isinstance(node, exp.Column):
            raise NotIncremental("a column that is neither grouped nor summed")
        if isinstance(node, exp.Div):
            return quotient(lower(node.left, self._leaf), lower(node.right, self._leaf))
        if isinstance(node, exp.Count):
            return self._count(node)
        if isinstance(node, (exp.Sum, exp.Avg)):
            return self._sum(node)
        if isinstance(node, (exp.Min, exp.Max)):
            raise NotIncremental("MIN/MAX is not a sum")
        return None

    def _count(self, node: exp.Count) -> Lowered:
        if isinstance(node.this, exp.Distinct):
            raise NotIncremental("COUNT(DISTINCT) is not a sum")
        counted = None if node.this is None or isinstance(node.this, exp.Star) else node.this
        if counted is not None and lower(counted, self._tables.column).type.nullable:
            raise NotIncremental("COUNT of what may be NULL")
        return Lowered(Col("weight"), INT)

    def _sum(self, node: exp.Sum | exp.Avg) -> Lowered:
        name = node.key.upper()
        if isinstance(node.this, exp.Distinct):
            raise NotIncremental(f"{name}(DISTINCT) is not a sum")
        if node.this.find(exp.AggFunc) is not None:
            raise NotIncremental("nested aggregate")
        value = lower(node.this, self._tables.column)
        if value.type.kind != "int":
            raise NotIncremental(f"{value.type} {name}: floats cannot be taken back exactly")
        if value.type.nullable:
            raise NotIncremental(f"{name} of what may be NULL")
        kind = Type("int", value.type.scale, True, self._may_be_empty and not self._zero)
        total = Lowered(self._sum_of(polynomial(value.expr)), kind)
        if isinstance(node, exp.Sum):
            return total
        return quotient(total, Lowered(Col("weight"), INT), never_zero=not self._may_be_empty)

    def _sum_of(self, parts: tuple[Monomial, ...]) -> Col:
        for name, known in self.sums.items():
            if known == parts:
                return Col(name)
        name = self._name(len(self.sums) + 1)
        self.sums[name] = parts
        return Col(name)

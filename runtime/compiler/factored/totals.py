"""Groups of a SELECT over a join: keys, sums of products, and expressions over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from runtime.compiler.constants import Constant, empty_row
from runtime.compiler.factored.polynomial import Monomial, Summands, local, owners
from runtime.compiler.factored.tables import Tables
from runtime.compiler.lower import Lowered, NotIncremental, lower, lower_key
from runtime.compiler.maps import Draft
from runtime.compiler.operands import as_condition
from runtime.compiler.parse import group_keys
from runtime.compiler.sums import Sums, group_leaf
from runtime.plan import Col, Expr

__all__ = ["GroupKey", "Totals", "keys_of"]

GroupKey = tuple[str, Lowered]
"""SQL of a key, and its expression over the relations' columns."""


def keys_of(tables: Tables) -> list[GroupKey]:
    """Return the keys of GROUP BY."""
    return [(part.unnest().sql(), lower_key(part, tables.column)) for part in group_keys(tables.select)]


class Totals(Sums):
    """Lowering of outputs and HAVING, which collects the sums that they need."""

    def __init__(self, tables: Tables, keys: Mapping[str, Lowered], name: Callable[[int], str], *, zero: bool) -> None:
        select = tables.select
        super().__init__(self._sum_or_weight, may_be_empty=select.args.get("group") is None, zero=zero)
        self._tables = tables
        self._name = name
        self._summands = Summands(self._is_nullable)
        self.sums: dict[str, tuple[Monomial, ...]] = {}
        """Summands by name."""
        if self.may_be_empty and not any(part.find(exp.AggFunc) for part in select.expressions):
            raise NotIncremental("the rows of a join, not sums over them")
        leaf = group_leaf(keys, tables.column, self)
        outputs = [lower(part.unalias(), leaf) for part in select.expressions]
        self.outputs = tuple(output.expr for output in outputs)
        self.types = tuple(output.type for output in outputs)
        having = select.args.get("having")
        self.having = None if having is None else as_condition(lower(having.this, leaf))

    @property
    def empty(self) -> tuple[Constant, ...] | None:
        """Return the row while there is nothing to sum; None if there is none then."""
        return empty_row(self.outputs, self.having, self.sums, zero=self._zero) if self.may_be_empty else None

    def require(self, drafts: Mapping[str, Draft]) -> None:
        """Add the factors to the sums of the relations' base maps."""
        for monomials in self.sums.values():
            for monomial in monomials:
                for name, expr in monomial.product:
                    drafts[name].summed.add(expr)

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

    # --- aggregates

    def _sum_or_weight(self, expr: Expr | None) -> Expr:
        return Col("weight") if expr is None else self._sum_of(self._summands.value(expr))

    def value_sum(self, value: Lowered) -> Expr:
        return self.sum_of(value.expr)

    def presence_sum(self, value: Lowered) -> Expr:
        return self._sum_of(self._summands.presence(value.expr))

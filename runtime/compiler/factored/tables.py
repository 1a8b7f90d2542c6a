"""Parts of a SELECT over a join: relations, conditions on their rows, groups, and sums of products."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import exp

from runtime.compiler.constants import Constant, empty_row
from runtime.compiler.factored.polynomial import Monomial, Summands, column_of, local, owners
from runtime.compiler.lower import conjuncts, lower, lower_key
from runtime.compiler.maps import Draft, unique
from runtime.compiler.operands import Lowered, NotIncremental, as_condition, call
from runtime.compiler.parse import group_keys
from runtime.compiler.sums import Sums, group_leaf
from runtime.compiler.types import Type
from runtime.plan import Call, Col, Expr, Lit, Relation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["GroupKey", "Tables", "Totals", "keys_of", "not_null"]


_TAKEN = re.compile(r"[mn]\d+")
"""Names that scalar maps and nested aggregates have in a plan."""


class Tables:
    """Relations of a FROM clause, by names that are unique in the view and have no dot."""

    def __init__(self, tree: exp.Query, relations: Mapping[str, Relation], *, name: str = "") -> None:
        """Read the FROM clause.

        Raises `NotIncremental` for anything but inner joins of relations. A single relation gets this ``name``, if any.
        """
        select = tree.unnest()
        if not isinstance(select, exp.Select):
            raise NotIncremental(select.key.upper())
        for clause, reason in (("with_", "WITH"), ("limit", "LIMIT"), ("offset", "LIMIT"), ("distinct", "DISTINCT"),
                               ("qualify", "QUALIFY")):  # fmt: skip
            if select.args.get(clause):
                raise NotIncremental(reason)
        self.select = select
        self.relations: dict[str, Relation] = {}
        self.wheres: dict[str, list[Expr]] = {}
        """Conditions on each relation's own rows."""
        self.conditions: list[exp.Expr] = []
        """Conjuncts of WHERE and ON."""
        self._names: dict[str, str] = {}
        self._name = name
        start = select.args.get("from_")
        if start is None:
            raise NotIncremental("reads no relation")
        self._add(start.this, relations)
        for join in select.args.get("joins") or []:
            side, kind = (join.side or "").upper(), (join.kind or "").upper()
            if side or kind not in ("", "INNER", "CROSS") or join.args.get("method") or join.args.get("using"):
                raise NotIncremental(f"{side or kind} JOIN")
            self._add(join.this, relations)
            if join.args.get("on") is not None:
                self.conditions += conjuncts(join.args["on"])
        where = select.args.get("where")
        if where is not None:
            self.conditions += conjuncts(where.this)

    def has(self, node: exp.Expr) -> bool:
        """Return True for a column of one of these relations."""
        return isinstance(node, exp.Column) and node.table in self._names

    def _add(self, table: exp.Expr, relations: Mapping[str, Relation]) -> None:
        if not isinstance(table, exp.Table):
            raise NotIncremental("a subquery in FROM")
        if table.name.lower() not in relations or any(table.args.get(part) for part in ("joins", "sample", "pivots")):
            raise NotIncremental("a table of WITH")
        alias = table.alias_or_name
        name = self._name or alias.replace(".", "_")
        name = unique(f"{name}_" if _TAKEN.fullmatch(name) else name, list(self.relations))
        self._names[alias] = name
        self.relations[name] = relations[table.name.lower()]
        self.wheres[name] = []

    def column(self, node: exp.Expr) -> Lowered | None:
        """Return a column of one of the relations; None for anything else."""
        if not isinstance(node, exp.Column):
            return None
        name = self._names.get(node.table)
        if name is None:
            raise NotIncremental("a subquery that depends on its row")
        return Lowered(column_of(name, node.name.lower()), self.type_of(name, node.name.lower()))

    def type_of(self, name: str, column: str) -> Type:
        """Return the type of a relation's column."""
        for known in self.relations[name].columns:
            if known.name == column:
                return Type.of(known)
        raise NotIncremental("an unknown column")

    def is_narrow(self, name: str, expr: Expr) -> bool:
        """Return True if every value of an integer expression over a relation has at most 64 bits."""
        if isinstance(expr, Col):
            kind = self.type_of(name, expr.name)
            return kind.kind == "int" and not kind.wide
        if isinstance(expr, Call) and expr.op in ("floordiv", "mod"):
            divisor = expr.args[1]
            return self.is_narrow(name, expr.args[0]) and isinstance(divisor, Lit) and divisor.value not in (0, -1)
        return False

    def is_nullable(self, name: str, expr: Expr) -> bool:
        """Return True if an expression over a relation may be NULL."""
        if isinstance(expr, Col):
            return self.type_of(name, expr.name).nullable
        if isinstance(expr, Lit):
            return expr.value is None
        nullable = [self.is_nullable(name, arg) for arg in expr.args]
        if expr.op == "is_null":
            return False
        if expr.op in ("coalesce", "least", "greatest"):
            return all(nullable)
        if expr.op == "case":
            return any(nullable[1::2]) or nullable[-1]
        if any(nullable) or expr.op not in ("floordiv", "mod", "div"):
            return any(nullable)
        return not isinstance(expr.args[1], Lit) or expr.args[1].value == 0

    def push_down(self) -> list[exp.Expr]:
        """Move the conditions that read at most one relation to ``wheres``; return the others."""
        rest = []
        for part in self.conditions:
            if part.find(exp.Query) is not None:
                rest.append(part)
                continue
            tables = {self._names.get(column.table) for column in part.find_all(exp.Column)}
            if len(tables) > 1:
                rest.append(part)
                continue
            test = as_condition(lower(part, self.column))
            (name,) = owners(test) or {next(iter(self.relations))}
            self.wheres[name].append(local(test))
        return rest


def not_null(expr: Expr) -> Expr:
    """Return the condition that the expression is not NULL."""
    return call("not", call("is_null", expr))


GroupKey = tuple[str, Lowered]
"""SQL of a key, and its expression over the relations' columns."""


def keys_of(tables: Tables) -> list[GroupKey]:
    """Return the keys of GROUP BY."""
    return [(part.unnest().sql(), lower_key(part, tables.column)) for part in group_keys(tables.select)]


class Totals(Sums):
    """Lowering of outputs and HAVING; it collects the sums that outputs and HAVING need."""

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
        """Row of the view while there are no rows to sum; None if the view has no row then."""
        return empty_row(self.outputs, self.having, self.sums, zero=self._zero) if self.may_be_empty else None

    def require(self, drafts: Mapping[str, Draft]) -> None:
        """Add the factors of all sums to the base maps of their relations."""
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

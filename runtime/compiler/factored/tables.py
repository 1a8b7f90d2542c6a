"""Relations that a SELECT reads, and the conditions on its rows."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlglot import exp

from runtime.compiler.factored.polynomial import column_of, local, owners
from runtime.compiler.lower import Lowered, NotIncremental, conjuncts, lower
from runtime.compiler.maps import unique
from runtime.compiler.operands import as_condition, call
from runtime.compiler.types import Type
from runtime.plan import Call, Col, Expr, Lit, Relation

__all__ = ["Tables", "not_null"]

_TAKEN = re.compile(r"[mn]\d+")
"""Names of maps and nested sums."""


class Tables:
    """Relations of a FROM clause, by names that are unique in the view and have no dot."""

    def __init__(self, tree: exp.Query, relations: Mapping[str, Relation], *, name: str = "") -> None:
        """Raises `NotIncremental` for anything but inner joins of relations; one relation gets this name, if any."""
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
        """Return True for a column of one of them."""
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
        """Return True if an integer expression over a relation surely fits 64 bits."""
        if isinstance(expr, Col):
            kind = self.type_of(name, expr.name)
            return kind.kind == "int" and not kind.wide
        if isinstance(expr, Call) and expr.op in ("floordiv", "mod"):
            return self.is_narrow(name, expr.args[0]) and getattr(expr.args[1], "value", 0) not in (0, -1)
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
        divides = expr.op in ("floordiv", "mod", "div")
        return any(nullable) or (divides and getattr(expr.args[1], "value", 0) == 0)

    def push_down(self) -> list[exp.Expr]:
        """Take the conditions on one relation's own rows; return the others."""
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

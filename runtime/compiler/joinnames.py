"""Conditions of joins by the names of columns: ``JOIN … USING (…)`` and ``NATURAL JOIN``.

sqlglot writes such a join as a join with ON, and compares the first table that has the column. After a RIGHT or FULL
JOIN by the same name, that table's column may be NULL where the joined column has a value, so the condition has to
compare the joined column. A column that several tables have without being joined by its name is refused, as in DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sqlglot import exp
from sqlglot.optimizer.resolver import Resolver
from sqlglot.optimizer.scope import Scope, traverse_scope
from sqlglot.schema import ensure_schema

from runtime.compiler.lower import conjuncts

__all__ = ["correct_joins_by_name", "mark_joins_by_name"]

_BY_NAME: Final = "by_name"
"""Key of `Expr.meta` that marks a join by the names of columns."""

Fail = Callable[[str, exp.Expr], Exception]
"""Maker of the error for a part of the query."""


def mark_joins_by_name(tree: exp.Query) -> bool:
    """Mark each join by the names of columns; return True if there is one. The tree is not qualified yet."""
    joins = [join for join in tree.find_all(exp.Join) if join.args.get("using") or join.method == "NATURAL"]
    for join in joins:
        join.meta[_BY_NAME] = True
    return bool(joins)


def correct_joins_by_name(tree: exp.Query, schema: Mapping[str, object], fail: Fail) -> None:
    """Let the ON of each marked join compare the joined columns; the tree is qualified."""
    tables = ensure_schema(dict(schema), dialect="duckdb")
    for scope in traverse_scope(tree):
        joins = scope.expression.args.get("joins") or []
        if any(join.meta.get(_BY_NAME) for join in joins):
            _correct(scope, joins, Resolver(scope, tables), fail)


def _correct(scope: Scope, joins: list[exp.Join], resolver: Resolver, fail: Fail) -> None:
    visible: dict[str, list[exp.Expr]] = {}
    """Name → the columns of that name to the left of a join: one, if they are joined by the name."""

    def show(table: str, hidden: set[str]) -> None:
        for name in resolver.get_source_columns(table):
            if name not in hidden:
                visible.setdefault(name, []).append(exp.column(name, table=table, quoted=True))

    show(scope.expression.args["from_"].this.alias_or_name, set())
    for join in joins:
        joined: set[str] = set()
        is_semi = (join.kind or "").upper() in ("SEMI", "ANTI")
        for part in conjuncts(join.args["on"]) if join.meta.get(_BY_NAME) and join.args.get("on") else ():
            name = part.expression.name
            values = visible.get(name, [])
            if len(values) != 1:
                columns = [f"{column.table}.{column.name}" for value in values for column in value.find_all(exp.Column)]
                shown = " and ".join(columns) or "none"
                raise fail(f"expected one column {name!r} before a JOIN by this name, was {shown}: write ON", join)
            part.set("this", values[0].copy())
            if not is_semi:
                visible[name] = [_joined(join.side, values[0], part.expression)]
            joined.add(name)
        if not is_semi:
            show(join.alias_or_name, joined)


def _joined(side: str, left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Return the value of a column that a join by its name makes of a column of each side."""
    if side.upper() == "FULL":
        return exp.func("COALESCE", left.copy(), right.copy())
    return right.copy() if side.upper() == "RIGHT" else left.copy()

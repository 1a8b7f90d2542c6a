"""Bound on the size of a query after names are replaced by expressions.

When a query names a column of a subquery, of a WITH table, of a view or of its own SELECT, the compiler replaces the
name by the expression of the column. It also rewrites some operations so that an operand occurs several times:
``FLOOR``, ``NULLIF``, ``x BETWEEN``, DuckDB's macros. Each level of nesting may then double the query, and a short text
may become a query that fills the memory. This module computes the size of the rewritten query without making it.
A size is a number of nodes of a syntax tree; in the error message, a node is called a "part".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sqlglot import exp

from runtime.compiler.describe import macro_copies
from runtime.compiler.lower import SHORT_LIST

__all__ = ["Sizes", "check_copies"]

_MOST_COPIED: Final = 10_000
"""Largest number of nodes that the syntax tree of a rewritten query may have beyond those that `_FREE` allows."""
_FREE: Final = 3
"""A rewritten query may have this many times the nodes of the original query; only further nodes are limited."""
_BOTH: Final = {"this": 2, "expression": 2}
_DIVISOR: Final = {"expression": 2}
_COPIED: Final[dict[type[exp.Expr], Mapping[str, int]]] = {
    exp.Abs: {"this": 3},
    exp.All: {"this": 2},
    exp.Any: {"this": 2},
    exp.Between: {"this": 2},
    exp.Div: _DIVISOR,
    exp.Floor: {"this": 4},
    exp.IntDiv: _DIVISOR,
    exp.Mod: _DIVISOR,
    exp.Nullif: _BOTH,
    exp.NullSafeEQ: _BOTH,
    exp.NullSafeNEQ: _BOTH,
}
"""Operation → operands that are written several times, and how often."""
_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)

Sizes = Mapping[str, int]
"""Column of a table → number of nodes of its expression."""
_Tables = dict[str, dict[str, int]]


def check_copies(
    tree: exp.Query, relations: Mapping[str, Sizes], fail: Callable[[str, exp.Expr], Exception]
) -> list[int]:
    """Return the sizes of the columns of a query; raise the error that ``fail`` makes if the query gets too large.

    ``relations`` has the sizes of the columns of relations and views. The tree is not qualified yet.
    """
    text = sum(1 for _ in tree.walk())
    size, columns = _Measure(relations).query(tree, {}, [])
    if size > _MOST_COPIED + _FREE * text:
        raise fail(
            f"expected a query that has at most {_MOST_COPIED} parts more when names are replaced by their "
            f"expressions, was about {size:.0e}: name expressions less often inside each other",
            tree,
        )
    return list(columns.values())


class _Measure:
    """Sizes of queries and expressions."""

    def __init__(self, relations: Mapping[str, Sizes]) -> None:
        self._relations = relations

    def query(self, node: exp.Expr, tables: _Tables, around: list[_Tables]) -> tuple[int, dict[str, int]]:
        """Return the size of a query, and the sizes of its columns.

        ``tables`` has the tables of WITH clauses, ``around`` the tables in FROM of each enclosing query.
        """
        total, tables = 0, dict(tables)
        clause = node.args.get("with_")
        for cte in [] if clause is None else clause.expressions:
            size, columns = self.query(cte.this, tables, [])
            names = [part.name.lower() for part in cte.args["alias"].args.get("columns") or []]
            tables[cte.alias.lower()] = _renamed(columns, names)
            total += size
        if isinstance(node, exp.Subquery):
            size, columns = self.query(node.this, tables, around)
        elif isinstance(node, exp.SetOperation):
            size, columns = self.query(node.this, tables, around)
            other, theirs = self.query(node.expression, tables, around)
            pairs = zip(columns.items(), theirs.values(), strict=False)
            size, columns = size + other, {name: max(own, its) for (name, own), its in pairs}
        elif isinstance(node, exp.Select):
            size, columns = self._select(node, tables, around)
        else:
            size, columns = sum(1 for _ in node.walk()), {}
        return total + size, columns

    def _select(self, node: exp.Select, tables: _Tables, around: list[_Tables]) -> tuple[int, dict[str, int]]:
        total = 1
        sources: _Tables = {}
        scopes = [*around, sources]
        start = node.args.get("from_")
        joins = node.args.get("joins") or []
        for source in [*([] if start is None else [start.this]), *(join.this for join in joins)]:
            size, sources[source.alias_or_name.lower()] = self._source(source, tables, around)
            total += size
        columns: dict[str, int] = {}
        for part in node.expressions:
            if part.is_star:
                for each in sources.values():
                    columns |= each
                continue
            name = part.alias_or_name.lower() or f"column {len(columns)}"
            size = self._expression(part.unalias(), tables, scopes, columns)
            columns[name if name not in columns else f"{name} {len(columns)}"] = size
            total += size
        for name, clause in node.args.items():
            if name in ("expressions", "from_", "with_"):
                continue
            for part in clause if isinstance(clause, list) else [clause]:
                if isinstance(part, exp.Join):
                    condition = part.args.get("on")
                    total += 0 if condition is None else self._expression(condition, tables, scopes, columns)
                elif isinstance(part, exp.Expr):
                    total += self._expression(part, tables, scopes, columns)
        return total * _sets(node), columns

    def _source(self, node: exp.Expr, tables: _Tables, around: list[_Tables]) -> tuple[int, dict[str, int]]:
        alias = node.args.get("alias")
        names = [part.name.lower() for part in (alias.args.get("columns") or [])] if alias is not None else []
        if isinstance(node, exp.Table):
            name = node.name.lower()
            return 1, _renamed(dict(tables.get(name) or self._relations.get(name, {})), names)
        size, columns = self.query(node, tables, around)
        return size, _renamed(columns, names)

    def _expression(self, node: exp.Expr, tables: _Tables, scopes: list[_Tables], aliases: Sizes) -> int:
        if isinstance(node, exp.Query):
            return self.query(node, tables, scopes)[0]
        if isinstance(node, exp.Column):
            return self._column(node, scopes, aliases)
        copied = _copies(node)
        total = 1
        for name, child in node.args.items():
            for part in child if isinstance(child, list) else [child]:
                if isinstance(part, exp.Expr):
                    total += copied.get(name, 1) * self._expression(part, tables, scopes, aliases)
        return total

    @staticmethod
    def _column(node: exp.Column, scopes: list[_Tables], aliases: Sizes) -> int:
        name, table = node.name.lower(), node.table.lower()
        for sources in reversed(scopes):
            if table and table in sources:
                return sources[table].get(name, 1)
            sizes = [columns[name] for columns in sources.values() if name in columns]
            if sizes and not table:
                return max(sizes)
        return aliases.get(name, 1) if not table else 1


def _renamed(columns: dict[str, int], names: list[str]) -> dict[str, int]:
    kept = [*names, *list(columns)[len(names) :]]
    return dict(zip(kept, columns.values(), strict=False))


def _copies(node: exp.Expr) -> Mapping[str, int]:
    """Return the operands of an operation that are written several times, and how often."""
    if isinstance(node, exp.Case):
        return {"this": max(len(node.args["ifs"]), 1)}
    if isinstance(node, exp.In):
        count = len(node.expressions)
        is_row = isinstance(node.this.unnest(), exp.Tuple)
        return {"this": max(count, 1)} if is_row or count <= SHORT_LIST else {}
    if isinstance(node, _COMPARISONS) and isinstance(node.this.unnest(), exp.Tuple):
        width = len(node.this.unnest().expressions)
        return {"this": width, "expression": width}
    if type(node) in _COPIED:
        return _COPIED[type(node)]
    if isinstance(node, exp.Func):
        name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
        copies = macro_copies().get(name.lower(), 1)
        return dict.fromkeys(node.args, copies) if copies > 1 else {}
    return {}


def _sets(node: exp.Select) -> int:
    """Return the number of sets of keys of GROUP BY; the compiler makes a SELECT for each set."""
    group = node.args.get("group")
    count = 1
    for part in [] if group is None else group.expressions:
        count *= _count(part)
    return max(count, 1)


def _count(part: exp.Expr) -> int:
    parts = part.expressions
    if isinstance(part, exp.GroupingSets):
        return sum(_count(each) for each in parts)
    if isinstance(part, exp.Rollup):
        return len(parts) + 1
    return 2 ** min(len(parts), 64) if isinstance(part, exp.Cube) else 1

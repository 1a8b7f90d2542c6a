"""Subqueries of expressions: conditions become semijoins, and others become columns that are joined to the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from sqlglot import exp

from runtime.compiler.constants import Constant, evaluate_constant
from runtime.compiler.epochtime import TURNED, rises_with_time
from runtime.compiler.flow.blocks import (
    Block,
    Link,
    QueryBuilder,
    free_columns,
    outermost_queries,
    sides_of,
)
from runtime.compiler.flow.graph import Bound, Rows
from runtime.compiler.flow.groups import aggregates_of, group
from runtime.compiler.flow.joining import attach
from runtime.compiler.flow.reading import read
from runtime.compiler.inlining import own_tables
from runtime.compiler.lower import conjuncts, lower
from runtime.compiler.operands import Lowered, NotIncremental, aligned, as_condition, call, choose
from runtime.compiler.types import BOOL, INT, NULL
from runtime.plan import EPOCH_TIME, Aggregate, Col, Expr, Lit, renamed

__all__ = ["Subqueries"]

_CLAUSES = ("group", "having", "limit", "offset", "distinct", "with_")
"""Clauses of a subquery whose EXISTS cannot be written as a comparison with an extreme."""
_OPERATORS: dict[type[exp.Expr], Literal["lt", "le", "gt", "ge"]] = {
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
}


class Subqueries:
    """Rewriter of subqueries."""

    def __init__(self, queries: QueryBuilder) -> None:
        self._queries = queries
        self._made: list[exp.Expr] = []  # kept alive, because `Block.known` refers to nodes by their identity

    def condition(self, around: Block, node: exp.Expr) -> None:
        """Keep the rows for which a condition with subqueries is true."""
        inner, anti = node.unnest(), False
        if isinstance(inner, exp.Not):
            inner, anti = inner.this.unnest(), True
        extreme = _extreme_test(inner.this) if isinstance(inner, exp.Exists) else None
        if extreme is not None:
            self._made.append(extreme)
            self.condition(around, exp.Not(this=_never_null(extreme)) if anti else extreme)
        elif isinstance(inner, exp.Exists):
            self._semi(around, self._existing(around, inner.this), [], anti=anti)
        elif isinstance(inner, exp.In) and inner.args.get("query") is not None:
            self._member(around, inner, anti=anti)
        elif not anti and (self._equal(around, inner) or self._bounded(around, inner)):
            pass
        else:
            self.attach(around, [node], inner=_rejects_null(inner))
            test = as_condition(lower(node, around.leaf))
            if test != Lit(True):
                around.rows = self._queries.graph.filter(around.rows, [test])

    def attach(self, around: Block, nodes: Sequence[exp.Expr], *, inner: bool = False) -> None:
        """Join the subqueries of these expressions to the rows, so that `Block.leaf` resolves them.

        With ``inner``, rows for which one of the subqueries is NULL may be dropped.
        """
        for node in nodes:
            for part in outermost_queries(node):
                if id(part) not in around.known:
                    around.known[id(part)] = self._value(around, part, inner=inner)

    def _value(self, around: Block, node: exp.Expr, *, inner: bool) -> Lowered:
        if isinstance(node, exp.Exists):
            extreme = _extreme_test(node.this)
            if extreme is not None:
                self._made.append(extreme)
                self.attach(around, [extreme])
                return lower(_never_null(extreme), around.leaf)
            rows, links = self._existing(around, node.this)
            count, _ = self._counts(around, rows, links)
            return Lowered(call("gt", count.expr, Lit(0)), BOOL)
        if isinstance(node, exp.In):
            return self._membership(around, *self._members(around, node))
        return self._scalar(around, node, inner=inner)

    # --- EXISTS and IN

    def _existing(self, around: Block, node: exp.Expr) -> tuple[Rows, list[Link]]:
        """Return the rows of an EXISTS's subquery, and the links of the subquery to the query around it."""
        select = node.unnest()
        limit = select.args.get("limit")
        if select.args.get("offset") or (limit is not None and limit.expression.name == "0"):
            raise NotIncremental("EXISTS of rows after the first")
        if isinstance(select, exp.Select) and not select.args.get("having"):
            if select.args.get("group") is None and aggregates_of(select.expressions):
                raise NotIncremental("EXISTS of an aggregate, which always has a row")
            with self._queries.tables_of(select):
                reading = read(self._queries, select, around, [])
            return reading.rows, reading.links
        result = self._queries.query(select, around, set())
        return result.rows, result.links

    def _semi(
        self, around: Block, existing: tuple[Rows, list[Link]], more: Sequence[tuple[Lowered, str]], *, anti: bool
    ) -> None:
        rows, links = existing
        graph = self._queries.graph
        columns = list(around.rows.columns)
        pairs = [*more, *links]
        wide, names = graph.extended(around.rows, [value for value, _ in pairs])
        on = [(name, column) for name, (_, column) in zip(names, pairs, strict=True)]
        around.rows = graph.keep(graph.semi(wide, rows, on, anti=anti), columns)

    def _members(self, around: Block, node: exp.In) -> tuple[list[Lowered], list[Lowered], Rows, list[Link]]:
        """Return the parts of ``(value, …) IN (SELECT column, …)``: values, columns, rows and links."""
        row = node.this.unnest()
        parts = row.expressions if isinstance(row, exp.Tuple) else [node.this]
        self.attach(around, parts)
        result = self._queries.query(node.args["query"], around, None)
        if len(result.outputs) != len(parts):
            raise NotIncremental("IN with another number of columns")
        pairs = [aligned(lower(part, around.leaf), output)
                 for part, (_, output) in zip(parts, result.outputs, strict=True)]  # fmt: skip
        rows, names = self._queries.graph.extended(result.rows, [column for _, column in pairs])
        columns = [Lowered(Col(name), column.type) for name, (_, column) in zip(names, pairs, strict=True)]
        return [value for value, _ in pairs], columns, rows, result.links

    def _member(self, around: Block, node: exp.In, *, anti: bool) -> None:
        values, columns, rows, links = self._members(around, node)
        if anti and any(part.type.nullable for part in (*values, *columns)):
            truth = self._membership(around, values, columns, rows, links)
            around.rows = self._queries.graph.filter(around.rows, [call("not", truth.expr)])
            return
        self._semi(around, (rows, links), _links(values, columns), anti=anti)

    def _membership(
        self, around: Block, values: Sequence[Lowered], columns: Sequence[Lowered], rows: Rows, links: list[Link]
    ) -> Lowered:
        """Return IN as a value: true, false, or NULL if nothing matches and either side has a NULL."""
        matches, _ = self._counts(around, rows, [*_links(values, columns), *links])
        is_member = Lowered(call("gt", matches.expr, Lit(0)), BOOL)
        if not any(part.type.nullable for part in (*values, *columns)):
            return is_member
        if len(values) > 1:
            raise NotIncremental("IN of several columns that may be NULL, where it matters whether it is NULL or false")
        (value,), ((_, column),) = values, _links(values, columns)
        total, there = self._counts(around, rows, links, column)
        unknown = call("lt", there.expr, total.expr)
        if value.type.nullable:
            unknown = call("or", unknown, call("is_null", value.expr))
        is_open = call("and", call("gt", total.expr, Lit(0)), unknown)
        result = call("case", is_member.expr, Lit(True), is_open, Lit(None), Lit(False))
        return Lowered(result, BOOL.with_null())

    def _counts(
        self, around: Block, rows: Rows, links: Sequence[Link], column: str | None = None
    ) -> tuple[Lowered, Lowered]:
        """Count for each outer row its linked rows, and its linked rows without a NULL in this column."""
        graph = self._queries.graph
        parts = [(Aggregate("rows", "count_rows", None, "int64"), INT)]
        if column is not None:
            parts.append((Aggregate("present", "count", column, "int64"), INT))
        names = list(dict.fromkeys(name for _, name in links))
        counted = graph.group(graph.keep(rows, {*names, *([column] if column else [])}), names, parts)
        called = self._join(around, counted, links, {"rows": Lit(0), "present": Lit(0)})
        return Lowered(called["rows"], INT), Lowered(called.get("present", Lit(0)), INT)

    # --- scalar subqueries

    def _scalar(self, around: Block, node: exp.Expr, *, inner: bool) -> Lowered:
        select = node.unnest()
        if not isinstance(select, exp.Select) or len(select.expressions) != 1:
            raise NotIncremental("a subquery that may give more than one row")
        if _is_aggregate(select):
            with self._queries.tables_of(select):
                groups, value = self._aggregate(around, select)
            inner = inner and _of_nothing(groups, value) is None
            called = self._join(around, groups.rows, groups.links, None if inner else groups.defaults)
            nullable = value.type.nullable or bool(groups.links)
            return Lowered(renamed(value.expr, called), value.type.with_null(nullable))
        plain = not any(select.args.get(name) for name in ("group", "limit", "offset", "distinct"))
        if plain and select.args.get("from_") is None and not select.args.get("where"):
            return lower(select.expressions[0].unalias(), around.leaf)
        limit = select.args.get("limit")
        if limit is None or limit.expression.name != "1":
            raise NotIncremental("a subquery that may give more than one row")
        result = self._queries.query(select, None, None)
        (_, value) = result.outputs[0]
        assert isinstance(value.expr, Col)
        only = Aggregate("only", "max", value.expr.name, value.type.column("").type)
        graph = self._queries.graph
        row = graph.group(graph.keep(result.rows, [value.expr.name]), [], [(only, value.type.with_null())])
        return Lowered(self._join(around, row, [], {})["only"], value.type.with_null())

    def _aggregate(self, around: Block, select: exp.Select) -> tuple[Block, Lowered]:
        """Return the aggregates of a SELECT without GROUP BY, and the value that the SELECT returns."""
        having = select.args.get("having")
        output = select.expressions[0].unalias()
        nodes = [output] if having is None else [output, having.this]
        reading = read(self._queries, select, around, nodes)
        groups = group(self._queries, reading, [], nodes, grouped=False)
        outside = [
            part for node in nodes for part in outermost_queries(node) if part.find_ancestor(exp.AggFunc) is None
        ]
        if reading.links and any(part.find_ancestor(exp.Select) is select for part in outside):
            raise NotIncremental("a subquery in the SELECT of a subquery that depends on the query around it")
        self.attach(groups, nodes if not reading.links else [])
        value = lower(output, groups.leaf)
        if having is not None:
            value = choose(lower(having.this, groups.leaf), value, Lowered(Lit(None), NULL))
        return groups, value

    def _equal(self, around: Block, node: exp.Expr) -> bool:
        """Build ``value = (SELECT aggregate …)`` as a semijoin and return True; return False for other conditions.

        A change of the aggregate then takes time only for rows that equal its value, not for all compared rows.
        """
        if not isinstance(node, exp.EQ):
            return False
        for side, query in ((node.left, node.right.unnest()), (node.right, node.left.unnest())):
            if not (isinstance(query, exp.Select) and _is_aggregate(query)) or outermost_queries(side):
                continue
            with self._queries.tables_of(query):
                groups, value = self._aggregate(around, query)
            if groups.links and _of_nothing(groups, value) is not None:
                return False
            mine, theirs = aligned(lower(side, around.leaf), value)
            rows, (name,) = self._queries.graph.extended(groups.rows, [theirs])
            self._semi(around, (rows, groups.links), [(mine, name)], anti=False)
            return True
        return False

    def _bounded(self, around: Block, node: exp.Expr) -> bool:
        """Build a comparison with a bound of independent subqueries and return True; return False for other conditions.

        When the bound moves, only the rows between its old and new value take time; in a product, all rows would.
        """
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            sides = [self._bound(around, exp.GTE, node.this, node.args["low"]),
                     self._bound(around, exp.LTE, node.this, node.args["high"])]  # fmt: skip
        elif isinstance(node, (exp.LT, exp.LTE, exp.GT, exp.GTE)):
            sides = [self._bound(around, type(node), node.left, node.right)]
            sides = sides if sides[0] else [self._bound(around, TURNED[type(node)], node.right, node.left)]
        else:
            return False
        bounds = [bound for bound in sides if bound is not None]
        if len(bounds) < len(sides):
            return False
        graph, columns = self._queries.graph, list(around.rows.columns)
        for value, bound in bounds:
            wide, (name,) = graph.extended(around.rows, [value])
            around.rows = graph.keep(graph.bounded(wide, name, bound), columns)
        return True

    def _bound(
        self, around: Block, kind: type[exp.Expr], side: exp.Expr, bound: exp.Expr
    ) -> tuple[Lowered, Bound] | None:
        """Return both sides of a comparison of the rows with independent subqueries; None for other comparisons."""
        queries = outermost_queries(bound)
        if not queries or outermost_queries(side) or free_columns(bound) or not free_columns(side):
            return None
        parts = [query.unnest() for query in queries]
        selects = [part for part in parts if isinstance(part, exp.Select) and _is_aggregate(part)]
        if len(selects) < len(parts):
            return None
        value = lower(side, around.leaf)
        is_time = all(table.name == EPOCH_TIME.name for select in selects for table in select.find_all(exp.Table))
        if value.type.kind not in ("int", "date", "timestamp") or (value.type.wide and not is_time):
            return None
        with self._queries.tables_of(selects[0]):
            block, first = self._aggregate(around, selects[0])
        block.known[id(queries[0])] = first
        self.attach(block, queries[1:])
        compared, limit = aligned(value, lower(bound, block.leaf))
        if value.type.kind == "int" and compared.expr != value.expr:
            return None
        rows, (name,) = self._queries.graph.extended(block.rows, [limit])
        rises = is_time and rises_with_time(bound)
        return Lowered(compared.expr, replace(compared.type, wide=False)), Bound(_OPERATORS[kind], rows, name, rises)

    def _join(
        self, around: Block, rows: Rows, links: Sequence[Link], defaults: dict[str, Lit] | None
    ) -> dict[str, Expr]:
        """Join at most one row to each outer row, and return an expression for each of the joined columns.

        If ``defaults`` is None, outer rows without a match are dropped.
        """
        around.rows, called = attach(self._queries.graph, around.rows, rows, links, defaults)
        return {old: Col(new) for old, new in called.items()}


def _links(values: Sequence[Lowered], columns: Sequence[Lowered]) -> list[Link]:
    return [(value, column.expr.name) for value, column in zip(values, columns, strict=True)
            if isinstance(column.expr, Col)]  # fmt: skip


def _is_aggregate(select: exp.Select) -> bool:
    """Return True for a query with one row for any input: an aggregate without GROUP BY."""
    plain = not any(select.args.get(name) for name in ("group", "limit", "offset", "distinct"))
    return plain and len(select.expressions) == 1 and bool(aggregates_of(select.expressions))


def _of_nothing(groups: Block, value: Lowered) -> Constant:
    """Return the value that is selected if there is no row to aggregate."""
    row: dict[str, Constant] = dict.fromkeys(groups.rows.columns)
    try:
        return evaluate_constant(value.expr, row | {name: default.value for name, default in groups.defaults.items()})
    except NotIncremental:
        return False  # any value other than NULL, as callers only compare with NULL


def _rejects_null(node: exp.Expr) -> bool:
    """Return True if a condition is not true where one of its subqueries is NULL."""
    if not isinstance(node, (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between)):
        return False
    strict = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.Paren, exp.Subquery)
    for query in outermost_queries(node):
        part = query
        while part is not node:
            if not isinstance(part, (*strict, exp.Select)) or part.parent is None:
                return False
            part = part.parent
    return True


def _never_null(test: exp.Expr) -> exp.Expr:
    return exp.Coalesce(this=test, expressions=[exp.Boolean(this=False)])


# --- EXISTS with an inequality as a comparison with the least or greatest value


def _extreme_test(node: exp.Expr) -> exp.Binary | None:
    """Return ``(SELECT MIN(x) …) < y`` for an EXISTS with the condition x < y, if y is an outer column; else None."""
    select = node.unnest()
    if not isinstance(select, exp.Select) or any(select.args.get(name) for name in _CLAUSES):
        return None
    if aggregates_of(select.expressions) or select.args.get("where") is None:
        return None
    own = own_tables(select)
    parts = conjuncts(select.args["where"].this)
    bounds = [(part, bound) for part in parts if (bound := _inequality(part, own)) is not None]
    if len(bounds) != 1:
        return None
    part, (kind, inside, outside) = bounds[0]
    rest = [other.copy() for other in parts if other is not part]
    inner = select.copy()
    inner.set("where", exp.Where(this=exp.and_(*rest)) if rest else None)
    extreme = exp.Min if kind in (exp.LT, exp.LTE) else exp.Max
    inner.set("expressions", [extreme(this=inside.copy())])
    return kind(this=exp.Subquery(this=inner), expression=outside.copy())


def _inequality(node: exp.Expr, own: set[str]) -> tuple[type[exp.Binary], exp.Expr, exp.Expr] | None:
    """Return the kind, the inner side and the outer side of an inequality between them; None for other conditions."""
    if type(node) not in TURNED or outermost_queries(node):
        return None
    assert isinstance(node, exp.Binary)
    sides = sides_of(node, own)
    return None if sides is None else (type(node) if sides[0] is node.left else TURNED[type(node)], *sides)

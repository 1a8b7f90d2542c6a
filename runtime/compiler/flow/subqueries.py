"""Subqueries of expressions: those that are conditions become semijoins, others columns that are joined to the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from runtime.compiler.constants import Constant, evaluate_constant
from runtime.compiler.flow.extremes import extreme_test
from runtime.compiler.flow.graph import Rows
from runtime.compiler.flow.groups import Grouped, aggregates_of, group
from runtime.compiler.flow.names import outermost_queries
from runtime.compiler.flow.outer import left_join
from runtime.compiler.flow.reading import Link, Reading, read
from runtime.compiler.lower import lower
from runtime.compiler.operands import Lowered, NotIncremental, aligned, as_condition, call, choose
from runtime.compiler.types import BOOL, INT, NULL
from runtime.plan import Aggregate, Col, Expr, Lit, renamed

if TYPE_CHECKING:
    from runtime.compiler.flow.queries import Queries

__all__ = ["Around", "Subqueries"]

Around = Reading | Grouped
"""The SELECT whose expressions have subqueries."""


class Subqueries:
    """What becomes of subqueries."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._made: list[exp.Expr] = []  # kept, as nodes are known by their identity

    def condition(self, around: Around, node: exp.Expr) -> None:
        """Leaves the rows for which a condition with subqueries is true."""
        inner, anti = node.unnest(), False
        if isinstance(inner, exp.Not):
            inner, anti = inner.this.unnest(), True
        extreme = extreme_test(inner.this) if isinstance(inner, exp.Exists) else None
        if extreme is not None:
            self._made.append(extreme)
            self.condition(around, exp.Not(this=_never_null(extreme)) if anti else extreme)
        elif isinstance(inner, exp.Exists):
            self._semi(around, self._existing(around, inner.this), [], anti=anti)
        elif isinstance(inner, exp.In) and inner.args.get("query") is not None:
            self._member(around, inner, anti=anti)
        elif not anti and self._equal(around, inner):
            pass
        else:
            self.attach(around, [node], inner=_rejects_null(inner))
            test = as_condition(lower(node, around.leaf))
            if test != Lit(True):
                around.rows = self._queries.graph.filter(around.rows, [test])

    def attach(self, around: Around, nodes: Sequence[exp.Expr], *, inner: bool = False) -> None:
        """Joins the subqueries of these expressions to the rows, so that `leaf` knows what they are.

        With ``inner``, rows for which one of them is NULL may go.
        """
        for node in nodes:
            for part in list(outermost_queries(node)):
                if id(part) not in around.known:
                    around.known[id(part)] = self._value(around, part, inner=inner)

    def _value(self, around: Around, node: exp.Expr, *, inner: bool) -> Lowered:
        if isinstance(node, exp.Exists):
            extreme = extreme_test(node.this)
            if extreme is not None:
                self._made.append(extreme)
                self.attach(around, [extreme])
                return lower(_never_null(extreme), around.leaf)
            rows, links = self._existing(around, node.this)
            count = self._counted(around, rows, links)
            return Lowered(call("gt", count.expr, Lit(0)), BOOL)
        if isinstance(node, exp.In):
            return self._membership(around, node)
        return self._scalar(around, node, inner=inner)

    # --- EXISTS and IN

    def _existing(self, around: Around, node: exp.Expr) -> tuple[Rows, list[Link]]:
        """The rows of which EXISTS asks whether there are any."""
        select = node.unnest()
        limit = select.args.get("limit")
        if select.args.get("offset") or (limit is not None and limit.expression.name == "0"):
            raise NotIncremental("EXISTS of rows after the first")
        if isinstance(select, exp.Select) and not select.args.get("having"):
            if select.args.get("group") is None and any(True for _ in aggregates_of(select.expressions)):
                raise NotIncremental("EXISTS of an aggregate, which is always there")
            with self._queries.tables_of(select):
                reading = read(self._queries, select, around, [])
            return reading.rows, reading.links
        result = self._queries.query(select, around, set())
        return result.rows, result.links

    def _semi(
        self, around: Around, found: tuple[Rows, list[Link]], more: Sequence[tuple[Lowered, str]], *, anti: bool
    ) -> None:
        rows, links = found
        graph = self._queries.graph
        columns = list(around.rows.columns)
        pairs = [*more, *links]
        wide, names = graph.extended(around.rows, [value for value, _ in pairs])
        on = [(name, column) for name, (_, column) in zip(names, pairs, strict=True)]
        around.rows = graph.keep(graph.semi(wide, rows, on, anti=anti), columns)

    def _members(self, around: Around, node: exp.In) -> tuple[Lowered, Lowered, Rows, list[Link]]:
        """Of ``value IN (SELECT column …)``: the value and the column as they are compared, rows and links."""
        self.attach(around, [node.this])
        value = lower(node.this, around.leaf)
        result = self._queries.query(node.args["query"], around, None)
        if len(result.outputs) != 1:
            raise NotIncremental("IN with several columns")
        one, other = aligned(value, result.outputs[0][1])
        rows, (name,) = self._queries.graph.extended(result.rows, [other])
        return one, Lowered(Col(name), other.type), rows, result.links

    def _member(self, around: Around, node: exp.In, *, anti: bool) -> None:
        value, column, rows, links = self._members(around, node)
        if anti and (value.type.nullable or column.type.nullable):
            truth = self._membership_of(around, value, column, rows, links)
            around.rows = self._queries.graph.filter(around.rows, [call("not", truth.expr)])
            return
        assert isinstance(column.expr, Col)
        self._semi(around, (rows, links), [(value, column.expr.name)], anti=anti)

    def _membership(self, around: Around, node: exp.In) -> Lowered:
        return self._membership_of(around, *self._members(around, node))

    def _membership_of(self, around: Around, value: Lowered, column: Lowered, rows: Rows, links: list[Link]) -> Lowered:
        """IN as a value: true, false, or NULL where a NULL on either side leaves it open."""
        assert isinstance(column.expr, Col)
        matches = self._counted(around, rows, [(value, column.expr.name), *links])
        found = Lowered(call("gt", matches.expr, Lit(0)), BOOL)
        if not (value.type.nullable or column.type.nullable):
            return found
        total, there = self._counts(around, rows, links, column.expr.name)
        unknown = call("lt", there.expr, total.expr)
        if value.type.nullable:
            unknown = call("or", unknown, call("is_null", value.expr))
        is_open = call("and", call("gt", total.expr, Lit(0)), unknown)
        result = call("case", found.expr, Lit(True), is_open, Lit(None), Lit(False))
        return Lowered(result, BOOL.with_null())

    def _counted(self, around: Around, rows: Rows, links: Sequence[Link]) -> Lowered:
        """How many rows there are that the links tie to a row around."""
        return self._counts(around, rows, links, None)[0]

    def _counts(self, around: Around, rows: Rows, links: Sequence[Link], column: str | None) -> tuple[Lowered, Lowered]:
        """How many, and how many in which this column is not NULL."""
        graph = self._queries.graph
        parts = [(Aggregate("rows", "count_rows", None, "int64"), INT)]
        if column is not None:
            parts.append((Aggregate("present", "count", column, "int64"), INT))
        names = list(dict.fromkeys(name for _, name in links))
        counted = graph.group(graph.keep(rows, {*names, *([column] if column else [])}), names, parts)
        called = self._join(around, counted, links, {"rows": Lit(0), "present": Lit(0)})
        return Lowered(called["rows"], INT), Lowered(called.get("present", Lit(0)), INT)

    # --- scalar subqueries

    def _scalar(self, around: Around, node: exp.Expr, *, inner: bool) -> Lowered:
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

    def _aggregate(self, around: Around, select: exp.Select) -> tuple[Grouped, Lowered]:
        """Aggregates without GROUP BY, and the SELECT's value over them."""
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

    def _equal(self, around: Around, node: exp.Expr) -> bool:
        """Whether this is ``value = (SELECT aggregate …)``, which is a semijoin: then it is done.

        A change of the aggregate then costs the rows that equal it, not all that it is compared with.
        """
        if not isinstance(node, exp.EQ):
            return False
        for side, query in ((node.left, node.right.unnest()), (node.right, node.left.unnest())):
            if not (isinstance(query, exp.Select) and _is_aggregate(query)) or any(
                True for _ in outermost_queries(side)
            ):
                continue
            with self._queries.tables_of(query):
                groups, value = self._aggregate(around, query)
            if groups.links and _of_nothing(groups, value) is not None:
                return False
            one, other = aligned(lower(side, around.leaf), value)
            rows, (name,) = self._queries.graph.extended(groups.rows, [other])
            self._semi(around, (rows, groups.links), [(one, name)], anti=False)
            return True
        return False

    def _join(
        self, around: Around, rows: Rows, links: Sequence[Link], defaults: dict[str, Lit] | None
    ) -> dict[str, Expr]:
        """Joins rows, one at most for each row around, which goes if it has none and there are no ``defaults``.

        Gives what their columns are called there.
        """
        graph = self._queries.graph
        kept = list(around.rows.columns)
        wide, names = graph.extended(around.rows, [value for value, _ in links])
        rows, called = graph.apart(wide, rows)
        on = [(name, called[column]) for name, (_, column) in zip(names, links, strict=True)]
        if links and defaults is not None:
            known = {called[name]: value for name, value in defaults.items() if name in called}
            joined = left_join(graph, wide, rows, on, known)
        else:
            joined = graph.join(wide, rows, on)
        around.rows = graph.keep(joined, [*kept, *called.values()])
        return {old: Col(new) for old, new in called.items()}


def _is_aggregate(select: exp.Select) -> bool:
    """Whether it has one row whatever there is to read: an aggregate without GROUP BY."""
    plain = not any(select.args.get(name) for name in ("group", "limit", "offset", "distinct"))
    return plain and len(select.expressions) == 1 and any(True for _ in aggregates_of(select.expressions))


def _of_nothing(groups: Grouped, value: Lowered) -> Constant:
    """The value where there is no row to aggregate."""
    row: dict[str, Constant] = dict.fromkeys(groups.rows.columns)
    try:
        return evaluate_constant(value.expr, row | {name: default.value for name, default in groups.defaults.items()})
    except NotIncremental:
        return False  # something: what it is does not matter


def _rejects_null(node: exp.Expr) -> bool:
    """Whether a condition is not true where one of its subqueries is NULL."""
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

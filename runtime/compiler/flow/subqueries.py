"""Subqueries of expressions: those that are conditions become semijoins, others columns that are joined to the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from runtime.compiler.flow.graph import Rows
from runtime.compiler.flow.groups import Grouped, aggregates_of, group
from runtime.compiler.flow.names import outermost_queries
from runtime.compiler.flow.outer import left_join
from runtime.compiler.flow.reading import Link, Reading, read
from runtime.compiler.lower import lower
from runtime.compiler.operands import Lowered, NotIncremental, aligned, call, choose, renamed
from runtime.compiler.program import Aggregate, Col, Expr, Lit
from runtime.compiler.types import BOOL, INT, NULL

if TYPE_CHECKING:
    from runtime.compiler.flow.queries import Queries

__all__ = ["Around", "Subqueries"]

Around = Reading | Grouped
"""The SELECT whose expressions have subqueries."""


class Subqueries:
    """What becomes of subqueries."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    def condition(self, around: Around, node: exp.Expr) -> None:
        """Leaves the rows for which a condition with subqueries is true."""
        inner, anti = node.unnest(), False
        if isinstance(inner, exp.Not):
            inner, anti = inner.this.unnest(), True
        if isinstance(inner, exp.Exists):
            self._semi(around, self._existing(around, inner.this), [], anti=anti)
        elif isinstance(inner, exp.In) and inner.args.get("query") is not None:
            self._member(around, inner, anti=anti)
        else:
            self.attach(around, [node])
            value = lower(node, around.leaf)
            if value.type.kind not in ("bool", "null"):
                raise NotIncremental("a condition that is no condition")
            if value.expr != Lit(True):
                around.rows = self._queries.graph.filter(around.rows, [value.expr])

    def attach(self, around: Around, nodes: Sequence[exp.Expr]) -> None:
        """Joins the subqueries of these expressions to the rows, so that `leaf` knows what they are."""
        for node in nodes:
            for part in list(outermost_queries(node)):
                if id(part) not in around.known:
                    around.known[id(part)] = self._value(around, part)

    def _value(self, around: Around, node: exp.Expr) -> Lowered:
        if isinstance(node, exp.Exists):
            rows, links = self._existing(around, node.this)
            count = self._counted(around, rows, links)
            return Lowered(call("gt", count.expr, Lit(0)), BOOL)
        if isinstance(node, exp.In):
            return self._membership(around, node)
        return self._scalar(around, node)

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

    def _scalar(self, around: Around, node: exp.Expr) -> Lowered:
        select = node.unnest()
        if not isinstance(select, exp.Select) or len(select.expressions) != 1:
            raise NotIncremental("a subquery that may give more than one row")
        plain = not any(select.args.get(name) for name in ("group", "limit", "offset", "distinct"))
        if plain and any(True for _ in aggregates_of(select.expressions)):
            with self._queries.tables_of(select):
                return self._aggregate(around, select)
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

    def _aggregate(self, around: Around, select: exp.Select) -> Lowered:
        """Aggregates without GROUP BY: one row for every row around, whether there is anything to aggregate or not."""
        having = select.args.get("having")
        output = select.expressions[0].unalias()
        nodes = [output] if having is None else [output, having.this]
        reading = read(self._queries, select, around, nodes)
        groups = group(self._queries, reading, [], nodes, grouped=False)
        if reading.links and any(True for part in nodes for _ in outermost_queries(part)
                                 if not part.find(exp.AggFunc)):  # fmt: skip
            raise NotIncremental("a subquery in the SELECT of a subquery that depends on the query around it")
        self.attach(groups, nodes) if not reading.links else None
        value = lower(output, groups.leaf)
        if having is not None:
            value = choose(lower(having.this, groups.leaf), value, Lowered(Lit(None), NULL))
        called = self._join(around, groups.rows, groups.links, groups.defaults)
        return Lowered(renamed(value.expr, called), value.type.with_null(value.type.nullable or bool(groups.links)))

    def _join(self, around: Around, rows: Rows, links: Sequence[Link], defaults: dict[str, Lit]) -> dict[str, Expr]:
        """Joins rows, one at most for each row around; gives what their columns are called there."""
        graph = self._queries.graph
        kept = list(around.rows.columns)
        wide, names = graph.extended(around.rows, [value for value, _ in links])
        rows, called = graph.apart(wide, rows)
        if links:
            on = [(name, called[column]) for name, (_, column) in zip(names, links, strict=True)]
            joined = left_join(graph, wide, rows, on, {called[name]: value for name, value in defaults.items()
                                                       if name in called})  # fmt: skip
        else:
            joined = graph.join(wide, rows, [])
        around.rows = graph.keep(joined, [*kept, *called.values()])
        return {old: Col(new) for old, new in called.items()}

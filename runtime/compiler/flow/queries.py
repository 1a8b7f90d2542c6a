"""Whole queries: WITH, SELECT, set operations, DISTINCT, ORDER BY … LIMIT; and the view of a query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from sqlglot import exp

from runtime.compiler.flow.blocks import Block, JoinedPart, Names, Result
from runtime.compiler.flow.graph import Graph, Rows, free_name
from runtime.compiler.flow.groups import aggregates_of, group
from runtime.compiler.flow.reading import read
from runtime.compiler.flow.subqueries import Subqueries
from runtime.compiler.flow.windows import attach_windows, windows_of
from runtime.compiler.lower import conjuncts, lower
from runtime.compiler.maps import MapSet, key_name, unique
from runtime.compiler.operands import Candidate, Lowered, NotIncremental, alike
from runtime.compiler.parse import group_keys
from runtime.compiler.types import INT, types_of
from runtime.plan import (
    EPOCH_TIME,
    Aggregate,
    BoundNode,
    Col,
    DistinctNode,
    Flow,
    GroupNode,
    JoinNode,
    Lit,
    Relation,
    ScanNode,
    SemiNode,
    SetNode,
    TopNode,
    ViewClass,
    WindowNode,
)

__all__ = ["Queries", "flow_view"]


def flow_view(tree: exp.Query, relations: Mapping[str, Relation], maps: MapSet, *, zero: bool) -> Candidate:
    """Return the query as a `Flow` body, and add its maps; raise `NotIncremental` with the reason if impossible."""
    queries = Queries(relations, zero=zero)
    result = queries.query(tree, None, None)
    outputs = [(f"column_{number}", value) for number, (_, value) in enumerate(result.outputs, 1)]
    body = queries.graph.finish(queries.graph.arranged(result.rows, outputs), maps)
    return Candidate(body, tuple(value.type for _, value in outputs), _class_of(body), _reason(body, maps))


class Queries:
    """Builder of one view's queries in one graph."""

    def __init__(self, relations: Mapping[str, Relation], *, zero: bool) -> None:
        self.graph = Graph()
        self.zero = zero
        self.subqueries = Subqueries(self)
        self._relations = relations
        self._tables: dict[str, Result] = {}

    def query(self, node: exp.Expr, outer: Block | None, needed: Collection[str] | None) -> Result:
        """Build a query; columns that are not ``needed`` may be left out (None: all are needed)."""
        if isinstance(node, exp.Subquery):
            if any(node.args.get(name) for name in ("order", "limit", "offset")):
                raise NotIncremental("ORDER BY or LIMIT around brackets")
            with self.tables_of(node):
                return self.query(node.this, outer, needed)
        with self.tables_of(node):
            if isinstance(node, exp.Select):
                return self._select(node, outer, needed)
            if isinstance(node, exp.SetOperation):
                return self._set_operation(node, needed)
        raise NotIncremental(node.key.upper())

    @contextmanager
    def tables_of(self, node: exp.Expr) -> Iterator[None]:
        """Make the tables of the query's WITH available."""
        before = dict(self._tables)
        clause = node.args.get("with_")
        try:
            for table in [] if clause is None else clause.expressions:
                self._tables[table.alias] = self.query(table.this, None, None)
            yield
        finally:
            self._tables = before

    def source(self, node: exp.Expr, select: exp.Select, names: Names) -> JoinedPart:
        """Build a table or subquery in FROM."""
        alias = node.alias_or_name
        used = {column.name.lower() for column in select.find_all(exp.Column) if column.table == alias}
        if isinstance(node, exp.Subquery):
            result = self.query(node.this, None, used)
        elif isinstance(node, exp.Table) and node.name in self._tables:
            result = self._tables[node.name]
        elif isinstance(node, exp.Table):
            relation = self._relations[node.name.lower()]
            rows = self.graph.scan(relation, used)
            names.tables[alias] = {name: Lowered(Col(key_name(name)), kind)
                                   for name, kind in types_of(relation).items() if name in used}  # fmt: skip
            return JoinedPart(rows, {alias})
        else:
            raise NotIncremental(f"{node.key.upper()} in FROM")
        names.tables[alias] = dict(result.outputs)
        return JoinedPart(result.rows, {alias})

    def one_row(self) -> Rows:
        """Return the row of a SELECT without FROM: the only group of an input that is always empty."""
        clock = self._relations[EPOCH_TIME.name]
        nothing = self.graph.filter(self.graph.scan(clock, {clock.columns[0].name}), [Lit(False)])
        return self.graph.group(nothing, [], [(Aggregate("rows", "count_rows", None, "int64"), INT)])

    # --- SELECT

    def _select(self, node: exp.Select, outer: Block | None, needed: Collection[str] | None) -> Result:
        _refuse_clauses(node)
        taken: list[str] = []
        for part in node.expressions:
            taken.append(unique(part.alias_or_name.lower(), taken))
        whole = needed is None or any(node.args.get(name) for name in ("distinct", "limit", "offset"))
        whole = whole or bool(windows_of(node.expressions)) or node.args.get("qualify") is not None
        chosen = [(name, part.unalias()) for name, part in zip(taken, node.expressions, strict=True)
                  if whole or (needed is not None and name in needed)]  # fmt: skip
        keys, is_grouped = group_keys(node), node.args.get("group") is not None
        having, qualify = (node.args.get(name) for name in ("having", "qualify"))
        order = _order_of(node)
        nodes = [part for _, part in chosen]
        nodes += [clause.this for clause in (having, qualify) if clause is not None]
        nodes += [part.this for part in order]
        around = read(self, node, outer, [*nodes, *keys])
        all_parts = [*nodes, *(part.unalias() for part in node.expressions)]
        if is_grouped or having is not None or aggregates_of(all_parts):
            if around.links and not is_grouped:
                raise NotIncremental("an aggregate over nothing in a subquery that depends on the query around it")
            around = group(self, around, keys, nodes, grouped=is_grouped)
        if having is not None:
            self.subqueries.condition(around, having.this)
        self.subqueries.attach(around, [part for part in nodes if having is None or part is not having.this])
        attach_windows(self, around, node, nodes)
        for part in [] if qualify is None else conjuncts(qualify.this):
            self.subqueries.condition(around, part)
        outputs = [(name, lower(part, around.leaf)) for name, part in chosen]
        return self._projected(node, around, outputs, order)

    def _projected(
        self,
        node: exp.Select,
        around: Block,
        outputs: list[tuple[str, Lowered]],
        order: Sequence[exp.Ordered],
    ) -> Result:
        links = [(name, around.rows.column(name)) for _, name in around.links]
        taken = [name for name, _ in links]
        shown: list[tuple[str, Lowered]] = []
        for name, value in outputs:
            shown.append((free_name(name, [*taken, *(other for other, _ in shown)]), _typed(value)))
        hidden: list[tuple[str, Lowered]] = []
        distinct = node.args.get("distinct") is not None
        terms = [self._term(part, around, outputs, shown, hidden, distinct=distinct) for part in order]
        rows = self.graph.arranged(around.rows, [*shown, *hidden, *links])
        if distinct:
            rows = self.graph.distinct(rows)
        if node.args.get("limit") or node.args.get("offset"):
            if links:
                raise NotIncremental("LIMIT in a subquery that depends on the query around it")
            rows = self._top(node, rows, terms)
        made = [(name, rows.column(column)) for (name, _), (column, _) in zip(outputs, shown, strict=True)]
        return Result(rows, made, list(around.links))

    def _term(
        self,
        part: exp.Ordered,
        around: Block,
        outputs: Sequence[tuple[str, Lowered]],
        shown: Sequence[tuple[str, Lowered]],
        hidden: list[tuple[str, Lowered]],
        *,
        distinct: bool,
    ) -> tuple[str, bool, bool]:
        """Return a criterion of ORDER BY: a selected column, or one that is added to ``hidden``."""
        how = (bool(part.args.get("desc")), bool(part.args.get("nulls_first")))
        place = _position(part.this, [name for name, _ in outputs])
        if place is not None:
            return (shown[place][0], *how)
        value = lower(part.this, around.leaf)
        for name, other in (*shown, *hidden):
            if other.expr == value.expr:
                return (name, *how)
        if distinct:
            raise NotIncremental("DISTINCT in the order of something else")
        name = free_name("order", [known for known, _ in (*shown, *hidden)])
        hidden.append((name, _typed(value)))
        return (name, *how)

    def _top(self, node: exp.Query, rows: Rows, terms: Sequence[tuple[str, bool, bool]]) -> Rows:
        limit, offset = (node.args.get(name) for name in ("limit", "offset"))
        numbers: list[int | None] = []
        for clause in (limit, offset):
            if clause is not None and not (isinstance(clause.expression, exp.Literal) and clause.expression.is_int):
                raise NotIncremental("LIMIT or OFFSET of something other than a whole number")
            numbers.append(None if clause is None else int(clause.expression.name))
        return self.graph.top(rows, terms, numbers[0], numbers[1] or 0)

    # --- set operations

    def _set_operation(self, node: exp.SetOperation, needed: Collection[str] | None) -> Result:
        """Build a set operation. Its arms may not depend on a query around it, because their links might differ."""
        distinct = bool(node.args.get("distinct"))
        ordered = bool(node.args.get("limit") or node.args.get("offset"))
        arms = [self.query(arm, None, None) for arm in (node.left, node.right)]
        if node.args.get("by_name") or len({len(arm.outputs) for arm in arms}) != 1:
            raise NotIncremental(f"{node.key.upper()} of different columns")
        names = [name for name, _ in arms[0].outputs]
        places: Sequence[int] = range(len(names))
        if needed is not None and isinstance(node, exp.Union) and not distinct and not ordered:
            places = [place for place in places if names[place] in needed]
        aligned = [alike([arm.outputs[place][1] for arm in arms], "a union of columns") for place in places]
        columns: list[str] = []
        for place in places:
            columns.append(free_name(names[place], columns))
        columns = columns or ["one"]
        left, right = (
            self.graph.arranged(arm.rows, [
                (column, Lowered(parts[number], kind))
                for column, (kind, parts) in zip(columns, aligned, strict=False)
            ])
            for number, arm in enumerate(arms)
        )  # fmt: skip
        if isinstance(node, exp.Union):
            rows = self.graph.union([left, right])
            rows = self.graph.distinct(rows) if distinct else rows
        elif isinstance(node, exp.Except):
            rows = self.graph.set_operation("except" if distinct else "except_all", left, right)
        else:
            rows = self.graph.set_operation("intersect" if distinct else "intersect_all", left, right)
        outputs = [(names[place], rows.column(column)) for place, column in zip(places, columns, strict=False)]
        if ordered:
            terms = []
            for part in _order_of(node):
                number = _position(part.this, names)
                if number is None:
                    raise NotIncremental(f"{node.key.upper()} in the order of an expression")
                terms.append((columns[number], bool(part.args.get("desc")), bool(part.args.get("nulls_first"))))
            rows = self._top(node, rows, terms)
        return Result(rows, outputs, [])


def _refuse_clauses(node: exp.Select) -> None:
    distinct = node.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        raise NotIncremental("DISTINCT ON")


def _order_of(node: exp.Query) -> list[exp.Ordered]:
    """Return the criteria of ORDER BY if a LIMIT or OFFSET selects rows by them; otherwise none."""
    order = node.args.get("order")
    if order is None or not (node.args.get("limit") or node.args.get("offset")):
        return []
    return list(order.expressions)


def _position(node: exp.Expr, names: Sequence[str]) -> int | None:
    """Return the column that a criterion names, by its number or its name."""
    if isinstance(node, exp.Literal) and node.is_int and 1 <= int(node.name) <= len(names):
        return int(node.name) - 1
    if isinstance(node, exp.Column) and not node.table and node.name.lower() in names:
        return names.index(node.name.lower())
    return None


def _typed(value: Lowered) -> Lowered:
    if value.type.kind == "other":
        raise NotIncremental(f"a column of the type {value.type}")
    return value


# --- class and reason


def _class_of(body: Flow) -> ViewClass:
    if body.is_ordered():
        return "ordered"
    if any(isinstance(node, (JoinNode, SemiNode, SetNode)) for node in body.nodes):
        return "multilinear"
    return "linear"


def _reason(body: Flow, maps: MapSet) -> str:
    """Describe the operators, as in "one join by equality, MAX in an ordered index"."""
    kinds = Counter(type(node) for node in body.nodes)
    relations = {maps.maps[node.map].relation for node in body.nodes if isinstance(node, ScanNode)}
    parts = [f"operators over {_many(len(relations), 'relation')}"]
    joins = [node for node in body.nodes if isinstance(node, JoinNode)]
    equal = sum(bool(node.on) for node in joins)
    if equal:
        parts.append(f"{_many(equal, 'join')} by equality")
    if len(joins) > equal:
        parts.append(f"{_many(len(joins) - equal, 'product')}, of which a change costs all rows of the other side")
    if kinds[SemiNode]:
        parts.append(_many(kinds[SemiNode], "semijoin"))
    if kinds[BoundNode]:
        parts.append(f"{_many(kinds[BoundNode], 'moving bound')} over rows in order")
    if kinds[SetNode]:
        parts.append("a difference or intersection")
    groups = [node for node in body.nodes if isinstance(node, GroupNode)]
    if groups:
        parts.append(_many(len(groups), "grouping"))
    if body.extremes():
        parts.append(f"{' and '.join(body.extremes())} in an ordered index")
    if any(part.kind.endswith("distinct") for node in groups for part in node.aggregates) or kinds[DistinctNode]:
        parts.append("distinct values counted")
    windows = [node for node in body.nodes if isinstance(node, WindowNode)]
    if windows:
        parts.append("window functions over rows in order")
    if kinds[TopNode] or any(node.limit is not None for node in windows):
        parts.append("the first rows in an ordered index")
    return ", ".join(parts)


def _many(number: int, what: str) -> str:
    return f"one {what}" if number == 1 else f"{number} {what}s"

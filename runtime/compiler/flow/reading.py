"""FROM and WHERE of one SELECT: its sources are joined, and each condition is applied where that costs least.

For a subquery, this module also determines the links to the query around the subquery.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from runtime.compiler.flow.blocks import (
    Block,
    JoinedPart,
    Names,
    QueryBuilder,
    free_columns,
    outermost_queries,
    sides_of,
    tables_of,
)
from runtime.compiler.flow.graph import Rows
from runtime.compiler.flow.joining import outer_join, paired, semi_of
from runtime.compiler.inlining import own_tables
from runtime.compiler.lower import conjuncts, lower
from runtime.compiler.operands import Lowered, NotIncremental, aligned, as_condition
from runtime.plan import Col, Expr, columns_read

__all__ = ["read"]


Equality = tuple["Conjunct", exp.Expr, exp.Expr]


def read(queries: QueryBuilder, select: exp.Select, outer: Block | None, kept: Sequence[exp.Expr]) -> Block:
    """Build FROM and WHERE; ``kept`` has the other expressions of the SELECT: the rows contain their columns too."""
    own = own_tables(select)
    conditions = _conditions(select)
    outside = [column for column in free_columns(select) if column.table not in own]
    ties: list[tuple[exp.Expr, exp.Expr]] = []
    if outside:
        if outer is None:
            raise NotIncremental("a subquery in FROM that depends on the query around it")
        pairs = [(condition, _tie(condition, own)) for condition in conditions]
        loose = {id(column) for condition, tie in pairs if tie for column in free_columns(condition.node)}
        if all(id(column) in loose for column in outside):
            ties = [tie for _, tie in pairs if tie]
            conditions = [condition for condition, tie in pairs if not tie]
        elif not any(tie for _, tie in pairs):
            raise NotIncremental("a subquery that is tied to the query around it by something other than an equality")
    sources = _Sources(queries, conditions, [*kept, *(inside for inside, _ in ties)])
    if outer is None or not outside:
        return Block(sources.joined(select, []), sources.names.leaf)
    if ties:
        rows = sources.joined(select, [])
        compared = [aligned(lower(other, outer.leaf), sources.lowered(inside)) for inside, other in ties]
        mine, theirs = [value for value, _ in compared], [value for _, value in compared]
    else:
        part, around = sources.surroundings(outer, outside)
        rows = sources.joined(select, [part])
        mine, theirs = paired([value for value, _ in around], [sources.lowered(column) for _, column in around])
    rows, names = queries.graph.extended(rows, theirs)
    return Block(rows, sources.names.leaf, list(zip(mine, names, strict=True)))


@dataclass(slots=True, eq=False)
class Conjunct:
    """Conjunct of WHERE or ON."""

    node: exp.Expr
    """Node of the qualified query."""
    tables: set[str]
    """Tables of the SELECT that it reads."""
    join: int | None = None
    """Number of the JOIN in whose ON the conjunct is; None for WHERE."""
    of_outer: bool = False
    """True for ON of an outer, SEMI or ANTI join: it determines which rows match, and does not filter the result."""
    late: bool = False
    """True for a conjunct that has subqueries, or reads no table of the SELECT; it is applied after all others."""
    done: bool = False
    """True if it has been applied."""


def _conditions(select: exp.Select) -> list[Conjunct]:
    where = select.args.get("where")
    conditions = [Conjunct(node, set()) for node in ([] if where is None else conjuncts(where.this))]
    for place, join in enumerate(select.args.get("joins") or []):
        on = join.args.get("on")
        of_outer = bool(join.side) or (join.kind or "").upper() in ("SEMI", "ANTI")
        conditions += [Conjunct(node, set(), place, of_outer) for node in ([] if on is None else conjuncts(on))]
    for condition in conditions:
        condition.tables = tables_of(condition.node)
        condition.late = bool(outermost_queries(condition.node)) or not (condition.tables or condition.of_outer)
    return conditions


def _tie(condition: Conjunct, own: set[str]) -> tuple[exp.Expr, exp.Expr] | None:
    """Return the inner and the outer side of an equality of an inner and an outer expression; else None."""
    if not isinstance(condition.node, exp.EQ) or condition.late or condition.of_outer:
        return None
    return sides_of(condition.node, own)


class _Sources:
    """Sources of one SELECT while they are joined."""

    def __init__(self, queries: QueryBuilder, conditions: list[Conjunct], kept: list[exp.Expr]) -> None:
        """Prepare the sources. ``kept`` has the other expressions of the SELECT; their columns are not dropped."""
        self._queries = queries
        self._graph = queries.graph
        self.names = Names()
        self._conditions = conditions
        self._kept = kept

    def lowered(self, node: exp.Expr) -> Lowered:
        """Return an expression over the sources."""
        return lower(node, self.names.leaf)

    def _truth(self, part: Conjunct) -> Expr:
        """Return a condition over the sources, and mark it as applied."""
        truth = as_condition(self.lowered(part.node))
        part.done = True
        return truth

    def surroundings(
        self, outer: Block, outside: Sequence[exp.Column]
    ) -> tuple[JoinedPart, list[tuple[Lowered, exp.Column]]]:
        """Return a further source for a subquery: the distinct values of the outer columns that the subquery uses.

        Also return these columns, each with its expression over the rows of the query around the subquery.
        """
        columns = {(column.table, column.name.lower()): column for column in outside}
        values = [lower(column, outer.leaf) for column in columns.values()]
        outputs = [(f"around_{number}", value) for number, value in enumerate(values, 1)]
        rows = self._graph.distinct(self._graph.select(outer.rows, None, outputs))
        for (table, name), (output, value) in zip(columns, outputs, strict=True):
            self.names.tables.setdefault(table, {})[name] = Lowered(Col(output), value.type)
        self._kept += columns.values()
        part = JoinedPart(rows, {table for table, _ in columns})
        return part, list(zip(values, columns.values(), strict=True))

    def joined(self, select: exp.Select, extra: Sequence[JoinedPart]) -> Rows:
        """Return the rows of FROM for which all conditions are true."""
        start, joins = select.args.get("from_"), select.args.get("joins") or []
        sides = [(join.side or "").upper() for join in joins]
        last = max((place for place, side in enumerate(sides) if side in ("RIGHT", "FULL")), default=-1)
        self._check_late(last)
        if start is None:
            parts = [JoinedPart(self._queries.one_row(), set())]
        else:
            parts = [self._queries.source(start.this, select, self.names)]
        before: list[JoinedPart] = []  # up to the last comma, which binds less than RIGHT and FULL JOIN
        for place, join in enumerate(joins):
            if join.args.get("using") or join.args.get("method"):
                raise NotIncremental("a join by the names of columns")
            right = self._queries.source(join.this, select, self.names)
            kind = (join.kind or "").upper()
            if not (sides[place] or kind or join.args.get("on")):
                before, parts = [*before, *parts], [right]
                continue
            if place > last:
                before, parts = [], [*before, *parts]
            self._check_reach(place, before)
            if not sides[place] and kind not in ("SEMI", "ANTI"):
                parts.append(right)
                continue
            ready = [each for each in self._conditions
                     if not each.of_outer and (place > last if each.join is None else each.join < place)]  # fmt: skip
            left = self._combine(parts, ready)
            on = [each for each in self._conditions if each.join == place and not each.done]
            if kind in ("SEMI", "ANTI"):
                parts = [self._semi_join(left, right, on, anti=kind == "ANTI")]
            else:
                parts = [self._outer_join(sides[place], left, right, on)]
        parts = [*before, *parts, *extra]
        rows = self._combine(parts, [each for each in self._conditions if not each.of_outer]).rows
        for condition in self._conditions:
            if not condition.done:
                rows = self._apply_late(rows, condition)
        return rows

    # --- conditions

    def _check_late(self, last: int) -> None:
        """Refuse late conditions of outer joins, and of joins before the last RIGHT or FULL JOIN."""
        for condition in self._conditions:
            if condition.late and condition.join is not None and (condition.of_outer or condition.join < last):
                raise NotIncremental("a subquery or a constant in ON of an outer join")

    def _check_reach(self, place: int, before: Sequence[JoinedPart]) -> None:
        """Refuse a join whose ON reads one of these parts, which a comma separates from the join."""
        tables = {table for part in before for table in part.tables}
        if any(condition.join == place and condition.tables & tables for condition in self._conditions):
            raise NotIncremental("a table before a comma in ON of a join, and RIGHT or FULL JOIN")

    def _filter(self, part: JoinedPart, ready: Iterable[Conjunct]) -> None:
        """Apply the conditions on this part alone, and drop the columns that nothing else reads."""
        mine = [each for each in ready if not each.done and each.tables and each.tables <= part.tables]
        part.rows = self._graph.filter(part.rows, [self._truth(each) for each in mine if not each.late])
        for condition in mine:
            if condition.late:
                part.rows = self._apply_late(part.rows, condition)
        self._prune(part)

    def _apply_late(self, rows: Rows, condition: Conjunct) -> Rows:
        block = Block(rows, self.names.leaf)
        self._queries.subqueries.condition(block, condition.node)
        condition.done = True
        return block.rows

    def _prune(self, part: JoinedPart) -> None:
        nodes = [*self._kept, *(condition.node for condition in self._conditions if not condition.done)]
        read = {
            name
            for node in nodes
            for column in free_columns(node)
            if column.table in part.tables
            for name in columns_read(self.lowered(column).expr)
        }
        part.rows = self._graph.keep(part.rows, read)

    # --- joins

    def _combine(self, parts: list[JoinedPart], ready: Sequence[Conjunct]) -> JoinedPart:
        """Join all parts: by equalities as long as there are any, then by product."""
        parts = list(parts)
        for part in parts:
            self._filter(part, ready)
        while len(parts) > 1:
            left, right = self._next_pair(parts, ready)
            parts.remove(right)
            on = self._columns(left, right, self._equalities(left, right, ready))
            left.rows = self._graph.join(left.rows, right.rows, on)
            left.tables |= right.tables
            self._filter(left, ready)
        return parts[0]

    def _next_pair(self, parts: list[JoinedPart], ready: Sequence[Conjunct]) -> tuple[JoinedPart, JoinedPart]:
        for place, left in enumerate(parts):
            for right in parts[place + 1 :]:
                if self._equalities(left, right, ready):
                    return left, right
        return parts[0], parts[1]

    def _equalities(self, left: JoinedPart, right: JoinedPart, ready: Iterable[Conjunct]) -> list[Equality]:
        """Return those conditions that equate an expression over ``left`` with an expression over ``right``."""
        equalities = []
        for condition in ready:
            node = condition.node
            if condition.done or not isinstance(node, exp.EQ) or not condition.tables <= left.tables | right.tables:
                continue
            sides = sides_of(node, left.tables)
            if sides is not None:
                equalities.append((condition, *sides))
        return equalities

    def _columns(self, left: JoinedPart, right: JoinedPart, pairs: Sequence[Equality]) -> list[tuple[str, str]]:
        """Return the equalities as pairs of columns; right columns are renamed if the left part has their names."""
        values = [aligned(self.lowered(mine), self.lowered(theirs)) for _, mine, theirs in pairs]
        left.rows, left_names = self._graph.extended(left.rows, [mine for mine, _ in values])
        right.rows, right_names = self._graph.extended(right.rows, [theirs for _, theirs in values])
        right.rows, names = self._graph.apart(left.rows, right.rows)
        self.names.rename(right.tables, names)
        for condition, *_ in pairs:
            condition.done = True
        return [(mine, names[theirs]) for mine, theirs in zip(left_names, right_names, strict=True)]

    # --- outer joins, SEMI and ANTI

    def _outer_join(self, side: str, left: JoinedPart, right: JoinedPart, conditions: Sequence[Conjunct]) -> JoinedPart:
        """Build a LEFT, RIGHT or FULL JOIN."""
        if side != "FULL":
            self._filter(right if side == "LEFT" else left, conditions)
        self._prune(left)
        self._prune(right)
        on = self._columns(left, right, self._equalities(left, right, conditions))
        rest = [self._truth(condition) for condition in conditions if not condition.done]
        first, second = (right.rows, left.rows) if side == "RIGHT" else (left.rows, right.rows)
        on = [(second, first) for first, second in on] if side == "RIGHT" else on
        rows = outer_join(self._graph, first, second, on, rest, full=side == "FULL")
        self.names.make_optional(
            (right.tables if side != "RIGHT" else set()) | (left.tables if side != "LEFT" else set())
        )
        return JoinedPart(rows, left.tables | right.tables)

    def _semi_join(
        self, left: JoinedPart, right: JoinedPart, conditions: Sequence[Conjunct], *, anti: bool
    ) -> JoinedPart:
        """Build a SEMI JOIN or ANTI JOIN, whose result has only the columns of the left source."""
        self._filter(right, conditions)
        on = self._columns(left, right, self._equalities(left, right, conditions))
        rest = [self._truth(condition) for condition in conditions if not condition.done]
        if not rest:
            rows = self._graph.semi(left.rows, right.rows, on, anti=anti)
        else:
            matched = self._graph.filter(self._graph.join(left.rows, right.rows, on), rest)
            used = {name for condition in rest for name in columns_read(condition)} | {left_name for left_name, _ in on}
            own = [value for name, value in left.rows.all() if name in used]
            rows = semi_of(self._graph, left.rows, matched, own, own, anti=anti)
        return JoinedPart(rows, left.tables)

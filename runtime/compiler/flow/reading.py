"""The rows of one SELECT after FROM and WHERE, and what ties a subquery to the query around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from runtime.compiler.flow.graph import Rows
from runtime.compiler.flow.names import Names, Outer, free_columns, outermost_queries, own_tables
from runtime.compiler.flow.outer import paired
from runtime.compiler.flow.source import Condition, Part, Sources
from runtime.compiler.lower import conjuncts, lower
from runtime.compiler.operands import Lowered, NotIncremental, aligned
from runtime.plan import Col

if TYPE_CHECKING:
    from runtime.compiler.flow.queries import Queries

__all__ = ["Link", "Reading", "read"]

Link = tuple[Lowered, str]
"""An expression of the query around a subquery, and the subquery's column that must equal it."""


@dataclass(slots=True)
class Reading:
    """The rows of a SELECT; subqueries of its expressions are joined to them."""

    rows: Rows
    """So far."""
    names: Names
    """Its columns."""
    links: list[Link] = field(default_factory=list)
    """What ties it to the query around it."""
    known: dict[int, Lowered] = field(default_factory=dict)
    """Subqueries that have been joined, by the identity of their nodes."""

    def leaf(self, node: exp.Expr) -> Lowered | None:
        """A column or a joined subquery."""
        if id(node) in self.known:
            return self.known[id(node)]
        return self.names.of(node) if isinstance(node, exp.Column) else None


def read(queries: Queries, select: exp.Select, outer: Outer | None, kept: Sequence[exp.Expr]) -> Reading:
    """FROM and WHERE; ``kept`` are the SELECT's other expressions."""
    own = own_tables(select)
    conditions = _conditions(select)
    outside = [column for column in free_columns(select) if column.table not in own]
    simple: list[tuple[exp.Expr, exp.Expr]] = []
    kept = list(kept)
    if outside:
        if outer is None:
            raise NotIncremental("a subquery in FROM that depends on the query around it")
        pairs = [(condition, _tie(condition, own)) for condition in conditions]
        loose = {id(column) for condition, tie in pairs if tie for column in free_columns(condition.node)}
        if all(id(column) in loose for column in outside):
            simple = [tie for _, tie in pairs if tie]
            conditions = [condition for condition, tie in pairs if not tie]
            kept += [inner for _, inner in simple]
        elif not any(tie for _, tie in pairs):
            raise NotIncremental("a subquery that meets the query around it in something other than an equality")
    names = Names()

    def apply_late(rows: Rows, node: exp.Expr) -> Rows:
        alone = Reading(rows, names)
        queries.subqueries.condition(alone, node)
        return alone.rows

    sources = Sources(queries.graph, names, conditions, kept, apply_late)
    around: list[tuple[Lowered, exp.Column]] = []
    extra = []
    if outside and not simple:
        assert outer is not None
        part, around = _surroundings(queries, sources, outer, outside)
        extra.append(part)
        sources.kept = [*kept, *(column for _, column in around)]
    rows = _join(queries, select, sources, extra)
    done = Reading(rows, sources.names)
    for condition in conditions:
        if not condition.done:
            queries.subqueries.condition(done, condition.node)
    _tie_up(queries, done, outer, simple, around)
    return done


def _conditions(select: exp.Select) -> list[Condition]:
    where = select.args.get("where")
    found = [Condition(node, set()) for node in ([] if where is None else conjuncts(where.this))]
    for place, join in enumerate(select.args.get("joins") or []):
        on = join.args.get("on")
        of_outer = bool(join.side) or (join.kind or "").upper() in ("SEMI", "ANTI")
        found += [Condition(node, set(), place, of_outer) for node in ([] if on is None else conjuncts(on))]
    for condition in found:
        condition.tables = {column.table for column in free_columns(condition.node)}
        nested = any(True for _ in outermost_queries(condition.node))
        condition.late = nested or not (condition.tables or condition.of_outer)
    return found


def _tie(condition: Condition, own: set[str]) -> tuple[exp.Expr, exp.Expr] | None:
    """Of an equality of something outside and something inside: both, in this order."""
    node = condition.node
    if not isinstance(node, exp.EQ) or condition.late or condition.of_outer:
        return None
    sides = [{column.table for column in free_columns(side)} for side in (node.left, node.right)]
    if not (sides[0] and sides[1]):
        return None
    if sides[0] <= own and not sides[1] & own:
        return node.right, node.left
    if sides[1] <= own and not sides[0] & own:
        return node.left, node.right
    return None


def _surroundings(
    queries: Queries, sources: Sources, outer: Outer, outside: Sequence[exp.Column]
) -> tuple[Part, list[tuple[Lowered, exp.Column]]]:
    """What the query around a subquery has in the columns that the subquery uses, as one more source of it."""
    columns = {(column.table, column.name.lower()): column for column in outside}
    values = [lower(column, outer.leaf) for column in columns.values()]
    outputs = [(f"around_{number}", value) for number, value in enumerate(values, 1)]
    rows = queries.graph.distinct(queries.graph.select(outer.rows, None, outputs))
    for (table, name), (output, value) in zip(columns, outputs, strict=True):
        sources.names.tables.setdefault(table, {})[name] = Lowered(Col(output), value.type)
    part = Part(rows, {table for table, _ in columns})
    return part, list(zip(values, columns.values(), strict=True))


def _join(queries: Queries, select: exp.Select, sources: Sources, extra: list[Part]) -> Rows:
    start, joins = select.args.get("from_"), select.args.get("joins") or []
    if start is None:
        raise NotIncremental("a SELECT that reads no relation")
    sides = [(join.side or "").upper() for join in joins]
    last = max((place for place, side in enumerate(sides) if side in ("RIGHT", "FULL")), default=-1)
    for condition in sources.conditions:
        if condition.late and condition.join is not None and (condition.of_outer or condition.join < last):
            raise NotIncremental("a subquery or a constant in ON of an outer join")
    parts = [queries.source(start.this, select, sources.names)]
    for place, join in enumerate(joins):
        if join.args.get("using") or join.args.get("method"):
            raise NotIncremental("a join by the names of columns")
        right = queries.source(join.this, select, sources.names)
        kind = (join.kind or "").upper()
        if not sides[place] and kind not in ("SEMI", "ANTI"):
            parts.append(right)
            continue
        ready = [one for one in sources.conditions
                 if not one.of_outer and (place > last if one.join is None else one.join < place)]  # fmt: skip
        left = sources.combine(parts, ready)
        on = [one for one in sources.conditions if one.join == place and not one.done]
        if kind in ("SEMI", "ANTI"):
            parts = [sources.semi_join(left, right, on, anti=kind == "ANTI")]
        else:
            parts = [sources.outer_join(sides[place], left, right, on)]
    return sources.combine([*parts, *extra], [one for one in sources.conditions if not one.of_outer]).rows


def _tie_up(
    queries: Queries,
    done: Reading,
    outer: Outer | None,
    simple: Sequence[tuple[exp.Expr, exp.Expr]],
    around: Sequence[tuple[Lowered, exp.Column]],
) -> None:
    """Makes columns of what the links compare."""
    mine: list[Lowered] = []
    theirs: list[Lowered] = []
    for outside, inside in simple:
        assert outer is not None
        one, other = aligned(lower(outside, outer.leaf), lower(inside, done.leaf))
        mine.append(one)
        theirs.append(other)
    if around:
        mine, theirs = paired([value for value, _ in around], [done.names.of(column) for _, column in around])
    done.rows, names = queries.graph.extended(done.rows, theirs)
    done.links = list(zip(mine, names, strict=True))

"""FROM and WHERE of one SELECT: its sources joined, its conditions where they cost least."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from runtime.compiler.flow.graph import Graph, Rows
from runtime.compiler.flow.names import Names, free_columns
from runtime.compiler.flow.outer import full_join, left_join, residual_join, semi_of
from runtime.compiler.lower import lower
from runtime.compiler.operands import Lowered, aligned, as_condition
from runtime.plan import Expr, columns_read

__all__ = ["Condition", "Part", "Sources"]

Equality = tuple["Condition", exp.Expr, exp.Expr]


@dataclass(slots=True, eq=False)
class Condition:
    """A conjunct of WHERE or ON."""

    node: exp.Expr
    """Of the qualified query."""
    tables: set[str]
    """What it reads of the SELECT."""
    join: int | None = None
    """ON of which JOIN it stands in; None: WHERE."""
    of_outer: bool = False
    """Whether that is an outer join (or SEMI, ANTI), where a condition decides what matches, not what comes out."""
    late: bool = False
    """Whether it has subqueries, for which all sources are joined first."""
    done: bool = False
    """Whether it has been applied."""


@dataclass(slots=True, eq=False)
class Part:
    """Sources that have been joined."""

    rows: Rows
    """Their rows."""
    tables: set[str]
    """Their names."""


@dataclass(slots=True)
class Sources:
    """The sources of one SELECT on their way to be one."""

    graph: Graph
    """Where the nodes go."""
    names: Names
    """The sources' columns."""
    conditions: list[Condition]
    """All of the SELECT's."""
    kept: Sequence[exp.Expr]
    """The rest of the SELECT, which says what columns have to be kept."""
    apply_late: Callable[[Rows, exp.Expr], Rows]
    """Leaves the rows for which a condition with subqueries is true."""

    def lowered(self, node: exp.Expr) -> Lowered:
        """An expression over the sources."""
        return lower(node, lambda part: self.names.of(part) if isinstance(part, exp.Column) else None)

    def truth(self, part: Condition) -> Expr:
        """A condition over the sources, which counts as applied."""
        found = as_condition(self.lowered(part.node))
        part.done = True
        return found

    # --- conditions

    def filter(self, part: Part, ready: Iterable[Condition]) -> None:
        """Applies the conditions on this part alone, and drops the columns that nothing reads any more."""
        mine = [one for one in ready if not one.done and one.tables and one.tables <= part.tables]
        part.rows = self.graph.filter(part.rows, [self.truth(one) for one in mine if not one.late])
        for condition in mine:
            if condition.late:
                part.rows = self.apply_late(part.rows, condition.node)
                condition.done = True
        self._prune(part)

    def _prune(self, part: Part) -> None:
        nodes = [*self.kept, *(condition.node for condition in self.conditions if not condition.done)]
        read = {
            name
            for node in nodes
            for column in free_columns(node)
            if column.table in part.tables
            for name in columns_read(self.names.of(column).expr)
        }
        part.rows = self.graph.keep(part.rows, read)

    # --- joins

    def combine(self, parts: list[Part], ready: Sequence[Condition]) -> Part:
        """One part of all: along equalities as long as there are any, by product where there are none."""
        parts = list(parts)
        for part in parts:
            self.filter(part, ready)
        while len(parts) > 1:
            one, other = self._next_pair(parts, ready)
            parts.remove(other)
            on = self._columns(one, other, self._equalities(one, other, ready))
            one.rows = self.graph.join(one.rows, other.rows, on)
            one.tables |= other.tables
            self.filter(one, ready)
        return parts[0]

    def _next_pair(self, parts: list[Part], ready: Sequence[Condition]) -> tuple[Part, Part]:
        for place, one in enumerate(parts):
            for other in parts[place + 1 :]:
                if self._equalities(one, other, ready):
                    return one, other
        return parts[0], parts[1]

    def _equalities(self, left: Part, right: Part, ready: Iterable[Condition]) -> list[Equality]:
        """Conditions that some expression of the one equals some expression of the other."""
        found = []
        for condition in ready:
            node = condition.node
            if condition.done or not isinstance(node, exp.EQ) or not condition.tables <= left.tables | right.tables:
                continue
            sides = [{column.table for column in free_columns(side)} for side in (node.left, node.right)]
            if sides[0] and sides[1]:
                if sides[0] <= left.tables and sides[1] <= right.tables:
                    found.append((condition, node.left, node.right))
                elif sides[1] <= left.tables and sides[0] <= right.tables:
                    found.append((condition, node.right, node.left))
        return found

    def _columns(self, left: Part, right: Part, pairs: Sequence[Equality]) -> list[tuple[str, str]]:
        """The equalities as pairs of columns; the right part's columns get names of their own."""
        values = [aligned(self.lowered(one), self.lowered(other)) for _, one, other in pairs]
        left.rows, left_names = self.graph.extended(left.rows, [one for one, _ in values])
        right.rows, right_names = self.graph.extended(right.rows, [other for _, other in values])
        right.rows, names = self.graph.apart(left.rows, right.rows)
        self.names.rename(right.tables, names)
        for condition, *_ in pairs:
            condition.done = True
        return [(one, names[other]) for one, other in zip(left_names, right_names, strict=True)]

    # --- outer joins, SEMI and ANTI

    def outer_join(self, side: str, left: Part, right: Part, conditions: Sequence[Condition]) -> Part:
        """LEFT, RIGHT or FULL JOIN."""
        if side != "FULL":
            self.filter(right if side == "LEFT" else left, conditions)
        self._prune(left)
        self._prune(right)
        on = self._columns(left, right, self._equalities(left, right, conditions))
        rest = [self.truth(condition) for condition in conditions if not condition.done]
        if side == "RIGHT":
            rows = self._left_join(right.rows, left.rows, [(two, one) for one, two in on], rest)
        elif side == "LEFT":
            rows = self._left_join(left.rows, right.rows, on, rest)
        elif rest or not on:
            rows = residual_join(self.graph, left.rows, right.rows, on, rest, full=True)
        else:
            rows = full_join(self.graph, left.rows, right.rows, on)
        self.names.make_optional(
            (right.tables if side != "RIGHT" else set()) | (left.tables if side != "LEFT" else set())
        )
        return Part(rows, left.tables | right.tables)

    def _left_join(self, left: Rows, right: Rows, on: Sequence[tuple[str, str]], rest: Sequence[Expr]) -> Rows:
        if rest:
            return residual_join(self.graph, left, right, on, rest, full=False)
        return left_join(self.graph, left, right, on)

    def semi_join(self, left: Part, right: Part, conditions: Sequence[Condition], *, anti: bool) -> Part:
        """SEMI JOIN or ANTI JOIN, after which the right source has no columns any more."""
        self.filter(right, conditions)
        on = self._columns(left, right, self._equalities(left, right, conditions))
        rest = [self.truth(condition) for condition in conditions if not condition.done]
        if not rest:
            rows = self.graph.semi(left.rows, right.rows, on, anti=anti)
        else:
            matched = self.graph.filter(self.graph.join(left.rows, right.rows, on), rest)
            used = {name for condition in rest for name in columns_read(condition)} | {one for one, _ in on}
            own = [value for name, value in left.rows.all() if name in used]
            rows = semi_of(self.graph, left.rows, matched, own, own, anti=anti)
        return Part(rows, left.tables)

"""A SELECT under construction: its names, its rows, and the interface of the builder of the whole query."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from sqlglot import exp

from runtime.compiler.flow.graph import Graph, Rows
from runtime.compiler.inlining import own_tables
from runtime.compiler.lower import Leaf
from runtime.compiler.operands import Lowered, NotIncremental
from runtime.plan import Col, Expr, Lit, renamed

__all__ = [
    "Block",
    "JoinedPart",
    "Link",
    "Names",
    "QueryBuilder",
    "Result",
    "SubqueryJoiner",
    "free_columns",
    "outermost_queries",
    "sides_of",
    "tables_of",
]

Link = tuple[Lowered, str]
"""Expression over the rows of the query around a subquery, and the column of the subquery that must equal it."""


@dataclass(slots=True)
class Names:
    """Columns that a SELECT reads, by table and name."""

    tables: dict[str, dict[str, Lowered]] = field(default_factory=dict)
    """Expression of each column over its rows, by table and column."""

    def leaf(self, node: exp.Expr) -> Lowered | None:
        """Return a column's expression; None for anything else."""
        if not isinstance(node, exp.Column):
            return None
        lowered = self.tables.get(node.table, {}).get(node.name.lower())
        if lowered is None:
            raise NotIncremental("a subquery that reads columns beyond the query around it")
        return lowered

    def rename(self, tables: set[str], names: Mapping[str, str]) -> None:
        """Rename the columns of these tables."""
        columns: dict[str, Expr] = {old: Col(new) for old, new in names.items()}
        for table in tables:
            values = self.tables[table]
            for name, value in values.items():
                values[name] = Lowered(renamed(value.expr, columns), value.type)

    def make_optional(self, tables: set[str]) -> None:
        """Mark the columns of these tables as nullable, because an outer join may fill them with NULL."""
        for table in tables:
            values = self.tables[table]
            for name, value in values.items():
                values[name] = Lowered(value.expr, value.type.with_null())


@dataclass(slots=True)
class Block:
    """Rows of a SELECT, before or after they are grouped; subqueries in its expressions are joined to these rows."""

    rows: Rows
    """Rows built so far."""
    resolve: Leaf
    """Resolver of parts of the SELECT's expressions: a column or, for groups, a key or an aggregate."""
    links: list[Link] = field(default_factory=list)
    """Links to the query around the SELECT."""
    defaults: dict[str, Lit] = field(default_factory=dict)
    """Column → value of the column if there is no row to aggregate, unless this value is NULL."""
    known: dict[int, Lowered] = field(default_factory=dict)
    """Subqueries that have been joined, by the identity of their nodes."""

    def leaf(self, node: exp.Expr) -> Lowered | None:
        """Return the expression of a joined subquery, or of a node that `resolve` knows; None for other nodes."""
        return self.known.get(id(node)) or self.resolve(node)


@dataclass(slots=True, eq=False)
class JoinedPart:
    """Sources that have been joined."""

    rows: Rows
    """Rows of the sources."""
    tables: set[str]
    """Names of the sources."""


@dataclass(slots=True)
class Result:
    """Rows of a query."""

    rows: Rows
    """Rows, which may have further columns."""
    outputs: list[tuple[str, Lowered]]
    """Name of each column of the query, and the column of ``rows`` that has its values."""
    links: list[Link]
    """Links to the query around this one."""


class SubqueryJoiner(Protocol):
    """Interface that joins subqueries to the rows of the SELECT around them."""

    def condition(self, around: Block, node: exp.Expr) -> None:
        """Keep the rows for which a condition with subqueries is true."""

    def attach(self, around: Block, nodes: Sequence[exp.Expr], *, inner: bool = False) -> None:
        """Join the subqueries of these expressions to the rows, so that `Block.leaf` resolves them."""


class QueryBuilder(Protocol):
    """Builder of the queries of one view: any part of a SELECT may contain a whole query."""

    graph: Graph
    """Graph of all queries."""
    zero: bool
    """True if a SUM of no rows is 0, as in DBToaster's dialect, instead of NULL."""

    @property
    def subqueries(self) -> SubqueryJoiner:
        """Joiner of subqueries."""

    def query(self, node: exp.Expr, outer: Block | None, needed: Collection[str] | None) -> Result:
        """Build a query; columns that are not ``needed`` may be left out (None: all are needed)."""

    def tables_of(self, node: exp.Expr) -> AbstractContextManager[None]:
        """Make the tables of the query's WITH available within the context."""

    def source(self, node: exp.Expr, select: exp.Select, names: Names) -> JoinedPart:
        """Build a table or subquery in FROM, and add its columns to the names."""

    def one_row(self) -> Rows:
        """Return the row of a SELECT without FROM."""


def free_columns(node: exp.Expr) -> list[exp.Column]:
    """Return the columns in a part of a query that no SELECT within that part binds."""

    def is_bound(column: exp.Column) -> bool:
        part: exp.Expr | None = column
        while part is not node and part is not None:
            part = part.parent
            if isinstance(part, exp.Select) and column.table in own_tables(part):
                return True
        return False

    return [column for column in node.find_all(exp.Column) if column.table and not is_bound(column)]


def tables_of(node: exp.Expr) -> set[str]:
    """Return the tables of the columns that are free in a part of a query."""
    return {column.table for column in free_columns(node)}


def sides_of(node: exp.Binary, own: set[str]) -> tuple[exp.Expr, exp.Expr] | None:
    """Return both sides of a comparison of the tables ``own`` with other tables, the side of ``own`` first.

    Return None for any other comparison.
    """
    for inside, outside in ((node.left, node.right), (node.right, node.left)):
        mine, others = tables_of(inside), tables_of(outside)
        if mine and others and mine <= own and not others & own:
            return inside, outside
    return None


def outermost_queries(node: exp.Expr) -> list[exp.Expr]:
    """Return the subqueries of an expression (EXISTS, IN, SELECT in brackets) that are not inside another subquery."""

    def is_query(part: exp.Expr) -> bool:
        return isinstance(part, (exp.Exists, exp.Query)) or (
            isinstance(part, exp.In) and part.args.get("query") is not None
        )

    return [part for part in node.walk(prune=is_query) if is_query(part)]

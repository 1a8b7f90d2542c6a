"""Names of a SELECT's columns in a flow, and the columns that a part of a query takes from outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from runtime.compiler.operands import Lowered, NotIncremental
from runtime.plan import Col, Expr, renamed

__all__ = ["Names", "free_columns", "outermost_queries", "own_tables", "sides_of", "tables_of"]


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
            raise NotIncremental("a subquery that reaches past the query around it")
        return lowered

    def rename(self, tables: set[str], names: Mapping[str, str]) -> None:
        """Rename the columns of these tables."""
        columns: dict[str, Expr] = {old: Col(new) for old, new in names.items()}
        for table in tables:
            values = self.tables[table]
            for name, value in values.items():
                values[name] = Lowered(renamed(value.expr, columns), value.type)

    def make_optional(self, tables: set[str]) -> None:
        """Mark the columns of these tables as nullable, as an outer join may leave them out."""
        for table in tables:
            values = self.tables[table]
            for name, value in values.items():
                values[name] = Lowered(value.expr, value.type.with_null())


def own_tables(select: exp.Expr) -> set[str]:
    """Return the names in the FROM of a SELECT."""
    start = select.args.get("from_")
    parts = [] if start is None else [start.this, *(join.this for join in select.args.get("joins") or [])]
    return {part.alias_or_name for part in parts}


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
    """Return the inside and the outside of a comparison of own tables with other ones; None for any other one."""
    for inside, outside in ((node.left, node.right), (node.right, node.left)):
        mine, others = tables_of(inside), tables_of(outside)
        if mine and others and mine <= own and not others & own:
            return inside, outside
    return None


def outermost_queries(node: exp.Expr) -> list[exp.Expr]:
    """Return the subqueries in an expression that are in no other one: EXISTS, IN and those in brackets."""

    def is_query(part: exp.Expr) -> bool:
        return isinstance(part, (exp.Exists, exp.Query)) or (
            isinstance(part, exp.In) and part.args.get("query") is not None
        )

    return [part for part in node.walk(prune=is_query) if is_query(part)]

"""What the columns of a SELECT are called in a flow, and which columns a part of a query takes from outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from runtime.compiler.operands import Lowered, NotIncremental
from runtime.plan import Col, Expr, renamed

__all__ = ["Names", "free_columns", "outermost_queries", "own_tables", "sides_of", "tables_of"]


@dataclass(slots=True)
class Names:
    """The columns that a SELECT reads, by table and name."""

    tables: dict[str, dict[str, Lowered]] = field(default_factory=dict)
    """Table → column → its expression over the rows that have it."""

    def leaf(self, node: exp.Expr) -> Lowered | None:
        """A column's expression; None for anything else."""
        if not isinstance(node, exp.Column):
            return None
        found = self.tables.get(node.table, {}).get(node.name.lower())
        if found is None:
            raise NotIncremental("a subquery that reaches past the query around it")
        return found

    def rename(self, tables: set[str], names: Mapping[str, str]) -> None:
        """The columns of these tables are called otherwise from now on."""
        columns: dict[str, Expr] = {old: Col(new) for old, new in names.items()}
        for table in tables:
            held = self.tables[table]
            for name, value in held.items():
                held[name] = Lowered(renamed(value.expr, columns), value.type)

    def make_optional(self, tables: set[str]) -> None:
        """An outer join may leave these tables out."""
        for table in tables:
            held = self.tables[table]
            for name, value in held.items():
                held[name] = Lowered(value.expr, value.type.with_null())


def own_tables(select: exp.Expr) -> set[str]:
    """The names in the FROM of a SELECT."""
    start = select.args.get("from_")
    parts = [] if start is None else [start.this, *(join.this for join in select.args.get("joins") or [])]
    return {part.alias_or_name for part in parts}


def free_columns(node: exp.Expr) -> list[exp.Column]:
    """The columns in a part of a query that no SELECT within that part binds."""

    def is_bound(column: exp.Column) -> bool:
        part: exp.Expr | None = column
        while part is not node and part is not None:
            part = part.parent
            if isinstance(part, exp.Select) and column.table in own_tables(part):
                return True
        return False

    return [column for column in node.find_all(exp.Column) if column.table and not is_bound(column)]


def tables_of(node: exp.Expr) -> set[str]:
    """The tables of the columns that are free in a part of a query."""
    return {column.table for column in free_columns(node)}


def sides_of(node: exp.Binary, own: set[str]) -> tuple[exp.Expr, exp.Expr] | None:
    """The inside and the outside of a comparison of a SELECT's own tables with other ones; None for any other one."""
    for inside, outside in ((node.left, node.right), (node.right, node.left)):
        mine, others = tables_of(inside), tables_of(outside)
        if mine and others and mine <= own and not others & own:
            return inside, outside
    return None


def outermost_queries(node: exp.Expr) -> list[exp.Expr]:
    """The subqueries in an expression that stand in no other one: EXISTS, IN and those in brackets."""

    def is_query(part: exp.Expr) -> bool:
        return isinstance(part, (exp.Exists, exp.Query)) or (
            isinstance(part, exp.In) and part.args.get("query") is not None
        )

    return [part for part in node.walk(prune=is_query) if is_query(part)]

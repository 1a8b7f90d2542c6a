"""What the columns of a SELECT are called in a flow, and which columns a part of a query takes from outside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from sqlglot import exp

from runtime.compiler.flow.graph import Rows
from runtime.compiler.operands import Lowered, NotIncremental
from runtime.plan import Col, Expr, renamed

__all__ = ["Names", "Outer", "free_columns", "outermost_queries", "own_tables"]


class Outer(Protocol):
    """The SELECT around a subquery."""

    @property
    def rows(self) -> Rows:
        """Its rows, over which `leaf` gives expressions."""

    def leaf(self, node: exp.Expr) -> Lowered | None:
        """What a part of it is; raises `NotIncremental` for a column it does not have."""


@dataclass(slots=True)
class Names:
    """The columns that a SELECT reads, by table and name."""

    tables: dict[str, dict[str, Lowered]] = field(default_factory=dict)
    """Table → column → its expression over the rows that have it."""

    def of(self, column: exp.Column) -> Lowered:
        """The column's expression."""
        found = self.tables.get(column.table, {}).get(column.name.lower())
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


def free_columns(node: exp.Expr) -> Iterator[exp.Column]:
    """The columns in a part of a query that no SELECT within that part binds."""
    for column in node.find_all(exp.Column):
        around = column.parent if column is not node else None
        bound = isinstance(node, exp.Select) and column.table in own_tables(node)
        while around is not None and column is not node:
            if isinstance(around, exp.Select) and column.table in own_tables(around):
                bound = True
            if around is node:
                break
            around = around.parent
        if not bound and column.table:
            yield column


def outermost_queries(node: exp.Expr) -> Iterator[exp.Expr]:
    """The subqueries in an expression that stand in no other one: EXISTS, IN and those in brackets."""

    def is_query(part: exp.Expr) -> bool:
        return isinstance(part, (exp.Exists, exp.Query)) or (
            isinstance(part, exp.In) and part.args.get("query") is not None
        )

    for part in node.walk(prune=is_query):
        if is_query(part):
            yield part

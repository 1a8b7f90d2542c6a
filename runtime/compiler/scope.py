"""Names in the expressions of a re-evaluated query: the sources of a SELECT, and those of the SELECTs around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlglot import exp

from runtime.compiler.parse import Query
from runtime.compiler.types import Type
from runtime.plan import Expr, Relation

__all__ = ["FromTable", "Reference", "Scope"]


@dataclass(slots=True)
class Reference:
    """Place in a query where the query reads a relation."""

    relation: Relation
    """Relation that is read."""
    table: exp.Table
    """Table in the rewritten query; it gets its name when all references are known."""
    needed: set[str] = field(default_factory=set)
    """Columns that the query uses."""
    filters: list[Expr] = field(default_factory=list)
    """Conditions on rows of the relation alone; the map applies them."""


@dataclass(slots=True)
class FromTable:
    """Table of a FROM clause."""

    alias: str
    """Qualifier of its columns."""
    columns: dict[str, Type]
    """Columns of the table."""
    reference: Reference | None = None
    """Reference of a relation; None for a subquery or a WITH table."""
    optional: bool = False
    """True if an outer join may fill its columns with NULL."""


@dataclass(slots=True)
class Scope:
    """Names of one SELECT."""

    query: Query
    """Query, for errors."""
    parent: Scope | None
    """Scope of the SELECT around it."""
    sources: dict[str, FromTable] = field(default_factory=dict)
    """Sources by alias."""
    outputs: dict[str, Type] = field(default_factory=dict)
    """Columns of the SELECT itself, visible to ORDER BY."""
    grouped: bool = False
    """True if the SELECT has a GROUP BY, so that no group is empty."""
    used: dict[tuple[str, str], None] = field(default_factory=dict)
    """Columns of its sources that were used, in order."""

    def resolve(self, column: exp.Column) -> Type:
        """Return the type of this column, and mark the column as used; raise `SqlError` for an unknown column."""
        table, name = column.table, column.name.lower()
        for scope in self._chain():
            source = scope.sources.get(table)
            if source is None:
                continue
            if name not in source.columns:
                break
            scope.used[table, name] = None
            if source.reference is not None:
                source.reference.needed.add(name)
            kind = source.columns[name]
            return kind.with_null() if source.optional else kind
        raise self._unknown(column)

    def _chain(self) -> Iterator[Scope]:
        """Yield the scope of this SELECT, and then those of the SELECTs around it."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def _unknown(self, column: exp.Column) -> Exception:
        name = f"{column.table}.{column.name}" if column.table else column.name
        sources = [part for scope in self._chain() for part in scope.sources.items()]
        holders = [f"{alias}.{column.name}" for alias, source in sources if column.name.lower() in source.columns]
        if len(holders) > 1 and not column.table:
            return self.query.error(f"expected one of {', '.join(holders)}, was the ambiguous {name!r}", column)
        inside = ", ".join(f"{alias}({', '.join(source.columns)})" for alias, source in sources) or "none"
        return self.query.error(f"unknown column {name!r}; the columns in scope are: {inside}", column)

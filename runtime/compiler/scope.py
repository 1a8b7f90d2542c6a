"""Which names an expression can use: the sources of its SELECT, and those of the SELECTs around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlglot import exp

from runtime.compiler.parse import Query
from runtime.compiler.types import Type
from runtime.plan import Expr, Relation

__all__ = ["Reference", "Scope", "Source"]


@dataclass(slots=True)
class Reference:
    """One place of a query that reads a relation."""

    relation: Relation
    """Which."""
    table: exp.Table
    """Its place in the rewritten query, named when all references are known."""
    needed: set[str] = field(default_factory=set)
    """The columns that the query uses."""
    filters: list[Expr] = field(default_factory=list)
    """Conditions on its rows alone, which its map applies."""


@dataclass(slots=True)
class Source:
    """One table of a FROM clause."""

    alias: str
    """What its columns are qualified with."""
    columns: dict[str, Type]
    """Its columns."""
    reference: Reference | None = None
    """None for a subquery or a WITH table."""
    optional: bool = False
    """Whether an outer join may leave it out: all its columns may be NULL."""


@dataclass(slots=True)
class Scope:
    """The names of one SELECT."""

    query: Query
    """For errors."""
    parent: Scope | None
    """The SELECT around it."""
    sources: dict[str, Source] = field(default_factory=dict)
    """By alias."""
    outputs: dict[str, Type] = field(default_factory=dict)
    """The SELECT's own columns, visible to ORDER BY."""
    grouped: bool = False
    """Whether the SELECT has a GROUP BY, so that no group is empty."""
    used: dict[tuple[str, str], None] = field(default_factory=dict)
    """Columns of its sources that were used, in order."""

    def resolve(self, column: exp.Column) -> Type:
        """The type of this column, which counts as used; raises `SqlError` for an unknown one."""
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
        """This SELECT and those around it."""
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

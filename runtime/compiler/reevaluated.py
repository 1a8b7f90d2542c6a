"""Re-evaluated views: the rewritten query over maps that hold just the rows and columns it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
from sqlglot import exp

from runtime.compiler.describe import Describer
from runtime.compiler.fixedpoint import cast
from runtime.compiler.maps import MapSet, all_of, column_keys, key_name
from runtime.compiler.scope import Reference
from runtime.compiler.shapes import Output
from runtime.compiler.types import Type
from runtime.plan import Column, Expr, Input, Map, Reevaluated, Relation

__all__ = ["final_query", "reevaluated_view", "verify"]


@dataclass(slots=True)
class _Table:
    """One table of the query: a relation under one filter."""

    relation: Relation
    filters: tuple[Expr, ...]
    needed: set[str]
    references: list[Reference]


def reevaluated_view(
    output: Output, references: Sequence[Reference], names: Sequence[str], maps: MapSet
) -> Reevaluated:
    """The view's body, its maps added: references with the same filter read one table."""
    tables: list[_Table] = []
    for reference in references:
        filters = tuple(reference.filters)
        table = next(
            (table for table in tables if (table.relation, table.filters) == (reference.relation, filters)), None
        )
        if table is None:
            table = _Table(reference.relation, filters, set(), [])
            tables.append(table)
        table.needed |= reference.needed
        table.references.append(reference)
    inputs: list[Input] = []
    for table in tables:
        earlier = sum(other.relation is table.relation for other in tables[: len(inputs)])
        name = f"{table.relation.name}_{earlier + 1}" if earlier else table.relation.name
        number = maps.add(table.relation.name, all_of(table.filters), column_keys(table.relation, table.needed))
        inputs.append(Input(_free(name, inputs, references), number))
        for reference in table.references:
            _name_table(reference, inputs[-1].table, table.needed)
    return Reevaluated(tuple(inputs), final_query(output, names).sql("duckdb", pretty=True))


def _free(name: str, inputs: Sequence[Input], references: Sequence[Reference]) -> str:
    """The name, made different from the tables and relations there are."""
    taken = {known.table for known in inputs} | {reference.relation.name for reference in references} - {name}
    while name in taken:
        name += "_"
    return name


def _name_table(reference: Reference, name: str, needed: set[str]) -> None:
    """Puts the table's name into the query; a column that its map calls otherwise gets its name back."""
    reference.table.set("this", exp.to_identifier(name, quoted=True))
    renamed = sorted(column for column in needed if key_name(column) != column)
    if renamed:
        alias = reference.table.args["alias"].copy()
        parts = [
            exp.alias_(exp.column(key_name(column), quoted=True), column, quoted=True) for column in sorted(needed)
        ]
        inner = exp.Select(expressions=parts)
        inner.set("from_", exp.From(this=exp.Table(this=exp.to_identifier(name, quoted=True))))
        reference.table.replace(exp.Subquery(this=inner, alias=alias))


def final_query(output: Output, names: Sequence[str]) -> exp.Select:
    """The query with its columns named and cast to what travels; int128 as DECIMAL(38,0), which raises beyond it."""
    parts = []
    for inner, name, kind in zip(output.names, names, output.types, strict=True):
        column = exp.column(inner, table="result", quoted=True)
        parts.append(exp.alias_(cast(column, _result_type(kind)), name, quoted=True))
    select = exp.Select(expressions=parts)
    alias = exp.TableAlias(this=exp.to_identifier("result", quoted=True))
    select.set("from_", exp.From(this=exp.Subquery(this=output.sql, alias=alias)))
    return select


def _result_type(kind: Type) -> str:
    """DuckDB's name of what travels; an untyped NULL is an integer."""
    return "DECIMAL(38,0)" if kind.wide else Type.of(kind.column("")).duckdb


def verify(
    body: Reevaluated, types: Sequence[Type], names: Sequence[str], maps: Sequence[Map], describer: Describer
) -> None:
    """Runs the query over empty tables; raises `RuntimeError` if DuckDB sees other columns than were inferred."""
    tables = {
        part.table: [(key.name, Type.of(Column(key.name, key.type)).duckdb) for key in maps[part.map].keys]
        for part in body.inputs
    }
    expected = [(name, _result_type(kind)) for name, kind in zip(names, types, strict=True)]
    try:
        found = describer.columns_over(body.query, tables)
    except duckdb.Error as error:
        raise RuntimeError(f"DuckDB refuses the rewritten query: {error}\n{body.query}") from error
    if found != expected:
        raise RuntimeError(f"expected the columns {expected}, was {found}\n{body.query}")

"""Re-evaluated views: the rewritten query over maps of just the rows and columns that it needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import duckdb
from sqlglot import exp

from runtime.compiler.describe import Describer
from runtime.compiler.fixedpoint import cast
from runtime.compiler.maps import MapSet, all_of, column_keys, key_name
from runtime.compiler.queries import Output
from runtime.compiler.scope import Reference
from runtime.compiler.types import Type
from runtime.plan import Column, Expr, Input, Map, Reevaluated

__all__ = ["final_query", "reevaluated_view", "verify"]


def reevaluated_view(
    output: Output, references: Sequence[Reference], names: Sequence[str], maps: MapSet
) -> Reevaluated:
    """Return the view's body, its maps added: references with the same filter read one table."""
    tables: dict[tuple[str, tuple[Expr, ...]], list[Reference]] = {}
    for reference in references:
        tables.setdefault((reference.relation.name, tuple(reference.filters)), []).append(reference)
    inputs: list[Input] = []
    copies: Counter[str] = Counter()
    for (relation, filters), same in tables.items():
        copies[relation] += 1
        name = _free(f"{relation}_{copies[relation]}" if copies[relation] > 1 else relation, inputs, references)
        needed = set().union(*(reference.needed for reference in same))
        keys = column_keys(same[0].relation, needed)
        inputs.append(Input(name, maps.add(relation, all_of(filters), keys)))
        for reference in same:
            _name_table(reference, name, needed)
    return Reevaluated(tuple(inputs), final_query(output, names).sql("duckdb", pretty=True))


def _free(name: str, inputs: Sequence[Input], references: Sequence[Reference]) -> str:
    """Return the name, made different from those of tables and relations."""
    taken = {known.table for known in inputs} | {reference.relation.name for reference in references} - {name}
    while name in taken:
        name += "_"
    return name


def _name_table(reference: Reference, name: str, needed: set[str]) -> None:
    """Put the table's name into the query; a column that its map names differently gets its name back."""
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
    """Return the query with its columns named and cast to output types; int128 as DECIMAL(38,0), which may raise."""
    parts = []
    for inner, name, kind in zip(output.names, names, output.types, strict=True):
        column = exp.column(inner, table="result", quoted=True)
        parts.append(exp.alias_(cast(column, _result_type(kind)), name, quoted=True))
    select = exp.Select(expressions=parts)
    alias = exp.TableAlias(this=exp.to_identifier("result", quoted=True))
    select.set("from_", exp.From(this=exp.Subquery(this=output.sql, alias=alias)))
    return select


def _result_type(kind: Type) -> str:
    """Return DuckDB's name of an output type; an untyped NULL is an integer."""
    return "DECIMAL(38,0)" if kind.wide else Type.of(kind.column("")).duckdb


def verify(
    body: Reevaluated, types: Sequence[Type], names: Sequence[str], maps: Sequence[Map], describer: Describer
) -> None:
    """Run the query over empty tables; raise `RuntimeError` if DuckDB sees other columns than were inferred."""
    tables = {
        part.table: [(key.name, Type.of(Column(key.name, key.type)).duckdb) for key in maps[part.map].keys]
        for part in body.inputs
    }
    expected = [(name, _result_type(kind)) for name, kind in zip(names, types, strict=True)]
    try:
        actual = describer.columns_over(body.query, tables)
    except duckdb.Error as error:
        raise RuntimeError(f"DuckDB refuses the rewritten query: {error}\n{body.query}") from error
    if actual != expected:
        raise RuntimeError(f"expected the columns {expected}, was {actual}\n{body.query}")

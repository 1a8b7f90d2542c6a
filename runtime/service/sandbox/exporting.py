"""Conversion of columns of an answer: those whose type does not exist in Arrow, or has a smaller range there.

In DuckDB's Arrow stream, BIT, BIGNUM, VARIANT and GEOMETRY would be internal bytes, and a TIME WITH TIME ZONE would
lack its offset. A UHUGEINT or an INTERVAL that is too large would lose its highest bits. Therefore DuckDB converts
columns of these types first. A UHUGEINT or an INTERVAL becomes a type of Arrow, with an error for a value that is too
large; the other types become text.
"""

from __future__ import annotations

from typing import Final

import duckdb

from runtime.compiler.describe import quoted_name

__all__ = ["exported"]

_AS_TEXT: Final = frozenset(
    ("bignum", "bit", "geometry", "time with time zone", "time_ns", "type", "variant")
)  # fmt: skip
_MOST_HOURS: Final = 2_562_046
"""Greatest number of hours whose nanoseconds have 64 bits."""
_MOST_HUGEINT: Final = 2**127 - 1
"""Greatest value of a HUGEINT."""


def exported(relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """Return the relation, in which columns of types that Arrow lacks or narrows are converted.

    The order and the names of the columns stay.
    """
    converted = [_converted(f"#{place}", kind) for place, kind in enumerate(relation.types, 1)]
    if not any(converted):
        return relation
    columns = zip(converted, relation.columns, strict=True)
    return relation.project(
        ", ".join(f"{sql or f'#{place}'} AS {quoted_name(name)}" for place, (sql, name) in enumerate(columns, 1))
    )


def _converted(column: str, kind: duckdb.sqltypes.DuckDBPyType) -> str:
    """Return the SQL of a converted column; empty for a column that needs no conversion."""
    if kind.id == "uhugeint":
        refusal = f"error('expected a UHUGEINT of at most {_MOST_HUGEINT}, was a larger one')"
        return f"CASE WHEN {column} > {_MOST_HUGEINT} THEN {refusal} ELSE CAST({column} AS HUGEINT) END"
    if kind.id == "interval":
        refusal = f"CAST(error('expected an interval of at most {_MOST_HOURS} hours, was a longer one') AS INTERVAL)"
        return f"CASE WHEN abs(hour({column})) > {_MOST_HOURS} THEN {refusal} ELSE {column} END"
    target = _target(kind)
    return f"CAST({column} AS {target})" if target != str(kind) else ""


def _target(kind: duckdb.sqltypes.DuckDBPyType) -> str:
    """Return the type to which a column is cast, in SQL."""
    if kind.id in _AS_TEXT:
        return "VARCHAR"
    if kind.id == "uhugeint":
        return "HUGEINT"
    if kind.id not in {"list", "array", "struct", "map", "union"}:
        return str(kind)
    children = [(name, part) for name, part in kind.children if isinstance(part, duckdb.sqltypes.DuckDBPyType)]
    parts = [(name, _target(part), str(part)) for name, part in children]
    if all(target == own for _, target, own in parts):
        return str(kind)
    if kind.id == "union":
        return "VARCHAR"
    if kind.id == "map":
        return f"MAP({', '.join(target for _, target, _ in parts)})"
    if kind.id == "struct":
        return f"STRUCT({', '.join(f'{quoted_name(name)} {target}' for name, target, _ in parts)})"
    sizes = [str(size) for name, size in kind.children if name == "size"]
    return f"{parts[0][1]}[{''.join(sizes)}]"

"""Types of SQL expressions as the compiler infers them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from runtime.plan import Column, ColumnType, Relation

__all__ = [
    "BOOL",
    "DECIMAL_DIGITS",
    "FLOAT",
    "INT",
    "NULL",
    "STRING",
    "Type",
    "common_type",
    "decimal_literal",
    "has_room",
    "types_of",
]

DECIMAL_DIGITS = 18
"""Number of digits of a DECIMAL without sizes in a CAST."""

Kind = Literal["int", "float64", "string", "bool", "date", "timestamp", "null", "other"]

_DUCKDB: dict[str, str] = {
    "float64": "DOUBLE",
    "string": "VARCHAR",
    "bool": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "null": "INTEGER",
}
_FROM_DUCKDB: dict[str, Kind] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"), "int"),
    **dict.fromkeys(("HUGEINT", "UBIGINT"), "int"),
    **dict.fromkeys(("DOUBLE", "FLOAT"), "float64"),
    "VARCHAR": "string",
    "BOOLEAN": "bool",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    '"NULL"': "null",
}


@dataclass(frozen=True, slots=True)
class Type:
    """Type of an expression's value."""

    kind: Kind
    """Kind of value: ``null`` is an untyped NULL; ``other`` is a type of DuckDB that no column of a view can have."""
    scale: int = 0
    """Number of decimal digits after the point; for integers only."""
    wide: bool = False
    """True for integers that may exceed 64 bits."""
    nullable: bool = False
    """True if the value may be NULL."""
    sql: str = ""
    """Name of the type in DuckDB, for ``other`` only."""

    @classmethod
    def of(cls, column: Column) -> Type:
        """Return the type of a relation's column."""
        if column.type in ("int64", "int128"):
            return cls("int", column.scale, column.type == "int128", column.nullable)
        kind: Kind = column.type  # type: ignore[assignment]  # the other names are the same
        return cls(kind, nullable=column.nullable)

    @classmethod
    def from_duckdb(cls, name: str) -> Type:
        """Return the type of this name in DuckDB; a DECIMAL is a scaled integer."""
        if match := re.fullmatch(r"DECIMAL\(\d+,(\d+)\)", name):
            return cls("int", int(match[1]), wide=True, nullable=True)
        kind = _FROM_DUCKDB.get(name, "other")
        return cls(kind, wide=name in ("HUGEINT", "UBIGINT"), nullable=True, sql=name if kind == "other" else "")

    def column(self, name: str) -> Column:
        """Return a view's column of this type; an untyped NULL is an integer."""
        kinds: dict[str, ColumnType] = {"int": "int128" if self.wide else "int64", "null": "int64"}
        kind = kinds.get(self.kind) or self.kind
        return Column(name, kind, self.nullable, self.scale)  # type: ignore[arg-type]  # "other" is refused before

    @property
    def duckdb(self) -> str:
        """Name of the type in DuckDB."""
        if self.kind == "int":
            return "HUGEINT" if self.wide else "BIGINT"
        return self.sql or _DUCKDB[self.kind]

    @property
    def is_numeric(self) -> bool:
        """True for integers and floats."""
        return self.kind in ("int", "float64")

    def with_null(self, nullable: bool = True) -> Type:
        """Return the same type with this nullability."""
        return replace(self, nullable=nullable)

    def __str__(self) -> str:
        name = {"int": "integer", "float64": "float", "null": "NULL", "other": self.sql}.get(self.kind, self.kind)
        return f"{name} with {self.scale} decimals" if self.scale else name


INT = Type("int")
FLOAT = Type("float64")
STRING = Type("string")
BOOL = Type("bool")
NULL = Type("null", nullable=True)


def types_of(relation: Relation) -> dict[str, Type]:
    """Return the types of a relation's columns."""
    return {column.name: Type.of(column) for column in relation.columns}


def common_type(types: Sequence[Type]) -> Type | None:
    """Return the type that can represent values of all these types, at their largest scale; None if there is none."""
    nullable = any(kind.nullable for kind in types)
    known = [kind for kind in types if kind.kind != "null"]
    if not known:
        return NULL
    kinds = {kind.kind for kind in known}
    if kinds == {"int"}:
        scale = max(kind.scale for kind in known)
        wide = any(kind.wide or kind.scale != scale for kind in known)
        return Type("int", scale, wide, nullable)
    if kinds <= {"int", "float64"}:
        return FLOAT.with_null(nullable)
    if len(kinds) == 1 and len({kind.sql for kind in known}) == 1:
        return known[0].with_null(nullable)
    return None


def has_room(kind: Type, shift: int, digits: int) -> bool:
    """Return True if integers of the type have at most ``digits`` digits with ``shift`` more digits after the point."""
    return bool(10**digits > (2**126 if kind.wide else 2**63 * 10**shift))


def decimal_literal(text: str) -> tuple[int, int] | None:
    """Return value and scale of a literal without exponent, as (25, 2) for ``0.25``; None for a float like ``1e3``."""
    match = re.fullmatch(r"(\d*)(?:\.(\d*))?", text)
    if match is None or not (match[1] or match[2]):
        return None
    digits = (match[2] or "").rstrip("0")
    return int((match[1] or "0") + digits), len(digits)

"""Columns, relations, expressions and maps: the elements of every part of a view program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

import msgspec

__all__ = [
    "EPOCH_TIME",
    "Call",
    "Col",
    "Column",
    "ColumnType",
    "Expr",
    "Key",
    "Lit",
    "Map",
    "Relation",
    "Sum",
    "Term",
    "columns_read",
    "renamed",
    "sum_of_terms",
]

ColumnType = Literal["int64", "int128", "float64", "string", "bool", "date", "timestamp"]
"""Type of a column. Arrow represents int128 as decimal128(38, 0); SUMs and products, which may exceed int64, have
it.
"""


class Column(msgspec.Struct, frozen=True):
    """A column of a relation or of a view."""

    name: str
    """Name in lower case."""
    type: ColumnType
    """Type of the values."""
    nullable: bool = False
    """True if a value may be NULL."""
    scale: int = 0
    """Number of digits after the decimal point; for integers only."""


class Relation(msgspec.Struct, frozen=True):
    """A named multiset of rows that changes by deltas."""

    name: str
    """Name in lower case."""
    columns: tuple[Column, ...]
    """Columns in the order of the deltas."""


EPOCH_TIME: Final = Relation("epoch_time", (Column("t", "int64"), Column("at", "timestamp")))
"""The time of the newest epoch, which ``now()`` reads: its only row, in nanoseconds and as a timestamp.

An epoch's time is the largest event time that its ingest has applied up to its cut, and is sealed as a change of this
relation, so that every reader of the epoch has the same ``now()``. There is no row before the first event time. Every
shard of a view keeps the whole of it.
"""


class Col(msgspec.Struct, frozen=True, tag="col"):
    """Value of a column (of a relation in a map; of a map in a view)."""

    name: str
    """Name of a column, key or sum, or ``weight`` for the number of rows."""


class Lit(msgspec.Struct, frozen=True, tag="lit"):
    """A constant, already scaled."""

    value: int | float | str | bool | None
    """The constant."""


class Call(msgspec.Struct, frozen=True, tag="call"):
    """An operation.

    ``add sub mul neg`` on integers (exact, widened or refused, never wrapped) or floats; ``eq ne lt le gt ge and or
    not`` with SQL's three-valued logic; ``floordiv mod`` on integers, rounding towards zero as SQL does; ``div`` gives
    a float64, NULL when the divisor is 0; ``sqrt`` of a float64; ``digits`` of an integer and a
    constant is the integer, refused if it has more decimal digits than that.

    ``is_null`` and ``coalesce`` as in SQL; ``case`` takes condition, value, condition, value, …, else; ``least
    greatest`` ignore NULL; ``in`` takes a value and constants of its type (64 bits or strings); ``like`` has a literal
    as its pattern, is case-sensitive and has no escape; ``year month day hour minute second`` of a date or timestamp;
    ``date timestamp`` read a literal, or convert one to the other.
    """

    op: Literal[
        "add", "sub", "mul", "neg", "floordiv", "mod", "div", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not",
        "is_null", "coalesce", "case", "least", "greatest", "in", "like", "sqrt", "digits",
        "year", "month", "day", "hour", "minute", "second", "date", "timestamp",
    ]  # fmt: skip
    """Name of the operation."""
    args: tuple[Col | Lit | Call, ...]
    """Operands of the operation."""


Expr = Col | Lit | Call


def columns_read(expr: Expr) -> Iterator[str]:
    """Yield the names of the columns that an expression reads, repeated as often as the expression reads them."""
    if isinstance(expr, Col):
        yield expr.name
    elif isinstance(expr, Call):
        for arg in expr.args:
            yield from columns_read(arg)


def renamed(expr: Expr, names: Mapping[str, Expr]) -> Expr:
    """Return the expression with the named columns replaced by expressions."""
    if isinstance(expr, Col):
        return names.get(expr.name, expr)
    if isinstance(expr, Call):
        return Call(expr.op, tuple(renamed(arg, names) for arg in expr.args))
    return expr


class Term(msgspec.Struct, frozen=True):
    """``factor × Π columns``, integers."""

    factor: int
    """Constant factor."""
    columns: tuple[str, ...]
    """Bound columns: ``alias.sum``, ``alias.weight``, or a numeric ``alias.key``."""


def sum_of_terms(terms: Sequence[Term]) -> Expr:
    """Return the sum of products as an expression over the bound columns."""
    total: Expr | None = None
    for term in terms:
        is_less = total is not None and term.factor < 0
        product = _product(-term.factor if is_less else term.factor, term.columns)
        total = product if total is None else Call("sub" if is_less else "add", (total, product))
    return Lit(0) if total is None else total


def _product(factor: int, columns: Sequence[str]) -> Expr:
    if factor == -1 and columns:
        return Call("neg", (_product(1, columns),))
    factors: list[Expr] = [*map(Col, columns), *([] if factor == 1 and columns else [Lit(factor)])]
    return factors[0] if len(factors) == 1 else Call("mul", tuple(factors))


class Key(msgspec.Struct, frozen=True):
    """One key column of a map."""

    name: str
    """Name of the key, unique within the map."""
    type: ColumnType
    """Type of the key."""
    expr: Expr
    """Expression over the relation's columns."""


class Sum(msgspec.Struct, frozen=True):
    """One maintained sum of a map: SUM(weight × expr), exact within ±2^126; a view whose sum passes that fails."""

    name: str
    """Name of the sum, unique within the map."""
    expr: Expr
    """Integer expression over the relation's columns that is never NULL."""


class Map(msgspec.Struct, frozen=True):
    """A keyed aggregate over one relation; every map also counts its rows as ``weight``."""

    id: int
    """Number within the program; equal maps of several views are one."""
    relation: str
    """Relation that its deltas come from."""
    where: Expr | None
    """Condition that is true for the rows of the map; None for all rows."""
    keys: tuple[Key, ...]
    """Keys; empty for one global group."""
    sums: tuple[Sum, ...]
    """Sums; empty if only the multiplicity of the keys is wanted."""

"""Columns, relations, expressions and maps: the elements of every part of a view program."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

__all__ = [
    "EPOCH_TIME",
    "EXACT_OPERATIONS",
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
    "exact_result",
    "renamed",
    "sum_of_terms",
]

ColumnType = Literal["int64", "int128", "float64", "string", "bool", "date", "timestamp"]
"""Type of a column. SUMs and products are int128, as they may exceed int64; Arrow has decimal128(38, 0) for int128."""


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
"""Relation that ``now()`` reads. Its only row has the time of the newest epoch, in nanoseconds and as a timestamp.

The time of an epoch is the largest event time that the ingest has applied up to the epoch's cut. The time is sealed as
a change of this relation, so that ``now()`` is the same for every reader of the epoch. The relation is empty until an
event time has been applied. Every shard of a view gets the row of this relation.
"""


class Col(msgspec.Struct, frozen=True, tag="col"):
    """Value of a column: in a map, a column of the map's relation; in a view, a column of one of the view's maps."""

    name: str
    """Name of a column, key or sum, or ``weight`` for the number of rows."""


class Lit(msgspec.Struct, frozen=True, tag="lit"):
    """A constant, already scaled."""

    value: int | float | str | bool | None
    """The constant."""


class Call(msgspec.Struct, frozen=True, tag="call"):
    """An operation.

    * ``add sub mul neg``: of integers (exact: widened or refused, never wrapped) or floats.
    * ``eq ne lt le gt ge and or not``: with SQL's three-valued logic.
    * ``floordiv mod``: of integers, rounding towards zero as SQL does; ``div``: a float64. A division by 0 is NULL.
    * ``sqrt``: of a float64.
    * ``digits``: takes an integer and a constant n, and returns the integer; an error if it has more than n decimal
      digits.
    * ``is_null coalesce``: as in SQL; ``least greatest``: ignore NULL.
    * ``case``: takes condition, value, condition, value, …, else.
    * ``in``: takes a value and constants of its type (integers of 64 bits, or strings).
    * ``like``: has a literal as its pattern, is case-sensitive and has no escape.
    * ``year month day hour minute second``: of a date or timestamp.
    * ``date timestamp``: parse a literal, or convert a timestamp to a date and a date to a timestamp.
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
    """Return the expression in which each column in ``names`` is replaced by the expression given there."""
    if isinstance(expr, Col):
        return names.get(expr.name, expr)
    if isinstance(expr, Call):
        return Call(expr.op, tuple(renamed(arg, names) for arg in expr.args))
    return expr


def _quotient(left: Any, right: Any) -> float | None:
    return left / right if right else None


def _whole_quotient(left: int, right: int) -> int | None:
    if not right:
        return None
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: int, right: int) -> int | None:
    quotient = _whole_quotient(left, right)
    return None if quotient is None else left - right * quotient


_COMPARISONS: Final[dict[str, Callable[..., bool]]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
_ARITHMETIC: Final[dict[str, Callable[..., Any]]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "neg": operator.neg, "not": operator.not_,
    "div": _quotient, "floordiv": _whole_quotient, "mod": _remainder,
}  # fmt: skip
EXACT_OPERATIONS: Final = frozenset({"and", "or", *_COMPARISONS, *_ARITHMETIC})
"""Operations that `exact_result` computes."""


def exact_result(op: str, values: Sequence[Any]) -> Any:
    """Return the result of one of `EXACT_OPERATIONS` on Python values, with integers of any size; NULL is None.

    In comparisons a NaN is equal to itself and greater than every other float, as in DuckDB.
    """
    if op in ("and", "or"):
        deciding = op == "or"
        if any(value is deciding for value in values):
            return deciding
        return None if None in values else not deciding
    if None in values:
        return None
    if op not in _COMPARISONS:
        operation = _ARITHMETIC[op]
        return operation(*values) if len(values) < 2 else functools.reduce(operation, values)
    if any(isinstance(value, float) for value in values):
        # Each value becomes a pair: whether it is a NaN, and the value.
        values = [(True, 0.0) if value != value else (False, value) for value in values]  # noqa: PLR0124 (NaN)
    return _COMPARISONS[op](*values)


class Term(msgspec.Struct, frozen=True):
    """Product of integers, ``factor × Π columns``."""

    factor: int
    """Constant factor."""
    columns: tuple[str, ...]
    """Columns that the plan binds: ``alias.sum``, ``alias.weight``, or a numeric ``alias.key``."""


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
    """One maintained sum of a map: SUM(weight × expr), exact within ±2^126. A view fails if a sum leaves this range."""

    name: str
    """Name of the sum, unique within the map."""
    expr: Expr
    """Integer expression over the relation's columns that is never NULL."""


class Map(msgspec.Struct, frozen=True):
    """A keyed aggregate over one relation; every map also counts its rows as ``weight``."""

    id: int
    """Number within the program; equal maps of several views are one map."""
    relation: str
    """Relation whose deltas change the map."""
    where: Expr | None
    """Condition that is true for the rows that the map aggregates; None for all rows."""
    keys: tuple[Key, ...]
    """Keys; empty for one global group."""
    sums: tuple[Sum, ...]
    """Sums; empty if only the number of rows of each key is needed."""

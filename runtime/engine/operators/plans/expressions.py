"""SQL expressions over the columns of a schema, in the dialect of derived streams: DuckDB with SESSION added.

Lengths of time, the arguments of windows, are in the unit of the time column.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Final

import msgspec
import pyarrow as pa
from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from runtime.compiler.dialect import QueryDialect, QueryParser
from runtime.compiler.intervals import UNITS_NS, nanoseconds_of
from runtime.compiler.lower import Leaf, lower
from runtime.compiler.operands import Lowered, NotIncremental
from runtime.compiler.parse import Query
from runtime.engine.errors import PlanError
from runtime.engine.operators.columns import MOST_DAYS, MOST_SPAN, field_of, type_of
from runtime.plan import Col

__all__ = [
    "StreamDialect",
    "WindowCall",
    "about",
    "column_of",
    "condition",
    "first_free",
    "lowered",
    "numbered_names",
    "schema_of",
    "span_of",
    "window_call",
]


class StreamDialect(QueryDialect):
    """SQL dialect of queries, with SESSION(time, gap) allowed in GROUP BY."""

    class Parser(QueryParser):
        """Parser that reads SESSION( as a call."""

        FUNC_TOKENS = QueryParser.FUNC_TOKENS | {TokenType.SESSION}


@contextmanager
def about(query: Query, node: exp.Expr) -> Iterator[None]:
    """Convert a `PlanError` raised in the block to an `SqlError` at this part of the query."""
    try:
        yield
    except PlanError as error:
        raise query.error(str(error), node) from None


def column_of(schema: pa.Schema, name: str) -> Lowered:
    """Return a column as an expression; raise `PlanError` for an unknown one."""
    match = next((field for field in schema if field.name.lower() == name.lower()), None)
    if match is None:
        raise PlanError(f"expected one of the columns {', '.join(schema.names)}, was {name}")
    return Lowered(Col(match.name), type_of(match))


def first_free(candidates: Iterable[str], taken: Collection[str]) -> str:
    """Return the first candidate name that is not taken."""
    return next(name for name in candidates if name not in taken)


def numbered_names(name: str) -> Iterator[str]:
    """Yield a name, then the name followed by each number from 1."""
    yield name
    yield from (f"{name}_{number}" for number in itertools.count(1))


def lowered(node: exp.Expr, leaf: Leaf) -> Lowered:
    """Return the expression in the form that operators compute; raise `PlanError` for an unsupported one."""
    try:
        return lower(node, leaf)
    except NotIncremental as error:
        raise PlanError(f"expected an expression that operators can compute, was {node.sql('duckdb')}: "
                        f"{error}") from None  # fmt: skip


def condition(node: exp.Expr, leaf: Leaf) -> Lowered:
    """Return the expression, which must be boolean; raise `PlanError` if it is not."""
    value = lowered(node, leaf)
    if value.type.kind not in ("bool", "null"):
        raise PlanError(f"expected a condition, was {node.sql('duckdb')}, a {value.type}")
    return value


def schema_of(outputs: Sequence[tuple[str, Lowered]], inner: pa.Schema) -> pa.Schema:
    """Return the schema of a projection of rows with the schema ``inner``.

    Raise `PlanError` for two outputs of one name.
    """
    return pa.schema(list(_fields(outputs, inner)))


def _fields(outputs: Sequence[tuple[str, Lowered]], inner: pa.Schema) -> Iterator[pa.Field]:
    taken: set[str] = set()
    for name, value in outputs:
        if name in taken:
            raise PlanError(f"expected names that differ, was {name} twice")
        taken.add(name)
        like = None
        if isinstance(value.expr, Col) and value.expr.name in inner.names:
            field = inner.field(value.expr.name)
            if type_of(field).with_null(False) == value.type.with_null(False):
                like = field.type
        yield field_of(name, value.type, like)


_UNITS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_ARGUMENTS: Final = {
    "tumble": "TUMBLE(time, INTERVAL '…' unit)",
    "hop": "HOP(time, slide, size), both intervals",
    "session": "SESSION(time, gap), the gap an interval",
}


class WindowCall(msgspec.Struct, frozen=True):
    """Call of TUMBLE, HOP or SESSION."""

    kind: str
    """Name of the function in lower case."""
    time: exp.Column
    """Time column of the windows."""
    spans: tuple[exp.Expr, ...]
    """Lengths of time, the arguments after the column."""


def window_call(node: exp.Expr, query: Query) -> WindowCall | None:
    """Return the call of a node that is TUMBLE, HOP or SESSION, else None; raise `SqlError` for wrong arguments."""
    kind = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    if kind not in _ARGUMENTS:
        return None
    time, *spans = node.expressions or [None]
    if not isinstance(time, exp.Column) or len(spans) != (2 if kind == "hop" else 1):
        raise query.error(f"expected {_ARGUMENTS[kind]}, was {node.sql('duckdb')}", node)
    return WindowCall(kind, time, tuple(spans))


def span_of(node: exp.Expr, kind: pa.DataType, query: Query, around: exp.Expr) -> int:
    """Return a length of time, more than 0, in the unit of a time column: nanoseconds for int64.

    Raises `SqlError` at the part of the query ``around`` the length, as a constant has no position of its own. A length
    is less than `MOST_SPAN`, so that times and a length can be added.
    """
    unit = 1 if pa.types.is_int64(kind) else UNITS_NS["day"] if pa.types.is_date32(kind) else _UNITS[kind.unit]
    if isinstance(node, exp.Literal) and node.is_int and pa.types.is_int64(kind):
        length = Fraction(int(node.name))
    else:
        length = Fraction(_nanoseconds(node, query, around), unit)
    if length <= 0 or length.denominator != 1:
        raise query.error(f"expected a length of time of whole units of {kind}, more than 0, was "
                          f"{node.sql('duckdb')}", around)  # fmt: skip
    most = MOST_DAYS if pa.types.is_date32(kind) else MOST_SPAN
    if length >= most:
        raise query.error(f"expected a length of time of less than {most} units of {kind}, was {length}", around)
    return int(length)


def _nanoseconds(node: exp.Expr, query: Query, around: exp.Expr) -> int:
    length = nanoseconds_of(node)
    if length is not None:
        return length
    raise query.error(f"expected an interval such as INTERVAL '1' SECOND, in units from nanosecond to week, was "
                      f"{node.sql('duckdb')}", around)  # fmt: skip

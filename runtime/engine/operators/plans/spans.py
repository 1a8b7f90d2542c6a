"""Lengths of time in SQL, in the unit of a time column; and the calls of windows that have them as arguments."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import msgspec
import pyarrow as pa
from sqlglot import exp

from runtime.compiler.intervals import UNITS_NS, nanoseconds_of
from runtime.compiler.parse import Query

__all__ = ["WindowCall", "span_of", "window_call"]

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

    Raises `SqlError` at the part of the query ``around`` the length, as a constant has no position of its own.
    """
    unit = 1 if pa.types.is_int64(kind) else UNITS_NS["day"] if pa.types.is_date32(kind) else _UNITS[kind.unit]
    if isinstance(node, exp.Literal) and node.is_int and pa.types.is_int64(kind):
        length = Fraction(int(node.name))
    else:
        length = Fraction(_nanoseconds(node, query, around), unit)
    if length <= 0 or length.denominator != 1:
        raise query.error(f"expected a length of time of whole units of {kind}, more than 0, was "
                          f"{node.sql('duckdb')}", around)  # fmt: skip
    return int(length)


def _nanoseconds(node: exp.Expr, query: Query, around: exp.Expr) -> int:
    length = nanoseconds_of(node)
    if length is not None:
        return length
    raise query.error(f"expected an interval such as INTERVAL '1' SECOND, in units from nanosecond to week, was "
                      f"{node.sql('duckdb')}", around)  # fmt: skip

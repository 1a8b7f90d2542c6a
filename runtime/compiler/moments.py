"""Dates and times: their parts, and constants that DuckDB computes once and for all."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime

import duckdb
from sqlglot import exp

from runtime.compiler.describe import database
from runtime.compiler.operands import Lowered, NotIncremental, call
from runtime.compiler.types import BOOL, INT, STRING, Type
from runtime.plan import Lit

__all__ = ["constant", "moment_part", "words"]

_PARTS: dict[type[exp.Expr], str] = {
    exp.Year: "year",
    exp.Month: "month",
    exp.Day: "day",
    exp.DayOfMonth: "day",
    exp.Hour: "hour",
    exp.Minute: "minute",
    exp.Second: "second",
}
_NAMES = frozenset(_PARTS.values())


def moment_part(node: exp.Expr, lower: Callable[[exp.Expr], Lowered]) -> Lowered:
    """EXTRACT and its kin; raises `NotIncremental` for anything else, as it is the last that is tried."""
    part, inner = _PARTS.get(type(node)), node.this
    if isinstance(node, exp.Extract):
        part, inner = node.name.lower(), node.expression
    elif isinstance(node, exp.Anonymous) and node.name.lower() in ("date_part", "datepart"):
        part, inner = node.expressions[0].name.lower(), node.expressions[1]
    if isinstance(node, exp.TimestampTrunc) and node.text("unit").upper() == "DAY":
        value = lower(node.this)
        if value.type.kind == "timestamp":
            return Lowered(call("timestamp", call("date", value.expr)), value.type)
    if part not in _NAMES:
        raise NotIncremental(words(node))
    value = lower(inner)
    if value.type.kind not in ("date", "timestamp"):
        raise NotIncremental(f"the {part} of something other than a date or timestamp")
    return Lowered(call(part, value.expr), INT.with_null(value.type.nullable))


def constant(node: exp.Expr) -> Lowered | None:
    """A constant date, time, string or truth value, such as a date plus an interval; None for what is none."""
    if isinstance(node, exp.Interval) or node.find(exp.Column, exp.Query, exp.AggFunc, exp.Window) is not None:
        return None
    try:
        with database().cursor() as connection:
            row = connection.execute(f"SELECT {node.sql('duckdb')}").fetchone()
    except duckdb.Error:
        return None
    value = None if row is None else row[0]
    if isinstance(value, datetime):
        return None if value.tzinfo else Lowered(call("timestamp", Lit(value.isoformat(" "))), Type("timestamp"))
    if isinstance(value, date):
        return Lowered(call("date", Lit(value.isoformat())), Type("date"))
    if isinstance(value, (str, bool)):
        return Lowered(Lit(value), BOOL if isinstance(value, bool) else STRING)
    return None


def words(node: exp.Expr) -> str:
    """What a construct is called in a reason."""
    names: dict[type[exp.Expr], str] = {
        exp.Window: "a window function",
        exp.Filter: "FILTER",
        exp.Anonymous: f"the function {node.name.upper()}",
        exp.Interval: "an interval of time",
        exp.DPipe: "joining strings",
    }
    if type(node) in names:
        return names[type(node)]
    if isinstance(node, exp.Query):
        return "a subquery"
    if isinstance(node, exp.AggFunc):
        return f"{node.sql_name()} is not a sum"
    return f"the function {node.sql_name()}" if isinstance(node, exp.Func) else node.key.upper()

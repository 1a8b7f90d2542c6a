"""Lowering of SQL expressions to the view program's own operations on integers and floats.

A `Leaf` resolves columns, keys and aggregates, so that the same rules lower expressions over one relation, over joins
and over groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import duckdb
from sqlglot import exp

from runtime.compiler.describe import DESCRIBE_S, database, time_limit
from runtime.compiler.intervals import nanoseconds_of
from runtime.compiler.operands import (
    Lowered,
    NotIncremental,
    alike,
    arithmetic,
    as_condition,
    at_type,
    call,
    compare,
    floor_quotient,
    logic,
    quotient,
)
from runtime.compiler.types import (
    BOOL,
    DECIMAL_DIGITS,
    FLOAT,
    INT,
    NULL,
    STRING,
    Type,
    common_type,
    decimal_literal,
    has_room,
)
from runtime.plan import Col, Expr, Lit

__all__ = ["SHORT_LIST", "Leaf", "columns_leaf", "conjuncts", "decimal_sizes", "lower", "lower_key"]

_ARITHMETIC = {exp.Add: "add", exp.Sub: "sub", exp.Mul: "mul", exp.IntDiv: "floordiv", exp.Mod: "mod"}
_PARTS: dict[type[exp.Expr], str] = {
    exp.Year: "year",
    exp.Month: "month",
    exp.Day: "day",
    exp.DayOfMonth: "day",
    exp.Hour: "hour",
    exp.Minute: "minute",
    exp.Second: "second",
}
SHORT_LIST = 8
"""A list of IN with at most this many values is not searched: comparing the values one by one takes less time."""
_NAMES = frozenset(_PARTS.values())
_COMPARISONS = {exp.EQ: "eq", exp.NEQ: "ne", exp.LT: "lt", exp.LTE: "le", exp.GT: "gt", exp.GTE: "ge"}

Leaf = Callable[[exp.Expr], Lowered | None]
"""Function of the caller of `lower` for nodes that only the caller knows, such as columns and aggregates.

The function returns the expression of such a node. For any other node it returns None; the parts of the node are then
lowered.
"""


def lower(node: exp.Expr, leaf: Leaf) -> Lowered:
    """Return a node as an expression of the program; raise `NotIncremental` if the program has no operation for it."""
    known = leaf(node)
    if known is not None:
        return known
    rule = _RULES.get(type(node))
    try:
        if rule is not None:
            return rule(node, leaf)
        return _moment_part(node, leaf)
    except NotIncremental:
        folded = _constant(node)
        if folded is None:
            raise
        return folded


def lower_key(node: exp.Expr, leaf: Leaf) -> Lowered:
    """Return a key of GROUP BY; raise `NotIncremental` for a constant NULL."""
    value = lower(node, leaf)
    if value.type.kind in ("null", "other"):
        raise NotIncremental("GROUP BY a constant NULL")
    return value


def _constant(node: exp.Expr) -> Lowered | None:
    """Return the value of an expression of constants, such as a date plus an interval, as DuckDB computes it.

    Return None if the expression has columns or a collation, or if its value is NULL or a number.
    """
    others = (exp.Column, exp.Query, exp.AggFunc, exp.Window, exp.Collate)
    if isinstance(node, exp.Interval) or node.find(*others) is not None:
        return None
    try:
        with database().cursor() as connection, time_limit(connection, DESCRIBE_S):
            row = connection.execute(f"SELECT x, CAST(x AS VARCHAR), typeof(x) FROM (SELECT {node.sql('duckdb')} AS x)")
            value, text, kind = row.fetchone() or (None, None, "")
    except duckdb.Error:
        return None
    if value is None:
        return None
    try:  # the text is parsed, because DuckDB has infinite dates and dates outside Python's range
        if kind == "TIMESTAMP":
            return Lowered(call("timestamp", Lit(datetime.fromisoformat(text).isoformat(" "))), Type("timestamp"))
        if kind == "DATE":
            return Lowered(call("date", Lit(date.fromisoformat(text).isoformat())), Type("date"))
    except ValueError:
        return None
    if kind in ("VARCHAR", "BOOLEAN"):
        return Lowered(Lit(value), BOOL if kind == "BOOLEAN" else STRING)
    return None


def _words(node: exp.Expr) -> str:
    """Return the name of a construct, for the reason of a `NotIncremental`."""
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


def conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """Return the conjuncts of a condition."""
    if isinstance(node, exp.Paren):
        return conjuncts(node.this)
    if isinstance(node, exp.And):
        return [*conjuncts(node.left), *conjuncts(node.right)]
    return [node]


def columns_leaf(types: Mapping[str, Type]) -> Leaf:
    """Return the leaf that resolves the columns of one relation."""

    def leaf(node: exp.Expr) -> Lowered | None:
        if not isinstance(node, exp.Column):
            return None
        name = node.name.lower()
        if name not in types:
            raise NotIncremental("an unknown column")
        return Lowered(Col(name), types[name])

    return leaf


# --- leaves


def _literal(node: exp.Literal, leaf: Leaf) -> Lowered:
    if node.is_string:
        return Lowered(Lit(node.this), STRING)
    exact = decimal_literal(node.this)
    if exact is None:
        return Lowered(Lit(float(node.this)), FLOAT)
    value, scale = exact
    if value >= 2**63:  # the program is MessagePack, which has no wider integers
        raise NotIncremental("a constant of more than 64 bits")
    return Lowered(Lit(value), Type("int", scale))


# --- arithmetic and logic


def _neg(node: exp.Neg, leaf: Leaf) -> Lowered:
    inner = lower(node.this, leaf)
    if not inner.type.is_numeric:
        raise NotIncremental(f"minus a {inner.type}")
    if isinstance(inner.expr, Lit) and isinstance(inner.expr.value, (int, float)):
        return Lowered(Lit(-inner.expr.value), inner.type)
    kind = inner.type if inner.type.kind == "float64" else Type("int", inner.type.scale, True, inner.type.nullable)
    return Lowered(call("neg", inner.expr), kind)


def _not(node: exp.Not, leaf: Leaf) -> Lowered:
    inner = lower(node.this, leaf)
    return Lowered(call("not", as_condition(inner)), BOOL.with_null(inner.type.nullable))


def _logic(node: exp.And | exp.Or, leaf: Leaf) -> Lowered:
    return logic(node.key, lower(node.left, leaf), lower(node.right, leaf))


def _comparison(node: exp.Binary, leaf: Leaf) -> Lowered:
    return compare(_COMPARISONS[type(node)], lower(node.left, leaf), lower(node.right, leaf))


def _null_safe(node: exp.NullSafeEQ | exp.NullSafeNEQ, leaf: Leaf) -> Lowered:
    left, right = lower(node.left, leaf), lower(node.right, leaf)
    nulls = call("and", call("is_null", left.expr), call("is_null", right.expr))
    equal = call("coalesce", compare("eq", left, right).expr, nulls)
    return Lowered(equal if isinstance(node, exp.NullSafeEQ) else call("not", equal), BOOL)


def _arithmetic(node: exp.Binary, leaf: Leaf) -> Lowered:
    if isinstance(node, exp.Add) and isinstance(node.left, exp.Interval):
        return _moved(node.right, node.left, 1, leaf)
    if isinstance(node, (exp.Add, exp.Sub)) and isinstance(node.right, exp.Interval):
        return _moved(node.left, node.right, 1 if isinstance(node, exp.Add) else -1, leaf)
    left, right = lower(node.left, leaf), lower(node.right, leaf)
    if isinstance(node, exp.IntDiv) and any(each.type.kind == "float64" or each.type.scale for each in (left, right)):
        return quotient(left, right)
    return arithmetic(_ARITHMETIC[type(node)], left, right)


def _moved(node: exp.Expr, interval: exp.Interval, sign: int, leaf: Leaf) -> Lowered:
    """Return a date or timestamp plus (``sign`` 1) or minus (``sign`` -1) an interval of a fixed length."""
    length = nanoseconds_of(interval)
    value = lower(node, leaf)
    if length is None or length % 1000 or abs(length) >= 2**63 or value.type.kind not in ("date", "timestamp"):
        raise NotIncremental("an interval of time")
    moment = at_type(value, Type("timestamp"))
    moved = call("timestamp", call("add", moment, Lit(sign * length // 1000)))
    return Lowered(moved, Type("timestamp", nullable=value.type.nullable))


def _between(node: exp.Between, leaf: Leaf) -> Lowered:
    if node.args.get("symmetric"):
        raise NotIncremental("BETWEEN SYMMETRIC")
    value, low, high = (lower(node.args[name], leaf) for name in ("this", "low", "high"))
    return logic("and", compare("ge", value, low), compare("le", value, high))


def _in(node: exp.In, leaf: Leaf) -> Lowered:
    if not node.expressions:
        raise NotIncremental("a subquery")
    value = lower(node.this, leaf)
    items = [lower(item, leaf) for item in node.expressions]
    constants = _constants(value, items) if len(items) > SHORT_LIST else None
    if constants is not None:
        target, exprs = constants
        return Lowered(call("in", *exprs), BOOL.with_null(target.nullable))
    return _joined("or", [compare("eq", value, item) for item in items])


def _constants(value: Lowered, items: Sequence[Lowered]) -> tuple[Type, tuple[Expr, ...]] | None:
    """Return a type, and the value and the constants of an IN converted to this type.

    Return None unless the constants are all integers of 64 bits or all strings.
    """
    target = common_type([value.type, *(item.type for item in items)])
    if target is None or target.kind not in ("int", "string"):
        return None
    exprs = [at_type(item, target) for item in items]
    for each in exprs:
        if not isinstance(each, Lit) or isinstance(each.value, bool) or not isinstance(each.value, int | str):
            return None
        if isinstance(each.value, int) and not -(2**63) <= each.value < 2**63:
            return None
    return target.with_null(value.type.nullable), (at_type(value, target), *exprs)


def _joined(op: str, values: Sequence[Lowered]) -> Lowered:
    """Return AND or OR of several values, as a tree whose depth is the logarithm of their number."""
    while len(values) > 1:
        pairs = [logic(op, *values[place : place + 2]) for place in range(0, len(values) - 1, 2)]
        values = [*pairs, *values[len(pairs) * 2 :]]
    return values[0]


def _is(node: exp.Is, leaf: Leaf) -> Lowered:
    value = lower(node.this, leaf)
    if isinstance(node.expression, exp.Null):
        return Lowered(call("is_null", value.expr), BOOL)
    if not isinstance(node.expression, exp.Boolean) or value.type.kind != "bool":
        raise NotIncremental("IS with something other than NULL, TRUE and FALSE")
    if node.expression.this:
        return Lowered(call("coalesce", value.expr, Lit(False)), BOOL)
    return Lowered(call("not", call("coalesce", value.expr, Lit(True))), BOOL)


def _like(node: exp.Like, leaf: Leaf) -> Lowered:
    text, pattern = lower(node.this, leaf), lower(node.expression, leaf)
    if text.type.kind != "string" or not isinstance(pattern.expr, Lit) or not isinstance(pattern.expr.value, str):
        raise NotIncremental("LIKE with a pattern that is not a constant")
    matches = call("like", text.expr, pattern.expr)
    return Lowered(call("not", matches) if node.args.get("negate") else matches, BOOL.with_null(text.type.nullable))


# --- choices, casts, parts of dates and times


def _case(node: exp.Case, leaf: Leaf) -> Lowered:
    tests = [branch.this if node.this is None else exp.EQ(this=node.this.copy(), expression=branch.this.copy())
             for branch in node.args["ifs"]]  # fmt: skip
    values = [branch.args["true"] for branch in node.args["ifs"]]
    return _choice(tests, values, node.args.get("default"), leaf)


def _if(node: exp.If, leaf: Leaf) -> Lowered:
    return _choice([node.this], [node.args["true"]], node.args.get("false"), leaf)


def _choice(tests: list[exp.Expr], values: list[exp.Expr], default: exp.Expr | None, leaf: Leaf) -> Lowered:
    conditions = [as_condition(lower(test, leaf)) for test in tests]
    last = Lowered(Lit(None), NULL) if default is None else lower(default, leaf)
    target, parts = alike([*(lower(value, leaf) for value in values), last])
    pairs = [part for test, value in zip(conditions, parts, strict=False) for part in (test, value)]
    return Lowered(call("case", *pairs, parts[-1]), target)


def _coalesce(node: exp.Func, leaf: Leaf) -> Lowered:
    values = [lower(part, leaf) for part in (node.this, *node.expressions)]
    target, parts = alike(values)
    nullable = all(value.type.nullable for value in values)
    return Lowered(call(node.key, *parts), target.with_null(nullable))


def _nullif(node: exp.Nullif, leaf: Leaf) -> Lowered:
    left, right = lower(node.this, leaf), lower(node.expression, leaf)
    target = common_type((left.type, right.type))
    if target is None:
        raise NotIncremental("a choice between values of different types")
    same = compare("eq", left, right)
    return Lowered(call("case", same.expr, Lit(None), at_type(left, target)), target.with_null())


def _abs(node: exp.Abs, leaf: Leaf) -> Lowered:
    value = lower(node.this, leaf)
    if value.type.kind != "int":
        raise NotIncremental("ABS of something other than an integer")
    below = call("lt", value.expr, Lit(0))
    kind = Type("int", value.type.scale, True, value.type.nullable)
    return Lowered(call("case", below, call("neg", value.expr), value.expr), kind)


def _floor(node: exp.Floor, leaf: Leaf) -> Lowered:
    """Lower FLOOR of a quotient x / n, or of a decimal."""
    inner = node.this.unnest()
    if node.args.get("decimals") is not None:
        raise NotIncremental("FLOOR to decimals")
    if isinstance(inner, exp.Div):
        left, right = lower(inner.left, leaf), lower(inner.right, leaf)
    else:
        left, right = lower(inner, leaf), Lowered(Lit(1), INT)
        if left.type.kind == "int" and not left.type.scale:
            return left
    kind = arithmetic("floordiv", left, right).type
    target = common_type((left.type, right.type))
    assert target is not None
    return Lowered(floor_quotient(at_type(left, target), at_type(right, target)), kind)


def _cast(node: exp.Cast, leaf: Leaf) -> Lowered:
    """Lower a CAST that cannot fail, or fails only for values with too many digits; refuse every other CAST."""
    value, name = lower(node.this, leaf), node.to.this.name
    kind = value.type
    if kind.kind == "int" and name == "DECIMAL":
        sizes = decimal_sizes(node.to)
        if sizes is not None and sizes[1] >= kind.scale:
            digits, scale = sizes
            target = Type("int", scale, True, kind.nullable)
            scaled = at_type(value, target)
            is_safe = has_room(kind, scale - kind.scale, digits)
            return Lowered(scaled if is_safe else call("digits", scaled, Lit(digits)), target)
    if kind.kind == "int" and name == "BIGINT" and not kind.wide and not kind.scale:
        return value
    if kind.kind == "int" and name == "INT128" and not kind.scale:
        return Lowered(value.expr, Type("int", 0, True, kind.nullable))
    if kind.kind in ("int", "float64") and name == "DOUBLE":
        target = FLOAT.with_null(kind.nullable)
        return Lowered(at_type(value, target), target)
    if name in _TIMESTAMPS and node.to.expressions:
        raise NotIncremental("a CAST to a TIMESTAMP of fewer digits")
    if (kind.kind, name) in _SAME:
        return value
    if (kind.kind, name) == ("timestamp", "DATE"):
        return Lowered(call("date", value.expr), Type("date", nullable=kind.nullable))
    if kind.kind == "date" and name in _TIMESTAMPS:
        return Lowered(call("timestamp", value.expr), Type("timestamp", nullable=kind.nullable))
    raise NotIncremental(f"a CAST to {name}")


def decimal_sizes(kind: exp.DataType) -> tuple[int, int] | None:
    """Return digits and scale of a DECIMAL, by default 18 and 3, as in DuckDB; None if they are not numbers."""
    sizes = [part.this for part in kind.expressions]
    if not all(isinstance(size, exp.Literal) and size.is_int for size in sizes):
        return None
    if not sizes:
        return DECIMAL_DIGITS, 3
    return int(sizes[0].name), int(sizes[1].name) if len(sizes) > 1 else 0


_TIMESTAMPS = ("TIMESTAMP", "TIMESTAMPNTZ")
_SAME = {("string", "VARCHAR"), ("string", "TEXT"), ("bool", "BOOLEAN"), ("date", "DATE"),
         *(("timestamp", name) for name in _TIMESTAMPS)}  # fmt: skip


def _moment_part(node: exp.Expr, leaf: Leaf) -> Lowered:
    """Lower a part of a date or timestamp, such as EXTRACT.

    `lower` calls this function last, so raise `NotIncremental` for anything else.
    """
    part, inner = _PARTS.get(type(node)), node.this
    if isinstance(node, exp.Extract):
        part, inner = node.name.lower(), node.expression
    elif isinstance(node, exp.Anonymous) and node.name.lower() in ("date_part", "datepart"):
        part, inner = node.expressions[0].name.lower(), node.expressions[1]
    if isinstance(node, exp.TimestampTrunc) and node.text("unit").upper() == "DAY":
        value = lower(node.this, leaf)
        if value.type.kind == "timestamp":
            return Lowered(call("timestamp", call("date", value.expr)), value.type)
    if part not in _NAMES:
        raise NotIncremental(_words(node))
    value = lower(inner, leaf)
    if value.type.kind not in ("date", "timestamp"):
        raise NotIncremental(f"the {part} of something other than a date or timestamp")
    return Lowered(call(part, value.expr), INT.with_null(value.type.nullable))


def _refuse(node: exp.Expr, leaf: Leaf) -> Lowered:
    raise NotIncremental("a subquery")


_RULES: dict[type[exp.Expr], Callable[[Any, Leaf], Lowered]] = {
    exp.Paren: lambda node, leaf: lower(node.this, leaf),
    exp.Literal: _literal,
    exp.Boolean: lambda node, leaf: Lowered(Lit(bool(node.this)), BOOL),
    exp.Null: lambda node, leaf: Lowered(Lit(None), NULL),
    exp.Neg: _neg,
    exp.Not: _not,
    **dict.fromkeys((exp.And, exp.Or), _logic),
    **dict.fromkeys(_COMPARISONS, _comparison),
    **dict.fromkeys((exp.NullSafeEQ, exp.NullSafeNEQ), _null_safe),
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    exp.Div: lambda node, leaf: quotient(lower(node.left, leaf), lower(node.right, leaf)),
    exp.Between: _between,
    exp.In: _in,
    exp.Is: _is,
    exp.Like: _like,
    exp.Case: _case,
    exp.If: _if,
    **dict.fromkeys((exp.Coalesce, exp.Greatest, exp.Least), _coalesce),
    exp.Nullif: _nullif,
    exp.Abs: _abs,
    exp.Floor: _floor,
    exp.Cast: _cast,
    **dict.fromkeys((exp.Exists, exp.Subquery, exp.Select), _refuse),
}

"""Expressions of a re-evaluated query: each is rewritten so that its integers are exact, and gets a type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import duckdb
from sqlglot import exp

from runtime.compiler.describe import Describer
from runtime.compiler.errors import SqlError, first_line
from runtime.compiler.fixedpoint import (
    Value,
    arithmetic,
    as_type,
    cast,
    comparison,
    decimal,
    decimal_of,
    floor_quotient,
    huge,
    number,
    quotient,
    scaled,
    wrap,
)
from runtime.compiler.lower import decimal_sizes
from runtime.compiler.scope import Scope
from runtime.compiler.types import (
    BOOL,
    FLOAT,
    INT,
    NULL,
    STRING,
    Type,
    common_type,
    decimal_literal,
    has_room,
)

__all__ = ["EXPRESSIONS", "Queries", "Rewriter", "Rules"]

Rules = Mapping[type[exp.Expr], Callable[..., "Value"]]
"""Class of expressions → function that rewrites them; its arguments are the rewriter and the expression."""


class Queries(Protocol):
    """Rewriter of whole queries, for expressions that contain a subquery."""

    describer: Describer
    """Describer that determines the types of DuckDB's functions."""
    zero: bool
    """True if SUM of nothing is 0."""
    floats: dict[str, None]
    """Operations whose results are floats, in the order of the query."""

    def scalar(self, node: exp.Expr, scope: Scope) -> Value:
        """Rewrite a subquery in brackets, which is one value."""

    def member(self, node: exp.In, values: Sequence[Value], scope: Scope) -> Value:
        """Rewrite IN with a subquery; its left values are already rewritten."""

    def exists(self, node: exp.Exists, scope: Scope) -> Value:
        """Rewrite EXISTS."""


_INTEGER_TYPES = {
    "INT": "INTEGER",
    "BIGINT": "BIGINT",
    "SMALLINT": "SMALLINT",
    "TINYINT": "TINYINT",
    "INT128": "HUGEINT",
}
_FLOAT_PARTS = frozenset({"EPOCH", "JULIAN"})
_NARROWER = ("", "BIGINT", "INTEGER")
"""Types to which the integer arguments of a foreign call are cast, tried in order until DuckDB has such a function."""
_INT64_MAX = 2**63 - 1
_LARGEST = 2**126


@dataclass(slots=True)
class _Way:
    """One way to pass arguments to a foreign call."""

    narrow: str
    """Type to which integers are cast; empty to keep the types of the values."""
    decimals: str
    """Type of decimals, DECIMAL or DOUBLE."""
    values: dict[int, Value]
    """Rewritten arguments by the identity of their nodes, shared by all ways: each argument is rewritten once."""


class Rewriter:
    """Rewriter of the expressions of one SELECT."""

    def __init__(self, queries: Queries, scope: Scope, rules: Rules) -> None:
        self.queries = queries
        self.scope = scope
        self._rules = rules
        self.floats = queries.floats

    def error(self, reason: str, node: exp.Expr) -> SqlError:
        """Return the error with this reason at that part of the query."""
        return self.scope.query.error(reason, node)

    def rewrite(self, node: exp.Expr) -> Value:
        """Return the exact form of an expression; raise `SqlError` if there is none."""
        rule = self._rules.get(type(node))
        if rule is not None:
            return rule(self, node)
        if isinstance(node, (exp.Func, exp.Binary, exp.Unary, exp.Interval, exp.Extract, exp.Bracket)):
            return self.foreign(node)
        raise self.error(f"expected an expression, was {node.key.upper()}, which is not supported", node)

    def condition(self, node: exp.Expr) -> exp.Expr:
        """Rewrite a condition of WHERE, ON, HAVING or QUALIFY."""
        value = self.rewrite(node)
        if value.type.kind not in ("bool", "null"):
            raise self.error(f"expected a condition, was {value.type}", node)
        return value.sql

    def foreign(self, node: exp.Expr, *known: tuple[exp.Expr, Value]) -> Value:
        """Return a call of a DuckDB function; DuckDB determines the type of its result.

        Scaled integers are passed as DECIMAL. If DuckDB has no such function of decimals (an example is ROUND to a
        number of digits from a column), they are passed as DOUBLE. Integers that may be wide are passed unchanged, or
        else in the widest type that the function accepts. A value that does not fit this type is an error when it
        occurs, as in DuckDB. ``known`` has operands that are already rewritten, so that the work for a chain of calls
        grows only with the length of the chain.
        """
        around = node.parent.parent if isinstance(node.parent, exp.IgnoreNulls) else node.parent
        over = " OVER ()" if isinstance(around, exp.Window) and node.arg_key == "this" else ""
        errors: list[duckdb.Error] = []
        values = {id(part): value for part, value in known}
        for how in [_Way(narrow, kind, values) for kind in ("DECIMAL", "DOUBLE") for narrow in _NARROWER]:
            call, probe = self._arguments(node, how)
            try:
                ((_, kind),) = self.queries.describer.columns(f"SELECT {probe.sql('duckdb')}{over}")
                break
            except duckdb.Error as error:
                errors.append(error)
        else:
            raise self.error(f"DuckDB refuses {node.sql('duckdb')}: {first_line(errors[0])}", node) from errors[0]
        result = Type.from_duckdb(kind)
        if kind.startswith("DECIMAL") and result.kind == "int":
            return Value(scaled(self.with_filter_and_over(node, call), result.scale), result, is_whole=True)
        if result.kind == "float64":
            self.floats[node.key.upper()] = None
        return Value(call, result)

    def with_filter_and_over(self, node: exp.Expr, part: exp.Expr) -> exp.Expr:
        """Put the FILTER and OVER of a call around a part of its rewritten form, such as the sum of an AVG."""
        around = node.parent
        if isinstance(around, exp.Filter) and around.this is node:
            part = exp.Filter(this=part, expression=self.filter_condition(around))
            node, around = around, around.parent
        if isinstance(around, exp.Window) and around.this is node:  # else it is a part of PARTITION BY
            part = self.over(around, part)
        return part

    def filter_condition(self, node: exp.Filter) -> exp.Where:
        """Rewrite the condition of a FILTER."""
        return exp.Where(this=self.condition(node.expression.this))

    def over(self, node: exp.Window, call: exp.Expr) -> exp.Expr:
        """Put a window around a rewritten call; raise `SqlError` for a named window."""
        window = node.copy()
        window.set("this", call)
        if node.alias:
            raise self.error("expected OVER (…), was a named window, which is not supported", node)
        window.set("partition_by", [self.rewrite(part).sql for part in node.args.get("partition_by") or []])
        order = node.args.get("order")
        terms = [part.copy() for part in order.expressions] if order is not None else []
        for term in terms:
            term.set("this", self.rewrite(term.this).sql)
        if terms:
            window.set("order", exp.Order(expressions=terms))
        return window

    def _arguments(self, node: exp.Expr, how: _Way) -> tuple[exp.Expr, exp.Expr]:
        """Return a foreign call, and a probe for its type: the call with a NULL in place of each argument."""
        call, probe = node.copy(), node.copy()
        for name, child in node.args.items():
            parts = [self._argument(part, how) for part in (child if isinstance(child, list) else [child])]
            for target, made in ((call, [part for part, _ in parts]), (probe, [part for _, part in parts])):
                target.set(name, made if isinstance(child, list) else made[0])
        return call, probe

    def _argument(self, child: Any, how: _Way) -> tuple[Any, Any]:
        if not isinstance(child, exp.Expr):
            return child, child
        if isinstance(child, exp.Interval) and child.find(exp.Column, exp.Query) is not None:
            return self._arguments(child, how)
        if isinstance(child, (exp.Literal, exp.Var, exp.DataType, exp.Identifier, exp.Interval, exp.Boolean, exp.Null)):
            return child.copy(), child.copy()
        if isinstance(child, exp.Neg) and isinstance(child.this, exp.Literal):
            return child.copy(), child.copy()
        is_part = isinstance(child, exp.AggFunc) and isinstance(child.parent, exp.WithinGroup)
        if isinstance(child, exp.Array) and all(isinstance(part, exp.Literal) for part in child.expressions):
            return child.copy(), child.copy()
        if is_part or isinstance(child, (exp.Order, exp.Ordered, exp.Distinct, exp.Tuple, exp.Slice)):
            return self._arguments(child, how)
        if id(child) not in how.values:
            how.values[id(child)] = self.rewrite(child)
        value, narrow = how.values[id(child)], how.narrow
        if value.type.kind == "int" and value.type.scale:
            sql, kind = decimal_of(value) if how.decimals == "DECIMAL" else (number(value), "DOUBLE")
            return sql, cast(exp.Null(), kind)
        if value.type.kind == "int" and (narrow or value.widened):
            target = narrow or value.type.duckdb
            return cast(value.sql, target), cast(exp.Null(), target)
        return wrap(value.sql), cast(exp.Null(), value.type.duckdb)

    def unify(self, values: list[Value], node: exp.Expr) -> tuple[Type, list[exp.Expr]]:
        """Return the common type of values, and the values converted to it."""
        target = common_type([value.type for value in values])
        if target is None:
            kinds = ", ".join(str(value.type) for value in values)
            raise self.error(f"expected values of one type, were {kinds}", node)
        return target, [as_type(value, target) for value in values]

    # --- leaves

    def _literal(self, node: exp.Literal) -> Value:
        if node.is_string:
            return Value(node.copy(), STRING, literal=True)
        exact = decimal_literal(node.this)
        if exact is None:
            return Value(node.copy(), FLOAT, literal=True)
        value, scale = exact
        if value > _LARGEST:
            raise self.error(f"expected a number of at most 126 bits, was {node.this}", node)
        wide = value > _INT64_MAX
        return Value(decimal(value), Type("int", scale, wide), literal=True)

    def _column(self, node: exp.Column) -> Value:
        name = node.name.lower()
        outputs = self.scope.outputs
        kind = outputs[name] if not node.table and name in outputs else self.scope.resolve(node)
        return Value(node.copy(), kind)

    def _constant(self, node: exp.Expr) -> Value:
        return Value(node.copy(), NULL if isinstance(node, exp.Null) else BOOL, literal=True)

    def _paren(self, node: exp.Paren) -> Value:
        value = self.rewrite(node.this)
        return value if value.literal else Value(wrap(value.sql), value.type, value.widened)

    # --- arithmetic and logic

    def _neg(self, node: exp.Neg) -> Value:
        value = self.rewrite(node.this)
        if value.type.kind != "int":
            return self.foreign(node, (node.this, value))
        if value.literal and isinstance(value.sql, exp.Literal):
            return Value(exp.Neg(this=value.sql), value.type, literal=True)
        return Value(exp.Neg(this=wrap(huge(value))), Type("int", value.type.scale, True, value.type.nullable))

    def _arithmetic(self, node: exp.Binary) -> Value:
        left, right = self.rewrite(node.left), self.rewrite(node.right)
        for value, side in ((left, node.left), (right, node.right)):
            if value.type.kind in ("string", "bool"):
                raise self.error(f"expected a number, was {side.sql('duckdb')}, a {value.type}", side)
        if any(not (side.type.is_numeric or side.type.kind == "null") for side in (left, right)):
            return self.foreign(node, (node.left, left), (node.right, right))  # dates and intervals
        left, right = _typed_null(left), _typed_null(right)
        value = arithmetic(type(node), left, right)
        if value.type.kind == "float64":
            self.floats["//" if isinstance(node, exp.IntDiv) else "float operands"] = None
        return value

    def _quotient(self, node: exp.Div) -> Value:
        left, right = _typed_null(self.rewrite(node.left)), _typed_null(self.rewrite(node.right))
        if not (left.type.is_numeric and right.type.is_numeric):
            raise self.error(f"expected numbers around /, were {left.type} and {right.type}", node)
        self.floats["/"] = None
        return quotient(left, right)

    def _comparison(self, node: exp.Binary) -> Value:
        left, right = self.rewrite(node.left), self.rewrite(node.right)
        value = comparison(type(node), left, right)
        if value is None:
            raise self.error(f"expected values that can be compared, were {left.type} and {right.type}", node)
        return value

    def _logic(self, node: exp.Binary) -> Value:
        left, right = self.rewrite(node.left), self.rewrite(node.right)
        sql = type(node)(this=wrap(left.sql), expression=wrap(right.sql))
        return Value(sql, BOOL.with_null(left.type.nullable or right.type.nullable))

    def _not(self, node: exp.Not) -> Value:
        value = self.rewrite(node.this)
        return Value(exp.Not(this=wrap(value.sql)), BOOL.with_null(value.type.nullable))

    def _is(self, node: exp.Is) -> Value:
        value = self.rewrite(node.this)
        return Value(exp.Is(this=wrap(value.sql), expression=node.expression.copy()), BOOL)

    def _between(self, node: exp.Between) -> Value:
        if node.find(exp.Collate) is not None:  # the collation of one operand applies to both comparisons
            return self.foreign(node)
        low = exp.GTE(this=node.this, expression=node.args["low"])
        high = exp.LTE(this=node.this.copy(), expression=node.args["high"])
        return self.rewrite(exp.Paren(this=exp.And(this=low, expression=high)))

    def _in(self, node: exp.In) -> Value:
        row = node.this.unnest()
        if node.args.get("query") is not None:
            values = [self.rewrite(part) for part in (row.expressions if isinstance(row, exp.Tuple) else [node.this])]
            return self.queries.member(node, values, self.scope)
        if isinstance(row, exp.Tuple):
            return self._in_tuples(node, row)
        value = self.rewrite(node.this)
        if not node.expressions:
            raise self.error("expected IN (…) with values or a SELECT", node)
        items = [self.rewrite(item) for item in node.expressions]
        target, parts = self.unify([value, *items], node)
        return Value(exp.In(this=wrap(parts[0]), expressions=parts[1:]), BOOL.with_null(target.nullable))

    def _in_tuples(self, node: exp.In, row: exp.Tuple) -> Value:
        """Rewrite IN of a row and a list of rows as comparisons, in which NULL equals NULL as in DuckDB."""
        choices: list[exp.Expr] = []
        for item in node.expressions:
            if not isinstance(item, exp.Tuple) or len(item.expressions) != len(row.expressions):
                raise self.error(f"expected rows of {len(row.expressions)} values, was {item.sql('duckdb')}", item)
            pairs = zip(row.expressions, item.expressions, strict=True)
            equal: list[exp.Expr] = [exp.NullSafeEQ(this=left.copy(), expression=right) for left, right in pairs]
            choices.append(exp.Paren(this=_balanced(exp.And, equal)))
        if not choices:
            raise self.error("expected IN (…) with rows or a SELECT", node)
        return self.rewrite(exp.Paren(this=_balanced(exp.Or, choices)))

    def _escape(self, node: exp.Escape) -> Value:
        """Rewrite LIKE with an escape character."""
        like = node.this
        if type(like) not in (exp.Like, exp.ILike):
            raise self.error("expected LIKE or ILIKE before ESCAPE", node)
        name = f"{'not_' if like.args.get('negate') else ''}{'i' if isinstance(like, exp.ILike) else ''}like_escape"
        return self.foreign(exp.Anonymous(this=name, expressions=[like.this, like.expression, node.expression]))

    def _quantifier(self, node: exp.Expr) -> Value:
        """Refuse ANY and ALL of a list or a pattern; the parser has replaced ANY and ALL of subqueries."""
        if isinstance(node.parent, (exp.Like, exp.ILike)):
            raise self.error("expected one pattern, was ANY or ALL of several: write LIKE … OR LIKE …", node)
        raise self.error(f"expected a SELECT in {node.key.upper()} (…), or IN (…) for a list of values", node)

    def _refuse(self, node: exp.Expr) -> Value:
        raise self.error(_REFUSED[type(node)], node)

    def _within_group(self, node: exp.WithinGroup) -> Value:
        """Rewrite an aggregate with WITHIN GROUP that the parser did not simplify, such as a descending percentile."""
        return self.foreign(node)

    # --- choices, casts and functions of numbers that stay exact

    def _case(self, node: exp.Case) -> Value:
        tests: list[exp.Expr] = []
        for branch in node.args["ifs"]:
            test = branch.this if node.this is None else exp.EQ(this=node.this.copy(), expression=branch.this)
            tests.append(self.condition(test))
        values = [self.rewrite(branch.args["true"]) for branch in node.args["ifs"]]
        default = node.args.get("default")
        values.append(Value(exp.Null(), NULL) if default is None else self.rewrite(default))
        target, parts = self.unify(values, node)
        ifs = [exp.If(this=test, true=part) for test, part in zip(tests, parts, strict=False)]
        return Value(exp.Case(ifs=ifs, default=parts[-1]), target)

    def _if(self, node: exp.If) -> Value:
        branch = exp.If(this=node.this, true=node.args["true"])
        return self._case(exp.Case(ifs=[branch], default=node.args.get("false")))

    def _coalesce(self, node: exp.Func) -> Value:
        values = [self.rewrite(part) for part in (node.this, *node.expressions)]
        target, parts = self.unify(values, node)
        nullable = all(value.type.nullable for value in values)  # GREATEST and LEAST ignore NULL as COALESCE does
        call = exp.func(node.key, *parts, dialect="duckdb")
        return Value(call, target.with_null(nullable))

    def _nullif(self, node: exp.Nullif) -> Value:
        left, right = self.rewrite(node.this), self.rewrite(node.expression)
        target, parts = self.unify([left, right], node)
        return Value(exp.Nullif(this=parts[0], expression=parts[1]), target.with_null())

    def _abs(self, node: exp.Abs) -> Value:
        value = self.rewrite(node.this)
        if value.type.kind != "int":
            return self.foreign(node, (node.this, value))
        kind = Type("int", value.type.scale, True, value.type.nullable)
        return Value(exp.Abs(this=huge(value)), kind)

    def _floor(self, node: exp.Floor) -> Value:
        inner = node.this.unnest()
        if node.args.get("decimals") is not None:
            return self.foreign(node)
        if isinstance(inner, exp.Div):
            left, right = self.rewrite(inner.left), self.rewrite(inner.right)
            if left.type.kind == "int" and right.type.kind == "int":
                return floor_quotient(left, right)
        value = self.rewrite(node.this)
        if value.type.kind != "int":
            return self.foreign(node, (node.this, value))
        return floor_quotient(value, Value(decimal(1), INT, literal=True)) if value.type.scale else value

    def _cast(self, node: exp.Cast) -> Value:
        value = self.rewrite(node.this)
        target = node.to
        name = target.this.name
        if value.type.kind == "int" and name == "DECIMAL" and type(node) is exp.Cast:
            sizes = decimal_sizes(target)
            if sizes is not None and sizes[1] >= value.type.scale:
                digits, scale = sizes
                sql = huge(value, scale)
                if not has_room(value.type, scale - value.type.scale, digits):
                    sql = cast(cast(sql, f"DECIMAL({digits}, 0)"), "HUGEINT")
                return Value(sql, Type("int", scale, True, value.type.nullable))
        if value.type.kind == "int" and name in _INTEGER_TYPES and not value.type.scale and type(node) is exp.Cast:
            sql = cast(value.sql, _INTEGER_TYPES[name])
            return Value(sql, Type("int", 0, name == "INT128", value.type.nullable))
        if value.type.kind == "int" and name == "DOUBLE":
            self.floats["CAST"] = None
            return Value(number(value), FLOAT.with_null(value.type.nullable))
        return self.foreign(node, (node.this, value))

    def _extract(self, node: exp.Extract) -> Value:
        """Rewrite EXTRACT. Parts of a date are integers, but DuckDB's type for the probe with a NULL is DOUBLE."""
        value = self.rewrite(node.expression)
        if value.type.kind not in ("date", "timestamp") or node.name.upper() in _FLOAT_PARTS:
            return self.foreign(node, (node.expression, value))
        return Value(exp.Extract(this=node.this.copy(), expression=value.sql), INT.with_null(value.type.nullable))


def _balanced(kind: type[exp.Binary], parts: Sequence[exp.Expr]) -> exp.Expr:
    """Return a tree of ANDs, or of ORs, with the least depth."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return kind(this=_balanced(kind, parts[:half]), expression=_balanced(kind, parts[half:]))


def _typed_null(value: Value) -> Value:
    """Return the value, with the type of an integer if it is an untyped NULL."""
    if value.type.kind != "null":
        return value
    return Value(cast(exp.Null(), "HUGEINT"), Type("int", nullable=True), widened=True)


_REFUSED: dict[type[exp.Expr], str] = {
    exp.Tuple: "expected one value, was a row: rows are supported around comparisons, and before IN",
    exp.Placeholder: "expected a value, was a parameter, which a view does not have: write the value",
    exp.Parameter: "expected a value, was a parameter, which a view does not have: write the value",
    exp.Struct: "expected a number, string, boolean, date or timestamp, was a struct",
    exp.Columns: "COLUMNS (…) is not supported: name the columns",
}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
EXPRESSIONS: Final[Rules] = {
    exp.Literal: Rewriter._literal,
    exp.Column: Rewriter._column,
    **dict.fromkeys((exp.Null, exp.Boolean), Rewriter._constant),
    exp.Paren: Rewriter._paren,
    exp.Neg: Rewriter._neg,
    exp.Case: Rewriter._case,
    exp.If: Rewriter._if,
    **dict.fromkeys((exp.Coalesce, exp.Greatest, exp.Least), Rewriter._coalesce),
    exp.Nullif: Rewriter._nullif,
    exp.Abs: Rewriter._abs,
    exp.Floor: Rewriter._floor,
    exp.Extract: Rewriter._extract,
    **dict.fromkeys((exp.Cast, exp.TryCast), Rewriter._cast),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.IntDiv, exp.Mod), Rewriter._arithmetic),
    exp.Div: Rewriter._quotient,
    **dict.fromkeys(_COMPARISONS, Rewriter._comparison),
    **dict.fromkeys((exp.And, exp.Or), Rewriter._logic),
    exp.Not: Rewriter._not,
    exp.Is: Rewriter._is,
    exp.Between: Rewriter._between,
    exp.In: Rewriter._in,
    exp.Escape: Rewriter._escape,
    **dict.fromkeys((exp.Subquery, exp.Select), lambda self, node: self.queries.scalar(node, self.scope)),
    exp.Exists: lambda self, node: self.queries.exists(node, self.scope),
    **dict.fromkeys((exp.Any, exp.All), Rewriter._quantifier),
    **dict.fromkeys(_REFUSED, Rewriter._refuse),
    exp.WithinGroup: Rewriter._within_group,
}

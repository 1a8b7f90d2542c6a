"""Expressions over the columns of one relation, as the view program's own operations on integers and floats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from runtime.compiler.program import Call, Col, Expr, Lit
from runtime.compiler.scope import Scope, Source
from runtime.compiler.types import BOOL, FLOAT, NULL, STRING, Type, common_type, decimal_literal

__all__ = ["Lowered", "NotIncremental", "at_type", "conjuncts", "lower", "push_down"]

_ARITHMETIC = {exp.Add: "add", exp.Sub: "sub", exp.Mul: "mul", exp.IntDiv: "floordiv", exp.Mod: "mod"}
_COMPARISONS = {exp.EQ: "eq", exp.NEQ: "ne", exp.LT: "lt", exp.LTE: "le", exp.GT: "gt", exp.GTE: "ge"}


class NotIncremental(Exception):  # a finding, not a failure
    """Why something has no place in a linear view, in words for `explain`."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """An expression of the program and its type."""

    expr: Expr
    """Scaled integers, or floats."""
    type: Type
    """What it means."""


Leaf = Callable[[exp.Expr], Lowered | None]
"""Says what a node is where its reader knows better, such as a key or an aggregate; None: look inside."""


def lower(node: exp.Expr, leaf: Leaf) -> Lowered:
    """The expression; raises `NotIncremental` for what the program has no operation for."""
    known = leaf(node)
    if known is not None:
        return known
    if isinstance(node, exp.Paren):
        return lower(node.this, leaf)
    if isinstance(node, exp.Literal):
        return _literal(node)
    if isinstance(node, (exp.Boolean, exp.Null)):
        return Lowered(Lit(node.this if isinstance(node, exp.Boolean) else None),
                       BOOL if isinstance(node, exp.Boolean) else NULL)  # fmt: skip
    if isinstance(node, exp.Neg):
        return _neg(lower(node.this, leaf))
    if isinstance(node, exp.Floor):
        return _floor(node, leaf)
    if isinstance(node, exp.Not):
        inner = lower(node.this, leaf)
        return Lowered(Call("not", (inner.expr,)), BOOL.with_null(inner.type.nullable))
    if isinstance(node, exp.Between):
        value, low, high = (lower(node.args[name], leaf) for name in ("this", "low", "high"))
        return _both("and", _compare("ge", value, low), _compare("le", value, high))
    if isinstance(node, exp.In) and node.expressions:
        return _in(node, leaf)
    if isinstance(node, exp.Binary):
        return _binary(node, leaf)
    raise NotIncremental(_words(node))


def at_type(value: Lowered, target: Type) -> Expr:
    """The expression at another scale, or an integer constant as a float."""
    if value.type.kind == target.kind == "int" and target.scale > value.type.scale:
        factor = 10 ** (target.scale - value.type.scale)
        if isinstance(value.expr, Lit) and isinstance(value.expr.value, int):
            return Lit(value.expr.value * factor)
        return Call("mul", (value.expr, Lit(factor)))
    if value.type.kind == "int" and target.kind == "float64":
        if isinstance(value.expr, Lit) and isinstance(value.expr.value, int):
            return Lit(value.expr.value / 10**value.type.scale)
        raise NotIncremental("mixes integers and floats")
    return value.expr


def conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """The parts of a condition that must all hold."""
    if isinstance(node, exp.Paren):
        return conjuncts(node.this)
    if isinstance(node, exp.And):
        return [*conjuncts(node.left), *conjuncts(node.right)]
    return [node]


def push_down(where: exp.Expr, scope: Scope) -> list[exp.Expr]:
    """Gives conditions on one source's own rows to its map, where that changes nothing; the rest comes back."""
    rest = []
    for part in conjuncts(where):
        source = _only_source(part, scope)
        if source is None or source.reference is None or source.optional:
            rest.append(part)
            continue
        try:
            lowered = lower(part, _column_leaf(source))
        except NotIncremental:
            rest.append(part)
            continue
        if lowered.type.kind != "bool":
            rest.append(part)
            continue
        source.reference.filters.append(lowered.expr)
    return rest


def _only_source(node: exp.Expr, scope: Scope) -> Source | None:
    if node.find(exp.Query, exp.AggFunc, exp.Window) is not None:
        return None
    owners = [scope.owner(column) for column in node.find_all(exp.Column)]
    first = owners[0] if owners else None
    return first if first is not None and all(owner is first for owner in owners) else None


def _column_leaf(source: Source) -> Leaf:
    def leaf(node: exp.Expr) -> Lowered | None:
        if not isinstance(node, exp.Column):
            return None
        name = node.name.lower()
        if name not in source.columns:
            raise NotIncremental("an unknown column")
        return Lowered(Col(name), source.columns[name])

    return leaf


def _literal(node: exp.Literal) -> Lowered:
    if node.is_string:
        return Lowered(Lit(node.this), STRING)
    exact = decimal_literal(node.this)
    if exact is None:
        return Lowered(Lit(float(node.this)), FLOAT)
    value, scale = exact
    if value >= 2**63:  # the program is MessagePack, which has no wider integers
        raise NotIncremental("a constant of more than 64 bits")
    return Lowered(Lit(value), Type("int", scale))


def _neg(inner: Lowered) -> Lowered:
    if not inner.type.is_numeric:
        raise NotIncremental(f"minus a {inner.type}")
    if isinstance(inner.expr, Lit) and isinstance(inner.expr.value, (int, float)):
        return Lowered(Lit(-inner.expr.value), inner.type)
    kind = inner.type if inner.type.kind == "float64" else Type("int", inner.type.scale, True, inner.type.nullable)
    return Lowered(Call("neg", (inner.expr,)), kind)


def _binary(node: exp.Binary, leaf: Leaf) -> Lowered:
    left, right = lower(node.left, leaf), lower(node.right, leaf)
    if isinstance(node, exp.And):
        return _both("and", left, right)
    if isinstance(node, exp.Or):
        return _both("or", left, right)
    if type(node) in _COMPARISONS:
        return _compare(_COMPARISONS[type(node)], left, right)
    if type(node) in _ARITHMETIC:
        return _arithmetic(_ARITHMETIC[type(node)], left, right)
    raise NotIncremental(_words(node))


def _both(op: str, left: Lowered, right: Lowered) -> Lowered:
    if {left.type.kind, right.type.kind} - {"bool", "null"}:
        raise NotIncremental("a condition that is no condition")
    return Lowered(Call(op, (left.expr, right.expr)), BOOL.with_null(left.type.nullable or right.type.nullable))  # type: ignore[arg-type]  # one of the program's


def _compare(op: str, left: Lowered, right: Lowered) -> Lowered:
    target = common_type((left.type, right.type))
    if target is None or target.kind not in ("int", "float64", "string", "bool"):
        raise NotIncremental("a comparison that only DuckDB knows")
    parts = (at_type(left, target), at_type(right, target))
    return Lowered(Call(op, parts), BOOL.with_null(target.nullable))  # type: ignore[arg-type]  # one of the program's


def _in(node: exp.In, leaf: Leaf) -> Lowered:
    value = lower(node.this, leaf)
    tests = [_compare("eq", value, lower(item, leaf)) for item in node.expressions]
    result = tests[0]
    for test in tests[1:]:
        result = _both("or", result, test)
    return result


def _arithmetic(op: str, left: Lowered, right: Lowered) -> Lowered:
    nullable = left.type.nullable or right.type.nullable
    target = common_type((left.type, right.type))
    if target is None or not target.is_numeric:
        raise NotIncremental("arithmetic that only DuckDB knows")
    if target.kind == "float64":
        if op in ("floordiv", "mod"):
            raise NotIncremental("integer division of floats")
        return Lowered(Call(op, (at_type(left, target), at_type(right, target))), FLOAT.with_null(nullable))  # type: ignore[arg-type]  # one of the program's
    if op == "mul":
        kind = Type("int", left.type.scale + right.type.scale, True, nullable)
        return Lowered(Call("mul", (left.expr, right.expr)), kind)
    parts = (at_type(left, target), at_type(right, target))
    if op in ("add", "sub"):
        return Lowered(Call(op, parts), Type("int", target.scale, True, nullable))  # type: ignore[arg-type]  # as above
    if not isinstance(right.expr, Lit) or not right.expr.value:
        raise NotIncremental("division by something other than a constant")
    wide = left.type.wide or left.type.scale != target.scale or right.expr.value == -1
    kind = Type("int", target.scale if op == "mod" else 0, wide, nullable)
    return Lowered(Call(op, parts), kind)  # type: ignore[arg-type]  # as above


def _floor(node: exp.Floor, leaf: Leaf) -> Lowered:
    """FLOOR(x / n): (x - ((x mod n) + n) mod n) // n, as ``floordiv`` rounds towards zero."""
    inner = node.this.unnest()
    if node.args.get("decimals") is not None or not isinstance(inner, exp.Div):
        raise NotIncremental(_words(node))
    left, right = lower(inner.left, leaf), lower(inner.right, leaf)
    kind = _arithmetic("floordiv", left, right).type
    target = common_type((left.type, right.type))
    assert target is not None
    top, bottom = at_type(left, target), at_type(right, target)
    rest = Call("mod", (Call("add", (Call("mod", (top, bottom)), bottom)), bottom))
    return Lowered(Call("floordiv", (Call("sub", (top, rest)), bottom)), kind)


def _words(node: exp.Expr) -> str:
    """What a construct is called in a reason."""
    if isinstance(node, exp.Query):
        return "a subquery"
    names: dict[type[exp.Expr], str] = {
        exp.Div: "real division below an aggregate",
        exp.Case: "CASE",
        exp.If: "CASE",
        exp.Is: "IS NULL",
        exp.Window: "a window function",
        exp.Filter: "FILTER",
        exp.Exists: "a subquery",
        exp.Subquery: "a subquery",
        exp.In: "a subquery",
        exp.Anonymous: f"the function {node.name.upper()}",
    }
    if type(node) in names:
        return names[type(node)]
    if isinstance(node, exp.AggFunc):
        return f"{node.sql_name()} is not a sum"
    return f"the function {node.sql_name()}" if isinstance(node, exp.Func) else node.key.upper()

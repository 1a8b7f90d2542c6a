"""Text of a program's expressions and maps, for people."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.plan.algebra import Call, Col, Column, Expr, Key, Lit, Map, Sum

__all__ = ["column_text", "expression", "map_lines", "output_lines", "quoted"]

_BINARY = {
    "or": ("OR", 1), "and": ("AND", 2), "eq": ("=", 4), "ne": ("<>", 4), "lt": ("<", 4), "le": ("<=", 4),
    "gt": (">", 4), "ge": (">=", 4), "like": ("LIKE", 4), "add": ("+", 5), "sub": ("-", 5), "mul": ("*", 6),
    "floordiv": ("//", 6), "mod": ("%", 6), "div": ("/", 6),
}  # fmt: skip
"""Operation → sign and precedence; an operation with a higher precedence binds more strongly."""
_ASSOCIATIVE = ("or", "and", "add", "mul")


def quoted(value: object) -> str:
    """Return the text of a constant."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return "NULL" if value is None else repr(value)


def expression(expr: Expr, outer: int = 0) -> str:
    """Return the text of an expression, in brackets if its precedence is below ``outer``.

    ``outer`` is the precedence of the enclosing expression.
    """
    if isinstance(expr, Col):
        return expr.name
    if isinstance(expr, Lit):
        return quoted(expr.value)
    text, strength = _call(expr)
    return f"({text})" if strength < outer else text


def _call(expr: Call) -> tuple[str, int]:
    if expr.op in _BINARY:
        sign, strength = _BINARY[expr.op]
        first, *others = expr.args
        parts = [expression(first, strength if strength != 4 else 5)]
        parts += [expression(other, strength if expr.op in _ASSOCIATIVE else strength + 1) for other in others]
        return f" {sign} ".join(parts), strength
    if expr.op == "neg":
        return f"-{expression(expr.args[0], 7)}", 5
    if expr.op == "not":
        return f"NOT {expression(expr.args[0], 4)}", 3
    if expr.op == "is_null":
        return f"{expression(expr.args[0], 5)} IS NULL", 4
    if expr.op == "in":
        value, *items = [expression(arg, 5) for arg in expr.args]
        return f"{value} IN ({', '.join(items)})", 4
    if expr.op == "case":
        *pairs, last = [expression(arg) for arg in expr.args]
        whens = " ".join(f"WHEN {test} THEN {value}" for test, value in zip(pairs[::2], pairs[1::2], strict=True))
        return f"CASE {whens} ELSE {last} END", 9
    return f"{expr.op.upper()}({', '.join(expression(arg) for arg in expr.args)})", 9


def column_text(column: Column) -> str:
    """Return the text of a column: its name, type and scale, and whether it may be NULL."""
    scale = f", {column.scale} digit{'s' * (column.scale > 1)} after the point" if column.scale else ""
    return f"{column.name}: {column.type}{scale}{', may be NULL' if column.nullable else ''}"


def map_lines(part: Map, readers: Sequence[str]) -> list[str]:
    """Return the lines that describe a map; ``readers`` has the names of the views that read the map."""
    shared = f" (shared by {', '.join(readers)})" if len(readers) > 1 else ""
    lines = [f"map {part.id} over {part.relation}{shared}"]
    if part.where is not None:
        lines.append(f"  where {expression(part.where)}")
    lines.append(f"  keys {', '.join(_key(key) for key in part.keys) or 'none: one group'}")
    return [*lines, *(f"  {_sum(total)}" for total in part.sums)]


def _key(key: Key) -> str:
    return f"{key.name} {key.type}" + ("" if key.expr == Col(key.name) else f" = {expression(key.expr)}")


def _sum(total: Sum) -> str:
    return f"{total.name} = SUM({expression(total.expr)})"


def output_lines(
    columns: Sequence[Column], outputs: Sequence[Expr], having: Expr | None, empty: Sequence[object] | None
) -> list[str]:
    """Return the lines that describe how a group becomes a row of a view."""
    lines = [f"  {column.name} := {expression(output)}" for column, output in zip(columns, outputs, strict=True)]
    if having is not None:
        lines.append(f"  if {expression(having)}")
    if empty is not None:
        lines.append(f"  while there is no row: ({', '.join(quoted(value) for value in empty)})")
    return lines

"""A view's program in words."""

from __future__ import annotations

from runtime.compiler.program import Call, Col, Column, Expr, Linear, Lit, Map, Program, Reevaluated, View

__all__ = ["explain"]

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "div": "/", "eq": "=", "ne": "<>",
          "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and": "AND", "or": "OR"}  # fmt: skip


def explain(program: Program, name: str) -> str:
    """Class, reason, columns, maps and the way from maps to rows; raises `KeyError` for a view that is not there."""
    view = next((view for view in program.views if view.name == name.lower()), None)
    if view is None:
        known = ", ".join(view.name for view in program.views) or "none"
        raise KeyError(f"expected a view of the program ({known}), was {name!r}")
    lines = [f"view {view.name}: {view.view_class}", f"  because: {view.reason}",
             f"  SUM of nothing: {'0' if program.mode == 'dbtoaster' else 'NULL'}", "  columns:"]  # fmt: skip
    lines += [f"    {_column(column)}" for column in view.columns]
    lines += _linear(program, view, view.body) if isinstance(view.body, Linear) else []
    if isinstance(view.body, Reevaluated):
        lines.append("  tables:")
        for part in view.body.inputs:
            lines.append(f"    {part.table} = the rows of map {part.map}")
            lines += _map(program, program.maps[part.map])
        lines.append("  query, per epoch:")
        lines += [f"    {line}" for line in view.body.query.splitlines()]
    return "\n".join(lines) + "\n"


def _column(column: Column) -> str:
    scale = f", {column.scale} digits behind the point" if column.scale else ""
    return f"{column.name}: {column.type}{scale}{', may be NULL' if column.nullable else ''}"


def _linear(program: Program, view: View, body: Linear) -> list[str]:
    lines = []
    for branch in body.branches:
        kind = "each of its rows gives" if branch.bag else "each group gives"
        lines.append(f"  from map {branch.map}, {kind}:")
        lines += _map(program, program.maps[branch.map])
        lines += [f"      {column.name} := {_expr(output)}"
                  for column, output in zip(view.columns, branch.outputs, strict=True)]  # fmt: skip
        if branch.having is not None:
            lines.append(f"      having {_expr(branch.having)}")
        if branch.empty is not None:
            shown = ", ".join("NULL" if value is None else repr(value) for value in branch.empty)
            lines.append(f"      while no row is there: ({shown})")
    return lines


def _map(program: Program, part: Map) -> list[str]:
    readers = [view.name for view in program.views if part.id in _maps_of(view)]
    shared = f" (shared by {', '.join(readers)})" if len(readers) > 1 else ""
    lines = [f"      map {part.id} over {part.relation}{shared}"]
    if part.where is not None:
        lines.append(f"        where {_expr(part.where)}")
    keys = ", ".join(f"{key.name} {key.type}" + ("" if key.expr == Col(key.name) else f" = {_expr(key.expr)}")
                     for key in part.keys)  # fmt: skip
    lines.append(f"        keys {keys or 'none: one group'}")
    lines += [f"        {total.name} = SUM({_expr(total.expr)})" for total in part.sums]
    return lines


def _maps_of(view: View) -> set[int]:
    if isinstance(view.body, Linear):
        return {branch.map for branch in view.body.branches}
    assert isinstance(view.body, Reevaluated)
    return {part.map for part in view.body.inputs}


def _expr(expr: Expr, inside: bool = False) -> str:
    if isinstance(expr, Col):
        return expr.name
    if isinstance(expr, Lit):
        return "NULL" if expr.value is None else repr(expr.value)
    assert isinstance(expr, Call)
    if expr.op in ("neg", "not"):
        return f"{'-' if expr.op == 'neg' else 'NOT '}{_expr(expr.args[0], True)}"
    if expr.op not in _SIGNS:
        return f"{expr.op.upper()}({', '.join(_expr(arg) for arg in expr.args)})"
    text = f"{_expr(expr.args[0], True)} {_SIGNS[expr.op]} {_expr(expr.args[1], True)}"
    return f"({text})" if inside else text

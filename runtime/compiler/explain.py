"""A view's program in words."""

from __future__ import annotations

from runtime.compiler.catalogue import maps_of
from runtime.compiler.explain_factored import joined_lines, selected_lines
from runtime.compiler.explain_flow import flow_lines
from runtime.compiler.flow import flow_partition
from runtime.compiler.notation import column_text, expression, map_lines, quoted
from runtime.compiler.program import (
    Expr,
    Flow,
    Joined,
    JoinNode,
    Linear,
    Program,
    Reevaluated,
    Selected,
    SemiNode,
    View,
)

__all__ = ["explain"]


def explain(program: Program, name: str) -> str:
    """Class, reason, columns, maps, the way from maps to rows, and what a batch costs.

    Raises `KeyError` for a view that is not there.
    """
    view = next((view for view in program.views if view.name == name.lower()), None)
    if view is None:
        known = ", ".join(view.name for view in program.views) or "none"
        raise KeyError(f"expected a view of the program ({known}), was {name!r}")
    lines = [
        f"view {view.name}: {view.view_class}",
        f"  because: {view.reason}",
        f"  cost of a batch: {_cost(view)}",
        f"  lane: {view.lane}",
        f"  shards: {_shards(program, view)}",
        f"  SUM of nothing: {'0' if program.mode == 'dbtoaster' else 'NULL'}",
        "  columns:",
        *(f"    {column_text(column)}" for column in view.columns),
        "  maps:",
    ]
    for number in sorted(maps_of(view.body)):
        readers = [other.name for other in program.views if number in maps_of(other.body)]
        lines += [f"    {line}" for line in map_lines(program.maps[number], readers)]
    return "\n".join([*lines, *(f"  {line}" for line in _body(program, view))]) + "\n"


def _body(program: Program, view: View) -> list[str]:
    match view.body:
        case Linear() as body:
            return _linear(view, body)
        case Joined() as body:
            return [*joined_lines(program, body), *_rows(view, body)]
        case Selected() as body:
            return [*selected_lines(program, body), *_rows(view, body)]
        case Flow() as body:
            return flow_lines(program, body)
        case Reevaluated() as body:
            tables = [f"  {part.table} = the rows of map {part.map}" for part in body.inputs]
            return ["tables:", *tables, "query, per epoch:", *(f"  {line}" for line in body.query.splitlines())]


def _linear(view: View, body: Linear) -> list[str]:
    lines = []
    for branch in body.branches:
        kind = "each of its rows gives" if branch.bag else "each group gives"
        lines.append(f"from map {branch.map}, {kind}:")
        lines += _outputs(view, branch.outputs, branch.having, branch.empty)
    return lines


def _rows(view: View, body: Joined | Selected) -> list[str]:
    return ["each group gives:", *_outputs(view, body.outputs, body.having, body.empty)]


def _outputs(view: View, outputs: tuple[Expr, ...], having: Expr | None, empty: tuple[object, ...] | None) -> list[str]:
    lines = [f"  {column.name} := {expression(output)}"
             for column, output in zip(view.columns, outputs, strict=True)]  # fmt: skip
    if having is not None:
        lines.append(f"  if {expression(having)}")
    if empty is not None:
        lines.append(f"  while no row is there: ({', '.join(quoted(value) for value in empty)})")
    return lines


def _cost(view: View) -> str:
    match view.body:
        case Linear():
            return "changed keys"
        case Joined() as body:
            lookups = [one for part in body.auxiliaries for step in part.statements for one in step.lookups]
            matches = " × matching keys" if any(one.binds for one in lookups) else ""
            logarithm = " × log(distinct keys)" if any(one.ordered for one in lookups) else ""
            return f"changed keys{matches}{logarithm}"
        case Selected() as body:
            logarithm = " × log(distinct keys)" if any(one.ordered for one in body.factors) else ""
            looked = [one.ordered for one in body.factors if one.ordered is not None and not one.monotone]
            each = f", and every distinct {' and '.join(looked)}" if looked else ""
            return f"({'changed keys + groups' if body.keys else 'changed keys'}){logarithm}{each}".replace(
                "(changed keys)", "changed keys"
            )
        case Flow() as body:
            joins = any(isinstance(node, (JoinNode, SemiNode)) for node in body.nodes)
            logarithm = " × log(rows)" if view.view_class == "ordered" else ""
            return f"changed rows{' × matching rows' if joins else ''}{logarithm}"
        case Reevaluated():
            return "the whole state"


def _shards(program: Program, view: View) -> str:
    body = view.body
    if view.lane == "express":
        return "all of it in the runtime's process"
    if isinstance(body, Joined) and body.partition:
        return f"spread by {' = '.join(dict.fromkeys(body.partition))}"
    if isinstance(body, Linear) and all(program.maps[b.map].keys and b.empty is None for b in body.branches):
        return "spread by the keys of its maps"
    if isinstance(body, Flow) and (key := flow_partition(body, program.maps)) is not None:
        return f"spread by {key}"
    return "all of it in one"

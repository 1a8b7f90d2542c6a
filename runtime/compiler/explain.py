"""A view's program in words."""

from __future__ import annotations

from runtime.plan import Program, view_of
from runtime.plan.notation import column_text, map_lines

__all__ = ["explain"]


def explain(program: Program, name: str) -> str:
    """Class, reason, columns, maps, the way from maps to rows, and what a batch costs.

    Raises `KeyError` for a view that is not there.
    """
    view = view_of(program, name.lower())
    is_express = view.lane == "express"
    placement = "all of it in the runtime's process" if is_express else view.body.placement(program.maps)
    lines = [
        f"view {view.name}: {view.view_class}",
        f"  because: {view.reason}",
        f"  cost of a batch: {view.body.cost()}",
        f"  lane: {view.lane}",
        f"  shards: {placement}",
        f"  SUM of nothing: {'0' if program.mode == 'dbtoaster' else 'NULL'}",
        "  columns:",
        *(f"    {column_text(column)}" for column in view.columns),
        "  maps:",
    ]
    for number in sorted(view.body.maps()):
        readers = [other.name for other in program.views if number in other.body.maps()]
        lines += [f"    {line}" for line in map_lines(program.maps[number], readers)]
    return "\n".join([*lines, *(f"  {line}" for line in view.body.lines(view.columns, program.maps))]) + "\n"

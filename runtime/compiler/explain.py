"""Description of a view's program in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runtime.plan import Program, View, readers_of, view_of
from runtime.plan.notation import column_text, map_lines

__all__ = ["explain"]


def explain(program: Program, name: str, views: Sequence[View] = ()) -> str:
    """Describe a view: class, reason for the class, cost, columns, maps, and how maps become rows.

    For a program of only one lane, ``views`` has all views of the catalogue. Raise `KeyError` for an unknown view.
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
        *(f"  {line}" for line in _graph_lines(view, views or program.views)),
        "  maps:",
    ]
    for number in sorted(view.body.maps()):
        readers = [other.name for other in program.views if number in other.body.maps()]
        lines += [f"    {line}" for line in map_lines(program.maps[number], readers)]
    return "\n".join([*lines, *(f"  {line}" for line in view.body.lines(view.columns, program.maps))]) + "\n"


def _graph_lines(view: View, views: Sequence[View]) -> Iterator[str]:
    """Describe what a view reads, directly and through other views, and which views read it.

    The first part is left out if the view reads only relations.
    """
    by_name = {known.name: known for known in views}
    if not by_name.keys().isdisjoint(view.reads):
        yield "reads, put into it:"
        yield from (f"  {line}" for line in _tree_lines(view, by_name, set()))
    if readers := readers_of(views, view.name):
        yield f"read by: {', '.join(readers)}"


def _tree_lines(view: View, by_name: dict[str, View], shown: set[str]) -> Iterator[str]:
    for name in view.reads:
        below = by_name.get(name)
        if below is None:
            yield name
            continue
        yield f"view {name}{', see above' if name in shown and below.reads else ''}"
        if name not in shown:
            shown.add(name)
            yield from (f"  {line}" for line in _tree_lines(below, by_name, shown))

"""Parts of a program: what one view or one lane needs of it.

A view keeps its compiled body for life. It is only told the new numbers of its maps; maps that are equal but for their
number are one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from runtime.plan.algebra import Map, Relation, columns_read
from runtime.plan.program import Lane, Program, View

__all__ = [
    "assembled",
    "columns_of",
    "lane_program",
    "map_identity",
    "new_views",
    "only_view",
    "readers_of",
    "view_of",
    "without_view",
]

_replace = msgspec.structs.replace


def without_view(program: Program, name: str) -> Program:
    """The program without a view and the maps that no other view reads; raises `KeyError` if it is not there."""
    view_of(program, name)
    return _only(program, [view for view in program.views if view.name != name])[0]


def only_view(program: Program, name: str) -> tuple[Program, tuple[int, ...]]:
    """A program of one view alone, and which map of the old program each of its maps is."""
    return _only(program, [view_of(program, name)])


def lane_program(program: Program, lane: Lane) -> Program:
    """What one lane keeps of a program; the program itself where that is all of it.

    A view's home stays as it is, and maps keep their order, so that what a lane holds of them does not move.
    """
    views = [view for view in program.views if view.lane == lane]
    return program if len(views) == len(program.views) else _only(program, views)[0]


def new_views(old: Program, new: Program) -> tuple[str, ...]:
    """The views of a program that the one before it has not."""
    there = {view.name for view in old.views}
    return tuple(view.name for view in new.views if view.name not in there)


def readers_of(views: Iterable[View], name: str) -> tuple[str, ...]:
    """The views that name another one in their SELECT, in their order."""
    return tuple(view.name for view in views if name in view.reads)


def columns_of(map_: Map) -> set[str]:
    """The columns of its relation that a map reads."""
    exprs = [*(key.expr for key in map_.keys), *(total.expr for total in map_.sums)]
    exprs += [] if map_.where is None else [map_.where]
    return {name for expr in exprs for name in columns_read(expr)}


def map_identity(map_: Map) -> bytes:
    """What makes a map the same in another program: all but its number. Bytes, as in Python 1 equals True."""
    return msgspec.msgpack.encode(_replace(map_, id=0))


def view_of(program: Program, name: str) -> View:
    """The view of this name; raises `KeyError` if it is not there."""
    for view in program.views:
        if view.name == name:
            return view
    known = ", ".join(view.name for view in program.views) or "none"
    raise KeyError(f"expected a view of the program ({known}), was {name!r}")


def _only(program: Program, views: Collection[View]) -> tuple[Program, tuple[int, ...]]:
    read: set[int] = set().union(*(view.body.maps() for view in views))
    kept = tuple(map_.id for map_ in program.maps if map_.id in read)
    numbers = {old: new for new, old in enumerate(kept)}
    maps = [_replace(program.maps[old], id=new) for new, old in enumerate(kept)]
    renumbered = tuple(_replace(view, body=view.body.renumbered(numbers.__getitem__)) for view in views)
    return assembled(program, program.relations, maps, renumbered), kept


def assembled(program: Program, relations: Sequence[Relation], maps: Sequence[Map], views: Sequence[View]) -> Program:
    """The program with these maps and views in place of its own, and the relations that the maps read."""
    read = {map_.relation for map_ in maps}
    used = tuple(relation for relation in relations if relation.name in read)
    return _replace(program, relations=used, maps=tuple(maps), views=tuple(views))

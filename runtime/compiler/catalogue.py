"""Programs that follow one another: a view more, a view less.

A standing view keeps its compiled body for life. It is only told the new numbers of its maps, so that neither a later
version of the compiler nor another view can change what it says. Maps that are equal but for their number are one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from runtime.compiler.compile import compile_program
from runtime.compiler.errors import SqlError
from runtime.compiler.script import NamedSelect
from runtime.plan import Lane, Map, Program, Relation, View, columns_read

__all__ = [
    "columns_of",
    "extend_program",
    "lane_program",
    "map_identity",
    "only_view",
    "view_of",
    "without_view",
]

_replace = msgspec.structs.replace


def extend_program(program: Program, selects: Sequence[NamedSelect], relations: Iterable[Relation]) -> Program:
    """The program with these views besides its own; raises `SqlError` for the first that cannot be added.

    The old maps keep their numbers; each new view gets a home of its own, behind those that are there.
    """
    taken = {view.name for view in program.views}
    for select in selects:
        if select.name in taken:
            raise SqlError(f"expected a new name for the view, was {select.name!r}, which is taken",
                           file=select.file, line=select.line, column=select.column)  # fmt: skip
    known = tuple(relations)
    added = compile_program(selects, known, mode=program.mode)
    maps = list(program.maps)
    numbers = {map_identity(map_): map_.id for map_ in maps}
    for map_ in added.maps:
        number = numbers.setdefault(map_identity(map_), len(maps))
        if number == len(maps):
            maps.append(_replace(map_, id=number))
    home = max((view.home for view in program.views), default=-1) + 1
    views = [
        _replace(view, body=view.body.renumbered(lambda n: numbers[map_identity(added.maps[n])]), home=home + place)
        for place, view in enumerate(added.views)
    ]
    return _program(program, known, maps, (*program.views, *views))


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
    return _program(program, (), maps, renumbered), kept


def _program(program: Program, relations: Iterable[Relation], maps: Sequence[Map], views: tuple[View, ...]) -> Program:
    known = {relation.name: relation for relation in program.relations}
    for relation in relations:
        if known.setdefault(relation.name, relation) != relation:
            raise SqlError(f"expected the relation {relation.name!r} as the standing views know it, was another")
    read = {map_.relation for map_ in maps}
    used = tuple(relation for relation in known.values() if relation.name in read)
    return _replace(program, relations=used, maps=tuple(maps), views=views)

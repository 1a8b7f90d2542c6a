"""Extension of a program by views: existing ones keep their compiled bodies, so that no later compiler changes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from runtime.compiler.compile import compile_program
from runtime.compiler.errors import SqlError
from runtime.compiler.script import NamedSelect
from runtime.plan import EPOCH_TIME, Program, Relation, assembled, map_identity

__all__ = ["extend_program"]

_replace = msgspec.structs.replace


def extend_program(program: Program, selects: Sequence[NamedSelect], relations: Iterable[Relation]) -> Program:
    """Return the program with these views added; raise `SqlError` for the first that cannot be added.

    The old maps keep their numbers; each new view gets a home of its own, after the existing ones. A new view may
    read existing ones: their SQL, not their compiled bodies, is put into it.
    """
    taken = {view.name for view in program.views}
    for select in selects:
        if select.name in taken:
            raise SqlError(f"expected a new name for the view, was {select.name!r}, which is taken",
                           file=select.file, line=select.line, column=select.column)  # fmt: skip
    known = tuple(relations)
    added = compile_program(selects, known, mode=program.mode, standing=program.views)
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
    return assembled(program, _together(program, (*known, EPOCH_TIME)), maps, [*program.views, *views])


def _together(program: Program, relations: Iterable[Relation]) -> list[Relation]:
    known = {relation.name: relation for relation in program.relations}
    for relation in relations:
        if known.setdefault(relation.name, relation) != relation:
            raise SqlError(f"expected the relation {relation.name!r} as the standing views know it, was another")
    return list(known.values())

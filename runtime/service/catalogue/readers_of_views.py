"""Dependencies of views on readers: the relations that views use, and the readers that they name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from runtime.compiler import NamedSelect
from runtime.plan import Program
from runtime.service.errors import CatalogueError

__all__ = ["needed_by", "relations_read", "with_readers"]

_MOST_NAMES: Final = 8
"""Greatest number of names in an error message."""


def relations_read(program: Program, name: str) -> frozenset[str]:
    """Return the relations that a view of the program reads."""
    (view,) = [view for view in program.views if view.name == name]
    return frozenset(program.maps[number].relation for number in view.body.maps())


def with_readers(
    program: Program, selects: Sequence[NamedSelect], relations_of: Mapping[str, frozenset[str]]
) -> Program:
    """Return the program with the readers that these views name; raises `CatalogueError` for unknown or unfit readers.

    ``relations_of`` maps each reader to the relations that it fills.
    """
    named = {select.name: tuple(dict.fromkeys(select.readers)) for select in selects if select.readers}
    for name, readers in named.items():
        unknown = [reader for reader in readers if reader not in relations_of]
        if unknown:
            raise CatalogueError(
                f"expected readers of {_listed(sorted(relations_of))} for view {name}, was {_listed(unknown)}"
            )
        allowed = frozenset[str]().union(*[relations_of[reader] for reader in readers])
        others = relations_read(program, name) - allowed
        if others:
            raise CatalogueError(
                f"expected view {name} to use relations of {_listed(readers)} alone ({_listed(sorted(allowed))}), "
                f"was {_listed(sorted(others))} as well"
            )
    if not named:
        return program
    views = tuple(
        msgspec.structs.replace(view, readers=named[view.name]) if view.name in named else view
        for view in program.views
    )
    return msgspec.structs.replace(program, views=views)


def needed_by(program: Program, reader: str, own: frozenset[str]) -> tuple[str, ...]:
    """Return the derived streams and views that name a reader, or read a relation that no other reader fills."""
    return (
        *(stream.name for stream in program.streams if not own.isdisjoint(stream.reads)),
        *(
            view.name
            for view in program.views
            if reader in view.readers or not own.isdisjoint(relations_read(program, view.name))
        ),
    )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "") or "none"

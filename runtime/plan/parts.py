"""Parts of a program: the maps and views that one view or one lane needs.

The compiled body of a view never changes, except for the numbers of its maps. Maps that differ only in their number are
the same map.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from runtime.plan.algebra import Map, Relation, columns_read
from runtime.plan.body import Linear
from runtime.plan.program import DerivedStream, Lane, Program, View

__all__ = [
    "assembled",
    "columns_of",
    "lane_program",
    "map_identity",
    "new_views",
    "only_view",
    "readers_of",
    "readers_of_stream",
    "shown_program",
    "stream_of",
    "stream_views",
    "view_of",
    "with_record",
    "without_stream",
    "without_view",
]

_replace = msgspec.structs.replace


def without_view(program: Program, name: str) -> Program:
    """Return the program without a view, and without maps that only this view reads.

    Raise `KeyError` for an unknown view.
    """
    view_of(program, name)
    return _only(program, [view for view in program.views if view.name != name])[0]


def only_view(program: Program, name: str) -> tuple[Program, tuple[int, ...]]:
    """Return a program with this view alone, and the number of each of its maps in the given program."""
    return _only(program, [view_of(program, name)])


def readers_of_stream(program: Program, name: str) -> tuple[str, ...]:
    """Return the streams and views that read a derived stream."""
    maps = {map_.id for map_ in program.maps if map_.relation == name}
    return (
        *(stream.name for stream in program.streams if name in stream.reads),
        *(view.name for view in program.views if not maps.isdisjoint(view.body.maps())),
    )


def without_stream(program: Program, name: str) -> Program:
    """Return the program without a derived stream that nothing reads; raise `KeyError` for an unknown stream."""
    stream = stream_of(program, name)
    dropped = [each for each in program.dropped_streams if each.name != name]
    return _replace(
        program,
        streams=tuple(each for each in program.streams if each.name != name),
        dropped_streams=(*dropped, stream.relation),
    )


def stream_of(program: Program, name: str) -> DerivedStream:
    """Return the derived stream of this name; raise `KeyError` for an unknown stream."""
    for stream in program.streams:
        if stream.name == name:
            return stream
    known = ", ".join(stream.name for stream in program.streams) or "none"
    raise KeyError(f"expected a stream of the program ({known}), was {name!r}")


def stream_views(program: Program) -> Program:
    """Return a program with a view for each derived stream, for code that shows rows; no such view is executed."""
    views = [
        View(
            name=stream.name,
            columns=stream.columns,
            body=Linear(()),
            view_class="stream",
            reason=f"a derived stream of {', '.join(stream.reads)}",
            sql=stream.sql,
            home=stream.home,
            lane="stream",
        )
        for stream in program.streams
    ]
    return Program((), (), tuple(views))


def lane_program(program: Program, lane: Lane) -> Program:
    """Return the part of a program that one lane maintains, without streams; the same object if nothing is left out.

    The homes of views and the order of maps do not change, so that the state of the lane stays valid. In the program of
    the express lane `View.on_spark` is False: the program does not depend on whether Spark also maintains the views.
    """
    if program.streams or program.dropped_streams:
        program = _replace(program, streams=(), dropped_streams=())
    if lane == "spark":
        views = [view for view in program.views if view.lane == "spark" or view.on_spark]
    else:
        views = [view for view in with_record(program, on_spark=False).views if view.lane == "express"]
    return program if views == list(program.views) else _only(program, views)[0]


def shown_program(program: Program, lane: Lane) -> Program:
    """Return the part of a program that subscribers of one lane read: the views of this lane, and no streams."""
    if program.streams or program.dropped_streams:
        program = _replace(program, streams=(), dropped_streams=())
    views = [view for view in program.views if view.lane == lane]
    return program if len(views) == len(program.views) else _only(program, views)[0]


def with_record(program: Program, *, on_spark: bool) -> Program:
    """Return the program with `View.on_spark` of every view of the express lane set to ``on_spark``."""
    views = tuple(
        view if view.lane == "spark" or view.on_spark is on_spark else _replace(view, on_spark=on_spark)
        for view in program.views
    )
    return _replace(program, views=views)


def new_views(old: Program, new: Program) -> tuple[str, ...]:
    """Return the names of the views that ``new`` has and ``old`` does not have."""
    names = {view.name for view in old.views}
    return tuple(view.name for view in new.views if view.name not in names)


def readers_of(views: Iterable[View], name: str) -> tuple[str, ...]:
    """Return the names of the views whose SELECT names the view ``name``, in the given order."""
    return tuple(view.name for view in views if name in view.reads)


def columns_of(map_: Map) -> set[str]:
    """Return the names of the columns that a map reads from its relation."""
    exprs = [*(key.expr for key in map_.keys), *(total.expr for total in map_.sums)]
    exprs += [] if map_.where is None else [map_.where]
    return {name for expr in exprs for name in columns_read(expr)}


def map_identity(map_: Map) -> bytes:
    """Return the identity of a map across programs: the encoding of everything but its number.

    Encodings are compared because they distinguish the constants 1 and True, which are equal in Python.
    """
    return msgspec.msgpack.encode(_replace(map_, id=0))


def view_of(program: Program, name: str) -> View:
    """Return the view of this name; raise `KeyError` for an unknown view."""
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
    """Return the program with these maps and views in place of its own, and with the relations that the maps read."""
    read = {map_.relation for map_ in maps}
    used = tuple(relation for relation in relations if relation.name in read)
    return _replace(program, relations=used, maps=tuple(maps), views=tuple(views))

"""Placement of the parts of a view program in shards.

A view is spread over all shards if every map of it carries a key by which its rows meet: all keys of its maps for a
linear view, one key of each map for a join whose sides are equal in it or a graph of operators that all keep to it. Any
other view lives in one shard, with all of the maps that it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import msgspec

from runtime.plan import Program, View

__all__ = ["Memo", "Part", "is_spread", "part_of", "parts_of_map", "views_of_shard"]

_COLUMNS = 1 << 6
T = TypeVar("T")
R = TypeVar("R")


class Memo(Generic[T, R]):
    """Memo of a function of immutable objects, computed once for each; it keeps the last objects alive.

    Objects are looked up by identity, as to hash a map or a program takes longer.
    """

    def __init__(self, function: Callable[[T], R], most: int = 1024) -> None:
        """``most``: number of results that are kept."""
        self._function, self._most = function, most
        self._results: dict[int, tuple[T, R]] = {}

    def __call__(self, thing: T) -> R:
        entry = self._results.get(id(thing))
        if entry is None:
            if len(self._results) >= self._most:
                self._results.clear()
            entry = self._results[id(thing)] = thing, self._function(thing)
        return entry[1]


class Part(msgspec.Struct, frozen=True, order=True):
    """A map as a shard keeps it."""

    map: int
    """Map id."""
    whole: bool
    """True for all of its keys; False for those of the shard."""
    column: int = -1
    """Number of the key that determines the shard of a row; -1 for all of them together."""

    @property
    def code(self) -> int:
        """The part as one integer, for the wire."""
        return (2 * self.map + self.whole) * _COLUMNS + self.column + 1

    @classmethod
    def of_code(cls, code: int) -> Part:
        """Return the part of `code`."""
        number, column = divmod(code, _COLUMNS)
        return cls(number // 2, bool(number % 2), column - 1)


def _all_shard_keys(program: Program) -> dict[str, Mapping[int, int | None] | None]:
    return {view.name: view.body.shard_keys(program.maps) for view in program.views}


_shard_keys = Memo(_all_shard_keys)


def part_of(program: Program, view: View, number: int) -> Part:
    """Return the part of a map that a view reads."""
    keys = _keys(program, view)
    place = None if keys is None else keys[number]
    return Part(number, True) if place is None else Part(number, False, place)


def is_spread(program: Program, view: View) -> bool:
    """Return True if every shard keeps the part of a view that belongs to its keys."""
    return _keys(program, view) is not None


def _keys(program: Program, view: View) -> Mapping[int, int | None] | None:
    """Return map → number of the key that determines its shard (see `Body.shard_keys`); None if all is in one shard."""
    keys = _shard_keys(program)[view.name]
    if keys is None:
        return None
    places = [place for place in keys.values() if place is not None]
    return None if max(places, default=0) >= _COLUMNS - 1 else keys


def views_of_shard(program: Program, shard: int, shards: int) -> list[View]:
    """Return the views that a shard keeps, wholly or in part; a view that lives in one shard never changes it."""
    return [view for view in program.views if is_spread(program, view) or view.home % shards == shard]


def parts_of_map(program: Program, shards: int) -> dict[int, list[tuple[Part, tuple[int, ...]]]]:
    """Map → its parts, each with the shards that keep it (one that is not whole: each shard its own keys)."""
    homes_of: dict[Part, set[int]] = {}
    for view in program.views:
        homes = range(shards) if is_spread(program, view) else (view.home % shards,)
        for number in view.body.maps():
            homes_of.setdefault(part_of(program, view, number), set()).update(homes)
    parts: dict[int, list[tuple[Part, tuple[int, ...]]]] = {}
    for part, keepers in sorted(homes_of.items()):
        parts.setdefault(part.map, []).append((part, tuple(sorted(keepers))))
    return parts

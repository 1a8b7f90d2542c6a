"""Which shard keeps which part of a view program.

A view is spread over all shards if every map of it carries a key by which its rows meet: all keys of its maps for a
linear view, one key of each map for a join whose sides are equal in it or a graph of operators that all keep to it. Any
other view lives in one shard, with all of the maps that it reads.
"""

from __future__ import annotations

import msgspec

from runtime.compiler import maps_of
from runtime.compiler.flow import flow_partition
from runtime.compiler.program import Flow, Joined, Linear, Program, View

__all__ = ["Part", "is_spread", "part_of", "parts_of_map", "parts_of_shard", "views_of_shard"]

_COLUMNS = 1 << 6


class Part(msgspec.Struct, frozen=True, order=True):
    """A map as a shard keeps it."""

    map: int
    """Map id."""
    whole: bool
    """True: all of its keys; False: those of the shard."""
    column: int = -1
    """Which key says the shard of a row, by number; -1: all of them together."""

    @property
    def code(self) -> int:
        """The part as one integer, for the wire."""
        return (2 * self.map + self.whole) * _COLUMNS + self.column + 1

    @classmethod
    def of_code(cls, code: int) -> Part:
        """The part of `code`."""
        number, column = divmod(code, _COLUMNS)
        return cls(number // 2, bool(number % 2), column - 1)


def part_of(program: Program, view: View, number: int) -> Part:
    """The part of a map that a view reads."""
    if not is_spread(program, view):
        return Part(number, True)
    if isinstance(view.body, (Joined, Flow)):
        return Part(number, False, _columns(program, view.body)[number])
    return Part(number, False)


def is_spread(program: Program, view: View) -> bool:
    """Whether every shard keeps the part of a view that belongs to its keys."""
    body = view.body
    if isinstance(body, (Joined, Flow)):
        return bool(_columns(program, body))
    return isinstance(body, Linear) and all(program.maps[b.map].keys and b.empty is None for b in body.branches)


def _columns(program: Program, body: Joined | Flow) -> dict[int, int]:
    """Map → number of the key that says its shard; none where the view cannot be spread."""
    columns: dict[int, int] = {}
    if isinstance(body, Flow):
        key = flow_partition(body, program.maps)
        for number in maps_of(body) if key is not None else ():
            columns[number] = next(place for place, each in enumerate(program.maps[number].keys) if each.name == key)
        return columns if max(columns.values(), default=0) < _COLUMNS - 1 else {}
    kinds = set()
    for occurrence, name in zip(body.occurrences, body.partition, strict=False):
        keys = program.maps[occurrence.map].keys
        number = next(place for place, key in enumerate(keys) if key.name == name)
        kinds.add(keys[number].type)
        if columns.setdefault(occurrence.map, number) != number:
            return {}
    return columns if len(kinds) == 1 and max(columns.values()) < _COLUMNS - 1 else {}


def views_of_shard(program: Program, shard: int, shards: int) -> list[View]:
    """The views that a shard keeps, wholly or in part; a view that lives in one shard never changes it."""
    return [view for view in program.views if is_spread(program, view) or view.home % shards == shard]


def parts_of_shard(program: Program, shard: int, shards: int) -> list[Part]:
    """The maps that a shard keeps, in a fixed order."""
    views = views_of_shard(program, shard, shards)
    return sorted({part_of(program, view, number) for view in views for number in maps_of(view.body)})


def parts_of_map(program: Program, shards: int) -> dict[int, list[tuple[Part, tuple[int, ...]]]]:
    """Map → its parts, each with the shards that keep it (one that is not whole: each shard its own keys)."""
    found: dict[Part, set[int]] = {}
    for view in program.views:
        homes = range(shards) if is_spread(program, view) else (view.home % shards,)
        for number in maps_of(view.body):
            found.setdefault(part_of(program, view, number), set()).update(homes)
    parts: dict[int, list[tuple[Part, tuple[int, ...]]]] = {}
    for part, keepers in sorted(found.items()):
        parts.setdefault(part.map, []).append((part, tuple(sorted(keepers))))
    return parts

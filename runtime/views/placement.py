"""Which shard keeps which part of a view program.

A linear view is spread over all shards by the keys of its maps, because every map of it carries its whole key. Any
other view lives in one shard, with all of the maps that it reads.
"""

from __future__ import annotations

import msgspec

from runtime.compiler import maps_of
from runtime.compiler.program import Linear, Program, View

__all__ = ["Part", "is_spread", "parts_of_shard", "spread_maps", "views_of_shard", "whole_maps"]


class Part(msgspec.Struct, frozen=True, order=True):
    """A map as a shard keeps it."""

    map: int
    """Map id."""
    whole: bool
    """True: all of its keys; False: those of the shard."""

    @property
    def code(self) -> int:
        """The part as one integer, for the wire."""
        return 2 * self.map + self.whole

    @classmethod
    def of_code(cls, code: int) -> Part:
        """The part of `code`."""
        return cls(code // 2, bool(code % 2))


def is_spread(program: Program, view: View) -> bool:
    """Whether every shard keeps the part of a view that belongs to its keys."""
    return isinstance(view.body, Linear) and all(
        program.maps[b.map].keys and b.empty is None for b in view.body.branches
    )


def _homes(program: Program, shards: int) -> dict[str, int]:
    """View → its shard, for views that live in one; the same for as long as the view lives."""
    return {view.name: view.home % shards for view in program.views if not is_spread(program, view)}


def views_of_shard(program: Program, shard: int, shards: int) -> list[View]:
    """The views that a shard keeps, wholly or in part."""
    homes = _homes(program, shards)
    return [view for view in program.views if homes.get(view.name, shard) == shard]


def parts_of_shard(program: Program, shard: int, shards: int) -> list[Part]:
    """The maps that a shard keeps, in a fixed order."""
    parts = {
        Part(number, not is_spread(program, view))
        for view in views_of_shard(program, shard, shards)
        for number in maps_of(view.body)
    }
    return sorted(parts)


def spread_maps(program: Program) -> set[int]:
    """Maps whose deltas go to the shard of their key."""
    return {number for view in program.views if is_spread(program, view) for number in maps_of(view.body)}


def whole_maps(program: Program, shards: int) -> dict[int, list[int]]:
    """Map → the shards that keep all of it."""
    homes: dict[int, set[int]] = {}
    home_of = _homes(program, shards)
    for view in program.views:
        if view.name in home_of:
            for number in maps_of(view.body):
                homes.setdefault(number, set()).add(home_of[view.name])
    return {number: sorted(shards_) for number, shards_ in homes.items()}

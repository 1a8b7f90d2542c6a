"""From segments of relation deltas to what each shard has to add to its maps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from runtime.compiler.program import Map, Program
from runtime.epochs import Segment
from runtime.views.errors import ViewError
from runtime.views.placement import Part, spread_maps, whole_maps
from runtime.views.preaggregate import preaggregate, shard_of

__all__ = ["Delivery", "deliveries"]


class Delivery(msgspec.Struct, frozen=True):
    """Deltas of one map for one shard."""

    shard: int
    """Number of the shard."""
    part: Part
    """Which map, and whether the shard keeps all of it."""
    deltas: pa.Table | str
    """One row per key, see `preaggregate.payload_schema`; or why there are none: the views over the part fail."""
    view: str | None = None
    """Set: everything that the part holds before the version, for this view, which is new; None: the version's own."""


def deliveries(program: Program, segments: Sequence[Segment], shards: int) -> Iterator[Delivery]:
    """What each shard gets from these segments together; nothing for maps that they do not change."""
    spread, whole = spread_maps(program), whole_maps(program, shards)
    for relation in program.relations:
        tables = [rows for s in segments if (rows := s.rows(relation.name)) is not None and rows.num_rows]
        if not tables:
            continue
        rows = pa.concat_tables(tables).combine_chunks()
        for map_ in program.maps:
            if map_.relation != relation.name:
                continue
            try:
                deltas = preaggregate(map_, rows)
            except ViewError as error:
                homes = [(shard, True) for shard in whole.get(map_.id, ())]
                homes += [(shard, False) for shard in range(shards) if map_.id in spread]
                yield from (Delivery(shard, Part(map_.id, is_whole), str(error)) for shard, is_whole in homes)
                continue
            if not deltas.num_rows:
                continue
            for shard in whole.get(map_.id, ()):
                yield Delivery(shard, Part(map_.id, True), deltas)
            if map_.id in spread:
                yield from _spread(map_, deltas, shards)


def _spread(map_: Map, deltas: pa.Table, shards: int) -> Iterator[Delivery]:
    of_row = shard_of(map_, deltas, shards)
    for shard in np.unique(of_row).tolist():
        yield Delivery(shard, Part(map_.id, False), deltas.filter(pa.array(of_row == shard)))

"""From segments of relation deltas to what each shard has to add to its maps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa

from runtime.compiler.program import Program
from runtime.epochs import Segment
from runtime.views.placement import Part, spread_maps, whole_maps
from runtime.views.preaggregate import preaggregate, shard_of

__all__ = ["Delivery", "deliveries"]


class Delivery(msgspec.Struct, frozen=True):
    """Deltas of one map for one shard."""

    shard: int
    """Number of the shard."""
    part: Part
    """Which map, and whether the shard keeps all of it."""
    deltas: pa.Table
    """One row per key; see `preaggregate.payload_schema`."""


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
            deltas = preaggregate(map_, rows)
            if not deltas.num_rows:
                continue
            for shard in whole.get(map_.id, ()):
                yield Delivery(shard, Part(map_.id, True), deltas)
            if map_.id in spread:
                of_row = shard_of(map_, deltas, shards)
                for shard in range(shards):
                    mine = deltas.filter(pa.array(of_row == shard))
                    if mine.num_rows:
                        yield Delivery(shard, Part(map_.id, False), mine)

"""From segments of relation deltas to what each shard has to add to its maps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise

import msgspec
import numpy as np
import pyarrow as pa

from runtime.epochs import Segment
from runtime.plan import Map, Program
from runtime.views.cancellation import consolidated
from runtime.views.errors import reason_of
from runtime.views.kernels import Kernels
from runtime.views.memo import Memo
from runtime.views.placement import Part, parts_of_map
from runtime.views.preaggregate import Preaggregation, shard_of
from runtime.views.relationbatch import RelationBatch

__all__ = ["Delivery", "deliveries", "deliveries_of", "payload_sources"]


class Delivery(msgspec.Struct, frozen=True):
    """Deltas of one map for one shard."""

    shard: int
    """Number of the shard."""
    part: Part
    """Which map, and whether the shard keeps all of it."""
    deltas: pa.Table | str
    """One row per key, see `payload.payload_schema`; or why there are none: the views over the part fail."""
    view: str | None = None
    """Set: everything that the part holds before the version, for this view, which is new; None: the version's own."""


def deliveries(
    program: Program, segments: Sequence[Segment], shards: int, kernels: Kernels | None = None
) -> Iterator[Delivery]:
    """What each shard gets from these segments together; nothing for maps that they do not change."""
    tables: dict[str, pa.Table] = {}
    for relation in program.relations:
        found = [rows for s in segments if (rows := s.rows(relation.name)) is not None]
        if found:
            tables[relation.name] = pa.concat_tables(found)  # of chunks: nothing is copied
    return iter(deliveries_of(program, tables, shards, kernels))


def deliveries_of(
    program: Program, tables: Mapping[str, pa.Table], shards: int, kernels: Kernels | None = None
) -> list[Delivery]:
    """What each shard gets from these deltas, by relation; nothing for maps that they do not change.

    ``kernels``: without them the kernels of maps are interpreted.
    """
    routes = _routes(program)
    parts = routes.parts(shards)
    found: list[Delivery] = []
    for name, table in tables.items():
        maps = routes.maps.get(name)
        if not maps or not table.num_rows:
            continue
        batch = consolidated(RelationBatch(table), maps)
        for map_ in maps:
            homes = parts.get(map_.id)
            if homes:
                found += _of_map(map_, homes, shards, partial(routes.of(map_).payload, batch, kernels))
    return found


def payload_sources(program: Program) -> list[str]:
    """The kernel sources of maps with sums, which some deltas need to be added up."""
    routes = _routes(program)
    return list(dict.fromkeys(routes.of(map_).totals.source for map_ in program.maps if map_.sums))


class _Routes:
    """What is the same for all versions of a program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._parts: dict[int, dict[int, list[tuple[Part, tuple[int, ...]]]]] = {}
        self.maps: dict[str, list[Map]] = {}
        for map_ in program.maps:
            self.maps.setdefault(map_.relation, []).append(map_)
        self._relations = {relation.name: relation for relation in program.relations}
        self._preaggregations: dict[int, Preaggregation] = {}

    def of(self, map_: Map) -> Preaggregation:
        """What adds up the deltas of a map."""
        if map_.id not in self._preaggregations:
            self._preaggregations[map_.id] = Preaggregation(map_, self._relations[map_.relation])
        return self._preaggregations[map_.id]

    def parts(self, shards: int) -> dict[int, list[tuple[Part, tuple[int, ...]]]]:
        """The parts of each map and who keeps them."""
        if shards not in self._parts:
            self._parts[shards] = parts_of_map(self._program, shards)
        return self._parts[shards]


_routes = Memo(_Routes)


def _of_map(
    map_: Map, homes: Sequence[tuple[Part, tuple[int, ...]]], shards: int, payload_of: Callable[[], pa.Table]
) -> Iterator[Delivery]:
    try:
        payload = payload_of()
    except Exception as error:  # noqa: BLE001 (see reason_of)
        reason = reason_of(error)
        for part, keepers in homes:
            yield from (Delivery(shard, part, reason) for shard in keepers)
        return
    if not payload.num_rows:
        return
    for part, keepers in homes:
        if part.whole or shards == 1:
            yield from (Delivery(shard, part, payload) for shard in keepers)
        else:
            yield from _spread(map_, part, payload, shards)


def _spread(map_: Map, part: Part, deltas: pa.Table, shards: int) -> Iterator[Delivery]:
    of_row = shard_of(map_, deltas, shards, None if part.column < 0 else [map_.keys[part.column].name])
    # Sorted once and cut, as a look at all rows for each of many shards would cost rows × shards.
    order = np.argsort(of_row, kind="stable")
    of_row, together = of_row[order], deltas.take(pa.array(order))
    begins = np.flatnonzero(np.diff(of_row, prepend=-1))
    for begin, end in pairwise([*begins.tolist(), len(of_row)]):
        yield Delivery(int(of_row[begin]), part, together.slice(begin, end - begin))

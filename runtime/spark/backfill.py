"""Filling views that are new in a program: what their maps would hold had they been there from the beginning.

For every relation that the new views read, the rows that are live before the program's first epoch are added up, from a
relation snapshot and the segments since, and then taken for deltas. They are added up first, because a row that is gone
must not be able to fail a view that comes after it. A relation that only grows has no snapshot and nothing in it
cancels, so its whole history is read, a stretch in each partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from runtime.compiler import Program, columns_of, maps_of, only_view
from runtime.epochs import EpochLogReader, Segment, SnapshotDirectory, add_up, has_snapshot_of, read_segment
from runtime.views import Delivery, deliveries

__all__ = ["BackfillPartition", "fill", "new_views", "plan_backfill"]

_STRETCH_EPOCHS: Final = 1000


class BackfillPartition(InputPartition):
    """The rows of one relation before a program's first epoch, for the views that are new in the program."""

    def __init__(self, program: int, views: tuple[str, ...], relation: str, span: tuple[int, int]) -> None:
        super().__init__(None)
        self.program = program
        self.views = views
        self.relation = relation
        self.span = span
        self.snapshot: str | None = None
        """Of the epoch where the span begins."""


class _Rows:
    """Rows of one relation in the place of a segment."""

    def __init__(self, relation: str, rows: pa.Table) -> None:
        self._relation = relation
        self._rows = rows

    def rows(self, name: str) -> pa.Table | None:
        return self._rows if name == self._relation else None


def new_views(old: Program, new: Program) -> tuple[str, ...]:
    """The views of a program that the one before it has not."""
    there = {view.name for view in old.views}
    return tuple(view.name for view in new.views if view.name not in there)


def plan_backfill(
    epoch: int, old: Program, new: Program, snapshots: SnapshotDirectory | None
) -> list[BackfillPartition]:
    """What fills the views that are new with the program of this epoch; the snapshot that is used is pinned for it."""
    views = new_views(old, new)
    if not views or epoch < 2:
        return []
    read = {new.maps[n].relation for view in new.views if view.name in views for n in maps_of(view.body)}
    pinned = snapshots.pin(epoch, epoch - 1) if snapshots else None
    base = read_segment(pinned) if pinned else None
    partitions: list[BackfillPartition] = []
    for relation in new.relations:
        if relation.name not in read:
            continue
        if relation.grows:
            starts = range(0, epoch - 1, _STRETCH_EPOCHS)
            spans = [(begin, min(begin + _STRETCH_EPOCHS, epoch - 1)) for begin in starts]
            partitions += [BackfillPartition(epoch, views, relation.name, span) for span in spans]
            continue
        use = base is not None and has_snapshot_of(base, relation.name)
        begin = base.footer.to_epoch if use and base is not None else 0
        one = BackfillPartition(epoch, views, relation.name, (begin, epoch - 1))
        one.snapshot = str(pinned) if use else None
        partitions.append(one)
    return partitions


def fill(partition: BackfillPartition, program: Program, log: EpochLogReader, shards: int) -> Iterator[Delivery]:
    """What each shard gets of a partition, each delivery for one of the new views."""
    alone = {name: only_view(program, name) for name in partition.views}
    maps = [map_ for one, _ in alone.values() for map_ in one.maps if map_.relation == partition.relation]
    begin, end = partition.span
    base = read_segment(Path(partition.snapshot)) if partition.snapshot else None
    columns = set().union(*map(columns_of, maps))
    rows = add_up(log, partition.relation, begin, end, base=base, columns=columns)
    if rows is None or not rows.num_rows:
        return
    segment = cast(Segment, _Rows(partition.relation, rows.combine_chunks()))
    for name, (one, numbers) in alone.items():
        for delivery in deliveries(one, [segment], shards):
            part = msgspec.structs.replace(delivery.part, map=numbers[delivery.part.map])
            yield msgspec.structs.replace(delivery, part=part, view=name)

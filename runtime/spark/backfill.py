"""Filling views that are new in a program: what their maps would hold had they been there from the beginning.

For every relation that the new views read, the rows that are live before the program's first epoch are added up, from a
relation snapshot and the segments since, and then taken for deltas. They are added up first, because a row that is gone
must not be able to fail a view that comes after it. Of a relation that only grows and is in no snapshot, in which
little cancels, the whole history is read, a stretch in each partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pyspark.sql.datasource import InputPartition

from runtime.compiler import Program, maps_of
from runtime.epochs import EpochLogReader, SnapshotDirectory, add_up, has_snapshot_of, read_segment
from runtime.views import Delivery
from runtime.views.filling import columns_to_fill, fill_of, new_views

__all__ = ["BackfillPartition", "fill", "plan_backfill"]

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
        use = base is not None and has_snapshot_of(base, relation.name)
        if relation.grows and not use:
            starts = range(0, epoch - 1, _STRETCH_EPOCHS)
            spans = [(begin, min(begin + _STRETCH_EPOCHS, epoch - 1)) for begin in starts]
            partitions += [BackfillPartition(epoch, views, relation.name, span) for span in spans]
            continue
        begin = base.footer.to_epoch if use and base is not None else 0
        one = BackfillPartition(epoch, views, relation.name, (begin, epoch - 1))
        one.snapshot = str(pinned) if use else None
        partitions.append(one)
    return partitions


def fill(partition: BackfillPartition, program: Program, log: EpochLogReader, shards: int) -> Iterator[Delivery]:
    """What each shard gets of a partition, each delivery for one of the new views."""
    begin, end = partition.span
    base = read_segment(Path(partition.snapshot)) if partition.snapshot else None
    columns = columns_to_fill(program, partition.views)[partition.relation]
    rows = add_up(log, partition.relation, begin, end, base=base, columns=columns)
    if rows is None or not rows.num_rows:
        return
    yield from fill_of(program, partition.views, {partition.relation: rows.combine_chunks()}, shards)

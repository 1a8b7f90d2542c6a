"""Filling views that are new in a batch: what their maps would hold had they been there from the beginning.

Views are new in the first batch of a program that has them; in the first batch of a checkpoint that was begun behind a
version (`runtime.spark.beginning`) all of them are.

For every relation that the new views read, the rows that are live before the program's first epoch are added up, from a
relation snapshot and the segments since, and then taken for deltas. They are added up first, because a row that is gone
must not be able to fail a view that comes after it. Of a relation that only grows and is in no snapshot, in which
little cancels, the whole history is read, a stretch in each partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
from pyspark.sql.datasource import InputPartition

from runtime.epochs import EpochLogReader, SnapshotDirectory, add_up, has_snapshot_of, read_segment
from runtime.native.kernels import Kernels
from runtime.plan import Program, only_view
from runtime.views import Delivery
from runtime.views.filling import columns_to_fill, fill_of
from runtime.views.placement import parts_of_map

__all__ = ["BackfillPartition", "FailedPartition", "fail", "fill", "plan_backfill"]

_STRETCH_EPOCHS: Final = 1000


class BackfillPartition(InputPartition):
    """The rows of one relation before a batch's first epoch, for the views that are new in the batch."""

    def __init__(self, program: int, views: tuple[str, ...], relation: str, span: tuple[int, int]) -> None:
        super().__init__(None)
        self.program = program
        self.views = views
        self.relation = relation
        self.span = span
        self.snapshot: str | None = None
        """Of the epoch where the span begins."""


class FailedPartition(InputPartition):
    """Views that are new in a batch and have failed before it."""

    def __init__(self, program: int, failed: Mapping[str, str], epoch: int) -> None:
        super().__init__(None)
        self.program = program
        self.failed = dict(failed)
        self.epoch = epoch


def plan_backfill(
    program: int, epoch: int, new: Program, views: tuple[str, ...], snapshots: SnapshotDirectory | None
) -> list[BackfillPartition]:
    """What fills views of a program that are new in the batch whose first epoch this is.

    ``program`` is the epoch of its control record. The snapshot that is used is pinned for the batch.
    """
    if not views or epoch < 2:
        return []
    read = {new.maps[n].relation for view in new.views if view.name in views for n in view.body.maps()}
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
            partitions += [BackfillPartition(program, views, relation.name, span) for span in spans]
            continue
        begin = base.footer.to_epoch if use and base is not None else 0
        one = BackfillPartition(program, views, relation.name, (begin, epoch - 1))
        one.snapshot = str(pinned) if use else None
        partitions.append(one)
    return partitions


def fill(
    partition: BackfillPartition, program: Program, log: EpochLogReader, shards: int, kernels: Kernels
) -> Iterator[Delivery]:
    """What each shard gets of a partition, each delivery for one of the new views."""
    begin, end = partition.span
    base = read_segment(Path(partition.snapshot)) if partition.snapshot else None
    columns = columns_to_fill(program, partition.views)[partition.relation]
    rows = add_up(log, partition.relation, begin, end, base=base, columns=columns)
    if rows is None or not rows.num_rows:
        return
    yield from fill_of(program, partition.views, {partition.relation: rows.combine_chunks()}, shards, kernels)


def fail(partition: FailedPartition, program: Program, shards: int) -> Iterator[Delivery]:
    """Why there is nothing for the views of a partition, for every shard that has them."""
    for name, reason in partition.failed.items():
        alone, numbers = only_view(program, name)
        for number, homes in parts_of_map(alone, shards).items():
            for part, keepers in homes:
                place = msgspec.structs.replace(part, map=numbers[number])
                yield from (Delivery(shard, place, reason, name) for shard in keepers)

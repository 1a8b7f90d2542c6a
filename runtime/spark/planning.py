"""Partitions of a batch of the streaming query, as the driver plans them.

Views are new in the first batch of a program that adds them. In the first batch of a checkpoint that was begun after a
version (`runtime.spark.beginning`) all views are new. The backfill of new views has partitions of its own.

```
relation snapshot S ─┐
                     ├─ added up, needed columns only ─▶ deltas of the new view's maps, marked as its own ─┐
epochs (S, c-1] ─────┘                                                                                     ▼
epoch c (new program) … ─▶ deltas of all maps ─▶ shard: change to the program, fill the new view, then one step
```

The rows of a backfill are added up before they become deltas, so that a row that was deleted cannot fail a view that
was added later. A backfill does not affect other views, even if they share structures with the new view. A batch that
runs again after a crash is planned in the same way, because the snapshot of its backfill is pinned.

Processes that only plan import this module; `runtime.spark.reading` reads partitions, and imports all that views need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

import msgspec
from pyspark.sql.datasource import InputPartition

from runtime.epochs import EpochLogReader, SnapshotDirectory, has_snapshot_of, read_segment
from runtime.plan import Program, decode_program, lane_program

__all__ = [
    "BackfillPartition",
    "EpochPartition",
    "FailedPartition",
    "Span",
    "load_program",
    "plan_backfill",
    "shard_ids",
    "spark_partition",
]

_SEED: Final = 42
_WORD: Final = 0xFFFFFFFF


class Span(msgspec.Struct, frozen=True, array_like=True):
    """Span of the epochs of a batch: ``(from, to]``."""

    from_epoch: int
    """Epoch before the batch."""
    to_epoch: int
    """Last epoch of the batch, which is the version of its results."""


class EpochPartition(InputPartition):
    """Partition with some of a batch's segments.

    One partition of a batch also has the ``span``, which every shard receives in a row of its own, the *tick*. So a
    shard without deltas takes part in the batch, too.
    """

    def __init__(self, program: int, epochs: Sequence[int], span: Span | None) -> None:
        super().__init__(None)
        self.program = program
        self.epochs = tuple(epochs)
        self.span = span


class BackfillPartition(InputPartition):
    """Partition with the rows of one relation before a batch's first epoch, for the views that are new in the batch."""

    def __init__(self, program: int, views: tuple[str, ...], relation: str, span: tuple[int, int]) -> None:
        super().__init__(None)
        self.program = program
        self.views = views
        self.relation = relation
        self.span = span
        self.snapshot: str | None = None
        """Path of the snapshot of the epoch where the span begins; None without a snapshot."""


class FailedPartition(InputPartition):
    """Partition of the views that are new in a batch and have failed before it."""

    def __init__(self, program: int, failed: Mapping[str, str], epoch: int) -> None:
        super().__init__(None)
        self.program = program
        self.failed = dict(failed)
        self.epoch = epoch


def plan_backfill(
    program: int, epoch: int, new: Program, views: tuple[str, ...], snapshots: SnapshotDirectory | None
) -> list[BackfillPartition]:
    """Return the partitions that fill the new views of a program in the batch whose first epoch is ``epoch``.

    ``program`` is the epoch of the program's control record. The snapshot that is used is pinned for the batch.
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
        begin = base.footer.to_epoch if use and base is not None else 0
        partition = BackfillPartition(program, views, relation.name, (begin, epoch - 1))
        partition.snapshot = str(pinned) if use else None
        partitions.append(partition)
    return partitions


@lru_cache(maxsize=4)
def load_program(directory: str, epoch: int) -> Program:
    """Return the Spark lane's part of the view program in a control record of the log."""
    return lane_program(decode_program(EpochLogReader(Path(directory)).control(epoch)), "spark")


def _rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (32 - bits))) & _WORD


def _murmur3(value: int) -> int:
    """Return Murmur3 (x86, 32 bit) of one 4-byte integer, as Spark's `hash` computes it; a signed 32-bit integer."""
    mixed = (value & _WORD) * 0xCC9E2D51 & _WORD
    mixed = _rotate(mixed, 15) * 0x1B873593 & _WORD
    state = _rotate(_SEED ^ mixed, 13) * 5 + 0xE6546B64 & _WORD
    state ^= 4  # XOR with the length in bytes
    state = (state ^ (state >> 16)) * 0x85EBCA6B & _WORD
    state = (state ^ (state >> 13)) * 0xC2B2AE35 & _WORD
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def spark_partition(key: int, partitions: int) -> int:
    """Return the partition to which Spark sends the group of this int key."""
    return _murmur3(key) % partitions


@cache
def shard_ids(shards: int) -> tuple[int, ...]:
    """Return one id per shard: ``shard_ids(n)[i]`` goes to partition i of n."""
    ids: dict[int, int] = {}
    candidate = 0
    while len(ids) < shards:
        ids.setdefault(spark_partition(candidate, shards), candidate)
        candidate += 1
    return tuple(ids[i] for i in range(shards))

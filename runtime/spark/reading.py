"""Reader of the partitions of a batch, on executors: segments become payloads for shards.

Segments are read by memory mapping and summed per map and key on the executors (`runtime.views.deliveries`), so that
only a few payloads per shard enter Spark.

The backfill of new views is described in `runtime.spark.planning`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa

from runtime.epochs import EpochLogReader, add_up, read_segment
from runtime.native.tiers import Kernels
from runtime.plan import Program, only_view
from runtime.spark.garbage import Garbage
from runtime.spark.kernels import worker_kernels
from runtime.spark.planning import BackfillPartition, EpochPartition, FailedPartition, load_program, shard_ids
from runtime.views import Delivery, Part, deliveries
from runtime.views.routing import columns_to_fill, fill_of, parts_of_map
from runtime.views.shardruns import encode_table

__all__ = ["BROKEN", "TICK", "Partition", "Place", "read"]

Partition = EpochPartition | BackfillPartition | FailedPartition

TICK: Final = -1
"""Value of the column ``map`` in a tick row, whose payload is a `Span`."""
BROKEN: Final = -2
"""``BROKEN - code`` is the value of ``map`` if the deltas of a part could not be computed; the payload is the
reason."""

_VIEW_BITS: Final = 21
"""Number of bits of a part's code; in a backfill, the bits above are the number of the view + 1."""

_ARROW_SCHEMA: Final = pa.schema(
    [
        ("shard", pa.int32()),
        ("epoch", pa.int64()),
        ("program", pa.int64()),
        ("map", pa.int32()),
        ("payload", pa.binary()),
    ]
)
_garbage: Final = Garbage()


class Place(msgspec.Struct, frozen=True):
    """Meaning of the column ``map`` of a payload."""

    part: Part
    """Part of a map."""
    view: int | None = None
    """Number of the view that a backfill is for; None if the payload is not a backfill."""
    broken: bool = False
    """True if the payload is the reason why there are no deltas."""

    @property
    def code(self) -> int:
        """Place encoded as one integer."""
        code = self.part.code | (0 if self.view is None else (self.view + 1) << _VIEW_BITS)
        return BROKEN - code if self.broken else code

    @classmethod
    def of_code(cls, code: int) -> Place:
        """Return the place with this `code`."""
        broken = code <= BROKEN
        view, part = divmod(BROKEN - code if broken else code, 1 << _VIEW_BITS)
        return cls(Part.of_code(part), view - 1 if view else None, broken)


def read(partition: Partition, directory: str, shards: int, *, compiles: bool) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition: payloads of segments or of a backfill, or failures; and ticks if there is a span.

    ``directory`` is the directory of the epoch log; ``compiles`` is True if this process compiles missing kernels.
    """
    program = load_program(directory, partition.program)
    kernels = worker_kernels(compiles=compiles)
    log = EpochLogReader(Path(directory))
    results: Iterable[Delivery]
    if isinstance(partition, BackfillPartition):
        epoch, results = partition.span[1], _fill(partition, program, log, shards, kernels)
    elif isinstance(partition, FailedPartition):
        epoch, results = partition.epoch, _fail(partition, program, shards)
    else:
        segments = [log.read(epoch) for epoch in partition.epochs]
        epoch, results = partition.epochs[-1], deliveries(program, segments, shards, kernels)
    yield _rows(partition, program, epoch, results, shards)
    _garbage.keep((directory, partition.program))


def _rows(partition: Partition, program: Program, epoch: int, given: Iterable[Delivery], shards: int) -> pa.RecordBatch:
    ids = shard_ids(shards)
    views = [view.name for view in program.views]
    rows: list[tuple[int, int, int, int, bytes]] = []
    if isinstance(partition, EpochPartition) and partition.span is not None:
        tick = msgspec.msgpack.encode(partition.span)
        rows += [(shard, epoch, partition.program, TICK, tick) for shard in ids]
    for delivery in given:
        deltas = delivery.deltas
        view = None if delivery.view is None else views.index(delivery.view)
        place = Place(delivery.part, view, isinstance(deltas, str))
        payload = deltas.encode() if isinstance(deltas, str) else encode_table(deltas)
        rows.append((ids[delivery.shard], epoch, partition.program, place.code, payload))
    columns = list(zip(*rows, strict=True)) or [()] * len(_ARROW_SCHEMA)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, _ARROW_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW_SCHEMA)


def _fill(
    partition: BackfillPartition, program: Program, log: EpochLogReader, shards: int, kernels: Kernels
) -> Iterator[Delivery]:
    """Yield the deliveries of a partition to each shard, each for one of the new views."""
    begin, end = partition.span
    base = read_segment(Path(partition.snapshot)) if partition.snapshot else None
    columns = columns_to_fill(program, partition.views)[partition.relation]
    rows = add_up(log, partition.relation, begin, end, base=base, columns=columns)
    if rows is None or not rows.num_rows:
        return
    yield from fill_of(program, partition.views, {partition.relation: rows.combine_chunks()}, shards, kernels)


def _fail(partition: FailedPartition, program: Program, shards: int) -> Iterator[Delivery]:
    """Yield the failure of a partition's views, for every shard that has them."""
    for name, reason in partition.failed.items():
        alone, numbers = only_view(program, name)
        for number, homes in parts_of_map(alone, shards).items():
            for part, keepers in homes:
                place = msgspec.structs.replace(part, map=numbers[number])
                yield from (Delivery(shard, place, reason, name) for shard in keepers)

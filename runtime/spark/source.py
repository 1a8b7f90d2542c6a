"""The epoch log as a streaming source of Spark: offset = epoch.

A batch covers the epochs ``(start, end]``. Its segments are read on the executors by memory mapping and added up per
map and key right there (`runtime.views.deliveries`), so that only a few payloads per shard enter Spark. Every shard
also gets a tick that names the span, so that each of them answers even when nothing changed for it. The first batch of
a program, or of a checkpoint that is begun behind a version, also carries what fills the views that are new in it
(`runtime.spark.backfill`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from runtime.epochs import EpochLogReader, ResultLog, SnapshotDirectory
from runtime.plan import Program, decode_program, lane_program
from runtime.spark.backfill import BackfillPartition, FailedPartition, fail, fill, plan_backfill
from runtime.spark.garbage import Garbage
from runtime.spark.kernels import worker_kernels
from runtime.spark.partitioning import shard_ids
from runtime.views import Delivery, Part, deliveries
from runtime.views.encoding import encode_table
from runtime.views.filling import new_views

__all__ = ["BROKEN", "SOURCE_SCHEMA", "TICK", "EpochSource", "Place", "Span", "load_program"]

SOURCE_SCHEMA: Final = "shard int, epoch bigint, program bigint, map int, payload binary"
TICK: Final = -1
"""Value of ``map`` in a tick row; its payload is a `Span`."""
BROKEN: Final = -2
"""``BROKEN - code`` is the value of ``map`` where the deltas of a part could not be made; its payload says why."""

_VIEW_BITS: Final = 21
"""A part's code takes no more; above it stands, in a backfill, one more than the number of the view."""

_ARROW_SCHEMA: Final = pa.schema(
    [
        ("shard", pa.int32()),
        ("epoch", pa.int64()),
        ("program", pa.int64()),
        ("map", pa.int32()),
        ("payload", pa.binary()),
    ]
)
_WAIT_SECONDS: Final = 0.05
_LOOK_SECONDS: Final = 0.002
_SMALL_BYTES: Final = 512 * 1024
_garbage: Final = Garbage()


class Span(msgspec.Struct, frozen=True, array_like=True):
    """The epochs of a batch: ``(from, to]``."""

    from_epoch: int
    """Not in the batch."""
    to_epoch: int
    """The last one in it; the version of its results."""


class Place(msgspec.Struct, frozen=True):
    """What the column ``map`` says of a payload."""

    part: Part
    """Which map."""
    view: int | None = None
    """The number of the view that a backfill is for."""
    broken: bool = False
    """The payload says why there are no deltas."""

    @property
    def code(self) -> int:
        """The place as one integer."""
        code = self.part.code | (0 if self.view is None else (self.view + 1) << _VIEW_BITS)
        return BROKEN - code if self.broken else code

    @classmethod
    def of_code(cls, code: int) -> Place:
        """The place of `code`."""
        broken = code <= BROKEN
        view, part = divmod(BROKEN - code if broken else code, 1 << _VIEW_BITS)
        return cls(Part.of_code(part), view - 1 if view else None, broken)


class EpochPartition(InputPartition):
    """Some of a batch's segments; one of a batch's partitions also carries the ticks."""

    def __init__(self, program: int, epochs: Sequence[int], span: Span | None) -> None:
        super().__init__(None)
        self.program = program
        self.epochs = tuple(epochs)
        self.span = span


@lru_cache(maxsize=4)
def load_program(directory: str, epoch: int) -> Program:
    """What the Spark lane keeps of the view program that a control record of the log holds."""
    return lane_program(decode_program(EpochLogReader(Path(directory)).control(epoch)), "spark")


class EpochReader(DataSourceStreamReader):
    """Plans batches on the driver and reads segments on the executors."""

    def __init__(self, options: dict[str, str]) -> None:
        self._directory = options["path"]
        self._shards = int(options["shards"])
        self._most_epochs = int(options["max_epochs_per_batch"])
        # What was published when the query started: such spans are planned again as they were, whatever Spark's own
        # record of them has lost.
        results = options.get("results")
        self._published = ResultLog.versions_in(Path(results)) if results else []
        self._snapshots = SnapshotDirectory(Path(options["snapshots"])) if "snapshots" in options else None
        self._base = int(options.get("base", "0"))
        self._compiles = options.get("compiles") == "yes"
        self._failed = msgspec.json.decode(options.get("failed", "{}"), type=dict[str, str])
        self._log = EpochLogReader(Path(self._directory))
        self._programs: list[int] = []  # epochs with a control record, ascending
        self._looked = -1  # newest epoch whose footer was looked at

    def initialOffset(self) -> dict[str, int]:
        """The version that the checkpoint was begun behind; epoch 0 holds the first program and nothing else."""
        return {"epoch": self._base}

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit on epochs is the source's own."""
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """The newest epoch that the next batch may cover: one program and at most so many epochs a batch.

        Waits a little for a new epoch, so that an idle stream does not spin.
        """
        begin = start["epoch"]
        give_up = time.monotonic() + _WAIT_SECONDS
        while (latest := self._log.latest()) <= begin and time.monotonic() < give_up:
            time.sleep(_LOOK_SECONDS)
        # Asked once: an epoch that is sealed from here on may hold a program, which nobody has looked at.
        looked = max(begin, latest)
        self._look(looked)
        published = next((version for version in self._published if version > begin), None)
        newest = published or min(looked, begin + self._most_epochs)
        stops = [epoch - 1 for epoch in self._programs if begin + 1 < epoch <= newest]
        return {"epoch": min([newest, *stops])}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Segments in at most as many groups as there are shards; small batches in one."""
        begin, newest = start["epoch"], end["epoch"]
        if newest <= begin:
            return []
        self._look(newest)
        program = max(epoch for epoch in self._programs if epoch <= begin + 1)
        epochs = range(begin + 1, newest + 1)
        sizes = [self._log.disk.size(self._log.path(epoch)) for epoch in epochs]
        groups = 1 if sum(sizes) < _SMALL_BYTES else min(self._shards, len(epochs))
        target, held, split = sum(sizes) / groups, 0, [[]]  # type: ignore[var-annotated]
        for epoch, size in zip(epochs, sizes, strict=True):
            if held >= target and len(split) < groups:
                split.append([])
                held = 0
            split[-1].append(epoch)
            held += size
        span = Span(begin, newest)
        parts: list[InputPartition] = [
            EpochPartition(program, group, None if place else span) for place, group in enumerate(split)
        ]
        return [*parts, *self._backfill(program, begin + 1)]

    def _backfill(self, program: int, first: int) -> list[InputPartition]:
        """What fills the views that are new in the batch whose first epoch this is."""
        new = load_program(self._directory, program)
        views = [view.name for view in new.views]
        if 0 < self._base == first - 1:
            failed = {name: self._failed[name] for name in views if name in self._failed}
            sound = tuple(name for name in views if name not in failed)
            filled = plan_backfill(program, first, new, sound, self._snapshots)
            return [*filled, FailedPartition(program, failed, first - 1)] if failed else list(filled)
        if program != first:
            return []
        old = load_program(self._directory, max(epoch for epoch in self._programs if epoch < program))
        return list(plan_backfill(program, first, new, new_views(old, new), self._snapshots))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The payloads of these segments, and the ticks if they are this partition's; or a backfill's payloads."""
        assert isinstance(partition, EpochPartition | BackfillPartition | FailedPartition)
        program = load_program(self._directory, partition.program)
        kernels = worker_kernels(compiles=self._compiles)
        if isinstance(partition, BackfillPartition):
            yield self._rows(partition, partition.span[1], fill(partition, program, self._log, self._shards, kernels))
            return
        if isinstance(partition, FailedPartition):
            yield self._rows(partition, partition.epoch, fail(partition, program, self._shards))
            return
        segments = [self._log.read(epoch) for epoch in partition.epochs]
        yield self._rows(partition, partition.epochs[-1], deliveries(program, segments, self._shards, kernels))
        _garbage.keep((self._directory, partition.program))

    def _rows(
        self, partition: EpochPartition | BackfillPartition | FailedPartition, epoch: int, found: Iterable[Delivery]
    ) -> pa.RecordBatch:
        ids = shard_ids(self._shards)
        views = [view.name for view in load_program(self._directory, partition.program).views]
        rows: list[tuple[int, int, int, int, bytes]] = []
        if isinstance(partition, EpochPartition) and partition.span is not None:
            tick = msgspec.msgpack.encode(partition.span)
            rows += [(shard, epoch, partition.program, TICK, tick) for shard in ids]
        for delivery in found:
            deltas = delivery.deltas
            view = None if delivery.view is None else views.index(delivery.view)
            place = Place(delivery.part, view, isinstance(deltas, str))
            payload = deltas.encode() if isinstance(deltas, str) else encode_table(deltas)
            rows.append((ids[delivery.shard], epoch, partition.program, place.code, payload))
        columns = list(zip(*rows, strict=True)) or [()] * len(_ARROW_SCHEMA)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, _ARROW_SCHEMA, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=_ARROW_SCHEMA)

    def commit(self, end: dict[str, int]) -> None:
        """A batch is done: what filled its views need not be kept. The log keeps its segments."""
        if self._snapshots is not None:
            self._snapshots.unpin(end["epoch"])

    def _look(self, newest: int) -> None:
        self._programs += self._log.controls(self._looked + 1, newest)
        self._looked = max(self._looked, newest)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_log": None, "_programs": [], "_looked": -1}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._log = EpochLogReader(Path(self._directory))


class EpochSource(DataSource):
    """Registered as format ``epochs``; its options are `SparkLane.source_options`."""

    @classmethod
    def name(cls) -> str:
        """Name of the format."""
        return "epochs"

    def schema(self) -> str:
        """Always `SOURCE_SCHEMA`, whatever the views are."""
        return SOURCE_SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        """The reader for the options given."""
        return EpochReader(dict(self.options))

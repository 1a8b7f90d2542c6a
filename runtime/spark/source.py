"""Epoch log as a streaming source of Spark, whose offsets are epochs.

A batch covers the epochs ``(start, end]``; its segments are read on the executors (`runtime.spark.reading`). Every
shard also gets a row with the span of the batch, so that every shard answers even if nothing has changed for it. The
first batch of a program also contains the *backfill* of its new views: the rows that the views' relations had before.
The first batch of a checkpoint that begins at a later version than 0 contains a backfill of all views.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from runtime.epochs import EpochLogReader, ResultLog, SnapshotDirectory
from runtime.plan import new_views
from runtime.spark.planning import (
    BackfillPartition,
    EpochPartition,
    FailedPartition,
    Span,
    load_program,
    plan_backfill,
)

__all__ = ["SOURCE_SCHEMA", "EpochDataSource", "EpochReader"]

SOURCE_SCHEMA: Final = "shard int, epoch bigint, program bigint, map int, payload binary"
_WAIT_SECONDS: Final = 0.05
"""Longest wait in seconds for a new epoch before the source reports to Spark that there is none."""
_LOOK_SECONDS: Final = 0.002
"""Time in seconds between two polls for a new epoch."""
_SMALL_BYTES: Final = 512 * 1024
"""Size of segments in bytes below which a batch has one partition."""


class EpochReader(DataSourceStreamReader):
    """Reader that plans batches on the driver and reads segments on the executors."""

    def __init__(self, options: dict[str, str]) -> None:
        self._directory = options["path"]
        self._shards = int(options["shards"])
        self._most_epochs = int(options["max_epochs_per_batch"])
        # Versions that were published when the query started. A batch that is repeated ends at the same one of these
        # versions as before, even if Spark has lost its own record of that version.
        results = options.get("results")
        self._published = ResultLog.versions_in(Path(results)) if results else []
        self._snapshots = SnapshotDirectory(Path(options["snapshots"])) if "snapshots" in options else None
        self._base = int(options.get("base", "0"))
        self._compiles = options.get("compiles") == "yes"
        self._failed = msgspec.json.decode(options.get("failed", "{}"), type=dict[str, str])
        self._log = EpochLogReader(Path(self._directory))
        self._programs: list[int] = []  # epochs with a control record, ascending
        self._looked = -1  # newest epoch whose footer was read

    def initialOffset(self) -> dict[str, int]:
        """Return the version after which the checkpoint begins; epoch 0, the default, has only the first program."""
        return {"epoch": self._base}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return no limit, because the source limits the epochs itself."""
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """Return the last epoch that the next batch may cover: a batch has one program and a limited number of epochs.

        The call waits a little for a new epoch, so that an idle stream does not use the processor.
        """
        begin = start["epoch"]
        give_up = time.monotonic() + _WAIT_SECONDS
        while (latest := self._log.latest()) <= begin and time.monotonic() < give_up:
            time.sleep(_LOOK_SECONDS)
        # The newest epoch is not read again: an epoch that is sealed from here on may have a program that was not read
        # yet.
        looked = max(begin, latest)
        self._look(looked)
        published = next((version for version in self._published if version > begin), None)
        newest = published or min(looked, begin + self._most_epochs)
        stops = [epoch - 1 for epoch in self._programs if begin + 1 < epoch <= newest]
        return {"epoch": min([newest, *stops])}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return partitions of about equal size, at most one per shard (one for a small batch), and the backfill."""
        begin, newest = start["epoch"], end["epoch"]
        if newest <= begin:
            return []
        self._look(newest)
        program = max(epoch for epoch in self._programs if epoch <= begin + 1)
        epochs = range(begin + 1, newest + 1)
        sizes = [self._log.disk.size(self._log.path(epoch)) for epoch in epochs]
        groups = 1 if sum(sizes) < _SMALL_BYTES else min(self._shards, len(epochs))
        target, group_size, split = sum(sizes) / groups, 0, [[]]  # type: ignore[var-annotated]
        for epoch, size in zip(epochs, sizes, strict=True):
            if group_size >= target and len(split) < groups:
                split.append([])
                group_size = 0
            split[-1].append(epoch)
            group_size += size
        span = Span(begin, newest)
        parts: list[InputPartition] = [
            EpochPartition(program, group, None if place else span) for place, group in enumerate(split)
        ]
        return [*parts, *self._backfill(program, begin + 1)]

    def _backfill(self, program: int, first: int) -> list[InputPartition]:
        """Return the partitions that fill new views, for the batch that begins with epoch ``first``.

        The new views are all views if the checkpoint begins with this batch; otherwise, if the epoch has a new program,
        they are the views that the previous program lacks.
        """
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
        """Yield the payloads of a partition; see `runtime.spark.reading`."""
        from runtime.spark.reading import read  # takes 0.4 s, so processes that only plan do not import it

        assert isinstance(partition, EpochPartition | BackfillPartition | FailedPartition)
        yield from read(partition, self._directory, self._shards, compiles=self._compiles)

    def commit(self, end: dict[str, int]) -> None:
        """Unpin the snapshots that a completed batch needed. Its segments stay until the log is retired."""
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


class EpochDataSource(DataSource):
    """Source that is registered as format ``epochs``; its options are `SparkLane.source_options`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "epochs"

    def schema(self) -> str:
        """Return `SOURCE_SCHEMA`, which is the same for all views."""
        return SOURCE_SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        """Return the reader for the given options."""
        return EpochReader(dict(self.options))

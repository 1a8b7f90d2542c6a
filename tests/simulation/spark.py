"""Spark as the lane sees it: batches with a record of their own, and shards' states that are kept by batch.

The source, the processor and the publishing are the real ones; Spark itself is what is simulated. A batch goes through
four steps, each durable before the next and each a place for a crash: its span is written down, every shard's new
state is stored, the callback publishes, the batch is committed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable

from runtime.epochs import ResultLog
from runtime.spark import processor
from runtime.spark.lane import Published, SparkLane
from runtime.spark.partitioning import shard_ids
from runtime.spark.processor import ShardProcessor
from runtime.spark.session import SparkConfig
from runtime.spark.source import EpochReader
from tests.simulation.faults import Faults

__all__ = ["Checkpoint", "SimulatedSpark"]

_OUTPUT = pa.schema(
    [
        ("shard", pa.int32()),
        ("from_epoch", pa.int64()),
        ("to_epoch", pa.int64()),
        ("view", pa.string()),
        ("kind", pa.string()),
        ("payload", pa.binary()),
    ]
)
_Pages = dict[tuple[Any, ...], tuple[Any, ...]]


class _Shard(msgspec.Struct):
    """A shard's state variables."""

    head: tuple[Any, ...] | None = None
    pages: _Pages = {}


class Checkpoint:
    """Spark's directory: outlives processes."""

    def __init__(self) -> None:
        self.spans: list[tuple[int, int]] = []
        """By batch: its offsets, written before it runs."""
        self.commits = 0
        """Batches that are committed."""
        self.synced = 0
        """Batches whose commit would outlive the machine."""
        self.states: dict[int, list[_Shard]] = {}
        """By the number of batches that are in it; of those that a restart may still need."""

    def committed_epoch(self) -> int:
        """What `runtime.spark.checkpoint` says, and syncs."""
        self.synced = self.commits
        return self.spans[self.commits - 1][1] if self.commits else 0

    def lose(self, chance: random.Random) -> None:
        """A machine has stopped: the newest entries of Spark's logs may be gone, which it does not sync."""
        if self.commits > self.synced and self.commits - 1 in self.states and chance.random() < 0.3:
            self.commits -= 1
        if len(self.spans) > self.commits and chance.random() < 0.3:
            del self.spans[self.commits :]


class _Value:
    """Spark's value state."""

    def __init__(self, shard: _Shard) -> None:
        self._shard = shard

    def exists(self) -> bool:
        return self._shard.head is not None

    def get(self) -> tuple[Any, ...] | None:
        return self._shard.head

    def update(self, row: tuple[Any, ...]) -> None:
        self._shard.head = row


class _Map:
    """Spark's map state."""

    def __init__(self, shard: _Shard) -> None:
        self._pages = shard.pages

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:
        return self._pages.get(key)

    def updateValue(self, key: tuple[Any, ...], row: tuple[Any, ...]) -> None:
        self._pages[key] = row

    def removeKey(self, key: tuple[Any, ...]) -> None:
        del self._pages[key]


class _Handle:
    def __init__(self, shard: _Shard) -> None:
        self._shard = shard

    def getValueState(self, name: str, schema: str) -> _Value:
        return _Value(self._shard)

    def getMapState(self, name: str, key_schema: str, value_schema: str) -> _Map:
        return _Map(self._shard)


class _Frame:
    """The answers of a batch, as a DataFrame whose one action gives them."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows

    def toArrow(self) -> pa.Table:
        return pa.Table.from_pylist(self._rows, schema=_OUTPUT)


class SimulatedSpark:
    """The streaming query of one process."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        config: SparkConfig,
        directory: Path,
        results: ResultLog,
        *,
        faults: Faults,
        on_published: Callable[[Published], None],
    ) -> None:
        self._checkpoint = checkpoint
        self._shards = config.shards
        self._epochs = str(directory / "epochs")
        self._faults = faults
        self._lane = SparkLane(
            cast(Any, None),
            config,
            directory / "epochs",
            directory / "checkpoint",
            results=results,
            on_published=on_published,
            snapshots=directory / "snapshots",
        )
        self._reader = EpochReader(
            {
                "path": self._epochs,
                "shards": str(config.shards),
                "max_epochs_per_batch": str(config.max_epochs_per_batch),
                "results": str(results.directory),
                "snapshots": str(directory / "snapshots"),
            }
        )
        self._workers: list[dict[Any, Any]] = [{}, {}]
        """What worker processes hold of shards; a batch may be given to either."""
        self._answers: list[dict[str, Any]] | None = None
        self._is_published = False

    def can_go_on(self, newest: int) -> bool:
        """Whether there is a batch to run, or an epoch to plan one for."""
        held = self._checkpoint
        return len(held.spans) > held.commits or newest > self._version

    @property
    def _version(self) -> int:
        spans = self._checkpoint.spans[: self._checkpoint.commits]
        return spans[-1][1] if spans else 0

    def go_on(self) -> None:
        """The next step of the batch that is under way, or the first of the next one."""
        held = self._checkpoint
        if len(held.spans) == held.commits:
            self._plan()
        elif self._answers is None:
            self._process(*held.spans[held.commits])
        elif not self._is_published:
            self._faults.point("batch callback")
            self._lane._publish(cast(Any, _Frame(self._answers)), held.commits)
            self._is_published = True
        else:
            self._commit()

    def _plan(self) -> None:
        begin = self._version
        end = self._reader.latestOffset({"epoch": begin}, ReadAllAvailable())["epoch"]
        assert end > begin, f"expected a batch behind epoch {begin}, was none"
        self._faults.point("offsets of the batch")
        self._checkpoint.spans.append((begin, end))
        self._faults.trace.say("batch {}: epochs ({}, {}]", self._checkpoint.commits, begin, end)

    def _process(self, begin: int, end: int) -> None:
        held, chance = self._checkpoint, self._faults.chance
        parts = self._reader.partitions({"epoch": begin}, {"epoch": end})
        rows = [row for part in reversed(parts) for found in self._reader.read(part) for row in found.to_pylist()]
        before = held.states.get(held.commits) or [_Shard() for _ in range(self._shards)]
        after = [_Shard(shard.head, dict(shard.pages)) for shard in before]
        answers: list[dict[str, Any]] = []
        ids = shard_ids(self._shards)
        for shard in chance.sample(range(self._shards), self._shards):
            processor._residents = chance.choice(self._workers)
            host = ShardProcessor(self._epochs, self._shards)
            host.init(cast(Any, _Handle(after[shard])))
            given = [row for row in rows if row["shard"] == ids[shard]]
            answers += [a.asDict() for a in host.handleInputRows((ids[shard],), cast(Any, iter(given)), None)]
            self._faults.point(f"state of shard {shard}")
        held.states[held.commits + 1] = after
        self._answers = answers

    def _commit(self) -> None:
        held = self._checkpoint
        self._faults.point("commit of the batch")
        held.commits += 1
        for old in [number for number in held.states if number < held.commits - 1]:
            del held.states[old]
        self._answers, self._is_published = None, False
        self._reader.commit({"epoch": held.spans[held.commits - 1][1]})

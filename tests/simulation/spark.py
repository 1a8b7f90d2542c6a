"""Simulated Spark: batches recorded in a log, and shards' states stored by batch.

The source, the processor and the publishing are the real ones; only Spark itself is simulated. A batch goes through
four steps, each durable before the next and each a place for a crash or a full disk: its span is logged, every shard's
new state is stored, one task after the other on some executor, the callback publishes, and the batch is committed.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

import msgspec
import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable

from runtime.epochs import EpochLogReader, ResultLog
from runtime.spark.beginning import Beginning
from runtime.spark.config import SparkConfig
from runtime.spark.lane import Published, SparkLane
from runtime.spark.planning import shard_ids
from runtime.spark.processor import ShardProcessor
from runtime.spark.published_state import read_published_state
from runtime.spark.source import EpochReader
from tests.simulation.executors import Answers, Attempt, Executor, StateFiles, TaskLostError, attempt
from tests.simulation.faults import Faults

__all__ = ["Checkpoint", "SimulatedSpark"]

_EXECUTORS: Final = 2
_MOST_LATE: Final = 3
_OUTPUT: Final = pa.schema(
    [
        ("shard", pa.int32()),
        ("from_epoch", pa.int64()),
        ("to_epoch", pa.int64()),
        ("view", pa.string()),
        ("kind", pa.string()),
        ("payload", pa.binary()),
    ]
)


class Checkpoint:
    """Spark's directory, which survives processes."""

    def __init__(self, shards: int = 0) -> None:
        """Create a checkpoint; ``shards`` is given for a run that was moved, whose old checkpoint cannot be used."""
        self.spans: list[tuple[int, int]] = []
        """Offsets of each batch, written before it runs."""
        self.commits = 0
        """Number of committed batches."""
        self.synced = 0
        """Number of batches whose commit would survive a crash of the machine."""
        self.states: defaultdict[int, StateFiles] = defaultdict(StateFiles)
        """State files by shard."""
        self.late: deque[Attempt] = deque(maxlen=_MOST_LATE)
        """Tasks that were given up and still run: they overwrite any state, even after the end of their driver."""

        self.begun = Beginning(shards, "", "", epoch=-1 if shards else 0)
        """Version before the first batch, -1 for the newest.

        Without shards, those of the process that opens it are used.
        """

    def begin(self, shards: int, results: ResultLog, log: EpochLogReader) -> Beginning:
        """Return the beginning, for a process that opens the checkpoint; see `SparkLane.fit_checkpoint`."""
        begun = self.begun
        if begun.epoch < 0:
            state = read_published_state(results, log)
            self.begun = msgspec.structs.replace(begun, epoch=results.latest(), failed=state.failed)
        elif not begun.shards:
            self.begun = msgspec.structs.replace(begun, shards=shards)
        return self.begun

    def passed_epoch(self) -> int:
        """Return the passed epoch as `runtime.spark.beginning` does, and sync."""
        self.synced = self.commits
        return self.spans[self.commits - 1][1] if self.commits else max(0, self.begun.epoch)

    def lose(self, chance: random.Random) -> None:
        """Lose the newest entries of Spark's logs, which it does not sync, in a crash of the machine."""
        self.late.clear()
        if self.commits > self.synced and chance.random() < 0.3:
            self.commits -= 1
        if len(self.spans) > self.commits and chance.random() < 0.3:
            del self.spans[self.commits :]


class _Frame:
    """Answers of a batch, as a DataFrame whose one action returns them."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows

    def toArrow(self) -> pa.Table:
        return pa.Table.from_pylist(self._rows, schema=_OUTPUT)


class SimulatedSpark:
    """Streaming query of one process."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        config: SparkConfig,
        directory: Path,
        results: ResultLog,
        log: EpochLogReader,
        *,
        faults: Faults,
        on_published: Callable[[Published], None],
    ) -> None:
        self._checkpoint = checkpoint
        begun = checkpoint.begin(config.shards, results, log)
        config = msgspec.structs.replace(config, shards=begun.shards)
        self._shards, self._base = config.shards, begun.epoch
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
        self._lane.adopt(begun)
        self._reader = EpochReader(self._lane.source_options(begun))
        self._executors = [Executor() for _ in range(_EXECUTORS)]
        self._rows: Answers | None = None
        """Rows that the source's tasks of the batch have read."""
        self._answers: dict[int, Answers] = {}
        """Answers of the batch, by shard."""
        self._is_published = False

    def can_go_on(self, newest: int) -> bool:
        """Return True if there is a batch to run, or an epoch to plan one for."""
        held = self._checkpoint
        return len(held.spans) > held.commits or newest > self._version

    @property
    def _version(self) -> int:
        spans = self._checkpoint.spans[: self._checkpoint.commits]
        return spans[-1][1] if spans else self._base

    def go_on(self) -> None:
        """Make the next step of the current batch, or the first of the next one; raise `OSError` from the disk."""
        held = self._checkpoint
        if len(held.spans) == held.commits:
            self._plan()
        elif len(self._answers) < self._shards:
            self._run_task(*held.spans[held.commits])
        elif not self._is_published:
            self._faults.point("batch callback")
            answers = [
                row
                for shard in self._faults.chance.sample(range(self._shards), self._shards)
                for row in self._answers[shard]
            ]
            self._lane._publish(cast(Any, _Frame(answers)), held.commits)
            self._is_published = True
        else:
            self._commit()

    def lose_executor(self) -> None:
        """Replace an executor by a new one; rows that it has read for others are read again."""
        place = self._faults.chance.randrange(_EXECUTORS)
        lost = self._executors[place]
        self._executors[place] = Executor()
        self._rows = None
        if self._faults.chance.random() < 0.5:  # otherwise it is only cut off, and its tasks continue
            late = self._checkpoint.late
            kept = [each for each in late if each.executor is not lost]
            late.clear()
            late.extend(kept)

    def hear_of_late(self) -> bool:
        """Let a task that was given up commit; return False if there is none."""
        late = self._checkpoint.late
        if late:
            found = late.popleft()
            self._faults.trace.say("shard {}: a task given up writes state {}", found.shard, found.version)
            found.commit()
            return True
        return False

    def _plan(self) -> None:
        begin = self._version
        end = self._reader.latestOffset({"epoch": begin}, ReadAllAvailable())["epoch"]
        assert end > begin, f"expected a batch behind epoch {begin}, was none"
        self._faults.point("offsets of the batch")
        self._expect_room("offsets of the batch")
        self._checkpoint.spans.append((begin, end))
        self._faults.trace.say("batch {}: epochs ({}, {}]", self._checkpoint.commits, begin, end)

    def _run_task(self, begin: int, end: int) -> None:
        """Attempt the task of one of the shards that have not answered."""
        held, faults = self._checkpoint, self._faults
        if self._rows is None:
            parts = self._reader.partitions({"epoch": begin}, {"epoch": end})
            self._rows = [
                row for part in reversed(parts) for found in self._reader.read(part) for row in found.to_pylist()
            ]
        shard = faults.chance.choice([shard for shard in range(self._shards) if shard not in self._answers])
        shard_id = shard_ids(self._shards)[shard]
        fate = faults.fate_of_task()
        try:
            made = attempt(
                faults.chance.choice(self._executors),
                held.states[shard],
                lambda: ShardProcessor(self._epochs, self._shards, self._base),
                shard=shard,
                shard_id=shard_id,
                version=held.commits + 1,
                rows=[row for row in self._rows if row["shard"] == shard_id],
                chance=faults.chance,
                is_lost=fate == "lost",
            )
        except TaskLostError:
            return
        if fate == "late":
            held.late.append(made)
            return
        faults.point(f"state of shard {shard}")
        self._expect_room(f"state of shard {shard}")
        made.commit()
        if fate != "unheard":
            self._answers[shard] = made.answers

    def _expect_room(self, what: str) -> None:
        refusal = self._faults.refusal(what, grows=True)
        if refusal is not None:
            raise refusal

    def _commit(self) -> None:
        held = self._checkpoint
        self._faults.point("commit of the batch")
        self._expect_room("commit of the batch")
        held.commits += 1
        self._rows, self._answers, self._is_published = None, {}, False
        self._reader.commit({"epoch": held.spans[held.commits - 1][1]})

"""Spark lane: one streaming query for all views, and the publication of its results.

A batch is published only when every shard has answered for the same span. It is published by writing a durable result
segment, before Spark's own commit of the batch. A batch that is run again after a crash keeps the existing segment, and
brings the shards' state to the same version.

A checkpoint does not fit (`runtime.spark.beginning`) if it is lost or was made elsewhere, with another number of
shards, or by another Spark. It is then replaced by a new one that begins after the newest published version. Later
versions are the same as without the replacement.

```
crash                                            what the next start finds, and does
batch planned, not run                           Spark's offset: plans the same span again
some shards have written their state             versions that no batch committed: runs from the state before them
result half written                              a hidden file: removes it, runs the batch again
result published, Spark's commit missing         result, offset: runs the batch again, the result stays
committed, the hub not notified                  result: the hub begins with the full result and later results
Spark's files not synced, power lost             an older commit: runs from there; retiring counts synced commits alone
```

A span always gives the same batch, because the log does not change and the snapshot of a backfill is pinned.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from twisted.logger import Logger

from runtime.epochs import EpochLogReader, Footer, ResultLog
from runtime.plan import Program, decode_program, lane_program
from runtime.spark.beginning import Beginning, begin, misfit, newest_commit, read_beginning, wanted
from runtime.spark.config import SparkConfig, SparkLaneError
from runtime.spark.planning import shard_ids
from runtime.spark.processor import OUTPUT_SCHEMA, ShardProcessor
from runtime.spark.published_state import PublishedState, read_published_state
from runtime.views.shardruns import decode_table

__all__ = ["BatchPace", "Published", "SparkLane"]

_COMMIT_LOOK_SECONDS: Final = 0.02
"""Poll interval in seconds for Spark's commit of a batch."""
_MOST_WAITING: Final = 16
"""Number of pending epochs from which a query counts as lagging, so that it does not pause between batches."""


class Published(msgspec.Struct, frozen=True):
    """Published version of all views."""

    from_epoch: int
    """Number of the previous version."""
    to_epoch: int
    """Number of the version."""
    changes: dict[str, pa.Table]
    """View → rows removed (negative weight) and added (positive weight)."""
    failed: dict[str, str]
    """View → reason why it failed in this version."""
    footer: Footer
    """Footer of the version's last epoch: cuts, time, messages."""
    program: Program | None = None
    """Catalogue from this version on; None if it is that of the previous version."""
    seconds: float = 0.0
    """Duration of the batch in seconds, from its first task until its results were durable."""


class SparkLane:
    """Runner of the streaming query over an epoch log, which publishes to a result log.

    ``on_published`` is called on a thread of Spark, once the version is durable; it must not block for long.
    """

    _logger = Logger()

    def __init__(
        self,
        session: SparkSession,
        config: SparkConfig,
        epochs: Path,
        checkpoint: Path,
        *,
        results: ResultLog,
        on_published: Callable[[Published], None],
        snapshots: Path | None = None,
        pace: BatchPace | None = None,
    ) -> None:
        """Create a lane that is not started.

        ``snapshots`` is the directory of the log's relation snapshots; with them, a new view need not read the log from
        its beginning. ``pace`` determines when batches begin; without it each batch follows the previous one at once.
        """
        self._session = session
        self._config = config
        self._compiles = not config.is_local  # workers of this machine load the kernels that the driver has compiled
        self._epochs = epochs.resolve()
        self._checkpoint = checkpoint.resolve()
        self._snapshots = snapshots.resolve() if snapshots else None
        self._log = EpochLogReader(self._epochs)
        self._results = results
        self._on_published = on_published
        # None again once the first batch of a new checkpoint is published.
        self._published_state: PublishedState | None = None
        self._query: StreamingQuery | None = None
        self._published = threading.Condition()
        self._failure: str | None = None
        self._ended = False
        self._stopped = False
        self._pace = pace

    def start(self, on_ended: Callable[[str | None], None] | None = None) -> None:
        """Start the query.

        When the query ends, ``on_ended`` is called on a separate thread with the reason, or with None after `stop`.
        """
        begun = self.fit_checkpoint()
        deltas = self._session.readStream.format("epochs").options(**self.source_options(begun)).load()
        processor = ShardProcessor(str(self._epochs), self._config.shards, begun.epoch, compiles=self._compiles)
        changes = deltas.groupBy("shard").transformWithState(processor, OUTPUT_SCHEMA, "Update", "None")
        writer = changes.writeStream.outputMode("update").foreachBatch(self._publish).queryName("views")
        self._query = writer.option("checkpointLocation", str(self._checkpoint)).start()
        threading.Thread(target=self._watch, args=(self._query, on_ended), name="spark-lane", daemon=True).start()
        if self._stopped:
            self.stop()

    def fit_checkpoint(self) -> Beginning:
        """Replace the checkpoint if it does not fit, and return its beginning; called once, by `start`."""
        here = wanted(self._checkpoint, self._config.shards)
        published = self._results.latest()
        why_not = misfit(self._checkpoint, here, published)
        begun = None if why_not else read_beginning(self._checkpoint)
        if begun is None:
            begun = begin(self._checkpoint, here, published, read_published_state(self._results, self._log).failed)
            if published:
                self._logger.warn(
                    "Spark's state in {checkpoint} cannot be continued ({why}): it is rebuilt from the snapshot and "
                    "the log at version {version}",
                    checkpoint=self._checkpoint,
                    why=why_not,
                    version=published,
                )
        self.adopt(begun)
        return begun

    def adopt(self, begun: Beginning) -> None:
        """Prepare to publish a checkpoint's batches; its first batch is published as changes of the published state."""
        is_first = 0 < begun.epoch == self._results.latest()
        self._published_state = read_published_state(self._results, self._log) if is_first else None

    def source_options(self, begun: Beginning) -> dict[str, str]:
        """Return the options of the streaming source."""
        options = {
            "path": str(self._epochs),
            "shards": str(self._config.shards),
            "max_epochs_per_batch": str(self._config.max_epochs_per_batch),
            "results": str(self._results.directory.resolve()),
            "base": str(begun.epoch),
            "failed": msgspec.json.encode(begun.failed).decode(),
            "compiles": "yes" if self._compiles else "no",
        }
        return options | ({"snapshots": str(self._snapshots)} if self._snapshots is not None else {})

    def wait_for(self, epoch: int, timeout_seconds: float) -> None:
        """Return once this version is published.

        Raises `SparkLaneError` if the query has ended, or if the time runs out.
        """
        with self._published:
            done = self._published.wait_for(lambda: self._ended or self._results.latest() >= epoch, timeout_seconds)
            if self._ended:
                raise SparkLaneError(self._failure or "the streaming query was stopped")
            if not done:
                raise SparkLaneError(
                    f"expected version {epoch} within {timeout_seconds} s, was {self._results.latest()}"
                )

    def finish(self, epoch: int, timeout_seconds: float) -> None:
        """Return once this version is published and Spark has committed its batch, so that no start runs it again.

        There are no pauses between batches from here on. Raises `SparkLaneError` if the query ends first or the time
        runs out.
        """
        give_up_s = time.monotonic() + timeout_seconds
        if self._pace is not None:
            self._pace.end()
        self.wait_for(epoch, timeout_seconds)
        while newest_commit(self._checkpoint) < epoch:
            with self._published:
                self._published.wait_for(lambda: self._ended, _COMMIT_LOOK_SECONDS)
                if self._ended:
                    raise SparkLaneError(self._failure or "the streaming query was stopped")
            if time.monotonic() >= give_up_s:
                raise SparkLaneError(f"expected Spark to commit version {epoch} within {timeout_seconds:g} s, did not")

    @property
    def has_failed(self) -> bool:
        """True if the query has ended and was not stopped."""
        with self._published:
            return self._failure is not None

    def raise_if_failed(self) -> None:
        """Raise `SparkLaneError` if the query has failed."""
        with self._published:
            if self._failure is not None:
                raise SparkLaneError(self._failure)

    def stop(self) -> None:
        """Stop the query; the current batch is abandoned, and the next start runs it again."""
        self._stopped = True
        if self._pace is not None:
            self._pace.end()
        query, self._query = self._query, None
        if query is not None:
            with suppress(Exception):  # if Spark has ended, the query has stopped, which py4j reports in many ways
                query.stop()

    def _watch(self, query: StreamingQuery, on_ended: Callable[[str | None], None] | None) -> None:
        reason: str | None = None
        try:
            query.awaitTermination()
        except PySparkException as error:
            reason = f"the streaming query failed: {_last_reason(str(error))}"
        except Exception as error:  # noqa: BLE001 (py4j raises its own when the JVM has ended)
            reason = f"Spark has ended: {type(error).__name__}"
        if self._stopped:
            reason = None  # an error of a query that is being stopped is not a failure
        elif reason is None:  # if a master has ended the application, no error is raised
            reason = "the streaming query was stopped by Spark"
        with self._published:
            self._failure = reason
            self._ended = True
            self._published.notify_all()
        if on_ended is not None:
            on_ended(reason)

    def _publish(self, batch: DataFrame, _: int) -> None:
        begun_s = time.monotonic()
        rows = batch.toArrow()  # the only action of the batch; a second one would run the processors again
        if not rows.num_rows:
            return
        published, control = self._gather(rows)
        footer = msgspec.structs.replace(
            published.footer,
            from_epoch=published.from_epoch,
            attributes={f"failed/{view}": reason for view, reason in published.failed.items()},
            control=control,
            sections=(),
        )
        sections = {view: table.to_batches() for view, table in published.changes.items()}
        with self._published:
            is_new = self._results.publish(published.from_epoch, published.to_epoch, sections, footer)
        self._published_state = None
        if is_new:
            self._on_published(msgspec.structs.replace(published, seconds=time.monotonic() - begun_s))
        with self._published:
            self._published.notify_all()
        if self._pace is not None:
            self._pace.rest(begun_s, published.to_epoch)

    def _gather(self, rows: pa.Table) -> tuple[Published, bytes]:
        """Merge the shards' answers; return them and the control record of their span, empty for none.

        Raises `SparkLaneError` unless every shard has answered, for the same span.
        """
        changes: dict[str, list[pa.Table]] = {}
        failed: dict[str, str] = {}
        complete: list[tuple[int, int, int]] = []
        for row in rows.to_pylist():
            if row["kind"] == "complete":
                complete.append((row["shard"], row["from_epoch"], row["to_epoch"]))
            elif row["kind"] == "failed":
                failed[row["view"]] = row["payload"].decode()
            else:
                changes.setdefault(row["view"], []).append(decode_table(row["payload"]))
        expected = sorted(shard_ids(self._config.shards))
        spans = {(begin, end) for _, begin, end in complete}
        if sorted(shard for shard, _, _ in complete) != expected or len(spans) != 1:
            raise SparkLaneError(f"expected one answer for one span from shards {expected}, was {complete}")
        begin, end = spans.pop()
        merged = {view: pa.concat_tables(tables) for view, tables in changes.items()}
        # A batch ends, at the latest, with the epoch before a new program.
        control = self._log.read(begin + 1).footer.control
        program = decode_program(control) if control else None
        if (state := self._published_state) is not None and state.version == begin:
            merged = state.until(merged, lane_program(program, "spark") if program else None)
            failed = {view: reason for view, reason in failed.items() if view not in state.failed}
        return Published(begin, end, merged, failed, self._log.read(end).footer, program), control


def _last_reason(text: str) -> str:
    """Return the relevant line of a Spark error: the innermost Python exception, else the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if line.split(":")[0].endswith("Error") and not line.startswith("at ")]
    return (named or lines or ["no reason given"])[-1 if named else 0][:500]


class BatchPace:
    """Pause of the streaming query between batches while its views have no subscribers.

    A batch has a fixed cost of at least 0.2 s of processor time, even for few rows. On a machine that Spark shares with
    the runtime, batches whose results nobody reads would delay the runtime's other work.

    `rest` is called by the thread that runs batches, the other methods on any thread.
    """

    def __init__(self, quiet_s: float, now_s: Callable[[], float] = time.monotonic) -> None:
        """Create a pace.

        ``quiet_s`` is the shortest time in seconds between two batches' beginnings without subscribers.
        """
        self._quiet_s, self._now_s = quiet_s, now_s
        self._changed = threading.Condition()
        self._is_listened_to = True
        self._is_over = False
        self._newest = -1
        self._urgent = -1

    def listened_to(self, is_listened_to: bool) -> None:
        """Note whether there are subscribers; until the first call it is assumed that there are."""
        with self._changed:
            self._is_listened_to = is_listened_to
            self._changed.notify_all()

    def sealed(self, epoch: int, *, is_awaited: bool) -> None:
        """Note that an epoch is sealed.

        ``is_awaited`` is True if a client waits for the version of this epoch, for example with a new view.
        """
        with self._changed:
            self._newest = epoch
            self._urgent = epoch if is_awaited else self._urgent
            self._changed.notify_all()

    def end(self) -> None:
        """Wake the thread that rests; later calls of `rest` return at once."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def rest(self, begun_s: float, version: int) -> None:
        """Wait until the next batch may begin.

        The last batch began at ``begun_s`` and made the version ``version``.
        """
        with self._changed:
            left_s = begun_s + self._quiet_s - self._now_s()
            self._changed.wait_for(lambda: self._is_due(version), max(0.0, left_s))

    def _is_due(self, version: int) -> bool:
        is_behind = self._newest - version >= _MOST_WAITING or self._urgent > version
        return is_behind or self._is_listened_to or self._is_over

"""Host of Spark in a live runtime: its session and lane, started and stopped outside the reactor's thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from twisted.logger import Logger

from runtime.epochs import ResultLog
from runtime.plan import Program
from runtime.spark.config import SparkLaneError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from runtime.spark.config import SparkConfig
    from runtime.spark.lane import BatchPace, Published, SparkLane

__all__ = ["SparkHost"]

_log: Final = Logger()
_MOST_FAILURES: Final = 3
"""Greatest number of restarts of the streaming query after failures at one version."""
_FIRST_VERSION_SECONDS: Final = 600.0
"""Timeout in seconds from Spark's start to its first version. The timeout is long, because a cluster's workers may
start late or a machine may be busy, and everything else is served meanwhile."""


class SparkHost:
    """Host of Spark for a run directory. `start` and `stop` must not overlap; other methods may run on any thread.

    Spark's modules are imported only by the methods that need them, because a runtime may run without Spark.
    """

    def __init__(
        self,
        config: SparkConfig,
        directory: Path,
        results: ResultLog,
        on_published: Callable[[Published], None],
        on_ended: Callable[[str | None], None],
    ) -> None:
        self._config = config
        self._directory = directory
        self._results = results
        self._on_published = on_published
        self._on_ended = on_ended
        self._session: SparkSession | None = None
        self._lane: SparkLane | None = None
        self._pace: BatchPace | None = None
        self._stopping = False
        self._changing = threading.Lock()
        self._is_up = False
        self._failures = 0
        self._failed_at = -1
        self.restarts = 0
        """Number of restarts of the streaming query after a failure."""
        self.ui_port: int | None = None
        """Port of Spark's own pages; None if they are not served."""

    @staticmethod
    def has_run(directory: Path) -> bool:
        """Return True if Spark has ever published in the directory, even if its checkpoint was lost since."""
        return (directory / "checkpoint").exists() or any((directory / "results").glob("[0-9]*"))

    @staticmethod
    def published(directory: Path) -> int:
        """Return the newest version that Spark has published in a run directory, 0 for none."""
        results = directory / "results"
        return ResultLog.newest_in(results) if results.is_dir() else 0

    @property
    def is_up(self) -> bool:
        """True once Spark runs and has published the epoch that `start` waits for."""
        return self._is_up

    def prepare(self, program: Program) -> None:
        """Compile the kernels of a program in the background, before it becomes the newest of the log."""
        from runtime.spark.kernels import request_kernels

        request_kernels(program, self._config.shards)

    def start(self, epoch: int) -> None:
        """Start Spark, and wait until this epoch is published or `give_up` is called.

        Raises `SparkLaneError` if that fails or takes too long.
        """
        from runtime.spark.session import start_session

        begun_s = time.monotonic()
        self._session = start_session(self._config, self._directory / "spark")
        session_s = time.monotonic()
        if url := self._session.sparkContext.uiWebUrl:
            self.ui_port = urlsplit(url).port
            _log.info("Spark's pages are at port {port}", port=self.ui_port)
        if self._stopping:
            return
        give_up_s = begun_s + _FIRST_VERSION_SECONDS
        while not self._is_up:
            lane = self._begin_lane()
            query_s = time.monotonic()
            try:
                lane.wait_for(epoch, give_up_s - time.monotonic())
                with self._changing:
                    lane.raise_if_failed()
                    self._is_up = True
            except SparkLaneError as error:
                if not lane.has_failed or not self._may_restart(str(error)):
                    raise
        up_s = time.monotonic()
        _log.info(
            "Spark is up after {all:.1f} s: session {session:.1f} s, query {query:.1f} s, first version {first:.1f} s",
            all=up_s - begun_s,
            session=session_s - begun_s,
            query=query_s - session_s,
            first=up_s - query_s,
        )
        cores = self._session.sparkContext.defaultParallelism
        if cores > self._config.shards:
            _log.warn(
                "{shards} shards leave {idle} of Spark's {cores} cores without work: --shards may be higher",
                shards=self._config.shards,
                idle=cores - self._config.shards,
                cores=cores,
            )

    def _begin_lane(self) -> SparkLane:
        """Start a streaming query, which resumes after the last published version."""
        from runtime.spark.lane import BatchPace, SparkLane

        assert self._session is not None
        self._pace = BatchPace(self._config.quiet_ms / 1000 if self._config.is_local else 0.0)
        lane = SparkLane(
            self._session,
            self._config,
            self._directory / "epochs",
            self._directory / "checkpoint",
            results=self._results,
            on_published=self._on_published,
            snapshots=self._directory / "snapshots",
            pace=self._pace,
        )
        with self._changing:
            self._lane = lane
        lane.start(self._ended)
        if self._stopping:
            lane.stop()
        return lane

    def _ended(self, reason: str | None) -> None:
        """Restart a lane that has ended, or report its end; called on the lane's thread.

        While Spark starts this does nothing, because `start` gets the error and decides about a restart.
        """
        with self._changing:
            if not self._is_up:
                return
        while reason is not None and self._may_restart(reason):
            try:
                self._begin_lane()
            except Exception as error:  # noqa: BLE001 (py4j and Spark raise their own)
                reason = f"the streaming query failed: {type(error).__name__}: {error}"
            else:
                return
        self._on_ended(reason)

    def _may_restart(self, reason: str) -> bool:
        """Return True if a failed query is to be restarted: Spark runs, and few failures occurred at this version.

        A restarted query recovers from the loss of a machine, and from a process that has not started in time. But a
        query that fails repeatedly at one version will not recover.
        """
        published = self._results.latest()
        self._failures = self._failures + 1 if published == self._failed_at else 1
        self._failed_at = published
        if self._stopping or self._failures > _MOST_FAILURES or not self._is_spark_alive():
            return False
        self.restarts += 1
        _log.error(
            "{reason}; started again, {failures} of {most} at version {version}",
            reason=reason,
            failures=self._failures,
            most=_MOST_FAILURES,
            version=published,
        )
        return True

    def _is_spark_alive(self) -> bool:
        try:
            return self._session is not None and not self._session.sparkContext._jsc.sc().isStopped()
        except Exception:  # noqa: BLE001 (py4j raises various errors if its Java has ended)
            return False

    def sealed(self, epoch: int, *, is_awaited: bool) -> None:
        """Notify the `BatchPace` of a sealed epoch; may run on any thread."""
        if self._pace is not None:
            self._pace.sealed(epoch, is_awaited=is_awaited)

    def listened_to(self, is_listened_to: bool) -> None:
        """Set whether views on Spark have subscribers or were read; otherwise Spark publishes fewer versions."""
        if self._pace is not None and self._is_up:
            self._pace.listened_to(is_listened_to)

    def finish(self, epoch: int, timeout_s: float) -> None:
        """Return once an epoch is published and committed.

        Raises `SparkLaneError` if that fails or takes too long, and at once if Spark is still starting.
        """
        with self._changing:
            lane = self._lane if self._is_up else None
        if lane is None:
            raise SparkLaneError("Spark was still starting")
        lane.finish(epoch, timeout_s)

    def give_up(self) -> None:
        """Abort a start that waits for its first version; `stop` must follow."""
        self._stopping = True
        with self._changing:
            lane = self._lane
        if lane is not None:
            lane.stop()

    def stop(self) -> None:
        """Stop the lane and Spark, each even if the other raises."""
        if self._session is None:
            return
        from runtime.spark.session import stop_session

        with ExitStack() as parts:
            parts.callback(stop_session, self._session)
            if self._lane is not None:
                parts.callback(self._lane.stop)

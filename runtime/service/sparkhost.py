"""Spark in a live runtime: the session and the lane on it, started and stopped off the reactor's thread."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from twisted.logger import Logger

from runtime.epochs import ResultLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from runtime.spark.lane import Published, SparkLane
    from runtime.spark.session import SparkConfig

__all__ = ["SparkHost"]

_log: Final = Logger()
_FIRST_VERSION_SECONDS: Final = 120.0
_CLUSTER_SECONDS: Final = 600.0
"""The same on a cluster, whose workers may be started after us."""


class SparkHost:
    """Spark for a run directory. `start` and `stop` run one after the other, `give_up` at any time, on any thread.

    Spark's modules are imported by `start`: a runtime without Spark views needs none of them.
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
        self._stopping = False
        self.ui_port: int | None = None
        """Of Spark's own pages; None where they are not served."""

    @staticmethod
    def has_run(directory: Path) -> bool:
        """Whether Spark has ever published there: its checkpoint may be lost, and is begun anew then."""
        return (directory / "checkpoint").exists() or any((directory / "results").glob("[0-9]*"))

    def start(self, epoch: int) -> None:
        """Start Spark, which takes some 20 s, and wait until this epoch is published, unless it is given up."""
        from runtime.spark.lane import SparkLane
        from runtime.spark.session import start_session

        self._session = start_session(self._config, self._directory / "spark")
        if url := self._session.sparkContext.uiWebUrl:
            self.ui_port = urlsplit(url).port
        if self._stopping:
            return
        self._lane = SparkLane(
            self._session,
            self._config,
            self._directory / "epochs",
            self._directory / "checkpoint",
            results=self._results,
            on_published=self._on_published,
            snapshots=self._directory / "snapshots",
        )
        self._lane.start(self._on_ended)
        self._lane.wait_for(epoch, _FIRST_VERSION_SECONDS if self._config.is_local else _CLUSTER_SECONDS)
        cores = self._session.sparkContext.defaultParallelism
        if cores > self._config.shards:
            _log.warn(
                "{shards} shards leave {idle} of Spark's {cores} cores without work: --shards may be higher",
                shards=self._config.shards,
                idle=cores - self._config.shards,
                cores=cores,
            )

    def give_up(self) -> None:
        """A start that waits for its first version ends; `stop` must follow."""
        self._stopping = True
        if self._lane is not None:
            self._lane.stop()

    def stop(self) -> None:
        """Stop the lane and Spark, each whatever the other raises."""
        if self._session is None:
            return
        from runtime.spark.session import stop_session

        with ExitStack() as parts:
            parts.callback(stop_session, self._session)
            if self._lane is not None:
                parts.callback(self._lane.stop)

"""Checks of a live runtime: `Watch` holds back stale lanes and pauses inputs, `SignOfLife` shows that the runtime
runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from runtime.epochs import FencedError
from runtime.plan import Lane
from runtime.service.config import LiveConfig
from runtime.service.health.lag import Freshness
from runtime.service.inputs.inputs import Inputs
from runtime.service.results.hub import Hub
from runtime.upstreams import Beat, write_beat

__all__ = ["SignOfLife", "Watch"]


class Watch:
    """Watch that holds back stale lanes, and pauses inputs while the disk is full. Belongs to the reactor's thread."""

    _log = Logger()

    def __init__(
        self,
        config: LiveConfig,
        hub: Hub,
        inputs: Inputs,
        freshness: Freshness,
        *,
        lanes: tuple[Lane, ...],
        sealed: Callable[[], int],
        is_spark_starting: Callable[[], bool],
    ) -> None:
        """Create the watch; ``lanes`` are the lanes that run, ``sealed`` returns the newest epoch."""
        self._config = config
        self._hub = hub
        self._inputs = inputs
        self._freshness = freshness
        self._lanes = lanes
        self._sealed = sealed
        self._is_spark_starting = is_spark_starting

    def beat(self, now_s: float) -> None:
        """Hold back the lanes whose views are stale, and send heartbeats; subscribers to versions of these lanes get
        none.

        Called every second. All lanes are stale while the inputs are lost; Spark's lane is also stale while Spark
        starts, or lags for too long.
        """
        hub = self._hub
        stale = self._stale_lanes(now_s)
        if hub.held_lanes != frozenset(stale):
            if stale:
                lanes = " and ".join(stale)
                self._log.warn("views of {lanes} are stale and are not published until they are fresh", lanes=lanes)
            else:
                self._log.info("views are fresh again")
            hub.hold(stale)
        hub.heartbeat()

    def _stale_lanes(self, now_s: float) -> tuple[Lane, ...]:
        if not self._inputs.is_receiving:
            return self._lanes
        version = self._hub.version if "spark" in self._lanes else self._sealed()
        is_fresh = self._freshness.is_fresh(version, now_s)
        return ("spark",) if self._is_spark_starting() or not is_fresh else ()

    def full(self, is_full: bool, used_megabytes: int) -> None:
        """Pause the inputs when the run directory has reached its limit, or resume them when it has room again."""
        limit = self._config.upkeep.limit_megabytes
        if is_full:
            self._inputs.pause(True)
            self._log.warn(
                "the feed is paused: {directory} holds {used} MB, the limit is {limit} (--disk-limit-megabytes)",
                directory=self._config.directory,
                used=used_megabytes,
                limit=limit,
            )
        else:
            self._inputs.pause(False)
            self._log.info("the feed is resumed: {used} MB of {limit}", used=used_megabytes, limit=limit)


class SignOfLife:
    """Writer of the file by which downstream runtimes detect that this runtime is alive, even in a quiet market.

    Nothing is written in a directory that another process has taken. Only one beat is written at a time; while a slow
    disk is busy with one, later beats are skipped. Belongs to the reactor's thread.
    """

    _log = Logger()

    def __init__(
        self,
        directory: Path,
        in_thread: Callable[[Callable[[], Any]], Deferred[Any]],
        check: Callable[[], None],
        on_fenced: Callable[[str], None],
    ) -> None:
        """Create the writer.

        ``check`` raises `FencedError` if another process has taken the directory; ``on_fenced`` gets the reason.
        """
        self._directory = directory
        self._in_thread = in_thread
        self._check = check
        self._on_fenced = on_fenced
        self._is_writing = False
        self._has_failed = False

    def beat(self, beat: Beat) -> None:
        """Check the claim and write a beat, unless the last one is still being written; called every second."""
        if self._is_writing:
            return
        self._is_writing = True
        self._in_thread(lambda: self._write(beat)).addCallbacks(self._written, self._failed)

    def _write(self, beat: Beat) -> None:
        try:
            self._check()
        except OSError as error:  # a single failure of the disk must not end the beats
            self._log.warn("the claim on {directory} cannot be read: {reason}",
                           directory=self._directory, reason=str(error))  # fmt: skip
        write_beat(self._directory, beat)

    def _written(self, _: object) -> None:
        self._is_writing = self._has_failed = False

    def _failed(self, failure: Failure) -> None:
        if isinstance(failure.value, FencedError):
            self._on_fenced(failure.getErrorMessage())
        elif not self._has_failed:  # logged once: a full disk fails every second
            self._log.warn("no sign of life in {directory}: {reason}", directory=self._directory,
                           reason=failure.getErrorMessage())  # fmt: skip
        self._is_writing, self._has_failed = False, True

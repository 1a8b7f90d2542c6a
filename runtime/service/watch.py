"""What watches a running runtime: whether its views are the market, and whether the feed may go on."""

from __future__ import annotations

from collections.abc import Callable

from twisted.logger import Logger

from runtime.plan import Lane
from runtime.service.config import LiveConfig
from runtime.service.freshness import Freshness
from runtime.service.hub import Hub
from runtime.service.inputs import Inputs

__all__ = ["Watch"]


class Watch:
    """Holds back lanes that are stale, and pauses what is read while the disk is full. On the reactor's thread."""

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
        """``lanes`` are those that run, ``sealed`` gives the newest epoch."""
        self._config = config
        self._hub = hub
        self._inputs = inputs
        self._freshness = freshness
        self._lanes = lanes
        self._sealed = sealed
        self._is_spark_starting = is_spark_starting

    def beat(self, now_s: float) -> None:
        """Hold back a lane while the feed is lost, or Spark starts or lags: its views are not the market.

        Subscribers of the other lanes get a heartbeat.
        """
        hub = self._hub
        stale = self._stale_lanes(now_s)
        if hub.held != frozenset(stale):
            if stale:
                lanes = " and ".join(stale)
                self._log.warn("views of {lanes} are stale: nobody hears of them until they are fresh", lanes=lanes)
            else:
                self._log.info("views are fresh again")
            hub.hold(stale)
        hub.heartbeat()

    def _stale_lanes(self, now_s: float) -> tuple[Lane, ...]:
        if not self._inputs.is_heard:
            return self._lanes
        version = self._hub.version if "spark" in self._lanes else self._sealed()
        is_fresh = self._freshness.is_fresh(version, now_s)
        return ("spark",) if self._is_spark_starting() or not is_fresh else ()

    def full(self, is_full: bool, used_megabytes: int) -> None:
        """The run directory has reached its limit, or there is room again."""
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
            self._log.info("the feed goes on: {used} MB of {limit}", used=used_megabytes, limit=limit)

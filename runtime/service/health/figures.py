"""The figures of a live runtime: of status lines, and of ``/v1/status``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from runtime.engine.ingest import EpochWriter, Ingest
from runtime.engine.streams import StreamFigures
from runtime.plan import Lane
from runtime.service.health.lag import Freshness, Lags
from runtime.service.health.metrics import EngineMetrics, Rate
from runtime.service.inputs.inputs import Inputs
from runtime.service.lanes.agreement import LaneAgreement
from runtime.service.lanes.spark import SparkHost
from runtime.service.results.hub import Hub
from runtime.service.rundir.upkeep import Upkeep

__all__ = ["RuntimeFigures", "RuntimeParts"]


class RuntimeParts(msgspec.Struct, frozen=True, eq=False):
    """Whom the figures are of."""

    writer: EpochWriter
    hub: Hub
    inputs: Inputs
    ingest: Ingest
    upkeep: Upkeep
    lags: Lags
    freshness: Freshness
    engine: EngineMetrics
    lanes: tuple[Lane, ...]
    """Those that run."""
    agreement: LaneAgreement
    term: int
    """Of the claim on the run directory."""
    spark: SparkHost
    sealed: Callable[[], int]
    """The newest epoch."""
    now_s: Callable[[], float]
    """The reactor's clock."""
    streams: Callable[[], Mapping[str, StreamFigures]] = dict
    """Derived streams, by name."""


class RuntimeFigures:
    """Asked on the reactor's thread."""

    def __init__(self, parts: RuntimeParts) -> None:
        self._parts = parts
        self._rate = Rate()

    def line(self) -> dict[str, int | float | str | None]:
        """Figures of the moment, for status lines."""
        parts = self._parts
        writer, hub, ingest, upkeep, feed = parts.writer, parts.hub, parts.ingest, parts.upkeep, parts.inputs.feed
        counters, now_s = parts.inputs.counters(), parts.now_s()
        has_express = any(view.lane == "express" for view in hub.views)
        spark = "off" if "spark" not in parts.lanes else "up" if parts.spark.is_up else "starting"
        waited_s = parts.freshness.waited_s(hub.version, now_s) if spark == "up" else None
        upstreams = parts.inputs.upstreams
        return {
            "feed_sequence": feed.origin.cut().sequence if feed else 0,
            "epoch": parts.sealed(),
            "published_epoch": min(hub.epoch(lane) for lane in parts.lanes),
            "express_epoch": hub.epoch("express"),
            "express_step": hub.step("express"),
            "spark": spark,
            "lag_ms": parts.lags.spark_ms(now_s, waited_s),
            "express_lag_ms": parts.lags.express_ms(now_s) if has_express else None,
            "messages": writer.recovered.messages if writer.recovered else 0,
            "rows_per_s": round(self._rate.per_second(counters["messages"], now_s), 1),
            "views": len(hub.views),
            "failed_views": len(hub.failed),
            "view_updates": hub.updates,
            "dead_letters": writer.dead_letters,
            "live_orders": counters["live_orders"],
            "unknown_orders": counters["unknown_orders"],
            "backlog": ingest.backlog,
            "nulled_values": feed.origin.counters().nulled if feed else 0,
            "waiting_bytes": ingest.waiting_bytes,
            "disk_bytes": upkeep.used_bytes,
            "paused": int(parts.inputs.is_paused),
            "upkeep_failed": upkeep.failed,
            "upkeep_failures": upkeep.failures,
            "spark_restarts": parts.spark.restarts,
            "lanes_differ": len(parts.agreement.differing()),
            "lane_comparisons": parts.agreement.comparisons,
            "lane_differences": parts.agreement.differences,
            "disconnected": parts.inputs.disconnected,
            "upstreams_silent": len(upstreams.silent),
            "upstream_lag_ms": upstreams.lag_ms,
            "term": parts.term,
        }

    def status(self) -> dict[str, Any]:
        """The same with what became of the tuples of each origin and what the engine does, for ``/v1/status``."""
        parts = self._parts
        return {
            **self.line(),
            "spark_ui_port": parts.spark.ui_port,
            "origins": parts.ingest.counters(),
            "engine": parts.engine.figures(),
            "upstreams": parts.inputs.upstreams.status(),
            "streams": parts.streams(),
        }

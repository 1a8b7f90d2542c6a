"""Figures of a live runtime, for status lines and ``/v1/status``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runtime.service.health.lag import Freshness, Lags
from runtime.service.health.metrics import Rate
from runtime.service.parts import LiveParts

__all__ = ["RuntimeFigures"]


class RuntimeFigures:
    """Status figures of a live runtime. Belongs to the reactor's thread."""

    def __init__(
        self,
        parts: LiveParts,
        lags: Lags,
        freshness: Freshness,
        *,
        sealed: Callable[[], int],
        now_s: Callable[[], float],
    ) -> None:
        """Create the figures; ``sealed`` returns the newest epoch, ``now_s`` is the reactor's clock in seconds."""
        self._parts, self._lags, self._freshness = parts, lags, freshness
        self._sealed, self._now_s = sealed, now_s
        self._rate = Rate()

    def line(self) -> dict[str, int | float | str | None]:
        """Return the current figures, for status lines."""
        parts = self._parts
        writer, hub, ingest, upkeep, feed = parts.writer, parts.hub, parts.ingest, parts.upkeep, parts.inputs.feed
        counters, now_s = parts.inputs.counters(), self._now_s()
        has_express = any(view.lane == "express" for view in hub.views)
        spark = "off" if "spark" not in parts.lanes else "up" if parts.spark.is_up else "starting"
        waited_s = self._freshness.waited_s(hub.version, now_s) if spark == "up" else None
        upstreams = parts.inputs.upstreams
        return {
            "feed_sequence": feed.origin.cut().sequence if feed else 0,
            "epoch": self._sealed(),
            "published_epoch": min(hub.epoch(lane) for lane in parts.lanes),
            "express_epoch": hub.epoch("express"),
            "express_step": hub.step("express"),
            "spark": spark,
            "lag_ms": self._lags.spark_ms(now_s, waited_s),
            "express_lag_ms": self._lags.express_ms(now_s) if has_express else None,
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
            "feed_ended": int(parts.inputs.has_ended),
            "upkeep_failed": upkeep.failed,
            "upkeep_failures": upkeep.failures,
            "spark_restarts": parts.spark.restarts,
            "lanes_differ": len(parts.agreement.differing()),
            "lane_comparisons": parts.agreement.comparisons,
            "lane_differences": parts.agreement.differences,
            "disconnected": parts.inputs.disconnected,
            "upstreams_silent": len(upstreams.silent),
            "upstream_lag_ms": upstreams.lag_ms,
            "term": parts.directory.claim.term,
        }

    def status(self) -> dict[str, Any]:
        """Return the figures for ``/v1/status``: those of `line`, and of origins, engine, upstreams and streams."""
        parts = self._parts
        return {
            **self.line(),
            "spark_ui_port": parts.spark.ui_port,
            "origins": parts.ingest.counters(),
            "engine": parts.engine_metrics.figures(),
            "upstreams": parts.inputs.upstreams.status(),
            "streams": parts.streams.figures(),
        }

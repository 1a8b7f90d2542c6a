"""Status, statistics and metrics of the runtime over HTTP, and the memory of its process."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from prometheus_client.metrics_core import CounterMetricFamily, Metric

from deltabook.wire.metrics import METRICS_PATH, counter, gauge, labelled
from deltabook.wire.service import CursorFigures, PostgresLine, RuntimeStatus, SiteLine, Statistics, ViewFigures
from runtime.service.health.metrics import RuntimeMetrics
from runtime.service.http.routes import JSON, TEXT, Answer, Call, Reply, Route, json_reply
from runtime.service.results.hub import Hub

__all__ = ["ReportRoutes"]


_LAGS = {"spark": "lag_ms", "express": "express_lag_ms"}
"""Lane → name of its lag in the status figures."""


class ReportRoutes:
    """Routes of ``/v1/status``, ``/v1/statistics`` and ``/metrics``."""

    def __init__(
        self,
        hub: Hub,
        status: Callable[[], Mapping[str, Any]],
        metrics: RuntimeMetrics | None,
        *,
        cursors: Callable[[], CursorFigures],
        site: Callable[[], SiteLine],
        postgres: Callable[[], PostgresLine] | None = None,
        now_ns: Callable[[], int],
    ) -> None:
        self._hub, self._status, self._metrics = hub, status, metrics
        self._cursors, self._site, self._postgres, self._now_ns = cursors, site, postgres, now_ns
        self._since_ns = now_ns()
        if metrics is not None:
            metrics.add(self._site_metrics)

    def routes(self) -> list[Route]:
        """Return the routes."""
        routes = [
            Route("GET", "/v1/status", "status", "Status figures of the runtime.",
                  (Answer(200, "the figures", RuntimeStatus, (JSON,)),), self._status_reply),
            Route("GET", "/v1/statistics", "statistics",
                  "Figures of the parts of the runtime: engine, origins, views, subscribers, cursors, connections.",
                  (Answer(200, "the figures", Statistics, (JSON,)),), self._counted),
        ]  # fmt: skip
        if (metrics := self._metrics) is None:
            return routes
        wanted = Answer(200, "in Prometheus's text format", str, (TEXT, "application/openmetrics-text"))

        def answer(call: Call) -> Reply:
            text, content_type = metrics.answer(call.request.getHeader("accept") or "")
            return Reply(200, text, content_type)

        return [*routes, Route("GET", METRICS_PATH, "metrics", "Metrics for a monitor.", (wanted,), answer)]

    def _status_reply(self, call: Call) -> Reply:
        del call
        return json_reply(self._status())

    def _counted(self, call: Call) -> Reply:
        del call
        status, hub, now_ns = self._status(), self._hub, self._now_ns()
        sealed = int(status["epoch"])
        return json_reply(
            Statistics(
                now_ns=now_ns,
                up_s=round((now_ns - self._since_ns) / 1e9, 3),
                epoch=sealed,
                memory_bytes=resident_bytes(),
                views=tuple(self._view(view.name, view.lane, sealed, status) for view in hub.views),
                subscribers=hub.subscribers,
                cursors=self._cursors(),
                site=self._site(),
                postgres=self._postgres() if self._postgres is not None else None,
                origins=status["origins"],
                engine=status["engine"],
            )
        )

    def _site_metrics(self) -> Iterator[Metric]:
        """Yield the metrics of this service: connections, subscribers, cursors, requests and refusals."""
        cursors, site, prefix = self._cursors(), self._site(), "deltabook_runtime"
        yield gauge(f"{prefix}_subscribers", "Subscribers of changes.", self._hub.subscribers)
        yield gauge(f"{prefix}_cursors", "Open cursors: results that clients read page by page.", cursors.open)
        yield gauge(f"{prefix}_cursor_bytes", "Bytes of the results of open cursors.", cursors.held_bytes)
        yield gauge(f"{prefix}_connections", "Connections of the results service.", site.connections)
        yield gauge(f"{prefix}_answer_bytes", "Bytes of answers that are being sent.", site.held_bytes)
        yield counter(f"{prefix}_requests", "Requests of the results service, since the start.", site.requests)
        refused = (
            (("connection",), float(site.refused_connections)),
            (("request",), float(site.refused_requests - site.failed_requests)),
            (("failure",), float(site.failed_requests)),
        )
        what = "Connections and requests that were refused, and requests that failed, since the start."
        yield labelled(CounterMetricFamily, f"{prefix}_refused", what, ("what",), refused)

    def _view(self, name: str, lane: Any, sealed: int, status: Mapping[str, Any]) -> ViewFigures:
        hub, result = self._hub, self._hub.result(name)
        return ViewFigures(
            name=name,
            lane=lane,
            rows=len(result),
            changed_rows=result.changes,
            epoch=hub.epoch(lane),
            step=hub.step_of(name),
            behind_epochs=max(0, sealed - hub.epoch(lane)),
            lag_ms=status[_LAGS[lane]] if lane in _LAGS else None,
            failed=hub.failed.get(name),
        )


def resident_bytes() -> int:
    """Return the memory of this process without its children, in bytes; its peak if the system reports nothing else."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024

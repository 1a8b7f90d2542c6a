# mypy: disable-error-code="no-untyped-call"
# twisted.web is typed in part only.
"""Table of the routes of the results service, built from the parts of a runtime."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from twisted.internet.threads import deferToThreadPool

from deltabook.wire.access import Access
from deltabook.wire.service import PostgresLine, SiteLine
from runtime.service.asking import Asker
from runtime.service.catalogue import Control
from runtime.service.health.metrics import RuntimeMetrics
from runtime.service.http.asking import AskRoutes
from runtime.service.http.changes import ChangeRoutes, StreamRoutes
from runtime.service.http.cursors import CursorRoutes
from runtime.service.http.limits import SiteLimits
from runtime.service.http.openapi import described
from runtime.service.http.readers import ReaderControl, ReaderRoutes
from runtime.service.http.reports import ReportRoutes
from runtime.service.http.routes import JSON, Answer, Reply, Route, Routes
from runtime.service.http.site import ResultsSite
from runtime.service.http.views import ViewRoutes
from runtime.service.lanes.agreement import LaneAgreement
from runtime.service.results.cursors import Cursors
from runtime.service.results.hub import Hub

__all__ = ["ServiceParts", "results_site"]


class ServiceParts(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of a runtime that the service uses."""

    hub: Hub
    """Views and their results."""
    status: Callable[[], Mapping[str, Any]]
    """Callable that returns the fields of `deltabook.wire.service.RuntimeStatus`."""
    cursors: Cursors
    """Cursors, which page through results."""
    control: Control | None = None
    """Control of the catalogue; None if views cannot be changed."""
    metrics: RuntimeMetrics | None = None
    """Metrics for a monitor; None for no such route."""
    readers: ReaderControl | None = None
    """Control of readers; None for no such routes."""
    explain_stream: Callable[[str], str] | None = None
    """Callable that returns the description of a derived stream; None if there are no streams."""
    agreement: LaneAgreement | None = None
    """Results of the comparison of both lanes; None if they are not compared."""
    asker: Asker | None = None
    """Answerer of questions; None for no such route."""
    postgres: Callable[[], PostgresLine] | None = None
    """Callable that returns the figures of the port for PostgreSQL clients; None if there is no such port."""


def results_site(
    parts: ServiceParts,
    reactor: Any,
    access: Access | None = None,
    limits: SiteLimits | None = None,
    now_ns: Callable[[], int] = time.time_ns,
) -> ResultsSite:
    """Return the site of the service; without ``access`` it admits programs of this machine only."""
    limits = limits or SiteLimits()
    description: list[bytes] = []

    def in_thread(call: Callable[[], Any]) -> Any:
        return deferToThreadPool(reactor, reactor.getThreadPool(), call)

    def site_line() -> SiteLine:
        return site.figures()

    what = "This description."
    of_itself = Answer(200, "OpenAPI 3.1", dict[str, Any], (JSON,))
    reports = ReportRoutes(
        parts.hub,
        parts.status,
        parts.metrics,
        cursors=parts.cursors.figures,
        site=site_line,
        postgres=parts.postgres,
        now_ns=now_ns,
    )
    routes = Routes(
        [
            *reports.routes(),
            *ViewRoutes(parts.hub, parts.control, limits, parts.agreement, parts.explain_stream).routes(),
            *CursorRoutes(parts.hub, parts.cursors, in_thread).routes(),
            *ChangeRoutes(parts.hub).routes(),
            *StreamRoutes(parts.hub, reactor, now_ns).routes(),
            *([] if parts.asker is None else AskRoutes(parts.asker, in_thread).routes()),
            *([] if parts.readers is None else ReaderRoutes(parts.readers).routes()),
            Route("GET", "/v1/openapi.json", "describe", what, (of_itself,), lambda _: Reply(200, description[0])),
        ]
    )
    access = access or Access()
    description.append(msgspec.json.encode(described(routes, limits, has_token=access.has_token)))
    site = ResultsSite(routes, access, limits, reactor)
    return site

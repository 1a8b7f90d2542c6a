# mypy: disable-error-code="no-untyped-call"
# twisted.web is typed in part only.
"""The table of the results service: which routes there are, given what there is to ask."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from twisted.internet.threads import deferToThreadPool

from deltabook.wire.access import Access
from deltabook.wire.service import PostgresLine, SiteLine
from runtime.service.asking import Asker
from runtime.service.catalogue.control import Control
from runtime.service.health.metrics import RuntimeMetrics
from runtime.service.http.asking import AskRoutes
from runtime.service.http.changes import ChangeRoutes
from runtime.service.http.cursors import CursorRoutes
from runtime.service.http.limits import SiteLimits
from runtime.service.http.openapi import described
from runtime.service.http.readers import ReaderControl, ReaderRoutes
from runtime.service.http.reports import ReportRoutes
from runtime.service.http.routes import JSON, Answer, Reply, Route, Routes
from runtime.service.http.site import ResultsSite
from runtime.service.http.stream import StreamRoutes
from runtime.service.http.views import ViewRoutes
from runtime.service.lanes.agreement import LaneAgreement
from runtime.service.results.cursors import Cursors
from runtime.service.results.hub import Hub

__all__ = ["ServiceParts", "results_site"]


class ServiceParts(msgspec.Struct, frozen=True, kw_only=True):
    """What the service tells of and changes."""

    hub: Hub
    """Views and their results."""
    status: Callable[[], Mapping[str, Any]]
    """See `deltabook.wire.service.RuntimeStatus`."""
    cursors: Cursors
    """Results that are looked at page by page."""
    control: Control | None = None
    """Changes the views; without it they stay as they are."""
    metrics: RuntimeMetrics | None = None
    """What a monitor is told."""
    readers: ReaderControl | None = None
    """What else is read; without it nothing can be."""
    explain_stream: Callable[[str], str] | None = None
    """A derived stream in words, by its name; without it there is none."""
    agreement: LaneAgreement | None = None
    """What comparing the two lanes of views has found."""
    asker: Asker | None = None
    """Answers questions; without it none can be asked."""
    postgres: Callable[[], PostgresLine] | None = None
    """Figures of the port of PostgreSQL's clients; without it there is none."""


def results_site(
    parts: ServiceParts,
    reactor: Any,
    access: Access | None = None,
    limits: SiteLimits | None = None,
    now_ns: Callable[[], int] = time.time_ns,
) -> ResultsSite:
    """The service's site, for programs of this machine unless ``access`` says otherwise."""
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

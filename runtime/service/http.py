# mypy: disable-error-code="no-untyped-call"
# twisted.web is typed in part only.
"""Results and status over HTTP, for programs on this machine.

``GET /v1/status``, ``/v1/views``, ``/v1/views/NAME``, ``/v1/views/NAME/explain`` and the endless
``/v1/changes?views=a,b``; see `deltabook.wire.results` for its frames. ``POST /v1/views`` and ``DELETE /v1/views/NAME``
change the catalogue; see `deltabook.wire.catalogue`. ``GET /metrics`` is for a Prometheus.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import msgspec
from twisted.internet.interfaces import IPushProducer
from twisted.web.http import Request
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Site
from zope.interface import implementer

from deltabook.wire.results import CONTENT_TYPE
from runtime.compiler import explain
from runtime.service.control import Control
from runtime.service.hub import Hub
from runtime.service.materialised import json_rows
from runtime.service.metrics import RuntimeMetrics
from runtime.service.subscription import Listener, Subscription

__all__ = ["results_site"]

_JSON: Final = msgspec.json.Encoder(decimal_format="number")
_PATHS: Final = "/v1/status, /v1/views, /v1/views/NAME, /v1/changes or /metrics"
_MOST_ROWS: Final = 100_000
"""Rows in one JSON answer, repeated ones counted: it is made on the reactor's thread."""


def _reply(request: Request, status: int, body: bytes, content_type: str = "application/json") -> bytes:
    request.setResponseCode(status)
    request.setHeader("content-type", content_type)
    request.setHeader("cache-control", "no-store")
    return body


def _not_allowed(request: Request) -> bytes:
    text = b"expected a runtime whose views may change, was one that keeps what it was begun with\n"
    return _reply(request, 405, text, "text/plain; charset=utf-8")


def _missing(request: Request, text: str) -> bytes:
    return _reply(request, 404, text.encode() + b"\n", "text/plain; charset=utf-8")


class _Leaf(Resource):
    """A resource without children whose answer a function makes."""

    isLeaf = True

    def __init__(self, answer: Callable[[Request], bytes | int]) -> None:
        super().__init__()
        self._answer = answer

    def render_GET(self, request: Request) -> bytes | int:
        return self._answer(request)


class _Change(Resource):
    """A resource without children that is only deleted."""

    isLeaf = True

    def __init__(self, change: Callable[[Request], bytes | int]) -> None:
        super().__init__()
        self._change = change

    def render_DELETE(self, request: Request) -> bytes | int:
        return self._change(request)


class _Unknown(Resource):
    """Any path that is none of the service's."""

    def getChild(self, path: bytes, request: Request) -> Resource:
        del path, request
        return _Leaf(lambda r: _missing(r, f"expected {_PATHS}, was {r.path.decode('ascii', 'replace')}"))


class _Views(Resource):
    """``/v1/views`` and what is below it."""

    def __init__(self, hub: Hub, control: Control | None) -> None:
        super().__init__()
        self._hub, self._control = hub, control
        self.allowedMethods = (b"GET", b"HEAD", b"POST") if control else (b"GET", b"HEAD")

    def render_POST(self, request: Request) -> bytes | int:
        return self._control.add(request) if self._control else _not_allowed(request)

    def render_GET(self, request: Request) -> bytes:
        hub = self._hub
        views = [
            {
                "name": view.name,
                "class": view.view_class,
                "lane": view.lane,
                "reason": view.reason,
                "columns": view.columns,
                "rows": len(hub.result(view.name)),
                "epoch": hub.epoch(view.lane),
                "step": hub.step(view.lane),
                "since": hub.since[view.name],
                "failed": hub.failed.get(view.name),
            }
            for view in hub.views
        ]
        return _reply(request, 200, _JSON.encode(views))

    def getChild(self, path: bytes, request: Request) -> Resource:
        name = path.decode("utf-8", "replace")
        if not name:
            return self
        control = self._control
        if request.method == b"DELETE" and control:  # also of a view that is not published yet
            return _Change(lambda r: control.drop(r, name))
        if all(view.name != name for view in self._hub.views):
            known = ", ".join(view.name for view in self._hub.views)
            return _Leaf(lambda r: _missing(r, f"expected one of the views {known}, was {name!r}"))
        return _View(self._hub, name)


class _View(Resource):
    """``/v1/views/NAME`` and ``/v1/views/NAME/explain``."""

    def __init__(self, hub: Hub, name: str) -> None:
        super().__init__()
        self._hub, self._name = hub, name
        text = explain(hub.explained(name), name).encode() + b"\n"
        attach: Any = self.putChild  # zope's interfaces are not known to mypy
        attach(b"explain", _Leaf(lambda r: _reply(r, 200, text, "text/plain; charset=utf-8")))

    def getChild(self, path: bytes, request: Request) -> Resource:
        del path, request
        known = f"/v1/views/{self._name} or .../explain"
        return _Leaf(lambda r: _missing(r, f"expected {known}, was {r.path.decode('ascii', 'replace')}"))

    def render_GET(self, request: Request) -> bytes:
        result = self._hub.result(self._name)
        if reason := self._hub.failed.get(self._name):
            return _reply(request, 409, f"view {self._name} failed: {reason}\n".encode(), "text/plain; charset=utf-8")
        if (total := result.total()) > _MOST_ROWS:
            text = f"expected at most {_MOST_ROWS} rows in one answer, was {total}; subscribe to /v1/changes\n"
            return _reply(request, 413, text.encode(), "text/plain; charset=utf-8")
        body = {
            "view": self._name,
            "epoch": result.version,
            "step": self._hub.step_of(self._name),
            "columns": [c.name for c in result.columns],
            "rows": json_rows(result.columns, result.rows()),
        }
        return _reply(request, 200, _JSON.encode(body))


@implementer(IPushProducer)
class _Flow:
    """Tells a subscription when its connection is full."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription

    def pauseProducing(self) -> None:
        self._subscription.pause()

    def resumeProducing(self) -> None:
        self._subscription.resume()

    def stopProducing(self) -> None:
        self._subscription.pause()


class _Connection(Listener):
    """The endless response as a subscription sees it."""

    def __init__(self, request: Request) -> None:
        self._request = request

    def write(self, data: bytes) -> None:
        self._request.write(data)

    def finish(self) -> None:
        self._request.unregisterProducer()
        self._request.finish()


def _changes(hub: Hub, request: Request) -> bytes | int:
    """The endless response: snapshots, then changes."""
    known = {view.name for view in hub.views}
    given = [
        n for part in cast(dict[bytes, list[bytes]], request.args or {}).get(b"views", []) for n in part.split(b",")
    ]
    names = [name.decode("utf-8", "replace") for name in given if name]
    unknown = [name for name in names if name not in known]
    if not names or unknown:
        was = ", ".join(unknown) or "none"
        return _missing(request, f"expected ?views= with names out of {', '.join(sorted(known))}, was {was}")
    request.setHeader("content-type", CONTENT_TYPE)
    request.setHeader("cache-control", "no-store")
    if request.transport is not None and hasattr(request.transport, "setTcpNoDelay"):
        request.transport.setTcpNoDelay(True)
    subscription = hub.subscribe(list(dict.fromkeys(names)), _Connection(request))
    if subscription is None:
        return _reply(request, 503, b"expected fewer subscribers\n", "text/plain; charset=utf-8")
    request.registerProducer(_Flow(subscription), True)
    request.notifyFinish().addBoth(lambda _: hub.unsubscribe(subscription))
    return NOT_DONE_YET


def _metrics(metrics: RuntimeMetrics, request: Request) -> bytes:
    text, content_type = metrics.answer(request.getHeader("accept") or "")
    return _reply(request, 200, text, content_type)


def results_site(
    hub: Hub,
    status: Callable[[], dict[str, Any]],
    control: Control | None = None,
    metrics: RuntimeMetrics | None = None,
) -> Site:
    """The service's site; requests and answers are limited in size. Without ``control`` the views stay as they are."""
    root: Any = _Unknown()
    version: Any = _Unknown()
    root.putChild(b"v1", version)
    version.putChild(b"status", _Leaf(lambda r: _reply(r, 200, _JSON.encode(status()))))
    version.putChild(b"views", _Views(hub, control))
    version.putChild(b"changes", _Leaf(lambda r: _changes(hub, r)))
    if metrics is not None:
        root.putChild(b"metrics", _Leaf(lambda r: _metrics(metrics, r)))
    site = Site(root, timeout=None)
    site.displayTracebacks = False
    return site

# mypy: disable-error-code="no-untyped-call"
# twisted.web is typed in part only.
"""Changes of the catalogue over HTTP: for programs on this machine, never for a page in a browser."""

from __future__ import annotations

import ipaddress
from typing import Any, Final, cast

import msgspec
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import Request
from twisted.web.server import NOT_DONE_YET

from deltabook.wire.catalogue import TIMEOUT_SECONDS, AddViews, Changed, ChangedView
from runtime.compiler import NamedSelect, SqlError
from runtime.compiler.program import View
from runtime.service.catalogue import Catalogue
from runtime.service.errors import CatalogueError, ServiceError, UnknownViewError
from runtime.service.hub import Hub

__all__ = ["Control"]

_MOST_BYTES: Final = 1024 * 1024
_LONGEST_SECONDS: Final = 3600.0


class Control:
    """Answers requests that change the catalogue."""

    _log = Logger()

    def __init__(self, hub: Hub, catalogue: Catalogue) -> None:
        self._hub, self._catalogue = hub, catalogue

    def add(self, request: Request) -> bytes | int:
        """``POST /v1/views``."""
        return self._answer(request, self._add)

    def drop(self, request: Request, name: str) -> bytes | int:
        """``DELETE /v1/views/NAME``."""
        return self._answer(request, lambda r: self._drop(r, name))

    def _answer(self, request: Request, change: Any) -> bytes | int:
        if (refusal := _refusal(request)) is not None:
            return _text(request, 403, refusal)
        gone: list[object] = []
        request.notifyFinish().addErrback(gone.append)  # the change goes on; only the answer has nowhere to go

        def reply(result: tuple[int, bytes] | Failure) -> None:
            status, body = _error(result, self._log) if isinstance(result, Failure) else result
            if not gone:
                is_text = status >= 400
                request.write(_text(request, status, body.decode()) if is_text else _json(request, status, body))
                request.finish()

        Deferred.fromCoroutine(change(request)).addBoth(reply)
        return NOT_DONE_YET

    async def _add(self, request: Request) -> tuple[int, bytes]:
        wanted = _decoded(request)
        names = [one.name for one in wanted.views]
        selects = [
            NamedSelect(one.name, one.sql, one.line, one.column, one.file, one.lane or "spark", any_lane=not one.lane)
            for one in wanted.views
        ]
        epoch = await self._catalogue.add(selects)
        self._log.info("views {names} are kept from epoch {epoch} on", names=", ".join(names), epoch=epoch)
        views = [view for view in self._catalogue.program.views if view.name in names]
        in_time = await self._is_published(epoch, _seconds(wanted.timeout_s), views)
        if failed := [f"view {name} failed: {self._hub.failed[name]}" for name in names if name in self._hub.failed]:
            return 409, "; ".join(failed).encode()
        return self._changed(epoch, views, in_time=in_time)

    async def _drop(self, request: Request, name: str) -> tuple[int, bytes]:
        timeout_s = _timeout(request)
        views = [view for view in self._catalogue.program.views if view.name == name]
        epoch = await self._catalogue.drop(name)
        self._log.info("view {name} is dropped from epoch {epoch} on", name=name, epoch=epoch)
        return self._changed(epoch, views, in_time=await self._is_published(epoch, timeout_s, views))

    async def _is_published(self, epoch: int, timeout_s: float, views: list[View]) -> bool:
        """Whether the lanes of these views have published the epoch in time."""
        waiting = [self._catalogue.when_published(epoch, timeout_s, lane) for lane in {view.lane for view in views}]
        return all([await one for one in waiting])

    def _changed(self, epoch: int, views: list[View], *, in_time: bool) -> tuple[int, bytes]:
        told = tuple(ChangedView(view.name, view.view_class, view.reason, view.lane) for view in views)
        version = min((self._hub.epoch(view.lane) for view in views), default=0)
        return 200 if in_time else 202, msgspec.json.encode(Changed(epoch, version, told))


def _refusal(request: Request) -> str | None:
    """Who may not change the catalogue: other machines, and pages, which a browser makes say where they are from."""
    host = str(getattr(request.getClientAddress(), "host", ""))
    try:
        address = ipaddress.ip_address(host)
        mapped = getattr(address, "ipv4_mapped", None)
        is_near = (mapped or address).is_loopback
    except ValueError:
        is_near = False
    if not is_near:
        return f"expected a change of the catalogue from this machine, was {host or 'an unknown address'}"
    if request.getHeader("origin") is not None:
        return f"expected a change of the catalogue from a program, was a page of {request.getHeader('origin')}"
    return None


def _decoded(request: Request) -> AddViews:
    content = cast(Any, request.content)
    body = content.read(_MOST_BYTES + 1)
    if len(body) > _MOST_BYTES:
        raise CatalogueError(f"expected a request of at most {_MOST_BYTES} bytes, was a longer one")
    try:
        wanted = msgspec.json.decode(body, type=AddViews)
    except msgspec.DecodeError as error:
        raise CatalogueError(f"expected views with name and sql as JSON, was {body[:80]!r}: {error}") from None
    if not wanted.views:
        raise CatalogueError("expected at least one view, was none")
    return wanted


def _timeout(request: Request) -> float:
    given = cast(dict[bytes, list[bytes]], request.args or {}).get(b"timeout_s", [])
    try:
        return _seconds(float(given[0])) if given else TIMEOUT_SECONDS
    except ValueError:
        raise CatalogueError(f"expected timeout_s in seconds, was {given[0]!r}") from None


def _seconds(timeout_s: float) -> float:
    return min(max(0.0, timeout_s), _LONGEST_SECONDS)


def _error(failure: Failure, log: Logger) -> tuple[int, bytes]:
    error = failure.value
    text = " ".join(str(error).split()).encode()
    if isinstance(error, UnknownViewError):
        return 404, text
    if isinstance(error, SqlError | ServiceError):
        return 400, text
    log.failure("a change of the catalogue", failure=failure)
    return 500, f"unexpected {type(error).__name__}: ".encode() + text


def _text(request: Request, status: int, text: str) -> bytes:
    request.setResponseCode(status)
    request.setHeader("content-type", "text/plain; charset=utf-8")
    request.setHeader("cache-control", "no-store")
    return text.encode() + b"\n"


def _json(request: Request, status: int, body: bytes) -> bytes:
    request.setResponseCode(status)
    request.setHeader("content-type", "application/json")
    request.setHeader("cache-control", "no-store")
    return body

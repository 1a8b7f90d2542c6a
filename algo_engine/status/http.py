# mypy: disable-error-code="no-untyped-call"
# twisted.web is typed in part only.
"""HTTP server of the status port."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import msgspec
from twisted.logger import Logger
from twisted.web.http import Request
from twisted.web.resource import Resource
from twisted.web.server import Site

from algo_engine.status.metrics import AlgoMetrics
from algo_engine.status.reports import Reports, UnknownStrategyError
from deltabook.wire import strategies
from deltabook.wire.access import Access
from deltabook.wire.metrics import METRICS_PATH
from deltabook.wire.site import MOST_BODY_BYTES, BoundedSite

__all__ = ["status_site"]

_ARGUMENTS: Final[dict[str, tuple[str, ...]]] = {
    strategies.STATUS_PATH: (),
    strategies.FILLS_PATH: ("after",),
    strategies.ORDERS_PATH: ("strategy",),
    strategies.KILL_PATH: (),
    METRICS_PATH: (),
}
"""Query arguments that each path accepts."""


class _Refused(Exception):
    """Answer with an error status and one line of text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class _Root(Resource):
    """Resource that answers every path of the status port."""

    _log = Logger()
    isLeaf = True

    def __init__(self, reports: Reports, metrics: AlgoMetrics, access: Access) -> None:
        super().__init__()
        self._reports, self._metrics, self._access = reports, metrics, access
        self._answers: Final[dict[str, Callable[[dict[str, str]], object]]] = {
            strategies.STATUS_PATH: lambda _: reports.strategies(),
            strategies.FILLS_PATH: lambda asked: reports.fills(_number(asked.get("after", "0"))),
            strategies.ORDERS_PATH: lambda asked: reports.orders(asked.get("strategy", "")),
        }

    def render(self, request: Request) -> bytes:
        """Answer a request with status 200, or with an error status and one line of text."""
        try:
            return _reply(request, 200, *self._answer(request))
        except _Refused as error:
            return _refuse(request, error.status, str(error))
        except UnknownStrategyError as error:
            return _refuse(request, 404, str(error))
        except Exception as error:  # noqa: BLE001 - a page of Twisted's is for people, and this port for programs
            self._log.failure("status: {path} failed", path=request.path)
            return _refuse(request, 500, f"expected an answer, was {type(error).__name__}: see the log")

    def _answer(self, request: Request) -> tuple[bytes, str]:
        self._admit(request)
        path, method = request.path.decode("ascii", "replace"), request.method
        if path not in _ARGUMENTS:
            raise _Refused(404, f"expected one of {', '.join(_ARGUMENTS)}, was {path[:80]}")
        allowed = {b"POST"} if path == strategies.KILL_PATH else {b"GET", b"HEAD"}
        if method not in allowed:
            request.setHeader("allow", b", ".join(sorted(allowed)).decode("ascii"))
            raise _Refused(
                405, f"expected {'POST' if b'POST' in allowed else 'GET'}, was {method[:20].decode('latin-1')}"
            )
        asked = _asked(request, _ARGUMENTS[path])
        if path == METRICS_PATH:
            return self._metrics.answer(request.getHeader("accept") or "")
        answer = self._kill(request) if path == strategies.KILL_PATH else self._answers[path](asked)
        return msgspec.json.encode(answer), "application/json"

    def _admit(self, request: Request) -> None:
        refusal = self._access.refusal(
            str(getattr(request.getClientAddress(), "host", "")),
            request.getHeader("authorization"),
            request.getHeader("origin"),
            request.getHeader("host"),
        )
        if refusal is not None:
            if refusal[0] == 401:
                request.setHeader("www-authenticate", "Bearer")
            raise _Refused(*refusal)

    def _kill(self, request: Request) -> strategies.Killed:
        body = cast(Any, request.content).read()
        if len(body) > MOST_BODY_BYTES:
            raise _Refused(413, f"expected a body of at most {MOST_BODY_BYTES} bytes, was a longer one")
        try:
            kill = msgspec.json.decode(body or b"{}", type=strategies.Kill)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _Refused(400, f"expected a Kill as JSON, was {body[:80]!r}: {error}") from None
        return self._reports.kill(kill)


def _asked(request: Request, names: tuple[str, ...]) -> dict[str, str]:
    given = cast(dict[bytes, list[bytes]], request.args or {})
    asked = {name.decode("utf-8", "replace"): values for name, values in given.items()}
    for name, values in asked.items():
        if name not in names:
            raise _Refused(400, f"expected {' or '.join(names) or 'no parameter'}, was {name[:80]}")
        if len(values) != 1:
            raise _Refused(400, f"expected {name} once, was {len(values)} times")
    return {name: values[0].decode("utf-8", "replace") for name, values in asked.items()}


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise _Refused(400, f"expected a whole number as after, was {text[:80]!r}")
    return int(text)


def _reply(request: Request, status: int, body: bytes, content_type: str) -> bytes:
    request.setResponseCode(status)
    request.setHeader("content-type", content_type)
    request.setHeader("cache-control", "no-store")
    request.setHeader("content-length", str(len(body)))
    return b"" if request.method == b"HEAD" else body


def _refuse(request: Request, status: int, text: str) -> bytes:
    return _reply(request, status, text.encode("utf-8", "replace") + b"\n", "text/plain; charset=utf-8")


def status_site(reports: Reports, metrics: AlgoMetrics, access: Access) -> Site:
    """Return the web site of the status port."""
    return BoundedSite(_Root(reports, metrics, access))

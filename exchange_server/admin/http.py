# mypy: disable-error-code="no-untyped-call"
# twisted.web is typed in part only.
"""The admin port: `deltabook.wire.admin` over HTTP, ``/metrics``, and the live page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast
from urllib.parse import unquote

import msgspec
from twisted.logger import Logger
from twisted.web.http import Request
from twisted.web.resource import Resource
from twisted.web.server import Site

from deltabook.wire import admin
from deltabook.wire.access import Access
from deltabook.wire.metrics import METRICS_PATH
from deltabook.wire.site import MOST_BODY_BYTES, PAGE_HEADERS, BoundedSite, page_files, refuse, reply
from deltabook.wire.strict_json import decode_strictly
from exchange_server.admin.changes import Changes
from exchange_server.admin.live import LiveFrames
from exchange_server.admin.metrics import ExchangeMetrics
from exchange_server.admin.reports import Reports
from exchange_server.errors import DamagedStreamError, OperationError, UnknownNameError

__all__ = ["admin_site"]

_DEPTH: Final = 10
"""Number of levels of a book in an answer whose request names no depth."""
_JSON: Final = "application/json"


class _Root(Resource):
    """Resource that answers every path of the admin port."""

    _log = Logger()
    isLeaf = True

    def __init__(self, reports: Reports, changes: Changes, metrics: ExchangeMetrics, access: Access) -> None:
        super().__init__()
        self._reports, self._changes, self._metrics, self._access = reports, changes, metrics, access
        self._live, self._page = LiveFrames(reports), page_files("exchange_server.admin")
        self._answers: Final[dict[str, Callable[[Request], object]]] = {
            admin.STATUS_PATH: lambda _: reports.status(),
            admin.STATISTICS_PATH: lambda request: reports.statistics(_argument(request, b"after", "")),
            admin.SESSIONS_PATH: lambda _: reports.sessions(),
            admin.ACCOUNTS_PATH: lambda request: reports.accounts(_argument(request, b"after", "")),
            admin.HASH_PATH: lambda _: reports.state_hash(),
            admin.REPLAY_PATH: lambda _: reports.replay(),
        }
        paths = {*self._answers, f"{admin.BOOK_PATH}SYMBOL", f"{admin.LIVE_PATH}SYMBOL", METRICS_PATH, "/"}
        self._readable, self._changeable = ", ".join(sorted(paths)), ", ".join(sorted(admin.CHANGES))

    def render(self, request: Request) -> bytes:
        """Answer a request with status 200, or with an error status and one line of text."""
        path = unquote(request.path.decode("ascii", "replace"))
        refusal = self._access.refusal_of(request)
        if refusal is not None and refusal[0] == 401:
            if path in self._page and request.method in {b"GET", b"HEAD"}:
                # The page itself needs no token: it has no market data, and asks its user for the token.
                return self._file(request, path)
            request.setHeader("www-authenticate", "Bearer")
        if refusal is not None:
            return refuse(request, *refusal)
        try:
            if request.method == b"POST":
                return self._post(request, path)
            if request.method in {b"GET", b"HEAD"}:
                return self._get(request, path)
        except UnknownNameError as error:
            return refuse(request, 404, str(error))
        except OperationError as error:
            return refuse(request, 409, str(error))
        except DamagedStreamError as error:
            self._log.error("{reason}", reason=str(error))
            return refuse(request, 500, str(error))
        except Exception as error:  # noqa: BLE001 - Twisted would answer with a page, and clients expect a line of text
            self._log.failure("admin: {path} failed", path=path)
            return refuse(request, 500, f"expected an answer, was {type(error).__name__}: see the exchange's log")
        request.setHeader("allow", "GET, HEAD, POST")
        return refuse(request, 405, f"expected GET or POST, was {request.method.decode('ascii', 'replace')}")

    def _get(self, request: Request, path: str) -> bytes:
        if path in self._page:
            return self._file(request, path)
        if path == METRICS_PATH:
            return reply(request, 200, *self._metrics.answer(request.getHeader("accept") or ""))
        for prefix, name, default, report in (
            (admin.BOOK_PATH, "depth", _DEPTH, self._reports.book),
            (admin.LIVE_PATH, "after", 0, self._live.frame),
        ):
            if path.startswith(prefix):
                number = _argument(request, name.encode("ascii"), str(default))
                if not (number.isascii() and number.isdigit() and len(number) < 20):
                    return refuse(request, 400, f"expected a whole number as {name}, was {number[:80]!r}")
                return _json(request, report(path.removeprefix(prefix), int(number)))
        answer = self._answers.get(path)
        if answer is None:
            return refuse(request, 404, f"expected to get one of {self._readable}, was {path[:80]}")
        return _json(request, answer(request))

    def _file(self, request: Request, path: str) -> bytes:
        for name, value in PAGE_HEADERS.items():
            request.setHeader(name, value)
        return reply(request, 200, self._page[path].body, self._page[path].content_type)

    def _post(self, request: Request, path: str) -> bytes:
        kind = admin.CHANGES.get(path)
        if kind is None:
            return refuse(request, 404, f"expected to post to one of {self._changeable}, was {path[:80]}")
        body = cast(Any, request.content).read()
        if len(body) > MOST_BODY_BYTES:
            return refuse(request, 413, f"expected a body of at most {MOST_BODY_BYTES} bytes, was a longer one")
        try:
            change: Any = decode_strictly(body, kind)
        except msgspec.DecodeError as error:
            return refuse(request, 400, f"expected a {kind.__name__} as JSON, was {body[:80]!r}: {error}")
        return _json(request, self._changes.make(change))


def _argument(request: Request, name: bytes, default: str) -> str:
    given = cast(dict[bytes, list[bytes]], request.args or {}).get(name)
    return given[-1].decode("utf-8", "replace") if given else default


def _json(request: Request, answer: object) -> bytes:
    return reply(request, 200, msgspec.json.encode(answer), _JSON)


def admin_site(reports: Reports, changes: Changes, metrics: ExchangeMetrics, access: Access) -> Site:
    """Return the web site of the admin port."""
    return BoundedSite(_Root(reports, changes, metrics, access))

# mypy: disable-error-code="no-untyped-call"
# twisted.web is typed in part only.
"""Route of the WebSocket for pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deltabook.wire.stream import LONGEST_REQUEST_BYTES, STREAM_PATH
from runtime.service.http.routes import Answer, Call, Handled, Refusal, Route
from runtime.service.results.hub import Hub
from runtime.service.subscriptions import NotUpgradedError, Page, upgraded

__all__ = ["StreamRoutes"]


class StreamRoutes:
    """``/v1/stream``."""

    def __init__(self, hub: Hub, reactor: Any, now_ns: Callable[[], int]) -> None:
        self._hub, self._reactor, self._now_ns = hub, reactor, now_ns

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("GET", STREAM_PATH, "stream", "Snapshots and changes as JSON for pages, over a WebSocket.",
                  (Answer(101, "a WebSocket; see deltabook.wire.stream for its messages", None, ()),
                   Answer(426, "the request does not ask for a WebSocket")),
                  self._stream, endless=True),
        ]  # fmt: skip

    def _stream(self, call: Call) -> Handled:
        try:
            return upgraded(
                call.request,
                self._reactor,
                LONGEST_REQUEST_BYTES,
                lambda socket: Page(socket, self._hub, self._reactor.seconds, self._now_ns),
            )
        except NotUpgradedError as error:
            headers = {"upgrade": "websocket", "connection": "upgrade", "sec-websocket-version": "13"}
            raise Refusal(426, f"expected a request for a WebSocket, was another request: {error}", headers) from None

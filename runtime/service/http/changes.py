# mypy: disable-error-code="no-untyped-call"
# twisted.web is typed in part only.
"""Subscriptions over HTTP: snapshots of views, followed by their changes.

The answer of `ChangeRoutes` has no end and consists of frames of `deltabook.wire.results`. `StreamRoutes` opens a
WebSocket, over which pages receive the same messages as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from twisted.internet.interfaces import IPushProducer
from twisted.web.http import Request
from twisted.web.server import NOT_DONE_YET
from zope.interface import implementer

from deltabook.wire.advice import did_you_mean
from deltabook.wire.service import LAST_EPOCH
from deltabook.wire.stream import LONGEST_REQUEST_BYTES, STREAM_PATH
from deltabook.wire.websocket import UPGRADE_HEADERS, NotUpgradedError, upgraded
from runtime.service.http.routes import FRAMES, Answer, Call, Handled, Parameter, Refusal, Route
from runtime.service.results.hub import Hub
from runtime.service.subscriptions import (
    Listener,
    Message,
    Page,
    Start,
    Subscription,
    arrow_frame,
)

__all__ = ["ChangeRoutes", "StreamRoutes"]


@implementer(IPushProducer)
class _Flow:
    """Producer that pauses a subscription while its connection is full."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription

    def pauseProducing(self) -> None:
        self._subscription.pause()

    def resumeProducing(self) -> None:
        self._subscription.resume()

    def stopProducing(self) -> None:
        self._subscription.pause()


class _Connection(Listener):
    """Listener of a subscription that writes to an endless answer."""

    reads_arrow = True

    def __init__(self, request: Request) -> None:
        self._request = request

    def write(self, message: Message) -> None:
        self._request.write(message.encoded(arrow_frame))

    def flush(self) -> None:
        """Do nothing: the transport writes once a turn."""

    def finish(self) -> None:
        self._request.unregisterProducer()
        self._request.finish()


def parsed_start(names: Sequence[str], text: str) -> dict[str, int]:
    """Return the epoch of each view, read from ``EPOCH`` (for all views) or ``VIEW:EPOCH,…`` (for some of them).

    Raises `ValueError` for other text.
    """
    if not text:
        return {}
    if ":" not in text:
        return dict.fromkeys(names, _epoch(text))
    start: dict[str, int] = {}
    for part in text.split(","):
        name, _, epoch = part.rpartition(":")
        if name not in names or name in start:
            raise ValueError(f"expected VIEW:EPOCH of a view that is asked for, each once, was {part[:80]!r}")
        start[name] = _epoch(epoch)
    return start


def _epoch(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= LAST_EPOCH):
        raise ValueError(f"expected the number of an epoch, was {text[:80]!r}")
    return int(text)


class ChangeRoutes:
    """Routes of ``/v1/changes``."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def routes(self) -> list[Route]:
        """Return the routes."""
        by: object = Literal["version", "epoch"]
        return [
            Route("GET", "/v1/changes", "subscribe", "Snapshots of views, then their changes, without end.",
                  (Answer(200, "frames of a JSON header and an Arrow stream", bytes, (FRAMES,)),
                   Answer(404, "there is no such view"), Answer(503, "there are too many subscribers")),
                  self._changes,
                  parameters=(
                      Parameter("views", str, "names of views, with commas between them"),
                      Parameter("by", by, "versions as they come, or committed epochs, each exactly once", "version"),
                      Parameter("from", str, "by=epoch: the newest EPOCH that is known, or VIEW:EPOCH,…", ""),
                      Parameter("run", str, "by=epoch: the run of these epochs, from the header deltabook-run", ""),
                  ),
                  endless=True),
        ]  # fmt: skip

    def _changes(self, call: Call) -> Handled:
        hub, request = self._hub, call.request
        known = {view.name for view in hub.views}
        names = list(dict.fromkeys(name for name in call.query["views"].split(",") if name))
        unknown = [name for name in names if name not in known]
        if not names or unknown:
            was = ", ".join(unknown)[:80] or "none"
            meant = did_you_mean(unknown[0], known) if unknown else ""
            raise Refusal(404, f"expected ?views= with names out of {', '.join(sorted(known))}, was {was}{meant}")
        start = self._start(names, call)
        subscription = hub.subscribe(names, _Connection(request), start)
        if subscription is None:
            text = f"expected at most {hub.most_subscribers} subscribers, was one more"
            raise Refusal(503, text, {"retry-after": "1"})
        request.setHeader("content-type", FRAMES)
        request.setHeader("cache-control", "no-store")
        if hub.committed is not None:
            request.setHeader("deltabook-run", hub.committed.run)
        if request.transport is not None and hasattr(request.transport, "setTcpNoDelay"):
            request.transport.setTcpNoDelay(True)
        request.registerProducer(_Flow(subscription), True)
        request.notifyFinish().addBoth(lambda _: hub.unsubscribe(subscription))
        request.write(b"")  # sends the headers, so that the client knows before the first frame that it is subscribed
        subscription.catch_up()
        return NOT_DONE_YET

    def _start(self, names: Sequence[str], call: Call) -> Start | None:
        epoch, run = call.query["from"], call.query["run"]
        if call.query["by"] == "version":
            if epoch or run:
                raise Refusal(400, "expected by=epoch with from and run, as versions cannot be resumed")
            return None
        if self._hub.committed is None:
            raise Refusal(409, "expected a runtime that commits epochs, was one without")
        try:
            return Start(parsed_start(names, epoch), run)
        except ValueError as error:
            raise Refusal(400, str(error)) from None


class StreamRoutes:
    """Routes of ``/v1/stream``."""

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
            text = f"expected a request for a WebSocket, was another request: {error}"
            raise Refusal(426, text, UPGRADE_HEADERS) from None

"""Subscription to the runtime's change streams: HTTP, one endless response, with reconnection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure

from algo_engine.clocks import Clock
from algo_engine.errors import AlgoError, ResultsRefused, ViewNotOffered
from algo_engine.links.backoff import LinkTimes, Retry, Watchdog
from deltabook.wire.http.peer import RefusedError
from deltabook.wire.http.reactor import ReactorPort
from deltabook.wire.results import Frame, FrameDecoder, FrameError

__all__ = ["ResultsLink", "check_offer"]


_ACCESS_REFUSED = (401, 403)
"""Statuses of an answer that refuses access."""


class _Column(msgspec.Struct, frozen=True):
    name: str


class _Offer(msgspec.Struct, frozen=True):
    name: str
    columns: list[_Column] = []


_offers = msgspec.json.Decoder(list[_Offer])


def check_offer(data: bytes, wanted: Mapping[str, Iterable[str]]) -> None:
    """Compare the runtime's list of views with the wanted views and columns.

    Raise `ViewNotOffered` for a missing view or column, and for data of another form.
    """
    try:
        offered = {offer.name: [column.name for column in offer.columns] for offer in _offers.decode(data)}
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ViewNotOffered(f"expected a list of views from the runtime, was {data[:80]!r}: {error}") from None
    for view, columns in wanted.items():
        if view not in offered:
            raise ViewNotOffered(
                f"expected the runtime to keep the view {view}, was {', '.join(sorted(offered)) or 'no view'}"
            )
        missing = [column for column in columns if column not in offered[view]]
        if missing:
            raise ViewNotOffered(
                f"expected the view {view} to have the columns {', '.join(missing)}, was {', '.join(offered[view])}"
            )


class _Frames(Protocol):
    """Body of the endless response."""

    def __init__(
        self,
        link: ResultsLink,
        on_read: Callable[[], None],
        on_frame: Callable[[Frame], None],
        watchdog: Watchdog,
    ) -> None:
        self._link, self._on_read, self._on_frame, self._watchdog = link, on_read, on_frame, watchdog
        self._decoder = FrameDecoder()

    def connectionMade(self) -> None:
        self._watchdog.received()

    def dataReceived(self, data: bytes) -> None:
        self._on_read()
        self._watchdog.received()
        try:
            for frame in self._decoder.feed(data):
                self._on_frame(frame)
        except FrameError as error:
            self._link.broken(str(error))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._watchdog.stop()
        self._link.disconnected(reason.getErrorMessage())

    def abort(self) -> None:
        """Close the connection that carries the response."""
        # The response's transport is a proxy whose interface lacks this method; readBody accesses it in the same way.
        abort = getattr(self.transport, "abortConnection", None)
        if abort is not None:
            abort()


class ResultsLink:
    """Requests the list of views once, then keeps one subscription to all wanted views."""

    _log = Logger()

    def __init__(
        self,
        *,
        port: ReactorPort,
        wanted: Mapping[str, Iterable[str]],
        on_frame: Callable[[Frame], None],
        on_subscribed: Callable[[], None],
        on_lost: Callable[[], None],
        on_failure: Callable[[Exception], None],
        clock: Clock,
        times: LinkTimes,
        on_read: Callable[[], None] = lambda: None,
    ) -> None:
        """Create a link; ``on_read`` is called with every piece of the stream, before its frames are handled."""
        self._on_read = on_read
        self._port, self._wanted = port, dict(wanted)
        self._on_frame, self._on_failure = on_frame, on_failure
        self._on_subscribed, self._on_lost = on_subscribed, on_lost
        self._retry = Retry(clock, times, f"the runtime at {port.peer.where}", on_failure)
        self._watchdog = Watchdog(clock, times.silence_s, lambda: self.broken("no message received in time"))
        self._frames: _Frames | None = None
        self._is_checked = False
        self._is_stopped = False
        self._request: Deferred[Any] | None = None

    @property
    def reconnects(self) -> int:
        """Number of times that the subscription to the runtime was lost."""
        return self._retry.losses

    def start(self) -> None:
        """Check the offered views, then subscribe; reconnect whenever the connection is lost."""
        if self._is_checked:
            self._subscribe()
            return
        self._request = Deferred.fromCoroutine(self._port.ask("GET", "/v1/views"))
        self._request.addCallback(self._offered).addErrback(self._unreachable)

    def stop(self) -> None:
        """Close the subscription permanently."""
        self._is_stopped = True
        self._retry.cancel()
        if self._frames is not None:
            self._frames.abort()
        elif self._request is not None:
            self._request.cancel()

    def broken(self, reason: str) -> None:
        """Subscribe again with a snapshot, since the received data is unusable or nothing arrives."""
        self._log.warn("runtime: {reason}; subscribing again", reason=reason)
        if self._frames is not None:
            self._frames.abort()

    def disconnected(self, reason: str) -> None:
        """Note that the subscription was lost, and retry."""
        self._frames = None
        if self._is_stopped:
            return
        self._on_lost()
        self._retry.again(self.start, reason)

    def _offered(self, data: bytes) -> None:
        try:
            check_offer(data, self._wanted)
        except AlgoError as error:
            self._is_stopped = True
            self._on_failure(error)
            return
        self._is_checked = True
        self._subscribe()

    def _subscribe(self) -> None:
        names = ",".join(quote(view, safe="") for view in self._wanted)
        self._request = self._port.begin("GET", f"/v1/changes?views={names}")
        self._request.addCallbacks(self._subscribed, self._unreachable)

    def _subscribed(self, response: Any) -> None:
        if response.code != 200:
            self._port.read(response).addBoth(lambda _: None)
            self.disconnected(f"HTTP {response.code}")
            return
        self._retry.succeeded()
        self._on_subscribed()
        self._frames = _Frames(self, self._on_read, self._on_frame, self._watchdog)
        response.deliverBody(self._frames)

    def _unreachable(self, failure: Failure) -> None:
        if self._is_stopped:
            return
        error: object = failure.value
        if isinstance(error, RefusedError) and error.status in _ACCESS_REFUSED:
            error = ResultsRefused(
                f"expected access to the runtime (--results-token-file), was HTTP {error.status}: {error}"
            )
        if isinstance(error, AlgoError):
            self._is_stopped = True
            self._on_failure(error)
            return
        self._retry.again(self.start, failure.getErrorMessage())

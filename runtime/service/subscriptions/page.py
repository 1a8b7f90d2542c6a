"""Subscriptions of a browser page over a WebSocket; `deltabook.wire.stream` defines the requests and events."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, Protocol

import msgspec

from deltabook.wire.service import ColumnLine
from deltabook.wire.stream import (
    BAD_DATA,
    MOST_CREDIT,
    MOST_SUBSCRIPTIONS,
    TOO_BUSY,
    Ended,
    Event,
    Failed,
    Hello,
    Next,
    Ping,
    Pong,
    Request,
    StreamHeartbeat,
    StreamView,
    Subscribe,
    Subscribed,
)
from deltabook.wire.strict_json import decode_strictly
from deltabook.wire.websocket import WebSocket
from runtime.plan import View
from runtime.service.subscriptions.committed import CommittedViews, Start
from runtime.service.subscriptions.subscription import Listener, Subscription
from runtime.service.subscriptions.viewstream import Message

__all__ = ["Page", "Views"]

_MOST_ROWS: Final = 50_000
"""Greatest number of rows of one change, which is encoded on the reactor's thread and drawn by a page."""
_FRAME_BYTES: Final = 1024 * 1024
"""Size in bytes of a frame from which on messages of further views wait for the next frame."""
_REQUESTS_PER_S: Final = 200.0
"""Rate of requests that a page may send without interruption."""
_BURST: Final = 400.0
"""Number of requests that a page may send at once after a pause."""
_SAFE: Final = 2**53 - 1
"""Greatest integer up to which JavaScript's numbers are exact."""

_events: Final = msgspec.json.Encoder()


class Views(Protocol):
    """Views that pages may follow; implemented by the hub."""

    committed: CommittedViews | None

    @property
    def views(self) -> tuple[View, ...]:
        """All views that exist."""

    @property
    def most_subscribers(self) -> int:
        """Greatest number of subscribers."""

    def subscribe(self, names: list[str], listener: Listener, start: Start | None = None) -> Subscription | None:
        """See `Hub.subscribe`."""

    def unsubscribe(self, subscription: Subscription) -> None:
        """See `Hub.unsubscribe`."""


class _Followed(Listener):
    """Listener of a page's subscription, which sends messages in frames; the page's credit bounds the number of
    frames."""

    def __init__(self, page: Page, name: str, credit: int) -> None:
        self.subscription: Subscription | None = None
        self.credit = credit
        self._page = page
        self._name = name
        self._parts: list[bytes] = []
        self._bytes = 0
        self._is_cut = False

    def write(self, message: Message) -> None:
        if message.header.kind == "heartbeat":
            self._page.send_event(StreamHeartbeat(self._name, message.header.to_epoch, message.header.time_ns))
            return
        part = message.encoded(_change)
        self._parts.append(part)
        self._bytes += len(part)
        if self._bytes >= _FRAME_BYTES and self.subscription is not None:
            self._is_cut = True
            self.subscription.pause()  # messages of further views wait for the next frame
        if message.rows is not None and message.rows.num_rows > _MOST_ROWS and self.subscription is not None:
            self.subscription.leave(message.header.view)

    def flush(self) -> None:
        if not self._parts:
            return
        parts, self._parts, self._bytes = self._parts, [], 0
        is_cut, self._is_cut = self._is_cut, False
        self.credit -= 1
        if self.credit <= 0 and self.subscription is not None:
            self.subscription.pause()
        name = _events.encode(self._name)
        self._page.send(b'{"type":"frame","id":' + name + b',"changes":[' + b",".join(parts) + b"]}")
        if is_cut:
            self.update(is_full=self._page.is_full)

    def finish(self) -> None:
        self._page.ended(self._name)

    def update(self, *, is_full: bool) -> None:
        """Pause or resume the subscription after a change of its credit or of the connection's room."""
        if self.subscription is not None:
            if self.credit > 0 and not is_full:
                self.subscription.resume()
            else:
                self.subscription.pause()


class Page:
    """Connection of a page. Belongs to the reactor's thread."""

    def __init__(
        self, socket: WebSocket, views: Views, seconds: Callable[[], float], now_ns: Callable[[], int]
    ) -> None:
        self._socket = socket
        self._views = views
        self._seconds = seconds
        self._now_ns = now_ns
        self._followed: dict[str, _Followed] = {}
        self.is_full = False
        """True while the connection's send buffer is full."""
        self._allowed, self._allowed_s = _BURST, seconds()
        committed = views.committed
        self.send_event(Hello(committed.run if committed is not None else "", now_ns()))

    def send_event(self, event: Event) -> None:
        """Send an event."""
        self.send(_events.encode(event))

    def send(self, data: bytes) -> None:
        """Send an encoded event."""
        self._socket.send(data.decode())

    def received(self, text: str) -> None:
        """Handle a request; see `Receiver`."""
        if not self._is_allowed():
            self.send_event(Failed(f"expected at most {_REQUESTS_PER_S:g} requests a second, was more"))
            self._socket.close(TOO_BUSY, "too many requests")
            return
        try:
            request: Request = decode_strictly(text, Request)
        except msgspec.DecodeError as error:
            self.send_event(Failed(f"expected a request as JSON, was {text[:80]!r}: {error}"))
            self._socket.close(BAD_DATA, "no request")
            return
        if isinstance(request, Subscribe):
            self._subscribe(request)
        elif isinstance(request, Next):
            self._next(request)
        elif isinstance(request, Ping):
            self.send_event(Pong(self._now_ns()))
        elif request.id in self._followed:
            self._forget(request.id)
            self.send_event(Ended(request.id))
        else:
            self._unknown(request.id)

    def full(self) -> None:
        """Pause all subscriptions; see `Receiver`."""
        self.is_full = True
        for followed in tuple(self._followed.values()):
            followed.update(is_full=True)

    def drained(self) -> None:
        """Resume the subscriptions that have credit; see `Receiver`."""
        self.is_full = False
        for followed in tuple(self._followed.values()):
            followed.update(is_full=self.is_full)  # a frame of this loop may have filled the buffer again

    def lost(self) -> None:
        """End all subscriptions; see `Receiver`."""
        for name in tuple(self._followed):
            self._forget(name)

    def ended(self, name: str) -> None:
        """End a subscription whose views have all been dropped."""
        self._followed.pop(name, None)
        self.send_event(Ended(name))

    def _subscribe(self, request: Subscribe) -> None:
        self._forget(request.id)
        known = {view.name: view for view in self._views.views}
        names = list(dict.fromkeys(request.views))
        if reason := self._objection(request, names, known):
            self.send_event(Failed(reason, request.id))
            return
        start = None if request.by == "version" else Start(_start(request, names), request.run)
        followed = _Followed(self, request.id, request.credit)
        followed.subscription = self._views.subscribe(names, followed, start)
        if followed.subscription is None:
            reason = f"expected at most {self._views.most_subscribers} subscribers, was one more"
            self.send_event(Failed(reason, request.id))
            return
        self._followed[request.id] = followed
        columns = {n: tuple(ColumnLine(c.name, c.type, c.nullable, c.scale) for c in known[n].columns) for n in names}
        self.send_event(Subscribed(request.id, tuple(StreamView(name, columns[name]) for name in names)))
        followed.update(is_full=self.is_full)

    def _objection(self, request: Subscribe, names: list[str], known: dict[str, View]) -> str:
        if len(self._followed) >= MOST_SUBSCRIPTIONS:
            return f"expected at most {MOST_SUBSCRIPTIONS} subscriptions, was one more"
        if unknown := [name for name in names if name not in known]:
            return f"expected names out of {', '.join(sorted(known)) or 'none'}, was {unknown[0][:80]!r}"
        if request.by == "version" and (request.from_epoch is not None or request.run):
            return "expected from and run only by epoch, was by version: versions cannot be resumed"
        if request.by == "epoch" and self._views.committed is None:
            return "expected a runtime that commits epochs, was one without"
        if isinstance(request.from_epoch, dict) and (other := [n for n in request.from_epoch if n not in names]):
            return f"expected epochs of the views that are asked for, was one of {other[0][:80]!r}"
        return ""

    def _next(self, request: Next) -> None:
        followed = self._followed.get(request.id)
        if followed is None:
            self._unknown(request.id)
            return
        followed.credit = min(MOST_CREDIT, followed.credit + request.credit)
        followed.update(is_full=self.is_full)

    def _unknown(self, name: str) -> None:
        self.send_event(Failed(f"expected an id of a subscription, was {name!r}", name))

    def _forget(self, name: str) -> None:
        followed = self._followed.pop(name, None)
        if followed is not None and followed.subscription is not None:
            self._views.unsubscribe(followed.subscription)

    def _is_allowed(self) -> bool:
        now_s = self._seconds()
        self._allowed = min(_BURST, self._allowed + (now_s - self._allowed_s) * _REQUESTS_PER_S)
        self._allowed_s = now_s
        self._allowed -= 1
        return self._allowed >= 0


def _start(request: Subscribe, names: list[str]) -> dict[str, int]:
    given = request.from_epoch
    if given is None:
        return {}
    return dict(given) if isinstance(given, dict) else dict.fromkeys(names, given)


def _change(message: Message) -> bytes:
    """Return a `StreamChange` as JSON."""
    head, rows = message.header, message.rows
    fields: dict[str, Any] = {
        "view": head.view, "kind": head.kind, "from": head.from_epoch, "to": head.to_epoch, "step": head.step,
        "time_ns": head.time_ns, "feed": head.feed, "rows": (), "weights": (), "reason": head.reason,
    }  # fmt: skip
    if rows is not None and rows.num_rows > _MOST_ROWS:
        fields["kind"] = "error"
        fields["reason"] = f"expected at most {_MOST_ROWS} rows at once, was {rows.num_rows}: open a cursor"
    elif rows is not None and rows.num_rows:
        *values, weights = rows.columns
        scales = [int((field.metadata or {}).get(b"scale", 0)) for field in rows.schema][:-1]
        cells = [[_value(v, s) for v in column.to_pylist()] for column, s in zip(values, scales, strict=True)]
        fields["rows"] = list(zip(*cells, strict=True)) if cells else [()] * rows.num_rows
        fields["weights"] = weights.to_pylist()
    return _events.encode(fields)


def _value(value: Any, scale: int) -> Any:
    if value is None or isinstance(value, str | bool | float):
        return value
    if isinstance(value, Decimal | int):
        whole = int(value)
        if scale:
            sign, digits, _ = Decimal(whole).as_tuple()
            return f"{Decimal((sign, digits, -scale)):f}"
        return whole if -_SAFE <= whole <= _SAFE else str(whole)
    return value.isoformat()

"""The open pages: each requests a frame when it has drawn the previous one, and is sent the frame at the next tick.

Nothing is computed, kept or counted for a page without a request. A page whose connection is full receives nothing
until the connection drains, and is closed if it stays full for too long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from deltabook.dashboard.frames import Ask, Frames, Scope
from deltabook.wire.strict_json import decode_strictly

__all__ = ["MOST_PAGES", "Page", "Pages", "Wire"]

MOST_PAGES: Final = 256
"""Greatest number of open pages."""
FRAME_S: Final = 0.1
"""Seconds between two frames of a page."""
STUCK_S: Final = 60.0
"""Seconds after which a page whose connection stays full is closed."""
_POLICY: Final = 1008
"""Code with which the socket of a page is closed for a message that is not a request."""
_BUSY: Final = 1013
"""Code with which the socket is closed if there are too many pages."""
_TOKEN: Final = 4401
"""Code with which the socket is closed for a wrong token; the page then shows a field for a token."""


class Wire(Protocol):
    """A page's connection."""

    def send(self, data: bytes) -> None:
        """Send a text message; never block."""

    def close(self, code: int, reason: str) -> None:
        """Close the connection once all data that was passed to `send` has been sent."""

    def abort(self) -> None:
        """Close the connection at once."""


class Page:
    """An open page."""

    def __init__(self, pages: Pages, wire: Wire) -> None:
        self._pages, self._wire = pages, wire
        self.ask: Ask | None = None
        """Request that the page waits for."""
        self.full_since_s: float | None = None
        """Time in seconds since which the page's connection has been full; None if the connection is not full."""
        self._is_known = False

    def receive(self, message: bytes) -> None:
        """Process a request for a frame; close the connection for any other message, or if the token is refused."""
        try:
            ask = decode_strictly(message, Ask)
        except msgspec.DecodeError as error:
            self._wire.close(_POLICY, f"expected an Ask as JSON, was: {error}"[:120])
            return
        if not self._is_known:
            refusal = self._pages.refusal(ask.token)
            if refusal:
                self._wire.close(_TOKEN, refusal[:120])
                return
            self._is_known = True
        self.ask = msgspec.structs.replace(ask, token="")

    def full(self, now_s: float) -> None:
        """Note that sent data has not been read yet."""
        if self.full_since_s is None:
            self.full_since_s = now_s

    def drained(self) -> None:
        """Note that the connection has room again."""
        self.full_since_s = None

    def send(self, data: bytes) -> None:
        """Send the requested frame."""
        self.ask = None
        self._wire.send(data)

    def abort(self) -> None:
        """Close the connection at once, see `Wire`."""
        self._wire.abort()


class Pages:
    """All open pages; used on the reactor's thread only."""

    _log = Logger()

    def __init__(
        self,
        frames: Frames,
        clock: Any,
        *,
        prepare: Callable[[set[Scope]], None],
        market_ms: Callable[[], int],
        refusal: Callable[[str], str] = lambda _: "",
    ) -> None:
        """Make the pages; ``prepare`` brings the sections of some scopes up to date; ``refusal`` returns why a token is
        refused.
        """
        self._frames, self._clock = frames, clock
        self._prepare, self._market_ms = prepare, market_ms
        self.refusal = refusal
        self._pages: dict[Page, None] = {}
        self.frames_sent = 0
        """Number of frames sent so far."""
        self.bytes_sent = 0
        """Bytes of these frames."""
        self._loop: Any = LoopingCall(self._tick)
        self._loop.clock = clock

    def start(self) -> None:
        """Start to answer pages."""
        self._loop.start(FRAME_S, now=False)

    def stop(self) -> None:
        """Close all pages."""
        if self._loop.running:
            self._loop.stop()
        for page in tuple(self._pages):
            page.abort()

    def open(self, wire: Wire) -> Page | None:
        """Add a page; if there are too many, close the connection with the reason and return None."""
        if len(self._pages) >= MOST_PAGES:
            wire.close(_BUSY, f"expected at most {MOST_PAGES} pages at a time")
            return None
        page = Page(self, wire)
        self._pages[page] = None
        return page

    def closed(self, page: Page) -> None:
        """Remove a page whose connection has closed."""
        self._pages.pop(page, None)

    def _tick(self) -> None:
        """Send frames; log an error, so that later frames are still sent."""
        try:
            self.tick()
        except Exception:  # noqa: BLE001 - no data of a peer may stop the pages
            self._log.failure("a frame was not made")

    def tick(self) -> None:
        """Send a frame to every page that waits for one."""
        now_s = self._clock.seconds()
        for page in [page for page in self._pages if page.full_since_s is not None]:
            if now_s - (page.full_since_s or 0.0) >= STUCK_S:
                page.abort()
        waiting = [(page, page.ask) for page in self._pages if page.ask is not None and page.full_since_s is None]
        if not waiting:
            return
        scopes: set[Scope] = {("symbol", ask.symbol) for _, ask in waiting if ask.symbol}
        scopes |= {("view", ask.view) for _, ask in waiting if ask.view}
        scopes |= {("strategy", ask.strategy) for _, ask in waiting if ask.strategy}
        self._frames.begin(self._market_ms())
        self._prepare(scopes)
        for page, ask in waiting:
            data = self._frames.frame(ask)
            self.frames_sent += 1
            self.bytes_sent += len(data)
            page.send(data)

    def figures(self) -> dict[str, int]:
        """Return the figures for status lines."""
        return {
            "pages": len(self._pages),
            "stuck_pages": sum(page.full_since_s is not None for page in self._pages),
            "frames_sent": self.frames_sent,
            "frames_encoded": self._frames.encoded,
            "bytes_sent": self.bytes_sent,
        }

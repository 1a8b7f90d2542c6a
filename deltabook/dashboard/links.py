"""How each peer is: what a lamp on the page says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import msgspec

from deltabook.dashboard.errors import DashboardError
from deltabook.dashboard.peers import Peer

__all__ = ["Link", "LinkLine", "LinkState"]

LinkState = Literal["off", "connecting", "live", "stale", "lost"]
"""off: there is none; connecting: it has never answered; stale: it answers, but what it says is old."""
_DELAY_MS: Final = 10_000
"""An answer that took so long would make its process look younger."""


class LinkLine(msgspec.Struct, frozen=True):
    """One peer, for the page."""

    state: LinkState
    words: str
    """Why it is not live; empty where it is."""
    address: str
    """HOST:PORT; empty for none, and while it is not known."""
    since_ms: int
    """Since when it is in this state, milliseconds since the UTC epoch."""
    restarts: int = 0
    """How often it was found to be another process than before."""
    restarted_ms: int | None = None
    """When the newest of these processes began."""


class Link:
    """The state of one peer."""

    def __init__(self, peer: Peer | None, now_ms: Callable[[], int]) -> None:
        """None: there is none, and never will be."""
        self._peer, self._now_ms = peer, now_ms
        self._line = LinkLine("connecting" if peer else "off", "", peer.address if peer else "", now_ms())
        self._up_s: float | None = None
        self._begun_ms = 0.0

    @property
    def line(self) -> LinkLine:
        """For the page."""
        return self._line

    @property
    def state(self) -> LinkState:
        """As the line says it."""
        return self._line.state

    def live(self) -> None:
        """It answers."""
        self._become("live", "")

    def up(self, up_s: float) -> None:
        """Its process says that it has been up for so long: less than before is another process."""
        begun_ms = self._now_ms() - 1000 * up_s
        is_known = self._up_s is not None
        is_another = is_known and (up_s < (self._up_s or 0) or begun_ms > self._begun_ms + _DELAY_MS)
        if is_another:
            restarts = self._line.restarts + 1
            self._line = msgspec.structs.replace(self._line, restarts=restarts, restarted_ms=int(begun_ms))
        if is_another or not is_known or begun_ms < self._begun_ms:
            self._begun_ms = begun_ms
        self._up_s = up_s

    def stale(self, words: str) -> None:
        """It answers, but what it says is old."""
        self._become("stale", words)

    def lost(self, words: str) -> None:
        """It does not answer; one that never has is still being connected."""
        never = self._line.state == "connecting"
        self._become("connecting" if never else "lost", words)

    def _become(self, state: LinkState, words: str) -> None:
        line = self._line
        since_ms = line.since_ms if line.state == state else self._now_ms()
        try:
            address = self._peer.where() if self._peer else ""
            words = (self._peer.news() if self._peer and words else "") or words
        except DashboardError as error:
            address, words = line.address, words or str(error)
        self._line = msgspec.structs.replace(line, state=state, words=words, address=address, since_ms=since_ms)

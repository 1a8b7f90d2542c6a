"""How each peer is: what a lamp on the page says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from deltabook.dashboard.errors import DashboardError
from deltabook.dashboard.peers import Peer

__all__ = ["Link", "LinkLine", "LinkState"]

LinkState = Literal["off", "connecting", "live", "stale", "lost"]
"""off: there is none; connecting: it has never answered; stale: it answers, but what it says is old."""


class LinkLine(msgspec.Struct, frozen=True):
    """One peer, for the page."""

    state: LinkState
    words: str
    """Why it is not live; empty where it is."""
    address: str
    """HOST:PORT; empty for none, and while it is not known."""
    since_ms: int
    """Since when it is in this state, milliseconds since the UTC epoch."""


class Link:
    """The state of one peer."""

    def __init__(self, peer: Peer | None, now_ms: Callable[[], int]) -> None:
        """None: there is none, and never will be."""
        self._peer, self._now_ms = peer, now_ms
        self._line = LinkLine("connecting" if peer else "off", "", peer.address if peer else "", now_ms())

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
        self._line = LinkLine(state, words, address, since_ms)

"""The ITCH face of the exchange: who listens, and from where."""

from __future__ import annotations

from deltabook.wire.soupbin import LoginRequest
from exchange_server.audience import SequencedStream
from exchange_server.nasdaq.feed import ItchFeed
from exchange_server.nasdaq.soup import SoupConnection, SoupLimits, SoupServer
from exchange_server.readers import Timers

__all__ = ["ItchServer"]


class ItchServer(SoupServer):
    """Lets listeners log in at any message of the session. Whoever reaches the port may listen."""

    name = "itch"

    def __init__(self, feed: ItchFeed, session: str, clock: Timers, limits: SoupLimits) -> None:
        super().__init__(clock, limits)
        self.feed = feed
        self.session = session
        for symbol, reason in feed.unlisted.items():
            self._log.warn("itch: {symbol} is not listed: {reason}", symbol=symbol, reason=reason)

    def log_in(self, connection: SoupConnection, login: LoginRequest) -> None:
        """Accept a listener at its position, or reject it."""
        number = self.position(connection, login, self.session, self.feed.records)
        if number is not None:
            self.follow(connection, self.feed, self.session, number)

    def is_over(self, stream: SequencedStream) -> bool:
        """Timestamps have no more room."""
        return self.feed.is_over

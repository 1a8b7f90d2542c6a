"""The ITCH port of the exchange: its listeners and their positions."""

from __future__ import annotations

from deltabook.wire.soupbin import LoginRequest
from exchange_server.audience import SequencedStream
from exchange_server.exchange import Exchange
from exchange_server.logins import Gate
from exchange_server.nasdaq.itch.encoder import ItchEncoder
from exchange_server.nasdaq.listening import ListeningServer
from exchange_server.nasdaq.soup import SoupConnection, SoupLimits
from exchange_server.readers import Timers

__all__ = ["ItchLimits", "ItchServer"]


class ItchLimits(SoupLimits, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of the server: more listeners than others have clients.

    While orders come without pause, listeners hear of many at once: to write to each of them for each order would keep
    the sender of the next one waiting for longer than anything else.
    """

    connections: int = 2_000
    burst_interval_s: float = 0.000_5


class ItchServer(ListeningServer):
    """Lets listeners log in at any message of the session, and sends each what follows."""

    name = "itch"

    def __init__(
        self,
        exchange: Exchange,
        encoder: ItchEncoder,
        clock: Timers,
        limits: SoupLimits,
        gate: Gate | None = None,
    ) -> None:
        super().__init__(clock, limits, gate)
        self.exchange = exchange
        self.encoder = encoder
        self._feed = exchange.feeds["itch"]
        for symbol, reason in encoder.unlisted.items():
            self._log.warn("itch: {symbol} is not listed: {reason}", symbol=symbol, reason=reason)

    def admit(self, connection: SoupConnection, login: LoginRequest) -> None:
        """Accept a listener at its position, or reject it."""
        session = self.exchange.session
        number = self.position(connection, login, session, self._feed.records)
        if number is not None:
            self.follow(connection, self._feed, session, number)

    def is_over(self, stream: SequencedStream) -> bool:
        """Timestamps have no more room."""
        del stream
        return self.encoder.is_over

"""The GLIMPSE face of the exchange."""

from __future__ import annotations

from typing import Any

from deltabook.wire.soupbin import LoginRequest
from exchange_server.audience import SequencedStream
from exchange_server.exchange import Exchange
from exchange_server.logins import Gate
from exchange_server.nasdaq.glimpse.snapshot import Snapshot
from exchange_server.nasdaq.itch.encoder import ItchEncoder
from exchange_server.nasdaq.listening import ListeningServer
from exchange_server.nasdaq.soup import SoupConnection, SoupLimits
from exchange_server.readers import Timers

__all__ = ["GlimpseLimits", "GlimpseServer"]


class GlimpseLimits(SoupLimits, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of the server."""

    fresh_s: float = 1.0
    """Clients that come within so long of each other share a snapshot; and those that come before it is complete."""
    snapshots: int = 4
    """That are held at once, of some 50 bytes for each displayed order; beyond that the newest is shared however old
    it is, which only means that the feed is joined further back."""


class GlimpseServer(ListeningServer):
    """Sends each client the books as they were at one moment, and the number at which to join the feed; then the
    session ends. Another look is another login."""

    name = "glimpse"

    def __init__(
        self,
        exchange: Exchange,
        encoder: ItchEncoder,
        clock: Timers,
        limits: GlimpseLimits,
        gate: Gate | None = None,
    ) -> None:
        super().__init__(clock, limits, gate)
        self.exchange = exchange
        self._encoder = encoder
        self._limits = limits
        self._newest: Snapshot | None = None
        self._is_stale = False
        self._fill_calls: dict[Snapshot, Any] = {}
        self._drop_call: Any = None

    def admit(self, connection: SoupConnection, login: LoginRequest) -> None:
        """Send it a snapshot. There is no other place to begin than the first message."""
        session = self.exchange.session
        if login.session and login.session.upper() != session.upper():
            connection.reject("S", f"expected session {session}, was {login.session}")
        elif login.sequence > 1:
            connection.reject("S", f"expected sequence 1, was {login.sequence}: snapshots are sent as a whole")
        else:
            snapshot = self._snapshot()
            self.follow(connection, snapshot, session, 1)
            self._fill_soon(snapshot)

    def is_over(self, stream: SequencedStream) -> bool:
        """The snapshot is complete."""
        return isinstance(stream, Snapshot) and stream.is_complete

    def _snapshot(self) -> Snapshot:
        if self._newest is not None:
            return self._newest
        followed = self.followed
        if len(followed) >= self._limits.snapshots and isinstance(followed[-1], Snapshot):
            return followed[-1]
        feed = self.exchange.feeds["itch"].records
        newest = self._newest = Snapshot(self.exchange.market, self._encoder, feed.next_number)
        self._is_stale = False
        self._drop_call = self.clock.callLater(self._limits.fresh_s, self._drop)
        return newest

    def _fill_soon(self, snapshot: Snapshot) -> None:
        if snapshot in self.followed and not snapshot.is_complete and snapshot not in self._fill_calls:
            self._fill_calls[snapshot] = self.clock.callLater(0, self._fill, snapshot)

    def _fill(self, snapshot: Snapshot) -> None:
        """Make one slice more, unless nobody waits for it: a client that disconnects at once costs no more than the
        notes."""
        del self._fill_calls[snapshot]
        if snapshot in self.followed:
            snapshot.fill()
            self._fill_soon(snapshot)
        self._forget_stale()

    def _drop(self) -> None:
        """It is no longer fresh; it goes with its last reader."""
        self._is_stale = True
        self._forget_stale()

    def _forget_stale(self) -> None:
        """Before it is complete another one is not begun: they would be made faster than they are written."""
        newest = self._newest
        if self._is_stale and newest is not None and (newest.is_complete or newest not in self.followed):
            self._newest = None

    def close(self) -> None:
        """Close every connection; a snapshot that is not complete is worth nothing."""
        for call in (*self._fill_calls.values(), self._drop_call):
            if call is not None and call.active():
                call.cancel()
        self._fill_calls.clear()
        super().close()

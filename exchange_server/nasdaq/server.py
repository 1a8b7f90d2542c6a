"""The ITCH face of the exchange: who listens, from where, and one write each per burst."""

from __future__ import annotations

from typing import Final

from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory
from twisted.logger import Logger

from deltabook.wire.soupbin import END_OF_SESSION, SERVER_HEARTBEAT, LoginRequest, encode_packet
from exchange_server.nasdaq.connection import SoupConnection
from exchange_server.nasdaq.feed import ItchFeed
from exchange_server.readers import ReaderLimits, Readers, Timers, farthest_behind_bytes, peer_of
from exchange_server.tail import Tail

__all__ = ["ItchServer", "SoupLimits"]

_HEARTBEAT: Final = encode_packet(SERVER_HEARTBEAT)
_END: Final = encode_packet(END_OF_SESSION)


class SoupLimits(ReaderLimits, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a SoupBinTCP server puts up with."""

    idle_s: float = 15.0
    """A client that says nothing for so long is cut, unless its login asks for another time (4.10)."""


class ItchServer(Factory):
    """Lets listeners log in at any message of the session and sends each what follows, exactly once and in order.

    A heartbeat follows every burst and not only every second of silence: it is three bytes, clients ignore it, and
    one that knows our feed learns from it that no further message of the last request will come.
    """

    _log = Logger()
    noisy = False

    def __init__(self, feed: ItchFeed, session: str, clock: Timers, limits: SoupLimits) -> None:
        self.feed = feed
        self.session = session
        self.clock = clock
        self.limits = limits
        self._burst: list[bytes] = []
        feed.on_packets = self._collect
        for symbol, reason in feed.unlisted.items():
            self._log.warn("itch: {symbol} is not listed: {reason}", symbol=symbol, reason=reason)
        self.readers: Readers[SoupConnection] = Readers(
            clock, limits, self._deliver, lambda: self.readers.beat(self._why_end)
        )
        """Its connections."""

    def buildProtocol(self, addr: IAddress | None) -> SoupConnection:
        """A connection."""
        return SoupConnection(self, peer_of(addr))

    # -- who is there ------------------------------------------------------------------------------------------

    @property
    def listeners(self) -> int:
        """Listeners that are logged in."""
        return sum(connection.reader.tail is not None for connection in self.readers.connections)

    @property
    def farthest_behind_bytes(self) -> int:
        """How far the slowest listener is behind."""
        return farthest_behind_bytes(self.readers.connections)

    def log_in(self, connection: SoupConnection, login: LoginRequest) -> None:
        """Accept a listener at its position, or reject it. Whoever reaches the port may listen."""
        newest = self.feed.next_sequence
        if login.session and login.session != self.session:
            connection.reject("S", f"expected session {self.session}, was {login.session}")
        elif login.sequence > newest:
            connection.reject("S", f"expected a sequence up to {newest}, was {login.sequence}")
        else:
            number = login.sequence or newest
            self._log.info("itch: {peer} listens from {number}", peer=connection.peer, number=number)
            tail = self.readers.tail(connection, self.feed.packets, number, self._heartbeat)
            connection.accept(login, self.session, number, tail)

    # -- messages out ------------------------------------------------------------------------------------------

    def _heartbeat(self) -> bytes:
        """What a listener hears that has everything."""
        return _END if self.feed.is_over else _HEARTBEAT

    def _collect(self, data: bytes) -> None:
        self._burst.append(data)
        self.readers.deliver_soon()

    def _deliver(self) -> None:
        """Hand out what was appended in this turn of the reactor."""
        if self._burst:
            burst, self._burst = b"".join(self._burst), []
            self.readers.spread(self.readers.connections, self.feed.packets, burst, self._heartbeat())

    def _why_end(self, connection: SoupConnection, tail: Tail, now_s: float) -> str:
        """The end of clients that say nothing, and of those that have a whole session that is over."""
        unheard_s = now_s - connection.heard_s
        if unheard_s >= self._idle_s(connection):
            return f"idle: said nothing for {unheard_s:.0f} s"
        if self.feed.is_over and not tail.paused and not tail.lag_bytes:
            return "the session is over"
        return ""

    def _idle_s(self, connection: SoupConnection) -> float:
        asked_ms = connection.login.heartbeat_ms if connection.login else None
        return max(asked_ms / 1000, self.limits.silence_s) if asked_ms else self.limits.idle_s

    def close(self) -> None:
        """Send what is there, then close every connection."""
        self.readers.close()

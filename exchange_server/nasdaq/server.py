"""The ITCH face of the exchange: who listens, from where, and one write each per burst."""

from __future__ import annotations

from typing import Any, Final, Protocol

import msgspec
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory
from twisted.logger import Logger

from deltabook.wire.soupbin import END_OF_SESSION, SERVER_HEARTBEAT, LoginRequest, encode_packet
from exchange_server.nasdaq.connection import SoupConnection
from exchange_server.nasdaq.feed import ItchFeed
from exchange_server.tail import Tail

__all__ = ["ItchServer", "SoupLimits"]

_HEARTBEAT: Final = encode_packet(SERVER_HEARTBEAT)
_END: Final = encode_packet(END_OF_SESSION)


class SoupLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a SoupBinTCP server puts up with."""

    connections: int = 256
    """Open connections at once."""
    login_timeout_s: float = 10.0
    """How long a connection may stay without a login."""
    silence_s: float = 1.0
    """A heartbeat follows this much silence."""
    idle_s: float = 15.0
    """A client that says nothing for so long is cut, unless its login asks for another time (4.10)."""
    lag_bytes: int = 64 * 1024 * 1024
    """A reader that falls behind by more is cut."""
    stall_s: float = 30.0
    """A reader whose transport takes nothing for so long, with something to take, is cut."""


class Timers(Protocol):
    """The part of a reactor that tells and keeps time."""

    def seconds(self) -> float:
        """Monotonic seconds."""

    def callLater(self, delay: float, callable: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: A002 - Twisted's name
        """Call something after a delay."""


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
        self._connections: set[SoupConnection] = set()
        self._burst: list[bytes] = []
        self._deliver_call: Any = None
        feed.on_packets = self._collect
        for symbol, reason in feed.unlisted.items():
            self._log.warn("itch: {symbol} is not listed: {reason}", symbol=symbol, reason=reason)
        self._beat_call = clock.callLater(limits.silence_s / 4, self._beat)

    def buildProtocol(self, addr: IAddress | None) -> SoupConnection:
        """A connection."""
        host, port = getattr(addr, "host", "?"), getattr(addr, "port", 0)
        return SoupConnection(self, f"{host}:{port}")

    # -- who is there ------------------------------------------------------------------------------------------

    @property
    def listeners(self) -> int:
        """Listeners that are logged in."""
        return sum(connection.tail is not None for connection in self._connections)

    @property
    def farthest_behind_bytes(self) -> int:
        """How far the slowest listener is behind."""
        return max((c.tail.lag_bytes for c in self._connections if c.tail), default=0)

    def admit(self, connection: SoupConnection) -> bool:
        """Whether there is room for it; if so it is remembered."""
        if len(self._connections) >= self.limits.connections:
            return False
        self._connections.add(connection)
        return True

    def forget(self, connection: SoupConnection) -> None:
        """It is gone."""
        self._connections.discard(connection)

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
            tail = Tail(
                self.feed.packets,
                number,
                connection.transport,
                self._heartbeat,
                lag_limit_bytes=self.limits.lag_bytes,
            )
            connection.accept(login, self.session, number, tail)

    # -- messages out ------------------------------------------------------------------------------------------

    def _heartbeat(self) -> bytes:
        """What a listener hears that has everything."""
        return _END if self.feed.is_over else _HEARTBEAT

    def _collect(self, data: bytes) -> None:
        self._burst.append(data)
        if self._deliver_call is None:
            self._deliver_call = self.clock.callLater(0, self._deliver)

    def _deliver(self) -> None:
        """Hand out what was appended in this turn of the reactor: joined once, one write for each listener."""
        if self._deliver_call is not None and self._deliver_call.active():
            self._deliver_call.cancel()
        self._deliver_call = None
        if not self._burst:
            return
        burst, self._burst = b"".join(self._burst), []
        start, data, now_s = self.feed.packets.size_bytes - len(burst), burst + self._heartbeat(), self.clock.seconds()
        for connection in tuple(self._connections):
            tail = connection.tail
            if tail is not None:
                tail.burst(start, data, now_s)
                if tail.too_slow:
                    connection.cut(f"slow: {tail.lag_bytes} bytes behind, the limit is {self.limits.lag_bytes}")

    def _beat(self) -> None:
        """Heartbeats after silence, and the end of clients that say or take nothing."""
        self._beat_call = self.clock.callLater(self.limits.silence_s / 4, self._beat)
        now_s = self.clock.seconds()
        if self._deliver_call is None:
            for connection in tuple(self._connections):
                if connection.tail is not None:
                    self._beat_one(connection, connection.tail, now_s)

    def _beat_one(self, connection: SoupConnection, tail: Tail, now_s: float) -> None:
        silent_s, unheard_s = now_s - tail.written_s, now_s - connection.heard_s
        if tail.paused and silent_s >= self.limits.stall_s:
            connection.cut(f"slow: took nothing for {silent_s:.0f} s")
        elif unheard_s >= self._idle_s(connection):
            connection.cut(f"idle: said nothing for {unheard_s:.0f} s", flush=True)
        elif self.feed.is_over and not tail.paused and not tail.lag_bytes:
            connection.cut("the session is over", flush=True)
        elif silent_s >= self.limits.silence_s:
            tail.beat(now_s)

    def _idle_s(self, connection: SoupConnection) -> float:
        asked_ms = connection.login.heartbeat_ms if connection.login else None
        return max(asked_ms / 1000, self.limits.silence_s) if asked_ms else self.limits.idle_s

    def close(self) -> None:
        """Send what is there, then close every connection."""
        self._deliver()
        if self._beat_call.active():
            self._beat_call.cancel()
        for connection in tuple(self._connections):
            connection.cut("the exchange stops", flush=True)

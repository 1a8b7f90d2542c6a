"""Exchange with its ITCH and GLIMPSE servers on a simulated clock, and clients on transports in memory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from deltabook.wire.soupbin import LoginRequest, Packet, PacketSplitter, encode_login, encode_packet
from deltabook.wire.symbols import Instrument
from exchange_server.day import MarketClock
from exchange_server.exchange import Exchange
from exchange_server.journal import Journal
from exchange_server.matching.inputs import AnyInput, Enter, MarketRules
from exchange_server.matching.outputs import Now
from exchange_server.nasdaq.glimpse import GlimpseLimits, GlimpseServer
from exchange_server.nasdaq.itch import ItchEncoder, ItchServer
from exchange_server.nasdaq.soup import SoupLimits

__all__ = ["BEGINNING", "RULES", "START_NS", "SoupFloor", "SoupWire", "messages", "reasons", "types"]

RULES = MarketRules(instruments=(Instrument("ACME"), Instrument("GLOBEX", "0.0025", "100")))

START_NS = 1_700_000_000 * 10**9
"""Start time, not near a midnight."""
BEGINNING = 7
"""Number of messages before the first order: three events, and two for each of the two symbols."""


class SoupWire(StringTransport):
    """Transport that can be slow, with the client's view of the received bytes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.writes: list[bytes] = []
        self.splitter = PacketSplitter()
        self.aborting = False

    def write(self, data: bytes) -> None:
        """Record bytes of the server."""
        self.writes.append(data)

    def abortConnection(self) -> None:
        """Close at once; unsent bytes are lost."""
        self.aborting = True
        self.disconnecting = True

    def take(self) -> list[Packet]:
        """Return the packets since the last call."""
        data, self.writes = b"".join(self.writes), []
        return self.splitter.split(data)


class SoupFloor:
    """Exchange, its servers and their clients."""

    def __init__(self, path: Path, rules: MarketRules = RULES, gate: Any = None, **limits: Any) -> None:
        self.clock = Clock()
        now = Now()
        self.encoder = ItchEncoder(rules, now)
        journal = Journal(path, rules, lambda: "SESSION1", "never")
        market_clock = MarketClock(self.clock.seconds, START_NS)
        self.exchange = Exchange(journal, market_clock, {"itch": self.encoder}, (), now=now)
        self.feed = self.exchange.feeds["itch"].records
        self.server = ItchServer(self.exchange, self.encoder, self.clock, SoupLimits(**limits), gate)
        self.glimpse = GlimpseServer(self.exchange, self.encoder, self.clock, GlimpseLimits(), gate)

    def connect(self, login: LoginRequest | None = None, server: Any = None) -> tuple[Any, Any]:
        """Return a connection to a server (by default of the feed), and its client's end."""
        connection: Any = (server or self.server).buildProtocol(None)
        wire: Any = SoupWire()
        connection.makeConnection(wire)
        if login is not None:
            connection.dataReceived(encode_login(login))
        return connection, wire

    def submit(self, *batch: AnyInput) -> list[int | str]:
        """Submit inputs without the turn of the reactor that delivers their results."""
        return self.exchange.submit(batch)

    def quote(self, count: int = 1, *, turn: bool = True) -> None:
        """Let another participant rest orders."""
        first = self.exchange.next_time_ns(count=count)
        self.submit(*(Enter(first + n, 0, 4, 0, "ACME", "B", 1, 50) for n in range(count)))
        if turn:
            self.clock.advance(0)

    def pass_time(self, seconds: float, *talking: Any) -> None:
        """Advance the time; these clients send heartbeats, the others are silent."""
        for _ in range(int(seconds * 4)):
            self.clock.advance(0.25)
            for connection in talking:
                connection.dataReceived(encode_packet(b"R"))

    def whole_feed(self) -> list[bytes]:
        """Return all messages of the session."""
        return messages(PacketSplitter().split(self.feed.read(0, 1 << 30)))

    def close(self) -> None:
        """Close the journal."""
        self.exchange.close()


def types(packets: Iterable[Packet]) -> str:
    """Return the letters of packets."""
    return b"".join(packet.type for packet in packets).decode()


def messages(packets: Iterable[Packet]) -> list[bytes]:
    """Return the messages of the sequenced packets."""
    return [packet.payload for packet in packets if packet.type == b"S"]


def reasons(packets: Iterable[Packet]) -> str:
    """Return the texts of the server's debug packets."""
    return " ".join(packet.payload.decode() for packet in packets if packet.type == b"+")

"""Exchange with its text server and clients, over transports in memory and a clock that a test moves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from deltabook.wire.symbols import Instrument
from exchange_server.day import MarketClock
from exchange_server.exchange import Exchange
from exchange_server.journal import FsyncPolicy, Journal
from exchange_server.matching.inputs import AnyInput, Enter, MarketRules
from exchange_server.matching.outputs import Now
from exchange_server.text import TextEncoder, TextLimits, TextProtocol, TextServer

__all__ = ["RULES", "Floor", "Wire", "fields", "sequenced"]

RULES = MarketRules(instruments=(Instrument("ACME"), Instrument("GLOBEX")))


class Wire(StringTransport):
    """Transport that can be slow, with the client's view of the received bytes."""

    writes = 0
    aborting = False

    def write(self, data: bytes) -> None:
        """Record bytes, and count the writes."""
        self.writes += 1
        super().write(data)  # type: ignore[no-untyped-call]

    def abortConnection(self) -> None:
        """Close without sending the rest."""
        self.aborting = self.disconnecting = True

    def take(self) -> list[str]:
        """Return the lines since the last call."""
        lines = bytes(self.io.getvalue()).decode().splitlines()
        self.clear()  # type: ignore[no-untyped-call]
        return lines


class Floor:
    """Exchange with its text server and clients."""

    def __init__(
        self, path: Path, *, fsync: FsyncPolicy = "interval", rules: MarketRules = RULES, **limits: Any
    ) -> None:
        """Create an exchange; ``limits`` are those of the server."""
        self.clock = Clock()
        self.syncs = 0
        """Number of times that the journal was forced to disk."""
        now = Now()
        self.exchange = Exchange(
            Journal(path, rules, lambda: "SESSION1", fsync, sync=self._sync),
            MarketClock(self.clock.seconds, 1_000_000),
            {"text": TextEncoder(rules, now)},
            [TextProtocol(rules)],
            now,
        )
        self.failures: list[str] = []
        self.server = TextServer(self.exchange, self.clock, TextLimits(**limits), self.failures.append)
        self.server.startFactory()

    def _sync(self, descriptor: int) -> None:
        del descriptor
        self.syncs += 1

    @property
    def next_number(self) -> int:
        """Number of the feed's next message."""
        return self.exchange.feeds["text"].records.next_number

    def connect(self, login: str = "") -> tuple[Any, Any]:
        """Return a connection and its transport; with a login it is logged in."""
        connection: Any = self.server.buildProtocol(None)
        wire: Any = Wire()  # type: ignore[no-untyped-call]
        connection.makeConnection(wire)
        if login:
            connection.dataReceived(login.encode() + b"\n")
        return connection, wire

    def quote(self, count: int = 1) -> None:
        """Let another participant rest orders."""
        self.submit(*[Enter(0, 0, 4, 0, "ACME", "B", 1, 50) for _ in range(count)])

    def submit(self, *items: AnyInput) -> None:
        """Submit inputs of other participants, and deliver the results in this turn of the reactor."""
        self.exchange.submit([self.timed(item) for item in items])
        self.clock.advance(0)

    def timed(self, item: AnyInput) -> AnyInput:
        """Return the input at the present time."""
        return type(item)(self.exchange.next_time_ns(), *_after_time(item))

    def close(self) -> None:
        """Close in order, like a stopped process."""
        self.server.close()
        self.exchange.close()


def _after_time(item: AnyInput) -> tuple[Any, ...]:
    return tuple(getattr(item, name) for name in item.__struct_fields__[1:])


def sequenced(lines: list[str]) -> list[int]:
    """Return the numbers of the lines that are not heartbeats; leave out the login's reply."""
    return [int(f[0]) for f in (line.split(",") for line in lines) if len(f) >= 8 and f[4] != "H"]


def fields(lines: list[str]) -> list[list[str]]:
    """Return action, volume, price, symbol, client id and detail of the private lines except heartbeats."""
    return [f[4:] for f in (line.split(",") for line in lines) if len(f) == 10 and f[4] != "H"]

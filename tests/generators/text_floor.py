"""An exchange with its text face and clients, over transports in memory and a clock that is told to go on."""

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
from exchange_server.text import Limits, TextEncoder, TextProtocol, TextServer

__all__ = ["RULES", "Floor", "Wire", "fields", "sequenced"]

RULES = MarketRules(instruments=(Instrument("ACME"), Instrument("GLOBEX")))


class Wire(StringTransport):
    """A transport that can be slow, and a client's view of what it got."""

    writes = 0
    aborting = False

    def write(self, data: bytes) -> None:
        """Take bytes, and count that they came at once."""
        self.writes += 1
        super().write(data)  # type: ignore[no-untyped-call]

    def abortConnection(self) -> None:
        """Close without sending what is left."""
        self.aborting = self.disconnecting = True

    def take(self) -> list[str]:
        """The lines since the last call."""
        lines = bytes(self.io.getvalue()).decode().splitlines()
        self.clear()  # type: ignore[no-untyped-call]
        return lines


class Floor:
    """An exchange with its text face and clients."""

    def __init__(
        self, path: Path, *, fsync: FsyncPolicy = "interval", rules: MarketRules = RULES, **limits: Any
    ) -> None:
        """``limits``: those of the face."""
        self.clock = Clock()
        self.syncs = 0
        """How often the journal was forced to the disk."""
        now = Now()
        self.exchange = Exchange(
            Journal(path, rules, lambda: "SESSION1", fsync, sync=self._sync),
            MarketClock(self.clock.seconds, 1_000_000),
            {"text": TextEncoder(rules, now)},
            [TextProtocol(rules)],
            now,
        )
        self.failures: list[str] = []
        self.server = TextServer(self.exchange, self.clock, Limits(**limits), self.failures.append)
        self.server.startFactory()

    def _sync(self, descriptor: int) -> None:
        del descriptor
        self.syncs += 1

    @property
    def next_number(self) -> int:
        """Of the feed's next message."""
        return self.exchange.feeds["text"].records.next_number

    def connect(self, login: str = "") -> tuple[Any, Any]:
        """A connection and its transport; with a login it is logged in."""
        connection: Any = self.server.buildProtocol(None)
        wire: Any = Wire()  # type: ignore[no-untyped-call]
        connection.makeConnection(wire)
        if login:
            connection.dataReceived(login.encode() + b"\n")
        return connection, wire

    def quote(self, count: int = 1) -> None:
        """Somebody rests orders."""
        self.submit(*[Enter(0, 0, 4, 0, "ACME", "B", 1, 50) for _ in range(count)])

    def submit(self, *items: AnyInput) -> None:
        """Inputs of others, at times of their own, and what comes of them in this turn of the reactor."""
        self.exchange.submit([self.timed(item) for item in items])
        self.clock.advance(0)

    def timed(self, item: AnyInput) -> AnyInput:
        """The input, now."""
        return type(item)(self.exchange.next_time_ns(), *_after_time(item))

    def close(self) -> None:
        """End as a process does that is stopped."""
        self.server.close()
        self.exchange.close()


def _after_time(item: AnyInput) -> tuple[Any, ...]:
    return tuple(getattr(item, name) for name in item.__struct_fields__[1:])


def sequenced(lines: list[str]) -> list[int]:
    """Numbers of the lines that are not heartbeats; the login's reply is left out."""
    return [int(f[0]) for f in (line.split(",") for line in lines) if len(f) >= 8 and f[4] != "H"]


def fields(lines: list[str]) -> list[list[str]]:
    """What the private lines say: action, volume, price, symbol, client id and detail; no replies, no heartbeats."""
    return [f[4:] for f in (line.split(",") for line in lines) if len(f) == 10 and f[4] != "H"]

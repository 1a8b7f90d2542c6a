# mypy: disable-error-code="no-untyped-call"
# Twisted is typed in part only.
"""Exchange with an admin port, over transports in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
from twisted.internet.address import IPv4Address
from twisted.internet.testing import StringTransport

from deltabook.wire import admin
from deltabook.wire.access import Access
from deltabook.wire.durations import Durations
from exchange_server.admin import Changes, ExchangeMetrics, JournalFigures, Reports, admin_site
from exchange_server.errors import OperationError
from exchange_server.matching.inputs import MarketRules
from tests.generators.text_floor import RULES, Floor

__all__ = ["Answer", "Operated", "Playing"]

T = TypeVar("T")
_PATHS = {kind: path for path, kind in admin.CHANGES.items()}


class Answer(msgspec.Struct, frozen=True):
    """Answer to a request."""

    status: int
    """Status of HTTP; 0 if the connection was closed without an answer."""
    headers: dict[str, str]
    """Header values by name in lower case."""
    body: bytes

    @property
    def text(self) -> str:
        """Body as a line."""
        return self.body.decode().rstrip("\n")


class Playing:
    """Substitute for a replayed recording, at record 12."""

    def __init__(self) -> None:
        self.file, self.symbol, self.finished = "day.csv", "REPLAY", False
        self.position, self.time_ns, self.is_paused, self.is_seeking = 12, 99, False, False
        self.speed: float | None = 1.0

    def pause(self) -> None:
        """Pause the replay."""
        self.is_paused = True

    def resume(self) -> None:
        """Resume the replay."""
        self.is_paused = False

    def set_speed(self, speed: float | None) -> None:
        """Set the speed."""
        self.speed = speed

    def seek(self, position: int) -> None:
        """Skip forward to a record."""
        if position <= self.position:
            raise OperationError(f"expected a record after {self.position}, was {position}")
        self.position = position

    def seek_time(self, time_ns: int) -> None:
        """Skip forward to a time."""
        self.time_ns = time_ns


class Operated(Floor):
    """Market with its text server, and its admin port."""

    def __init__(
        self, path: Path, *, token: str = "", playing: Playing | None = None, rules: MarketRules = RULES, **limits: Any
    ) -> None:
        """Create an exchange; ``playing`` is a substitute for a replayed recording."""
        super().__init__(path, rules=rules, **limits)
        self.fsyncs = Durations()
        self.snapshot_age_s: float | None = None
        self.reports = Reports(
            self.exchange,
            str(path),
            {"text": self.server},
            lambda: {"trades": self.exchange.market.trades, "session": self.exchange.session},
            self.clock.seconds,
            playing=playing,
        )
        self.reports.ports = {"text": 4711, "admin": 4712}
        self.changes = Changes(self.reports, self.exchange.snapshot, self.failures.append)
        self.metrics = ExchangeMetrics(
            self.reports,
            lambda: JournalFigures(self.exchange.journal.size_bytes, self.snapshot_age_s),
            self.fsyncs,
            lambda: {"text": self.next_number - 1},
        )
        self.site: Any = admin_site(self.reports, self.changes, self.metrics, Access(token))
        self.site.reactor = cast(Any, self.clock)

    def dial(self, host: str = "127.0.0.1") -> tuple[Any, Any]:
        """Return a connection to the port and its transport; the connection is None if it was refused."""
        connection: Any = self.site.buildProtocol(None)
        transport: Any = StringTransport(peerAddress=IPv4Address("TCP", host, 40000))
        transport.abortConnection = transport.loseConnection
        if connection is not None:
            transport.protocol = connection
            connection.makeConnection(transport)
        return connection, transport

    def ask(
        self, path: str, method: str = "GET", body: bytes = b"", *, headers: str = "", host: str = "127.0.0.1"
    ) -> Answer:
        """Send a request; return the answer in this turn of the reactor."""
        connection, transport = self.dial(host)
        named = "" if headers.startswith("Host:") else "Host: localhost:4712\r\n"
        head = f"{method} {path} HTTP/1.1\r\n{named}Connection: close\r\n{headers}"
        connection.dataReceived(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        data: bytes = transport.value()
        if not data:
            return Answer(0, {}, b"")
        start, _, rest = data.partition(b"\r\n\r\n")
        lines = start.decode().split("\r\n")
        return Answer(int(lines[0].split()[1]), dict(line.lower().split(": ", 1) for line in lines[1:]), rest)

    def report(self, path: str, kind: type[T]) -> T:
        """Return the answer of a path, which must exist."""
        answer = self.ask(path)
        assert answer.status == 200, answer
        return msgspec.json.decode(answer.body, type=kind)

    def change(self, change: admin.Change) -> admin.Done:
        """Make a change, which must be possible."""
        answer = self.ask(_PATHS[type(change)], "POST", msgspec.json.encode(change))
        assert answer.status == 200, answer
        return msgspec.json.decode(answer.body, type=admin.Done)

    def refused(self, change: admin.Change) -> tuple[int, str]:
        """Request an impossible change; return status and line."""
        before = self.exchange.inputs
        answer = self.ask(_PATHS[type(change)], "POST", msgspec.json.encode(change))
        assert answer.status >= 400, answer
        assert self.exchange.inputs == before, "a change that is refused is no request"
        return answer.status, answer.text

# mypy: disable-error-code="no-untyped-call"
# Twisted is typed in part only.
"""Results service over transports in memory, on a clock that a test moves."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pyarrow as pa
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.testing import MemoryReactorClock, StringTransport

from deltabook.wire.access import Access
from runtime.compiler import Column, NamedSelect, Relation, compile_program
from runtime.epochs import Footer
from runtime.plan import Program
from runtime.service.catalogue import Control
from runtime.service.health.metrics import EngineFigures, RuntimeMetrics
from runtime.service.http import ServiceParts, SiteLimits, results_site
from runtime.service.results.cursors import CursorLimits, Cursors
from runtime.service.results.hub import Hub

__all__ = ["PROGRAM", "Answered", "ResultsLab", "dechunked", "filled_hub", "parsed"]

R = Relation("r", (Column("a", "int64"), Column("s", "string", nullable=True)))
PROGRAM = compile_program(
    [NamedSelect("plain", "SELECT a * 0.5 AS h, s FROM r"), NamedSelect("m", "SELECT MAX(a) AS x FROM r")], [R]
)
STATUS: dict[str, Any] = {
    "epoch": 9, "published_epoch": 3, "express_epoch": 0, "express_step": 0, "feed_sequence": 77, "lag_ms": 1.5,
    "express_lag_ms": None, "messages": 5, "rows_per_s": 0.5, "views": 2, "failed_views": 0, "view_updates": 1,
    "dead_letters": 0, "backlog": 0, "waiting_bytes": 0, "disk_bytes": 0, "paused": 0, "origins": {},
    "engine": msgspec.to_builtins(EngineFigures()),
}  # fmt: skip


def filled_hub(program: Program = PROGRAM) -> Hub:
    """Return a hub with the views ``plain`` (a row of half a unit and two of one) and ``m`` (empty), at epoch 3."""
    hub = Hub(program, lambda: 5)
    rows = pa.table({"h": pa.array([5, 10]).cast(pa.decimal128(38, 0)), "s": ["x", None], "weight": [1, 2]})
    hub.publish(Footer(0, 3), {"plain": rows}, {})
    return hub


class Answered(msgspec.Struct):
    """Answer as received."""

    status: int
    headers: dict[str, str]
    """Header values by name in lower case."""
    body: bytes

    @property
    def text(self) -> str:
        """Only line of the body."""
        assert self.headers["content-type"] == "text/plain; charset=utf-8"
        assert self.body.count(b"\n") == 1
        return self.body.decode().removesuffix("\n")

    def json(self, type: Any = Any) -> Any:  # noqa: A002 - as msgspec calls it
        """Return the body as a record."""
        assert self.headers["content-type"] == "application/json"
        return msgspec.json.decode(self.body, type=type)

    def arrow(self) -> pa.Table:
        """Return the body as a table."""
        assert self.headers["content-type"] == "application/vnd.apache.arrow.stream"
        return pa.ipc.open_stream(self.body).read_all()


class _Pool:
    """Runs each call at once."""

    def callInThreadWithCallback(self, done: Any, call: Any, *given: Any) -> None:
        done(True, call(*given))


class ResultsLab:
    """Service and its clients."""

    def __init__(
        self,
        hub: Hub | None = None,
        control: Control | None = None,
        *,
        metrics: RuntimeMetrics | None = None,
        access: Access | None = None,
        limits: SiteLimits | None = None,
        cursors: CursorLimits | None = None,
        asker: Any = None,
        host: str = "127.0.0.1",
    ) -> None:
        self.clock = cast(Any, MemoryReactorClock())
        self.clock.getThreadPool = _Pool
        self.clock.callFromThread = lambda call, *given: call(*given)
        self.hub = hub or filled_hub()
        self.host = host
        self.cursors = Cursors(cursors or CursorLimits(), self.clock.seconds, b"secret")
        parts = ServiceParts(
            hub=self.hub, status=lambda: STATUS, cursors=self.cursors, control=control, metrics=metrics, asker=asker
        )
        self.site: Any = results_site(parts, self.clock, access, limits, now_ns=lambda: int(self.clock.seconds() * 1e9))

    def connect(self, host: str = "") -> tuple[Any, Any]:
        """Return a connection's protocol and its transport."""
        kind = IPv6Address if ":" in (host or self.host) else IPv4Address
        address = kind("TCP", host or self.host, 40000)
        protocol = self.site.buildProtocol(address)
        transport: Any = StringTransport(peerAddress=address)
        transport.protocol = protocol
        protocol.makeConnection(transport)
        return protocol, transport

    def send(self, path: str, method: str = "GET", body: bytes = b"", headers: str = "Host: localhost\r\n") -> Any:
        """Send a request on a connection of its own; return its transport."""
        protocol, transport = self.connect()
        head = f"{method} {path} HTTP/1.1\r\nConnection: close\r\n{headers}"
        protocol.dataReceived(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        return transport

    def ask(self, path: str, method: str = "GET", body: bytes = b"", headers: str = "") -> Answered:
        """Send a request and return its answer."""
        return parsed(self.send(path, method, body, "Host: localhost\r\n" + headers).value())

    def arrow(self, path: str) -> Answered:
        """Return the answer to a request for Arrow."""
        return self.ask(path, headers="Accept: application/vnd.apache.arrow.stream\r\n")


def parsed(data: bytes) -> Answered:
    """Return the answer in a connection's bytes."""
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    pairs = (line.split(": ", 1) for line in lines[1:])
    headers = {name.lower(): value for name, value in pairs}
    return Answered(int(lines[0].split()[1]), headers, dechunked(body) if "transfer-encoding" in headers else body)


def dechunked(body: bytes) -> bytes:
    """Return the contents of chunks."""
    whole = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        whole += rest[: int(size, 16)]
        body = rest[int(size, 16) + 2 :]
    return whole

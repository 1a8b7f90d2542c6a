# mypy: disable-error-code="no-untyped-call"
# Twisted is typed in part only.
"""Port of PostgreSQL's clients over transports in memory, on a clock that a test moves; queries run in DuckDB."""

from __future__ import annotations

import base64
import hashlib
import hmac
import struct
from typing import Any, cast

import pyarrow as pa
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.testing import MemoryReactorClock, StringTransport

from deltabook.wire.access import Access
from runtime.compiler import Column, NamedSelect, Relation, SqlError, compile_program
from runtime.compiler.describe import database
from runtime.epochs import Footer
from runtime.service.http.limits import SiteLimits
from runtime.service.postgres import PostgresFactory, PostgresParts
from runtime.service.results.hub import Hub
from runtime.service.sandbox import AnswerRows, AskLimits, Beside, CostlyError
from runtime.service.sandbox.database import Sandbox
from runtime.service.sandbox.messages import Given, GivenTable
from runtime.service.sandbox.question import checked

__all__ = ["TOKEN", "Client", "PostgresLab", "bind", "execute", "message", "parse", "query", "text"]

TOKEN = "0123456789abcdef"
_R = Relation("r", (Column("a", "int64"), Column("s", "string", nullable=True)))
_PROGRAM = compile_program([NamedSelect("sums", "SELECT s, SUM(a) AS total FROM r GROUP BY s")], [_R])
_ROWS = pa.table({"a": [1, 2, 3], "s": ["x", "y", None]})


def text(value: str) -> bytes:
    """Return a string of the protocol."""
    return value.encode() + b"\0"


def message(code: bytes, *parts: bytes) -> bytes:
    """Return a message of a client."""
    content = b"".join(parts)
    return code + struct.pack("!i", len(content) + 4) + content


def query(sql: str) -> bytes:
    """Return a simple query message."""
    return message(b"Q", text(sql))


def parse(sql: str, name: str = "", oids: tuple[int, ...] = ()) -> bytes:
    """Return a Parse message."""
    return message(b"P", text(name), text(sql), struct.pack(f"!h{len(oids)}i", len(oids), *oids))


def bind(
    *values: bytes | None, portal: str = "", name: str = "", forms: tuple[int, ...] = (), wanted: tuple[int, ...] = ()
) -> bytes:
    """Return a Bind message."""
    pieces = [
        text(portal),
        text(name),
        struct.pack(f"!h{len(forms)}h", len(forms), *forms),
        struct.pack("!h", len(values)),
    ]
    pieces += [struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value for value in values]
    return message(b"B", *pieces, struct.pack(f"!h{len(wanted)}h", len(wanted), *wanted))


def execute(portal: str = "", most: int = 0) -> bytes:
    """Return an Execute message."""
    return message(b"E", text(portal), struct.pack("!i", most))


class _Pool:
    def callInThreadWithCallback(self, done: Any, call: Any, *given: Any) -> None:
        done(True, call(*given))


class FakeAsker:
    """Answers with DuckDB over one relation and one view; it can wait until a test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int | None]] = []
        self.epoch = 7
        self.waits: Deferred[None] | None = None
        self.limits = AskLimits()

    def newest(self) -> int:
        return self.epoch

    async def ask(
        self,
        sql: str,
        epoch: int | None,
        gone: Deferred[Any] | None = None,
        *,
        beside: Beside | None = None,
        most_rows: int | None = None,
        waits: bool = False,
        describes: bool = False,
        explains: bool = False,
    ) -> tuple[int, AnswerRows]:
        assert waits
        self.asked.append((sql, epoch))
        if self.waits is not None:
            waiting = self.waits
            assert gone is not None
            gone.addBoth(lambda _: None if waiting.called else waiting.errback(CostlyError("nobody waits")))
            await waiting
        sandbox = Sandbox(self.limits)
        try:
            known = {"r", "sums", *(beside.tables if beside else ())}
            with database().cursor() as connection:
                names = checked(sql, connection).names
            for name, _ in names:
                if name not in known:
                    raise SqlError(f"unknown relation or view {name!r}", line=1, column=sql.index(name) + 1)
            beside = beside or Beside()
            tables = (GivenTable("r", _R.columns), *(GivenTable(name) for name in beside.tables))
            given = Given(tables, None, tuple(beside.macros), most_rows, describes, explains)
            answer = sandbox.answer(sql, given, [_ROWS, *beside.tables.values()])
            answered = AnswerRows(answer.columns, pa.Table.from_batches(answer.batches, answer.schema))
        finally:
            sandbox.close()
        return self.epoch if epoch is None else epoch, answered


class _Transport(StringTransport):
    """Transport that is ended at once on an abort, and can be full."""

    is_aborted = False
    tls: Any = None

    def abortConnection(self) -> None:
        self.is_aborted = True
        super().abortConnection()

    def startTLS(self, context: Any) -> None:
        self.tls = context

    def setTcpKeepAlive(self, on: bool) -> None:
        del on


class Client:
    """One connection with its messages."""

    def __init__(self, lab: PostgresLab, host: str) -> None:
        address: Any = IPv4Address("TCP", host, 40000)
        self.lab = lab
        self.transport: Any = _Transport(peerAddress=address)
        self.protocol = lab.factory.buildProtocol(address)
        self.protocol.makeConnection(self.transport)

    def send(self, data: bytes) -> list[tuple[str, bytes]]:
        """Send bytes, let the reactor turn, and return the answers."""
        self.protocol.dataReceived(data)
        return self.read()

    def read(self) -> list[tuple[str, bytes]]:
        """Return the messages that have arrived."""
        self.lab.clock.advance(0)
        for _ in range(20):
            self.lab.clock.advance(0)
        data = self.transport.value()
        self.transport.clear()
        found, at = [], 0
        while at < len(data):
            (length,) = struct.unpack_from("!i", data, at + 1)
            assert at + 1 + length <= len(data), "a message that is cut off"
            found.append((chr(data[at]), data[at + 5 : at + 1 + length]))
            at += 1 + length
        return found

    def begin(self, **said: str) -> list[tuple[str, bytes]]:
        """Send the startup message, and return the answers."""
        named = {"user": "me", **said}
        content = b"".join(text(name) + text(value) for name, value in named.items()) + b"\0"
        return self.send(struct.pack("!ii", len(content) + 8, 3 << 16) + content)

    def query(self, sql: str) -> list[tuple[str, bytes]]:
        """Send a simple query, and return its answers."""
        return self.send(query(sql))

    def rows(self, sql: str) -> list[list[str | None]]:
        """Return the rows of a simple query."""
        return rows_of(self.query(sql))

    def error(self, data: bytes) -> dict[str, str]:
        """Return the fields of the single error that comes back."""
        (found,) = [content for code, content in self.send(data) if code == "E"]
        return fields_of(found)

    def lose(self) -> None:
        """End the connection."""
        self.protocol.connectionLost()

    def log_in(self, password: str, *, change: Any = lambda final: final) -> list[tuple[str, bytes]]:
        """Log in with SCRAM, written from RFC 5802 only; return the answers."""
        ((_, first),) = self.begin()
        assert first == struct.pack("!i", 10) + b"SCRAM-SHA-256\0\0"
        bare = "n=,r=rOprNGfwEbeRWgbNEkqO"
        content = text("SCRAM-SHA-256") + struct.pack("!i", len(bare) + 3) + b"n,," + bare.encode()
        ((_, answer),) = self.send(message(b"p", content))
        server = answer[4:].decode()
        said = dict(part.split("=", 1) for part in server.split(","))
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(said["s"]), int(said["i"]))
        key = hmac.digest(salted, b"Client Key", "sha256")
        without = f"c=biws,r={said['r']}"
        signed = f"{bare},{server},{without}".encode()
        signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
        return self.send(message(b"p", change(f"{without},p={proof}").encode()))


def rows_of(messages: list[tuple[str, bytes]]) -> list[list[str | None]]:
    """Return rows as text."""
    found = []
    for code, content in messages:
        if code == "D":
            (count,), at, row = struct.unpack_from("!h", content), 2, list[str | None]()
            for _ in range(count):
                (length,) = struct.unpack_from("!i", content, at)
                at += 4
                row.append(None if length < 0 else content[at : at + length].decode())
                at += max(length, 0)
            found.append(row)
    return found


def fields_of(content: bytes) -> dict[str, str]:
    """Return the fields of an error or a notice."""
    return {part[:1].decode(): part[1:].decode() for part in content.split(b"\0") if part}


class PostgresLab:
    """Port and its clients."""

    def __init__(
        self, *, access: Access | None = None, tls: Any = None, token: str = "", hub: Hub | None = None, **limits: Any
    ) -> None:
        self.clock = cast(Any, MemoryReactorClock())
        self.clock.getThreadPool = _Pool
        self.hub = hub or Hub(_PROGRAM, lambda: 5)
        if hub is None:
            rows = pa.table({"s": ["x", None], "total": pa.array([3, 4]).cast(pa.decimal128(38, 0)), "weight": [1, 1]})
            self.hub.publish(Footer(0, 3), {"sums": rows}, {})
        self.asker = FakeAsker()
        self.threads: list[Any] = []
        self.is_slow = False

        def in_thread(call: Any) -> Deferred[Any]:
            done: Deferred[Any] = Deferred()
            if self.is_slow:
                self.threads.append(lambda: done.callback(call()))
            else:
                try:
                    done.callback(call())
                except Exception:  # noqa: BLE001 (as a thread pool does)
                    done.errback()
            return done

        parts = PostgresParts(hub=self.hub, asker=cast(Any, self.asker), relations=lambda: [_R], in_thread=in_thread)
        self._number = 0

        def random(size: int) -> bytes:
            self._number += 1
            return bytes([self._number % 256]) * size

        self.factory = PostgresFactory(
            parts, access or Access(token), SiteLimits(**limits), self.clock, random=random, token=token, tls=tls
        )

    def connect(self, host: str = "127.0.0.1") -> Client:
        """Return a connection that has sent nothing yet."""
        return Client(self, host)

    def session(self, **said: str) -> Client:
        """Return a connection that has logged in."""
        client = self.connect()
        assert client.begin(**said)[-1] == ("Z", b"I")
        return client

"""A feed over TCP: logs in as a passive listener and turns what arrives into raw buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from twisted.internet.protocol import ClientFactory, Protocol, connectionDone
from twisted.python.failure import Failure

from deltabook.wire.text import (
    LINE_LIMIT_BYTES,
    Accepted,
    PassiveLogin,
    Refused,
    WireError,
    encode_login,
    parse_login_reply,
)
from runtime.formats import RawBuffer
from runtime.sources.base import BufferSink, Position, Source
from runtime.sources.errors import SourceStateError

__all__ = ["Backoff", "TextFeedSource"]

BUFFER_BYTES: Final = 1 << 18


class Backoff(msgspec.Struct, frozen=True):
    """How long to wait between attempts to connect, in seconds, doubling each time."""

    first_s: float = 0.05
    """Before the second attempt."""
    longest_s: float = 2.0
    """No wait is longer."""
    attempts: int = 20
    """After so many in a row without a login the source has failed."""

    def delay_s(self, failures: int) -> float:
        """The wait after so many failures in a row, from 1."""
        return float(min(self.first_s * 2 ** min(failures - 1, 32), self.longest_s))


class TextFeedSource(Source):
    """One connection to an exchange's text feed, on the reactor's thread.

    What arrives in one turn of the reactor becomes one raw buffer, a small message goes out at the turn's end. While
    the sink refuses, the transport is paused and the bytes that were already on their way are gathered, up to about
    ``buffer_bytes`` a buffer. A broken connection is reported once, with `lost`; the source then does nothing until
    `reconnect` says where to go on: the bytes behind the last whole message come again. A connection on which nothing
    arrives for ``silence_s`` while it is read counts as broken: an exchange sends heartbeats. A refused login, and too
    many attempts to connect in a row, are failures.
    """

    def __init__(
        self,
        reactor: Any,
        host: str,
        port: int,
        origin_id: int,
        *,
        backoff: Backoff | None = None,
        buffer_bytes: int = BUFFER_BYTES,
        connect_timeout_s: float = 5.0,
        silence_s: float = 10.0,
    ) -> None:
        self._reactor = reactor
        self._address = (host, port)
        self._origin_id = origin_id
        self._backoff = backoff or Backoff()
        self._buffer_bytes = buffer_bytes
        self._connect_timeout_s = connect_timeout_s
        self._silence_s = silence_s
        self._sink: BufferSink | None = None
        self._position = Position()
        self._failures = 0
        self._retry: Any = None
        self._connection: _Connection | None = None
        self._connector: Any = None
        self._closed = False
        self.session = ""
        """Session of the feed, as the exchange named it at the last login."""
        self.next_sequence = 0
        """Number of the first message after the last login, as the exchange named it."""

    @property
    def is_connected(self) -> bool:
        """There is a connection whose login was accepted; on the reactor's thread."""
        return self._connection is not None and self._connection.logged_in

    def open(self, sink: BufferSink, position: Position) -> None:
        """Connect and log in at the position; on the reactor's thread."""
        if self._sink is not None or self._closed:
            raise SourceStateError(f"expected a source that was never opened, was origin {self._origin_id} again")
        self._sink = sink
        self.reconnect(position)

    def reconnect(self, position: Position) -> None:
        """Log in again at the position, on the reactor's thread; raw buffers are numbered from 1 again."""
        if self._closed or self._sink is None:
            raise SourceStateError(f"expected an open source, was origin {self._origin_id} before open or after close")
        self._drop()
        self._position = position
        self._failures = 0
        self._connect()

    def resume(self) -> None:
        """The sink has room again; from any thread."""
        self._reactor.callFromThread(self._resume)

    def close(self) -> None:
        """Break the connection; from any thread, the sink hears nothing more once it has run on the reactor's."""
        self._closed = True
        self._reactor.callFromThread(self._drop)

    def _resume(self) -> None:
        if self._connection is not None:
            self._connection.flush()

    def _drop(self) -> None:
        """Forget the connection and whatever was about to make one."""
        connection, self._connection = self._connection, None
        connector, self._connector = self._connector, None
        retry, self._retry = self._retry, None
        if retry is not None and retry.active():
            retry.cancel()
        if connection is not None:
            connection.abandon()
        elif connector is not None:
            connector.disconnect()

    def _connect(self) -> None:
        self._retry = None
        factory = _Factory(self)
        self._connector = self._reactor.connectTCP(*self._address, factory, timeout=self._connect_timeout_s)

    # What the connection tells its source.

    def connected(self, connection: _Connection) -> None:
        """The transport is there: log in."""
        if self._closed:
            connection.abandon()
            return
        self._connection = connection
        connection.start(self._origin_id, self._position, self._buffer_bytes, self._silence_s)

    def accepted(self, reply: Accepted) -> None:
        """The exchange took the login."""
        self._failures = 0
        self.session, self.next_sequence = reply.session, reply.sequence

    def offer(self, raw: RawBuffer) -> bool:
        """Hand a buffer to the sink."""
        return self._sink is not None and not self._closed and self._sink.offer(raw)

    def later(self, call: Callable[[], None], delay_s: float = 0) -> Any:
        """Run something at the end of this turn of the reactor, or after a while; gives the delayed call."""
        return self._reactor.callLater(delay_s, call)

    def refused(self, reason: str) -> None:
        """The login cannot succeed, however often it is tried."""
        self._drop()
        self._fail(reason)

    def broken(self, connection: _Connection, reason: str) -> None:
        """The connection ended by itself."""
        if connection is not self._connection or self._closed:
            return
        self._connection = self._connector = None
        if connection.logged_in:
            if self._sink is not None:
                self._sink.lost(self._origin_id, f"connection to {self._where()} lost: {reason}")
        else:
            self._attempt_failed(f"closed before the login was answered: {reason}")

    def unreachable(self, connector: Any, reason: str) -> None:
        """No connection came about."""
        if connector is self._connector and not self._closed:
            self._connector = None
            self._attempt_failed(reason)

    def _attempt_failed(self, reason: str) -> None:
        self._failures += 1
        if self._failures >= self._backoff.attempts:
            self._fail(f"expected a feed at {self._where()}, was none in {self._failures} attempts: {reason}")
            return
        self._retry = self._reactor.callLater(self._backoff.delay_s(self._failures), self._connect)

    def _fail(self, reason: str) -> None:
        if self._sink is not None and not self._closed:
            self._sink.failed(self._origin_id, reason)

    def _where(self) -> str:
        return f"{self._address[0]}:{self._address[1]}"


class _Factory(ClientFactory):
    """Makes the one connection of one attempt."""

    noisy = False

    def __init__(self, source: TextFeedSource) -> None:
        self._source = source

    def buildProtocol(self, addr: object) -> Protocol:
        return _Connection(self._source)

    def clientConnectionFailed(self, connector: Any, reason: Failure) -> None:
        self._source.unreachable(connector, reason.getErrorMessage())


class _Connection(Protocol):
    """The bytes of one login: the reply's line first, raw buffers after it."""

    def __init__(self, source: TextFeedSource) -> None:
        self._source = source
        self.logged_in = False
        self._reply = b""
        self._chunks: list[bytes] = []
        self._held = 0
        self._refused_buffer: RawBuffer | None = None
        self._flush_planned = False
        self._paused = False
        self._gone: str | None = None
        self._number = 1
        self._abandoned = False
        self._watch: Any = None
        self._silence: str | None = None

    def connectionMade(self) -> None:
        self._source.connected(self)

    def start(self, origin_id: int, position: Position, buffer_bytes: int, silence_s: float) -> None:
        """Send the login."""
        self._origin_id = origin_id
        self._offset = position.offset
        self._buffer_bytes = buffer_bytes
        self._silence_s = silence_s
        self._watch_silence()
        transport: Any = self.transport
        transport.write(encode_login(PassiveLogin(position.session, position.sequence)))

    def abandon(self) -> None:
        """Close without a word to the source."""
        self._abandoned = True
        self._end_watch()
        self._chunks.clear()
        self._refused_buffer = None
        transport: Any = self.transport
        transport.abortConnection()

    def dataReceived(self, data: bytes) -> None:
        if self._abandoned:
            return
        if self._watch is not None:
            self._watch.reset(self._silence_s)
        if not self.logged_in:
            data = self._read_reply(data)
        if data:
            self._chunks.append(data)
            self._held += len(data)
            self._plan_flush()

    def _watch_silence(self) -> None:
        self._watch = self._source.later(self._silent, self._silence_s)

    def _end_watch(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()

    def _silent(self) -> None:
        """The peer hangs or is gone without a word: `connectionLost` follows."""
        self._watch = None
        self._silence = f"nothing heard for {self._silence_s:g} s"
        transport: Any = self.transport
        transport.abortConnection()

    def _read_reply(self, data: bytes) -> bytes:
        """Look for the login's answer, return what comes behind it."""
        line, delimiter, rest = (self._reply + data).partition(b"\n")
        if not delimiter:
            self._reply = line
            if len(line) > LINE_LIMIT_BYTES:
                self._source.refused(f"expected a login reply within {LINE_LIMIT_BYTES} bytes, was {line[:80]!r}")
            return b""
        try:
            reply = parse_login_reply(line)
        except WireError as error:
            self._source.refused(str(error))
            return b""
        if isinstance(reply, Refused):
            self._source.refused(f"expected a login to be accepted, was refused ({reply.code}): {reply.reason}")
            return b""
        self.logged_in = True
        self._source.accepted(reply)
        return rest

    def _plan_flush(self) -> None:
        """At once when a buffer is full, else at the end of this turn of the reactor."""
        if self._refused_buffer is not None:
            return
        if self._held >= self._buffer_bytes:
            self.flush()
        elif not self._flush_planned:
            self._flush_planned = True
            self._source.later(self._flush_turn)

    def _flush_turn(self) -> None:
        self._flush_planned = False
        if self._refused_buffer is None:
            self.flush()

    def flush(self) -> None:
        """Offer what is held, the refused buffer first, until the sink refuses or nothing is left."""
        while not self._abandoned:
            raw = self._refused_buffer or self._gather()
            if raw is None:
                break
            if not self._source.offer(raw):
                self._refused_buffer = raw
                self._pause()
                return
            self._refused_buffer = None
        if not self._abandoned:
            self._go_on()

    def _gather(self) -> RawBuffer | None:
        if not self._chunks:
            return None
        data = b"".join(self._chunks)
        self._chunks.clear()
        self._held = 0
        raw = RawBuffer(self._origin_id, self._number, data, self._offset)
        self._number += 1
        self._offset += len(data)
        return raw

    def _pause(self) -> None:
        if not self._paused and self._gone is None:
            self._paused = True
            self._end_watch()
            transport: Any = self.transport
            transport.pauseProducing()

    def _go_on(self) -> None:
        if self._gone is not None:
            self._source.broken(self, self._gone)
        elif self._paused:
            self._paused = False
            self._watch_silence()
            transport: Any = self.transport
            transport.resumeProducing()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._abandoned:
            return
        self._end_watch()
        self._gone = self._silence or reason.getErrorMessage()
        if self._refused_buffer is None:  # else what was received is offered again first, after resume
            self.flush()

"""Readers of streams over connections, for every protocol: admission, sending, and the disconnection of slow readers.

`Tail` is one reader of numbered records over a transport that may be slower than the market. `Audience` is the set of
connections that follow a stream: all bytes appended in a turn of the reactor form one burst, the same for all
connections.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final, Generic, Protocol, TypeVar

import msgspec
from twisted.internet.interfaces import IAddress
from twisted.logger import Logger

from deltabook.wire.durations import Durations
from deltabook.wire.prompt import prompt_write
from exchange_server.errors import DamagedStreamError

__all__ = [
    "CHUNK_BYTES",
    "Audience",
    "Count",
    "Delay",
    "Reader",
    "ReaderLimits",
    "Readers",
    "Records",
    "Seconds",
    "SequencedStream",
    "Tail",
    "Timers",
    "farthest_behind_bytes",
    "peer_of",
]

CHUNK_BYTES: Final = 128 * 1024
"""Size of a chunk of a gap fill in bytes: more than a transport's buffer, so that the transport pauses after each
chunk.
"""


class Records(Protocol):
    """Consecutive numbered records, such as a `NumberedFile`."""

    @property
    def next_number(self) -> int:
        """Number of the record that will be appended next."""

    @property
    def size_bytes(self) -> int:
        """Offset at which the next record will begin."""

    def offset_of(self, number: int) -> int:
        """Return the offset of a record; raise `ValueError` outside 1 … `next_number`."""

    def read(self, offset: int, limit_bytes: int) -> bytes:
        """Return whole records from an offset on, as many as fit into the limit."""

    def piece(self, offset: int, limit_bytes: int) -> bytes:
        """Return the bytes after an offset, at least one if there is more; they may end inside a record."""

    def rest_of_record(self, offset: int) -> bytes:
        """Return the rest of the record that contains an offset; empty at the beginning of a record."""


class Sink(Protocol):
    """The part of a transport that a tail writes to."""

    def write(self, data: bytes) -> None:
        """Send or buffer the data."""


class Tail:
    """Sends records from a number on: the gap from disk in chunks, then bursts as they happen.

    Nothing is queued for a slow reader: while its transport is paused, the tail only remembers its position, and
    reads on afterwards. At most one burst or chunk is pending in memory. Heartbeats are sent only while the reader
    has everything.
    """

    __slots__ = (
        "_allowance_bytes",
        "_heartbeat",
        "_lag_limit_bytes",
        "_on_damage",
        "_sink",
        "_write_now",
        "offset",
        "paused",
        "records",
        "written_s",
    )

    def __init__(
        self,
        records: Records,
        number: int,
        sink: Sink,
        heartbeat: Callable[[], bytes],
        *,
        lag_limit_bytes: int,
        on_damage: Callable[[str], None],
    ) -> None:
        """Start at a record; raise `DamagedStreamError` if the record cannot be found.

        ``on_damage`` is called with the reason if records cannot be read as they were written: nothing more may be
        sent then.
        """
        self.records = records
        self.offset = records.offset_of(number)
        self.paused = False
        self.written_s = 0.0
        """Time at which the transport last accepted bytes (the server's monotonic seconds)."""
        self._sink = sink
        self._write_now = prompt_write(sink)
        self._heartbeat = heartbeat
        self._lag_limit_bytes = lag_limit_bytes
        self._on_damage = on_damage
        self._allowance_bytes = self.lag_bytes + lag_limit_bytes

    @property
    def lag_bytes(self) -> int:
        """Number of bytes that exist and that the transport has not yet accepted."""
        return self.records.size_bytes - self.offset

    @property
    def too_slow(self) -> bool:
        """True if the lag exceeds the smallest lag so far by more than the limit."""
        return self.lag_bytes > self._allowance_bytes

    def burst(self, start: int, data: bytes, now_s: float) -> None:
        """Send the records just appended, and their heartbeat.

        The bytes are shared by all readers and begin at offset `start`.
        """
        if self.paused:
            return
        if self.offset != start:
            self.pump(now_s)
            return
        self.offset = self.records.size_bytes
        self.written_s = now_s
        self._write_now(data)

    def pump(self, now_s: float) -> None:
        """Send records until the transport pauses or everything is sent."""
        while not self.paused and self.lag_bytes:
            try:
                chunk = self.records.piece(self.offset, CHUNK_BYTES)
            except DamagedStreamError as error:
                self._on_damage(str(error))
                return
            if not chunk:  # the file has lost its end; the reader will be disconnected for its lag
                return
            self.offset += len(chunk)
            self.written_s = now_s
            # Reduce the allowance as the lag shrinks: a reader that catches up is not disconnected for its earlier
            # lag.
            self._allowance_bytes = min(self._allowance_bytes, self.lag_bytes + self._lag_limit_bytes)
            self._sink.write(chunk if self.lag_bytes else chunk + self._heartbeat())

    def finish_record(self) -> None:
        """Send the rest of a partly sent record, so that another message can follow it."""
        rest = self.records.rest_of_record(self.offset)
        if rest:
            self.offset += len(rest)
            self._sink.write(rest)

    def beat(self, now_s: float) -> None:
        """Send a heartbeat if the reader has everything else."""
        if not self.paused and not self.lag_bytes:
            self.written_s = now_s
            self._sink.write(self._heartbeat())


F = TypeVar("F")


class SequencedStream(Protocol):
    """Numbered records, from 1, and the listeners for new records."""

    @property
    def records(self) -> Records:
        """Records of the stream."""

    @property
    def on_append(self) -> list[Callable[[bytes], None]]:
        """Listeners, called with the bytes just appended to the records."""


class Audience(Generic[F]):
    """The connections that follow one stream, and the bytes appended to the stream in this turn of the reactor."""

    __slots__ = ("_announce", "_burst", "connections", "heartbeat", "stream")

    def __init__(
        self, stream: SequencedStream, announce: Callable[[Audience[F]], None], heartbeat: Callable[[], bytes]
    ) -> None:
        """Create an audience; ``announce`` is called when the first bytes after a `take` are pending."""
        self.stream = stream
        """Stream that the connections follow."""
        self.connections: set[F] = set()
        """Connections that follow the stream."""
        self.heartbeat = heartbeat
        """Function that makes the heartbeat message."""
        self._burst: list[bytes] = []
        self._announce = announce
        stream.on_append.append(self._collect)

    def _collect(self, data: bytes) -> None:
        if not self._burst:
            self._announce(self)
        self._burst.append(data)

    def take(self) -> bytes:
        """Return the bytes appended since the last call."""
        burst, self._burst = self._burst, []
        return burst[0] if len(burst) == 1 else b"".join(burst)

    def close(self) -> None:
        """Stop collecting the stream's bytes."""
        self.stream.on_append.remove(self._collect)


Count = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
"""Limit that is a number of things, at least one."""
Delay = Annotated[float, msgspec.Meta(ge=0)]
"""Time in seconds, possibly none."""
Seconds = Annotated[float, msgspec.Meta(ge=0.01)]
"""Time in seconds; a shorter one would keep a core busy, or leave a client no time at all."""


class ReaderLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of a server of any protocol."""

    connections: Count = 256
    """Largest number of open connections."""
    login_timeout_s: Seconds = 10.0
    """Time after which a connection without a login is closed, in seconds."""
    silence_s: Seconds = 1.0
    """Time without a message after which a heartbeat is sent, in seconds."""
    burst_interval_s: Delay = 0.0
    """Smallest time between two bursts that no client requested, in seconds; messages appended meanwhile go into the
    next burst.
    """
    lag_bytes: Count = 64 * 1024 * 1024
    """Number of bytes by which a reader's lag may exceed its smallest lag so far; a slower reader is disconnected."""
    stall_s: Seconds = 30.0
    """Time without progress after which a reader with pending bytes is disconnected, in seconds."""


class Timers(Protocol):
    """The part of a reactor that gives the time and calls functions later."""

    def seconds(self) -> float:
        """Return monotonic seconds."""

    def callLater(self, delay: float, callable: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: A002 - Twisted's name
        """Call a function after a delay in seconds."""


class Reader:
    """State of a connection's client, for every protocol: the pending login, and the stream that the client is sent.

    The connection is registered as the transport's producer, and forwards the transport's calls to the reader.
    """

    __slots__ = ("_clock", "_connection", "_login_timeout", "is_closed", "tail")

    def __init__(self, connection: Any, clock: Timers) -> None:
        self._connection = connection
        self._clock = clock
        self._login_timeout: Any = None
        self.is_closed = False
        """True once the reader is closed: nothing more is sent, and further input is ignored."""
        self.tail: Tail | None = None
        """Tail of the stream that the client reads, once its login was accepted."""

    def await_login(self, timeout_s: float, too_late: Callable[[str], None]) -> None:
        """Wait for a login; call ``too_late`` after the timeout."""
        transport = self._connection.transport
        if hasattr(transport, "setTcpNoDelay"):
            transport.setTcpNoDelay(True)
        self._login_timeout = self._clock.callLater(timeout_s, too_late, f"no login within {timeout_s:g} s")

    def logged_in(self) -> None:
        """Stop waiting for the login: it arrived."""
        if self._login_timeout is not None and self._login_timeout.active():
            self._login_timeout.cancel()
        self._login_timeout = None

    def follow(self, tail: Tail) -> None:
        """Follow a stream; from now on the transport pauses and resumes the tail."""
        self.tail = tail
        self._connection.transport.registerProducer(self._connection, True)

    def pause(self) -> None:
        """Pause sending."""
        if self.tail is not None:
            self.tail.paused = True

    def resume(self) -> None:
        """Resume sending after a pause."""
        if self.tail is not None and not self.is_closed:
            self.tail.paused = False
            self.tail.pump(self._clock.seconds())

    def close(self, *, flush: bool, last_words: bytes = b"") -> None:
        """Close the connection.

        With `flush`, first send pending bytes and then the last words, otherwise discard them.
        """
        self.lost()
        transport = self._connection.transport
        if self.tail is not None:
            self.tail.paused = True
            transport.unregisterProducer()
        if flush and self._finish(last_words):
            transport.loseConnection()
        else:
            transport.abortConnection()

    def _finish(self, last_words: bytes) -> bool:
        """Send the rest of a partly sent record and the last words; return False if that rest is damaged."""
        try:
            if self.tail is not None:
                self.tail.finish_record()
        except DamagedStreamError:
            return False
        if last_words:
            self._connection.transport.write(last_words)
        return True

    def lost(self) -> None:
        """Release the resources of a connection that has ended."""
        self.is_closed = True
        self.logged_in()


class ReaderConnection(Protocol):
    """Connection with a reader."""

    transport: Any

    @property
    def reader(self) -> Reader:
        """Reader state of the connection's client."""

    def cut(self, reason: str, *, flush: bool = False) -> None:
        """Close the connection; pending bytes are sent first (`flush`) or discarded."""


C = TypeVar("C", bound=ReaderConnection)


class Readers(Generic[C]):
    """The connections of one server: delivery of bursts, heartbeats, and limits.

    `deliver` is called once for all bursts that were announced in a turn of the reactor; `beat` is called a few times
    per silence interval, unless a delivery is due.
    """

    _log = Logger()

    def __init__(
        self, clock: Timers, limits: ReaderLimits, deliver: Callable[[], None], beat: Callable[[], None]
    ) -> None:
        self._clock = clock
        self._limits = limits
        self._deliver = deliver
        self._beat = beat
        self._deliver_call: Any = None
        self._delivered_s = -math.inf
        self.connections: set[C] = set()
        """Open connections."""
        self.requests = Durations()
        """Durations from reading the first request of a batch until the market has carried out the batch."""
        self.deliveries = Durations()
        """Durations from the first message of a burst until the burst is written to all connections."""
        self._announced_s: float | None = None
        self._beat_call = clock.callLater(limits.silence_s / 4, self._tick)

    def admit(self, connection: C) -> bool:
        """Return True if there is room for the connection; if so, register it."""
        if len(self.connections) >= self._limits.connections:
            return False
        self.connections.add(connection)
        return True

    def forget(self, connection: C) -> None:
        """Remove a connection that has ended."""
        self.connections.discard(connection)

    def tail(self, connection: C, records: Records, number: int, heartbeat: Callable[[], bytes]) -> Tail | None:
        """Return the tail that sends a connection the records from a number on.

        If those records are damaged, disconnect and return None. A connection that reaches damaged records later is
        disconnected as well: it is sent none of them.
        """

        def on_damage(reason: str) -> None:
            self._log.error("{reason}", reason=reason)
            connection.cut("damaged records, see the log of the exchange")

        sink, limit_bytes = connection.transport, self._limits.lag_bytes
        try:
            return Tail(records, number, sink, heartbeat, lag_limit_bytes=limit_bytes, on_damage=on_damage)
        except DamagedStreamError as error:
            on_damage(str(error))
            return None

    def deliver_soon(self) -> None:
        """Deliver at the end of this turn of the reactor, or when the interval between bursts has passed."""
        if self._announced_s is None:
            self._announced_s = self._clock.seconds()
        if self._deliver_call is None:
            interval_s = self._limits.burst_interval_s
            wait_s = max(0.0, self._delivered_s + interval_s - self._clock.seconds()) if interval_s else 0
            self._deliver_call = self._clock.callLater(wait_s, self.deliver)

    def deliver(self) -> None:
        """Deliver now."""
        if self._deliver_call is not None and self._deliver_call.active():
            self._deliver_call.cancel()
        self._deliver_call = None
        self._delivered_s = self._clock.seconds()
        announced_s, self._announced_s = self._announced_s, None
        self._deliver()
        if announced_s is not None:
            self.deliveries.add(self._clock.seconds() - announced_s)

    def spread(self, connections: Iterable[C], records: Records, burst: bytes, heartbeat: bytes) -> None:
        """Send the bytes just appended to each connection, in one write; disconnect readers too far behind."""
        start, data, now_s = records.size_bytes - len(burst), burst + heartbeat, self._clock.seconds()
        for connection in tuple(connections):
            tail = connection.reader.tail
            if tail is not None:
                tail.burst(start, data, now_s)
                if tail.too_slow:
                    connection.cut(f"slow: {tail.lag_bytes} bytes behind, the limit is {self._limits.lag_bytes}")

    def beat(self, why_end: Callable[[C, Tail, float], str] = lambda *_: "") -> None:
        """Send heartbeats after silence; disconnect stalled readers and those that ``why_end`` gives a reason for."""
        now_s = self._clock.seconds()
        for connection in tuple(self.connections):
            tail = connection.reader.tail
            if tail is None:
                continue
            silent_s = now_s - tail.written_s
            if tail.paused and silent_s >= self._limits.stall_s:
                connection.cut(f"slow: took nothing for {silent_s:.0f} s")
            elif reason := why_end(connection, tail, now_s):
                connection.cut(reason, flush=True)
            elif silent_s >= self._limits.silence_s:
                tail.beat(now_s)

    def _tick(self) -> None:
        self._beat_call = self._clock.callLater(self._limits.silence_s / 4, self._tick)
        if self._deliver_call is None:
            self._beat()

    def close(self) -> None:
        """Send pending bytes, then close every connection."""
        self.deliver()
        if self._beat_call.active():
            self._beat_call.cancel()
        for connection in tuple(self.connections):
            connection.cut("the exchange stops", flush=True)


def farthest_behind_bytes(connections: Iterable[ReaderConnection]) -> int:
    """Return the bytes by which the slowest reader is behind."""
    return max((c.reader.tail.lag_bytes for c in connections if c.reader.tail), default=0)


def peer_of(address: IAddress | None) -> str:
    """Return the peer's address, for the log."""
    return f"{getattr(address, 'host', '?')}:{getattr(address, 'port', 0)}"

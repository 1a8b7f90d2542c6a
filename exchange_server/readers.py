"""Readers of streams over connections, whatever their protocol: admission, sending, and the cut of slow ones.

`Tail` is one reader of numbered records over a transport that may be slower than the market. `Audience` are the
followers of a stream: all that is appended in a turn of the reactor is one burst, the same bytes for everybody.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec
from twisted.internet.interfaces import IAddress
from twisted.logger import Logger

from deltabook.wire.durations import Durations
from deltabook.wire.prompt import prompt_write
from exchange_server.errors import DamagedStreamError

__all__ = [
    "CHUNK_BYTES",
    "Audience",
    "Reader",
    "ReaderLimits",
    "Readers",
    "Records",
    "SequencedStream",
    "Tail",
    "Timers",
    "farthest_behind_bytes",
    "peer_of",
]

CHUNK_BYTES: Final = 128 * 1024
"""Size of a chunk of a gap fill: more than a transport's buffer holds, so that it asks for a pause after each."""


class Records(Protocol):
    """Numbered records behind each other, such as a `NumberedFile`."""

    @property
    def next_number(self) -> int:
        """Number of the record that will be appended next."""

    @property
    def size_bytes(self) -> int:
        """Offset at which it will begin."""

    def offset_of(self, number: int) -> int:
        """Return the offset of a record; raises `ValueError` outside 1 … `next_number`."""

    def read(self, offset: int, limit_bytes: int) -> bytes:
        """Whole records from an offset on, as many as fit into the limit."""

    def piece(self, offset: int, limit_bytes: int) -> bytes:
        """Return the bytes after an offset, at least one if there is more; they may end inside a record."""

    def rest_of_record(self, offset: int) -> bytes:
        """Return the rest of the record in which an offset lies; empty at the beginning of one."""


class Sink(Protocol):
    """The part of a transport that a tail writes to."""

    def write(self, data: bytes) -> None:
        """Send or buffer."""


class Tail:
    """Sends records from a number on: the gap from disk in chunks, then bursts as they happen.

    Nothing is queued for a reader that is slow: while its transport wants a pause, the tail only remembers where it
    is, and reads on afterwards. What waits in memory is at most one burst or chunk. A heartbeat follows
    whenever the reader has everything there is.
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
        """``on_damage`` is called with the reason if records cannot be read as they were written: nothing more may be
        sent then. Raises `DamagedStreamError` if the first of them cannot be found."""
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
        """Bytes that exist and that the transport has not taken yet."""
        return self.records.size_bytes - self.offset

    @property
    def too_slow(self) -> bool:
        """The reader has fallen further behind than the limit since it was last this close."""
        return self.lag_bytes > self._allowance_bytes

    def burst(self, start: int, data: bytes, now_s: float) -> None:
        """Hand over what was just appended (with its heartbeat), shared by all readers; `start` is where it begins."""
        if self.paused:
            return
        if self.offset != start:
            self.pump(now_s)
            return
        self.offset = self.records.size_bytes
        self.written_s = now_s
        self._write_now(data)

    def pump(self, now_s: float) -> None:
        """Read on until the transport wants a pause or everything is sent."""
        while not self.paused and self.lag_bytes:
            try:
                chunk = self.records.piece(self.offset, CHUNK_BYTES)
            except DamagedStreamError as error:
                self._on_damage(str(error))
                return
            if not chunk:  # a file that lost its end: a reader that waits for it is cut for its lag, and nothing hangs
                return
            self.offset += len(chunk)
            self.written_s = now_s
            # Within the allowance of where it now is: a reader that catches up is not cut for where it came from.
            self._allowance_bytes = min(self._allowance_bytes, self.lag_bytes + self._lag_limit_bytes)
            self._sink.write(chunk if self.lag_bytes else chunk + self._heartbeat())

    def finish_record(self) -> None:
        """Send what is missing of a record that was begun, so that something else can be said behind it."""
        rest = self.records.rest_of_record(self.offset)
        if rest:
            self.offset += len(rest)
            self._sink.write(rest)

    def beat(self, now_s: float) -> None:
        """Send a heartbeat, if the reader has everything else."""
        if not self.paused and not self.lag_bytes:
            self.written_s = now_s
            self._sink.write(self._heartbeat())


F = TypeVar("F")


class SequencedStream(Protocol):
    """Numbered records, from 1, and the listeners for new ones."""

    @property
    def records(self) -> Records:
        """The records."""

    @property
    def on_append(self) -> list[Callable[[bytes], None]]:
        """Called with what was just appended to the records."""


class Audience(Generic[F]):
    """The connections that follow one stream, and what was appended to it in this turn of the reactor."""

    __slots__ = ("_announce", "_burst", "connections", "heartbeat", "stream")

    def __init__(
        self, stream: SequencedStream, announce: Callable[[Audience[F]], None], heartbeat: Callable[[], bytes]
    ) -> None:
        """``announce`` is called when there is something to take, once until it is taken."""
        self.stream = stream
        """Stream that they follow."""
        self.connections: set[F] = set()
        """Connections that follow the stream."""
        self.heartbeat = heartbeat
        """Makes the heartbeat, which says that there is nothing new."""
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
        """Hear no more."""
        self.stream.on_append.remove(self._collect)


class ReaderLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of a server, whatever its protocol."""

    connections: int = 256
    """Open connections at once."""
    login_timeout_s: float = 10.0
    """Time that a connection may stay without a login."""
    silence_s: float = 1.0
    """A heartbeat follows this much silence."""
    burst_interval_s: float = 0.0
    """Between bursts that nobody asked for lies at least so much; what is said meanwhile goes into the next."""
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


class Reader:
    """State of the client of a connection, whatever its protocol: the login that it owes, and the stream that it is
    sent.

    The connection is registered as the transport's producer, and passes on what that tells it.
    """

    __slots__ = ("_clock", "_connection", "_login_timeout", "is_closed", "tail")

    def __init__(self, connection: Any, clock: Timers) -> None:
        self._connection = connection
        self._clock = clock
        self._login_timeout: Any = None
        self.is_closed = False
        """Nothing more is sent, and what still comes is not listened to."""
        self.tail: Tail | None = None
        """Stream that it reads, once its login was accepted."""

    def await_login(self, timeout_s: float, too_late: Callable[[str], None]) -> None:
        """Wait for a login, but not for ever."""
        transport = self._connection.transport
        if hasattr(transport, "setTcpNoDelay"):
            transport.setTcpNoDelay(True)
        self._login_timeout = self._clock.callLater(timeout_s, too_late, f"no login within {timeout_s:g} s")

    def logged_in(self) -> None:
        """The login came."""
        if self._login_timeout is not None and self._login_timeout.active():
            self._login_timeout.cancel()
        self._login_timeout = None

    def follow(self, tail: Tail) -> None:
        """Have something to read; from now on the transport says when it has had enough."""
        self.tail = tail
        self._connection.transport.registerProducer(self._connection, True)

    def pause(self) -> None:
        """Send nothing for now."""
        if self.tail is not None:
            self.tail.paused = True

    def resume(self) -> None:
        """Go on where it paused."""
        if self.tail is not None and not self.is_closed:
            self.tail.paused = False
            self.tail.pump(self._clock.seconds())

    def close(self, *, flush: bool, last_words: bytes = b"") -> None:
        """Close; what is not sent yet is sent first, with the last words behind it (`flush`), or thrown away."""
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
        """Send the rest of a record that was begun and the last words; False if that rest is damaged."""
        try:
            if self.tail is not None:
                self.tail.finish_record()
        except DamagedStreamError:
            return False
        if last_words:
            self._connection.transport.write(last_words)
        return True

    def lost(self) -> None:
        """The connection is no more."""
        self.is_closed = True
        self.logged_in()


class ReaderConnection(Protocol):
    """A connection with a reader."""

    transport: Any

    @property
    def reader(self) -> Reader:
        """State of its client."""

    def cut(self, reason: str, *, flush: bool = False) -> None:
        """Close; what is not sent yet is sent first (`flush`) or thrown away."""


C = TypeVar("C", bound=ReaderConnection)


class Readers(Generic[C]):
    """The connections of one server: the turns in which bursts are handed out, heartbeats, and the limits.

    `deliver` is called once for all that was announced in a turn of the reactor, `beat` a few times in what counts as
    silence, unless something is about to be delivered.
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
        """Those that are open."""
        self.requests = Durations()
        """From reading the first request of a batch until the market has carried out the batch."""
        self.deliveries = Durations()
        """From the first message of a burst, as the market says it, until the burst is written to all connections."""
        self._announced_s: float | None = None
        self._beat_call = clock.callLater(limits.silence_s / 4, self._tick)

    def admit(self, connection: C) -> bool:
        """Return True if there is room for it; if so it is remembered."""
        if len(self.connections) >= self._limits.connections:
            return False
        self.connections.add(connection)
        return True

    def forget(self, connection: C) -> None:
        """It is gone."""
        self.connections.discard(connection)

    def tail(self, connection: C, records: Records, number: int, heartbeat: Callable[[], bytes]) -> Tail | None:
        """Return the tail that sends a connection the records from a number on; None, after a cut, if they are damaged.

        A connection that comes to damaged records later is cut as well: it gets none of them.
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
        """Deliver at the end of this turn of the reactor, or when the interval between bursts is over."""
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
        """Send what was just appended: one write for each, of the same bytes; a reader too far behind is cut."""
        start, data, now_s = records.size_bytes - len(burst), burst + heartbeat, self._clock.seconds()
        for connection in tuple(connections):
            tail = connection.reader.tail
            if tail is not None:
                tail.burst(start, data, now_s)
                if tail.too_slow:
                    connection.cut(f"slow: {tail.lag_bytes} bytes behind, the limit is {self._limits.lag_bytes}")

    def beat(self, why_end: Callable[[C, Tail, float], str] = lambda *_: "") -> None:
        """Heartbeats after silence, and the end of readers that take nothing, or that the server has a reason to end
        (empty for none)."""
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
        """Send what is there, then close every connection."""
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

"""Base of sources that connect to a server: attempts and the waits between attempts, loss, reconnection.

If other threads resume many such sources at once, the reactor is woken only once.
"""

from __future__ import annotations

import threading
import weakref
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import msgspec
from twisted.internet.protocol import ClientFactory
from twisted.logger import Logger
from twisted.python.failure import Failure

from runtime.sources.base import BufferSink, Position, Source, SourceStateError
from runtime.sources.connection import Connection

__all__ = ["Backoff", "ConnectingSource", "WakeUps"]

_of_reactors: weakref.WeakKeyDictionary[Any, WakeUps] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


class WakeUps:
    """Thread-safe queue of calls for one reactor. Each caller has at most one pending call, so the queue is bounded.

    For every `callFromThread`, Twisted writes to a pipe to wake the reactor. This takes too long when a full queue has
    room again, because thousands of sources then resume at once.
    """

    _log = Logger()

    def __init__(self, reactor: Any) -> None:
        self._reactor = weakref.ref(reactor)
        self._calls: dict[Callable[[], None], None] = {}
        self._changing = threading.Lock()

    @staticmethod
    def of(reactor: Any) -> WakeUps:
        """Return the queue of this reactor."""
        with _lock:
            if (queue := _of_reactors.get(reactor)) is None:
                queue = _of_reactors[reactor] = WakeUps(reactor)
            return queue

    def call(self, call: Callable[[], None]) -> None:
        """Add a call, which the reactor's thread makes soon; a call that is already pending is made only once.

        This method may be called from any thread.
        """
        with self._changing:
            is_first = not self._calls
            self._calls[call] = None
        if is_first and (reactor := self._reactor()) is not None:
            reactor.callFromThread(self._make)

    def _make(self) -> None:
        with self._changing:
            calls, self._calls = self._calls, {}
        for call in calls:
            try:
                call()
            except Exception:  # noqa: BLE001 (the calls of other sources are still made)
                self._log.failure("a call for the reactor's thread has failed")


class Backoff(msgspec.Struct, frozen=True):
    """Wait between attempts to connect, which doubles after each failure."""

    first_s: float = 0.05
    """Wait before the second attempt, in seconds."""
    longest_s: float = 2.0
    """Upper bound of the wait, in seconds."""
    attempts: int = 20
    """Number of consecutive failed attempts after which the source fails."""

    def delay_s(self, failures: int) -> float:
        """Return the wait in seconds after this number of consecutive failures, from 1."""
        return float(min(self.first_s * 2 ** min(failures - 1, 32), self.longest_s))


class ConnectingSource(Source):
    """Source that has at most one connection to a server at a time, on the reactor's thread.

    A subclass makes the connections, decides when a connection is ready (possibly only after the reply to a login), and
    handles the end of a ready connection. An attempt fails if no connection is made, or if the connection ends before
    it is ready. The source fails after too many consecutive failed attempts.
    """

    __slots__ = (
        "_address",
        "_backoff",
        "_connect_timeout_s",
        "_connection",
        "_connector",
        "_failures",
        "_origin_id",
        "_position",
        "_reactor",
        "_retry",
        "is_closed",
        "sink",
    )

    def __init__(
        self,
        reactor: Any,
        host: str,
        port: int,
        origin_id: int,
        *,
        backoff: Backoff | None = None,
        connect_timeout_s: float = 5.0,
    ) -> None:
        self._reactor = reactor
        self._address = (host, port)
        self._origin_id = origin_id
        self._backoff = backoff or _BACKOFF
        self._connect_timeout_s = connect_timeout_s
        self.sink: BufferSink | None = None
        """Sink of the raw buffers; None before `open`."""
        self._position = _START
        self._failures = 0
        self._retry: Any = None
        self._connection: Connection | None = None
        self._connector: Any = None
        self.is_closed = False
        """True once `close` was called: the sink is not called any more."""

    # Called or overridden by subclasses

    @abstractmethod
    def make_connection(self, position: Position) -> Connection:
        """Return a new connection that reads from the position."""

    def is_ready(self, connection: Connection) -> bool:
        """Return True if the connection is ready; the end of a connection that is not ready is a failed attempt."""
        del connection
        return True

    def ended(self, reason: str, *, is_clean: bool) -> None:
        """Report the loss of a ready connection to the sink."""
        del is_clean
        if self.sink is not None:
            self.sink.lost(self._origin_id, f"connection to {self.where} lost: {reason}")

    def ready(self) -> None:
        """Reset the count of failed attempts, because the connection has become ready."""
        self._failures = 0

    def refused(self, reason: str) -> None:
        """Fail permanently, because no later attempt can succeed."""
        self._drop()
        self.fail(reason)

    def retrying(self, reason: str) -> None:
        """Note that a first attempt has failed, and that further attempts follow."""

    def fail(self, reason: str) -> None:
        """Report to the sink that the source has failed permanently."""
        if self.sink is not None and not self.is_closed:
            self.sink.failed(self._origin_id, reason)

    @property
    def is_connected(self) -> bool:
        """True if there is a connection that is ready; read on the reactor's thread."""
        return self._connection is not None and self.is_ready(self._connection)

    @property
    def where(self) -> str:
        """Address of the server, for messages."""
        return f"{self._address[0]}:{self._address[1]}"

    # Called by the engine

    def open(self, sink: BufferSink, position: Position) -> None:
        """Connect and read from the position; called on the reactor's thread.

        Raise `SourceStateError` if the source was opened or closed before.
        """
        if self.sink is not None or self.is_closed:
            raise SourceStateError(f"expected a source that was never opened, was origin {self._origin_id} again")
        self.sink = sink
        self.reconnect(position)

    def reconnect(self, position: Position) -> None:
        """Connect again; called on the reactor's thread.

        Raw buffers are numbered from 1 again. Do nothing if the source is closed; the caller may not know this. Raise
        `SourceStateError` before `open`.
        """
        if self.sink is None:
            raise SourceStateError(f"expected an open source, was origin {self._origin_id} before open")
        if self.is_closed:
            return
        self._drop()
        self._position = position
        self._failures = 0
        self._connect()

    def resume(self) -> None:
        """Offer the refused buffer again, because the sink has room; may be called from any thread."""
        WakeUps.of(self._reactor).call(self._resume)

    def close(self) -> None:
        """Break the connection, on the reactor's thread; may be called from any thread.

        The sink is not called after the connection has been broken.
        """
        self.is_closed = True
        self._reactor.callFromThread(self._drop)

    # Called by connections

    def broken(self, connection: Connection, reason: str, *, is_clean: bool) -> None:
        """Handle the end of a connection; see `ConnectionOwner`."""
        if connection is not self._connection or self.is_closed:
            return
        self._connection = self._connector = None
        if self.is_ready(connection):
            self.ended(reason, is_clean=is_clean)
        else:
            self._attempt_failed(f"closed before the login was answered: {reason}")

    def connected(self) -> Connection:
        """Return the connection for a new transport."""
        connection = self.make_connection(self._position)
        if self.is_closed:
            connection.abandon()
        else:
            self._connection = connection
        return connection

    def unreachable(self, connector: Any, reason: str) -> None:
        """Count a failed attempt, because no connection was made."""
        if connector is self._connector and not self.is_closed:
            self._connector = None
            self._attempt_failed(reason)

    def _resume(self) -> None:
        if self._connection is not None:
            self._connection.flush()

    def _drop(self) -> None:
        """Drop the connection and the pending attempt to connect."""
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
        self._connector = self._reactor.connectTCP(*self._address, _Factory(self), timeout=self._connect_timeout_s)

    def _attempt_failed(self, reason: str) -> None:
        self._failures += 1
        if self._failures >= self._backoff.attempts:
            self.fail(f"expected a server at {self.where}, was none in {self._failures} attempts: {reason}")
            return
        if self._failures == 1:
            self.retrying(reason)
        self._retry = self._reactor.callLater(self._backoff.delay_s(self._failures), self._connect)


_BACKOFF = Backoff()
_START = Position()


class _Factory(ClientFactory):
    """Factory of the one connection of an attempt."""

    noisy = False

    def __init__(self, source: ConnectingSource) -> None:
        self._source = source

    def buildProtocol(self, addr: object) -> Any:
        return self._source.connected()

    def clientConnectionFailed(self, connector: Any, reason: Failure) -> None:
        self._source.unreachable(connector, reason.getErrorMessage())

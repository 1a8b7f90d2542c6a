"""Receiving end of a connection: turns arriving bytes into raw buffers, and pauses while the sink is full."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IProtocol
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from runtime.formats import RawBuffer
from runtime.sources.base import BufferSink

__all__ = ["Connection", "ConnectionOwner", "Turn"]

_MOST_GATHERED_BYTES: Final = 1 << 18
"""Gathered bytes are offered immediately if there are at least this many, otherwise at the end of the turn."""


class Turn:
    """Calls to be made at the end of the reactor's turn; all sources that received bytes share one delayed call."""

    __slots__ = ("_calls", "_reactor")

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._calls: deque[Callable[[], None]] = deque()

    def plan(self, call: Callable[[], None]) -> None:
        """Run the call at the end of this turn, after earlier planned calls; called on the reactor's thread."""
        self._calls.append(call)
        if len(self._calls) == 1:
            self._reactor.callLater(0, self._run)

    def _run(self) -> None:
        try:
            for _ in range(len(self._calls)):
                self._calls[0]()
                self._calls.popleft()
        except BaseException:
            self._calls.popleft()  # the reactor reports the error; the other calls are still made
            raise
        finally:
            if self._calls:
                self._reactor.callLater(0, self._run)


class ConnectionOwner(Protocol):
    """Source that owns a connection."""

    sink: BufferSink | None
    """Sink of the raw buffers; None before the source is opened."""
    is_closed: bool
    """True once the sink must not be called any more."""

    def broken(self, connection: Any, reason: str, *, is_clean: bool) -> None:
        """Note that the connection has ended, and that the sink has accepted all its bytes."""


@implementer(IProtocol)
class Connection:
    """Receiver of the bytes of one origin from one transport, as raw buffers.

    Bytes become a raw buffer as soon as they arrive, because a transport reads once per turn of the reactor. With a
    ``turn``, which many connections share, the bytes wait for the end of the turn. A worker that wakes up then gets the
    buffers of all these connections. While the sink refuses buffers, the transport is paused, and bytes that were
    already received are gathered into one buffer.

    There may be ten thousand connections. To save memory, the class has slots and does not have `Protocol` as its base.
    """

    __slots__ = (
        "_chunks",
        "_end_reason",
        "_gathered_bytes",
        "_is_abandoned",
        "_is_clean",
        "_is_paused",
        "_is_planned",
        "_number",
        "_offset",
        "_origin_id",
        "_owner",
        "_pending",
        "_turn",
        "transport",
    )

    def __init__(self, owner: ConnectionOwner, origin_id: int, offset: int, turn: Turn | None = None) -> None:
        self.transport: Any = None
        self._owner = owner
        self._origin_id = origin_id
        self._turn = turn
        self._offset = offset
        self._number = 1
        self._chunks: list[bytes] = []
        self._gathered_bytes = 0
        self._pending: RawBuffer | None = None
        self._end_reason: str | None = None
        self._is_clean = False
        self._is_planned = False
        self._is_paused = False
        self._is_abandoned = False

    # Called by the transport

    def makeConnection(self, transport: Any) -> None:
        """Attach the transport."""
        self.transport = transport
        if self._is_abandoned:
            transport.abortConnection()
        else:
            self.connectionMade()

    def connectionMade(self) -> None:
        """Do nothing; called once, when the transport is attached. A subclass may send its first bytes here."""

    def dataReceived(self, data: bytes) -> None:
        """Gather bytes that arrived; a subclass may consume some of them and `gather` the rest."""
        self.gather(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Note the end of the transport."""
        if self._is_abandoned:
            return
        self.gone(reason.getErrorMessage(), is_clean=isinstance(reason.value, ConnectionDone))

    # Called by subclasses and the owner

    def gather(self, data: bytes) -> None:
        """Append bytes to the waiting bytes, and offer all of them now or at the end of the turn."""
        if not data or self._is_abandoned:
            return
        if self._turn is None and self._pending is None:  # no other bytes wait before these
            self._pending = self._buffer(data)
            self.flush()
            return
        self._chunks.append(data)
        self._gathered_bytes += len(data)
        if self._pending is not None or self._turn is None:
            return
        if self._gathered_bytes >= _MOST_GATHERED_BYTES:
            self.flush()
        elif not self._is_planned:
            self._is_planned = True
            self._turn.plan(self._flush_turn)

    def gone(self, reason: str, *, is_clean: bool = False) -> None:
        """Notify the owner of the end, after the sink has accepted all received bytes."""
        self._end_reason, self._is_clean = reason, is_clean
        if self._pending is None:  # otherwise the refused buffer is offered first, after resume
            self.flush()

    def abandon(self) -> None:
        """Close without notifying the owner."""
        self._is_abandoned = True
        self._chunks.clear()
        self._pending = None
        if self.transport is not None:
            self.transport.abortConnection()

    @property
    def is_abandoned(self) -> bool:
        """True if the owner must not be notified any more."""
        return self._is_abandoned

    def paused(self) -> None:
        """Do nothing; called when the transport is paused. A subclass may override this method."""

    def resumed(self) -> None:
        """Do nothing; called when a paused transport reads again. A subclass may override this method."""

    def flush(self) -> None:
        """Offer the pending buffer, if there is one, and then the gathered bytes, until the sink refuses a buffer."""
        while not self._is_abandoned:
            raw = self._pending or self._next_buffer()
            if raw is None:
                break
            owner = self._owner
            if owner.is_closed or owner.sink is None or not owner.sink.offer(raw):
                self._pending = raw
                self._pause()
                return
            self._pending = None
        if not self._is_abandoned:
            self._resume_or_end()

    def _flush_turn(self) -> None:
        self._is_planned = False
        if self._pending is None:
            self.flush()

    def _next_buffer(self) -> RawBuffer | None:
        chunks = self._chunks
        if not chunks:
            return None
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        self._gathered_bytes = 0
        return self._buffer(data)

    def _buffer(self, data: bytes) -> RawBuffer:
        raw = RawBuffer(self._origin_id, self._number, data, self._offset)
        self._number += 1
        if self._offset >= 0:
            self._offset += len(data)
        return raw

    def _pause(self) -> None:
        if not self._is_paused and self._end_reason is None:
            self._is_paused = True
            self.transport.pauseProducing()
            self.paused()

    def _resume_or_end(self) -> None:
        if self._end_reason is not None:
            self._is_abandoned = True
            self._owner.broken(self, self._end_reason, is_clean=self._is_clean)
        elif self._is_paused:
            self._is_paused = False
            self.transport.resumeProducing()
            self.resumed()

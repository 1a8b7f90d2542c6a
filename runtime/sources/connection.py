"""The receiving end of a connection: gathers what a turn of the reactor brings, holds back when the sink is full."""

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

__all__ = ["BUFFER_BYTES", "Connection", "ConnectionOwner", "Turn"]

BUFFER_BYTES: Final = 1 << 18


class Turn:
    """Calls for the end of the reactor's turn: one delayed call for all, however many sources something arrived at."""

    __slots__ = ("_calls", "_reactor")

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._calls: deque[Callable[[], None]] = deque()

    def plan(self, call: Callable[[], None]) -> None:
        """Run it at the end of this turn, after those planned before; on the reactor's thread."""
        self._calls.append(call)
        if len(self._calls) == 1:
            self._reactor.callLater(0, self._run)

    def _run(self) -> None:
        try:
            for _ in range(len(self._calls)):
                self._calls[0]()
                self._calls.popleft()
        except BaseException:
            self._calls.popleft()  # one that raises is the reactor's to report and does not keep the others
            raise
        finally:
            if self._calls:
                self._reactor.callLater(0, self._run)


class ConnectionOwner(Protocol):
    """The source that a connection belongs to."""

    def offer(self, raw: RawBuffer) -> bool:
        """Hand a buffer to the sink."""

    def broken(self, connection: Any, reason: str, *, is_clean: bool) -> None:
        """The connection is over, and everything that it brought has been taken."""


@implementer(IProtocol)
class Connection:
    """Bytes of one origin from one transport, as raw buffers.

    What arrives in one turn of the reactor becomes one raw buffer, a small message goes out at the turn's end. While
    the sink refuses, the transport is paused and the bytes that were already on their way are gathered, up to about
    ``buffer_bytes`` a buffer. Slots and no `Protocol` as base, since there may be ten thousand.
    """

    __slots__ = (
        "_buffer_bytes",
        "_chunks",
        "_gone",
        "_held",
        "_is_abandoned",
        "_is_clean",
        "_is_paused",
        "_is_planned",
        "_number",
        "_offset",
        "_origin_id",
        "_owner",
        "_refused",
        "_turn",
        "transport",
    )

    def __init__(self, owner: ConnectionOwner, origin_id: int, turn: Turn, offset: int, buffer_bytes: int) -> None:
        self.transport: Any = None
        self._owner = owner
        self._origin_id = origin_id
        self._turn = turn
        self._buffer_bytes = buffer_bytes
        self._offset = offset
        self._number = 1
        self._chunks: list[bytes] = []
        self._held = 0
        self._refused: RawBuffer | None = None
        self._gone: str | None = None
        self._is_clean = False
        self._is_planned = False
        self._is_paused = False
        self._is_abandoned = False

    # From the transport

    def makeConnection(self, transport: Any) -> None:
        """The transport is there."""
        self.transport = transport
        if self._is_abandoned:
            transport.abortConnection()
        else:
            self.connectionMade()

    def connectionMade(self) -> None:
        """Told once; for subclasses, which may send something first."""

    def dataReceived(self, data: bytes) -> None:
        """Bytes have arrived; for subclasses, which may take some of them for themselves and `gather` the rest."""
        self.gather(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The transport is gone."""
        if self._is_abandoned:
            return
        self.gone(reason.getErrorMessage(), is_clean=isinstance(reason.value, ConnectionDone))

    # For subclasses and the owner

    def gather(self, data: bytes) -> None:
        """Put bytes behind those that wait to be offered."""
        if data and not self._is_abandoned:
            self._chunks.append(data)
            self._held += len(data)
            self._plan_flush()

    def gone(self, reason: str, *, is_clean: bool = False) -> None:
        """Tell the owner once everything received has been taken."""
        self._gone, self._is_clean = reason, is_clean
        if self._refused is None:  # else what was received is offered again first, after resume
            self.flush()

    def abandon(self) -> None:
        """Close without a word to the owner."""
        self._is_abandoned = True
        self._chunks.clear()
        self._refused = None
        if self.transport is not None:
            self.transport.abortConnection()

    @property
    def is_abandoned(self) -> bool:
        """Whether nobody wants to hear of it any more."""
        return self._is_abandoned

    def paused(self) -> None:
        """The transport reads no more until `resumed`; for subclasses."""

    def resumed(self) -> None:
        """The transport reads again; for subclasses."""

    def flush(self) -> None:
        """Offer what is held, the refused buffer first, until the sink refuses or nothing is left."""
        while not self._is_abandoned:
            raw = self._refused or self._gathered()
            if raw is None:
                break
            if not self._owner.offer(raw):
                self._refused = raw
                self._pause()
                return
            self._refused = None
        if not self._is_abandoned:
            self._go_on()

    def _plan_flush(self) -> None:
        """At once when a buffer is full, else at the end of this turn of the reactor."""
        if self._refused is not None:
            return
        if self._held >= self._buffer_bytes:
            self.flush()
        elif not self._is_planned:
            self._is_planned = True
            self._turn.plan(self._flush_turn)

    def _flush_turn(self) -> None:
        self._is_planned = False
        if self._refused is None:
            self.flush()

    def _gathered(self) -> RawBuffer | None:
        chunks = self._chunks
        if not chunks:
            return None
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        self._held = 0
        raw = RawBuffer(self._origin_id, self._number, data, self._offset)
        self._number += 1
        if self._offset >= 0:
            self._offset += len(data)
        return raw

    def _pause(self) -> None:
        if not self._is_paused and self._gone is None:
            self._is_paused = True
            self.transport.pauseProducing()
            self.paused()

    def _go_on(self) -> None:
        if self._gone is not None:
            self._is_abandoned = True
            self._owner.broken(self, self._gone, is_clean=self._is_clean)
        elif self._is_paused:
            self._is_paused = False
            self.transport.resumeProducing()
            self.resumed()

"""What every process of the system does around its work: status lines, signals, the end of standard input."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import IO, Any

from twisted.internet.interfaces import IReadDescriptor
from twisted.python.failure import Failure
from zope.interface import implementer

from deltabook.wire.status import Failed, Ready, Status, Stopped, write_event

__all__ = ["InputEnd", "StatusLines", "stop_on_signals"]


@implementer(IReadDescriptor)
class InputEnd:
    """Reads standard input to its end and says so; what is in it does not matter.

    Not `twisted.internet.stdio`: that would take standard output as well, and make it non-blocking.
    """

    def __init__(self, reactor: Any, descriptor: int, ended: Callable[[], None]) -> None:
        self._reactor = reactor
        self._descriptor = descriptor
        self._ended = ended

    def start(self) -> None:
        """Begin to read."""
        self._reactor.addReader(self)

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor

    def logPrefix(self) -> str:
        """Name in logs."""
        return "stdin"

    def doRead(self) -> None:
        """Something is there, or the end."""
        try:
            data = os.read(self._descriptor, 4096)
        except OSError:
            data = b""
        if not data:
            self._reactor.removeReader(self)
            self._ended()

    def connectionLost(self, reason: Failure) -> None:
        """A closed pipe with nothing left in it is told this way only, without a last empty read."""
        del reason
        self._ended()


class StatusLines:
    """Writes ready, status and stopped to a stream."""

    def __init__(self, stream: IO[bytes], clock: Any, interval_s: float, figures: Callable[[], dict[str, Any]]) -> None:
        self._stream = stream
        self._clock = clock
        self._interval_s = interval_s
        self._figures = figures
        self._call: Any = None

    def ready(self, ports: dict[str, int]) -> None:
        """The ports are open; status lines follow."""
        write_event(self._stream, Ready("exchange", os.getpid(), ports))
        if self._interval_s > 0:
            self._call = self._clock.callLater(self._interval_s, self._status)

    def _status(self) -> None:
        self._call = self._clock.callLater(self._interval_s, self._status)
        write_event(self._stream, Status("exchange", self._figures()))

    def failed(self, reason: str) -> None:
        """The end, of a process that was ready and cannot go on."""
        if self._call is not None and self._call.active():
            self._call.cancel()
        write_event(self._stream, Failed("exchange", reason))

    def stopped(self, reason: str) -> None:
        """A last status, and the end."""
        if self._call is not None and self._call.active():
            self._call.cancel()
            write_event(self._stream, Status("exchange", self._figures()))
        write_event(self._stream, Stopped("exchange", reason))


def stop_on_signals(reactor: Any, stop: Callable[[str], None]) -> None:
    """SIGTERM and SIGINT stop cleanly; called once the reactor runs, whose own way is to stop without a reason."""

    def received(number: int, frame: object) -> None:
        del frame
        reactor.callFromThread(stop, signal.Signals(number).name)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, received)

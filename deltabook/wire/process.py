"""Parts of a long-running process: its reports to a supervisor (`status.py`), signals, the end of standard input, and
the limit of open files.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import IO, Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IReadDescriptor
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from deltabook.wire.status import Failed, Ready, Status, Stopped, write_event

__all__ = [
    "InputEnd",
    "Reporter",
    "SupervisedProcess",
    "allow_files",
    "count_steadily",
    "stop_on_signals",
    "stop_signals",
]

Figures = Callable[[], dict[str, int | float | str | None]]


class Reporter:
    """Reporter of a process's events: ready once, then figures at an interval, and finally stopped or failed.

    It is used on the reactor's thread only.
    """

    def __init__(
        self,
        role: str,
        stream: IO[bytes],
        clock: Any,
        interval_seconds: float,
        figures: Figures,
        *,
        run_id: str = "",
    ) -> None:
        """Make a reporter; ``clock`` is a reactor or a `task.Clock`. With an interval of 0, figures are reported only
        when the process stops.
        """
        self._role, self._stream, self._interval_seconds, self._figures = role, stream, interval_seconds, figures
        self._run_id = run_id
        self._loop: Any = LoopingCall(self._status)
        self._loop.clock = clock
        self._is_ready = False

    def ready(self, ports: Mapping[str, int]) -> None:
        """Report that the process serves; a second call has no effect."""
        if self._is_ready:
            return
        self._is_ready = True
        write_event(self._stream, Ready(self._role, os.getpid(), dict(ports), self._run_id))
        if self._interval_seconds > 0:
            self._loop.start(self._interval_seconds, now=False)

    def stopped(self, reason: str) -> None:
        """Report the last figures and the end."""
        if self._loop.running:
            self._loop.stop()
        self._status()
        write_event(self._stream, Stopped(self._role, reason, self._run_id))

    def failed(self, reason: str) -> None:
        """Report why the process cannot continue."""
        if self._loop.running:
            self._loop.stop()
        write_event(self._stream, Failed(self._role, reason, self._run_id))

    def _status(self) -> None:
        write_event(self._stream, Status(self._role, self._figures(), self._run_id))


@implementer(IReadDescriptor)
class InputEnd:
    """Reads standard input and calls a function once at its end; the data is ignored.

    `twisted.internet.stdio` is not used, because it would take standard output as well, and make it non-blocking.
    """

    def __init__(self, reactor: Any, descriptor: int, on_end: Callable[[], None]) -> None:
        self._reactor, self._descriptor, self._on_end = reactor, descriptor, on_end
        self._has_ended = False

    def start(self) -> None:
        """Begin to read."""
        self._reactor.addReader(self)

    def fileno(self) -> int:
        """Return the descriptor to watch."""
        return self._descriptor

    def logPrefix(self) -> str:
        """Return the name for log lines."""
        return "stdin"

    def doRead(self) -> None:
        """Discard the data that can be read, and notice the end."""
        try:
            data = os.read(self._descriptor, 4096)
        except OSError:
            data = b""
        if not data:
            self._reactor.removeReader(self)
            self._end()

    def connectionLost(self, reason: Failure | None) -> None:
        """Notice the end of a closed pipe: if no data remain, the reactor calls this without a last `doRead`."""
        del reason
        self._end()

    def _end(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._on_end()


def count_steadily(reactor: Any) -> None:
    """Make a reactor's timers use a clock that cannot be set; call this before anything is scheduled.

    Twisted uses the wall clock: if this clock is set back by an hour, every timer is an hour late.
    """
    reactor.seconds = time.monotonic


def stop_on_signals(reactor: Any, stop: Callable[[str], None]) -> None:
    """Call ``stop`` with the signal's name on SIGTERM, SIGINT and SIGHUP.

    SIGHUP counts only as the first signal, because a terminal that is closed sends it more than once. If SIGHUP is
    ignored already, as under ``nohup``, it stays ignored.

    Call this once the reactor runs, or run the reactor without signal handlers of its own. Otherwise the reactor, when
    it starts, replaces the handlers that this function has installed.
    """
    has_stopped = False

    def received(number: int, frame: object) -> None:
        nonlocal has_stopped
        del frame
        if not (has_stopped and number == signal.SIGHUP):
            has_stopped = True
            reactor.callFromThread(stop, signal.Signals(number).name)

    for number in stop_signals():
        signal.signal(number, received)


def stop_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that stop a process: SIGTERM, SIGINT and, unless it is ignored, SIGHUP."""
    is_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return (signal.SIGTERM, signal.SIGINT) if is_ignored else (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def allow_files(count: int) -> int:
    """Raise this process's limit of open files to `count`, as far as the system allows; return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return count if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


class SupervisedProcess(ABC):
    """Base of a process that runs the reactor until a signal, the end of standard input, or a failure.

    The process has also failed if `_end` fails.
    """

    _log = Logger()

    def __init__(self, reactor: Any, *, exit_with_stdin: bool) -> None:
        """Prepare the reactor; the subclass then makes ``self._reporter``."""
        self._reactor = reactor
        self._reporter: Reporter
        self._failure: str | None = None
        self._stopping = False
        self._exit_with_stdin = exit_with_stdin
        count_steadily(reactor)

    @abstractmethod
    def _begin(self) -> Any:
        """Start; return the ports for `_ready`, or a Deferred of them."""

    @abstractmethod
    def _ready(self, ports: Any) -> None:
        """Report that the process is ready."""

    @abstractmethod
    def _end(self) -> Deferred[Any]:
        """Stop, cleanly if there is no failure."""

    def _start(self) -> None:
        if self._exit_with_stdin:
            InputEnd(self._reactor, 0, lambda: self._stop("standard input ended")).start()
        maybeDeferred(self._begin).addCallbacks(self._ready, self._failed_to_start)

    def _failed_to_start(self, failure: Failure) -> None:
        self._fail(_reason(failure))

    def _fail(self, reason: str) -> None:
        if not self._stopping:
            self._failure = reason
            self._stop("failure")

    def _stop(self, reason: str) -> None:
        if self._stopping:
            return
        self._stopping = True

        def ended(result: object) -> None:
            if isinstance(result, Failure):
                self._log.failure("the process did not end cleanly", failure=result)
                self._failure = self._failure or _reason(result)
            if self._failure is None:
                self._reporter.stopped(reason)
            else:
                self._reporter.failed(self._failure)
            self._reactor.stop()

        maybeDeferred(self._end).addBoth(ended)


def _reason(failure: Failure) -> str:
    """Return the message of an error in one line, or the name of its class."""
    return " ".join(str(failure.value).split()) or type(failure.value).__name__

"""What the process says to its supervisor, and how it notices that the supervisor has gone."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import IO, Any, Final

from twisted.internet.interfaces import IReadDescriptor
from twisted.internet.main import CONNECTION_DONE
from twisted.internet.task import LoopingCall
from twisted.python.failure import Failure
from zope.interface import implementer

from algo_engine.clocks import Clock
from deltabook.wire.status import Ready, Status, Stopped, write_event

__all__ = ["ROLE", "InputEnd", "Reporter"]

ROLE: Final = "algo"


class Reporter:
    """Ready once, then figures at an interval, at last stopped."""

    def __init__(
        self,
        *,
        stream: IO[bytes],
        clock: Clock,
        interval_s: float,
        figures: Callable[[], dict[str, int | float | str | None]],
    ) -> None:
        self._stream, self._interval_s, self._figures = stream, interval_s, figures
        make_loop: Callable[..., Any] = LoopingCall  # without types in Twisted
        self._loop = make_loop(self._status)
        self._loop.clock = clock
        self._is_ready = False

    def ready(self) -> None:
        """Say that the process is connected; a second time is ignored."""
        if self._is_ready:
            return
        self._is_ready = True
        write_event(self._stream, Ready(ROLE, os.getpid(), {}))
        if self._interval_s > 0:
            self._loop.start(self._interval_s, now=False)

    def stopped(self, reason: str) -> None:
        """Say the last figures and the end."""
        if self._loop.running:
            self._loop.stop()
        self._status()
        write_event(self._stream, Stopped(ROLE, reason))

    def _status(self) -> None:
        write_event(self._stream, Status(ROLE, self._figures()))


@implementer(IReadDescriptor)
class InputEnd:
    """Reads a descriptor only to notice its end."""

    def __init__(self, descriptor: int, on_end: Callable[[], None]) -> None:
        self._descriptor, self._on_end = descriptor, on_end
        self._has_ended = False

    def fileno(self) -> int:
        """The descriptor to watch, -1 after its end."""
        return -1 if self._has_ended else self._descriptor

    def doRead(self) -> Exception | None:
        """Throw away what can be read; at the end the reactor lets go of the descriptor."""
        try:
            data = os.read(self._descriptor, 4096)
        except OSError:
            data = b""
        return None if data else CONNECTION_DONE

    def connectionLost(self, reason: Failure) -> None:
        """The other side has gone."""
        if not self._has_ended:
            self._has_ended = True
            self._on_end()

    def logPrefix(self) -> str:
        """For Twisted's own log lines."""
        return "input"

"""The process end of `status.py`: says ready, figures and stopped, and notices that the supervisor has gone."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import IO, Any

from twisted.internet.interfaces import IReadDescriptor
from twisted.internet.task import LoopingCall
from twisted.python.failure import Failure
from zope.interface import implementer

from deltabook.wire.status import Ready, Status, Stopped, write_event

__all__ = ["InputEnd", "Reporter"]

Figures = Callable[[], dict[str, int | float | str | None]]


class Reporter:
    """Ready once, then figures at an interval, at last stopped; on the reactor's thread."""

    def __init__(self, role: str, stream: IO[bytes], clock: Any, interval_seconds: float, figures: Figures) -> None:
        """``clock`` is a reactor or a `task.Clock`; an interval of 0 says no figures but the last."""
        self._role, self._stream, self._interval_seconds, self._figures = role, stream, interval_seconds, figures
        self._loop: Any = LoopingCall(self._status)
        self._loop.clock = clock
        self._is_ready = False

    def ready(self, ports: Mapping[str, int]) -> None:
        """Say that the process serves; a second time is ignored."""
        if self._is_ready:
            return
        self._is_ready = True
        write_event(self._stream, Ready(self._role, os.getpid(), dict(ports)))
        if self._interval_seconds > 0:
            self._loop.start(self._interval_seconds, now=False)

    def stopped(self, reason: str) -> None:
        """Say the last figures and the end."""
        if self._loop.running:
            self._loop.stop()
        self._status()
        write_event(self._stream, Stopped(self._role, reason))

    def _status(self) -> None:
        write_event(self._stream, Status(self._role, self._figures()))


@implementer(IReadDescriptor)
class InputEnd:
    """Reads a descriptor only to notice its end: give it to the reactor's ``addReader``."""

    def __init__(self, descriptor: int, on_end: Callable[[], None]) -> None:
        self._descriptor, self._on_end = descriptor, on_end
        self._has_ended = False

    def fileno(self) -> int:
        """The descriptor to watch, -1 after its end."""
        return -1 if self._has_ended else self._descriptor

    def logPrefix(self) -> str:
        """How log lines name it."""
        return "input"

    def doRead(self) -> Failure | None:
        """Throw away what can be read."""
        if os.read(self._descriptor, 4096) == b"":
            self.connectionLost(None)
        return None

    def connectionLost(self, reason: Failure | None) -> None:
        """The other side has gone."""
        if not self._has_ended:
            self._has_ended = True
            self._on_end()

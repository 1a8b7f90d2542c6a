"""Tells whoever reads this runtime's log that it lives, although nothing may happen in its market."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from runtime.upstreams import Beat, write_beat

__all__ = ["SignOfLife"]


class SignOfLife:
    """Writes one beat at a time; one that a slow disk still writes stands for the next. On the reactor's thread."""

    _log = Logger()

    def __init__(self, directory: Path, in_thread: Callable[[Callable[[], Any]], Deferred[Any]]) -> None:
        self._directory = directory
        self._in_thread = in_thread
        self._is_writing = False
        self._has_failed = False

    def beat(self, beat: Beat) -> None:
        """Called every second."""
        if self._is_writing:
            return
        self._is_writing = True
        self._in_thread(lambda: write_beat(self._directory, beat)).addCallbacks(self._written, self._failed)

    def _written(self, _: object) -> None:
        self._is_writing = self._has_failed = False

    def _failed(self, failure: Failure) -> None:
        if not self._has_failed:  # said once: a full disk refuses every second
            self._log.warn("no sign of life in {directory}: {reason}", directory=self._directory,
                           reason=failure.getErrorMessage())  # fmt: skip
        self._is_writing, self._has_failed = False, True

"""Hand-over of versions and epochs from the threads that make them to the reactor, with a bound on the waiting rows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

__all__ = ["Handover"]

_MOST_ROWS: Final = 1 << 20
"""Number of waiting rows above which no input is admitted, until half of them are handed over."""
_LEAST_ROWS: Final = 1 << 10
"""Least number of rows that a call counts as, because each call has a fixed cost."""


class Handover:
    """Makes calls with rows on the reactor's thread, in order, and holds all inputs while too many rows wait for it.

    A feed of the reactor's own sockets is not read while the reactor is busy. But files and upstreams are read on other
    threads, and the engine's admission bounds only inputs that are not processed yet, not the rows that result from
    them. `put` may be called on any thread. The lock guards the number of waiting rows, and the flag that inputs are
    held.
    """

    def __init__(self, reactor: Any, hold: Callable[[bool], None]) -> None:
        """Start without calls.

        ``hold`` stops all inputs of the ingest, or resumes them, and is called with the lock held.
        """
        self._reactor = reactor
        self._hold = hold
        self._lock = threading.Lock()
        self._rows = 0
        self._is_held = False

    def put(self, rows: int, call: Callable[..., None], *arguments: Any) -> None:
        """Make a call on the reactor's thread; its arguments have this many rows. Never blocks."""
        rows = max(_LEAST_ROWS, rows)
        with self._lock:
            self._rows += rows
            if not self._is_held and self._rows > _MOST_ROWS:
                self._is_held = True
                self._hold(True)
        self._reactor.callFromThread(call, *arguments)
        self._reactor.callFromThread(self._leave, rows)  # runs also if the call has failed

    def _leave(self, rows: int) -> None:
        with self._lock:
            self._rows -= rows
            if self._is_held and self._rows <= _MOST_ROWS // 2:
                self._is_held = False
                self._hold(False)

"""Hand-over of versions and epochs from workers and the committer to the reactor's thread, with a bound on the rows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

__all__ = ["Handover"]

_MOST_ROWS: Final = 1 << 20
"""Number of waiting rows above which all inputs are held, until at most half as many wait."""
_LEAST_ROWS: Final = 1 << 10
"""Least number of rows that a call counts as, because each call has a fixed cost."""


class Handover:
    """Queue of calls for the reactor's thread, each with rows. All inputs are held while too many rows wait in the
    queue.

    A feed, which the reactor reads itself, is not read while the reactor is busy. Files and upstreams, however, are
    read on other threads. The engine's admission bounds inputs that are not processed yet, but not the rows that result
    from processed inputs. `put` may be called on any thread. The lock guards the number of waiting rows, and the flag
    that inputs are held.
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
        """Queue a call, whose arguments have this many rows; calls are made in order. Never blocks."""
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

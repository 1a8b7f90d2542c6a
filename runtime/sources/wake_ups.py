"""Calls for the reactor's thread that share a wake-up."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from twisted.logger import Logger

__all__ = ["WakeUps"]

_of_reactors: weakref.WeakKeyDictionary[Any, WakeUps] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


class WakeUps:
    """Thread-safe queue of calls for one reactor, bounded by its callers: each has at most one pending call.

    Twisted wakes the reactor, a write to a pipe, for every `callFromThread`; when a full queue has room again,
    thousands of sources resume at once.
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
        """Make this call soon, on the reactor's thread; once if it is pending already. From any thread."""
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
            except Exception:  # noqa: BLE001 (the calls of other sources are made all the same)
                self._log.failure("a call for the reactor's thread has failed")

"""Threads of the runtime that the world runs: a started thread waits until its turn, and then runs to its end."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["Threads"]


class _Thread:
    def __init__(self, threads: Threads, target: Callable[[], None]) -> None:
        self._threads = threads
        self._target = target

    def start(self) -> None:
        self._threads.waiting.append(self)

    def is_alive(self) -> bool:
        return self in self._threads.waiting

    def join(self) -> None:
        if self.is_alive():
            self.run()

    def run(self) -> None:
        self._threads.waiting.remove(self)
        self._target()


class Threads:
    """Replaces the module `threading`, for code that starts a thread now and then."""

    Lock = staticmethod(threading.Lock)
    Event = threading.Event

    def __init__(self) -> None:
        self.waiting: list[_Thread] = []
        """Threads that were started and have not run yet."""

    def Thread(self, *, target: Callable[[], None], name: str, daemon: bool) -> _Thread:
        """Return a thread that `start` adds to the waiting ones."""
        del name, daemon
        return _Thread(self, target)

    def run_one(self) -> None:
        """Run the oldest one to its end."""
        self.waiting[0].run()

    def forget(self) -> None:
        """Drop the threads of an ended process."""
        self.waiting.clear()

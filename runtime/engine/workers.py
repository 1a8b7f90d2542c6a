"""Worker threads that run tasks until the queue is closed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from runtime.engine.queue import TaskQueue

__all__ = ["Crew", "Workers", "current_worker", "set_current_worker"]


class _Current(threading.local):
    worker = -1


_current = _Current()


def current_worker() -> int:
    """Return the number of this thread's worker, from 0; -1 if the thread is not a worker."""
    return _current.worker


def set_current_worker(number: int) -> None:
    """Set the number of this thread's worker; the runner of tasks calls this before each task, or once."""
    _current.worker = number


class Crew(Protocol):
    """Runner of the tasks of a queue: threads, or a test that picks them one by one."""

    def start(self) -> None:
        """Start running tasks; called once."""

    def join(self, timeout_s: float) -> bool:
        """Wait for the end, after `TaskQueue.close` or `finish`; return False if the timeout passes before."""


class Workers:
    """Fixed number of threads on one queue; a task that raises is reported, and no other task is affected."""

    def __init__(self, queue: TaskQueue, count: int, on_error: Callable[[BaseException], None]) -> None:
        self._queue = queue
        self._on_error = on_error
        self._threads = [
            threading.Thread(target=self._run, args=(n,), name=f"worker-{n}", daemon=True) for n in range(count)
        ]

    def start(self) -> None:
        """Start the threads; called once."""
        for thread in self._threads:
            thread.start()

    def join(self, timeout_s: float) -> bool:
        """Wait for all threads after the queue was closed; return False if a thread still runs after the timeout."""
        deadline = time.monotonic() + timeout_s
        others = [thread for thread in self._threads if thread is not threading.current_thread()]
        for thread in others:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in others)

    def _run(self, number: int) -> None:
        set_current_worker(number)
        while True:
            task = self._queue.take()
            if task is None:
                return
            try:
                task()
            except Exception as error:  # noqa: BLE001 (the owner handles every exception of a task)
                self._on_error(error)
            finally:
                del task  # a waiting worker must not keep anything alive

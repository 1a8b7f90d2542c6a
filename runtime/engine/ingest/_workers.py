"""Worker threads that run tasks until the queue is closed."""

from __future__ import annotations

import threading
from collections.abc import Callable

from runtime.engine.ingest._queue import TaskQueue

__all__ = ["Workers"]


class Workers:
    """So many threads on one queue; a task that raises is reported and ends nothing but itself."""

    def __init__(self, queue: TaskQueue, count: int, on_error: Callable[[BaseException], None]) -> None:
        self._queue = queue
        self._on_error = on_error
        self._threads = [threading.Thread(target=self._run, name=f"worker-{n}", daemon=True) for n in range(count)]

    def start(self) -> None:
        """Start the threads; once."""
        for thread in self._threads:
            thread.start()

    def join(self, timeout_seconds: float) -> bool:
        """Wait for all threads after the queue was closed; False if one still runs when time is up."""
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(timeout_seconds)
        return not any(t.is_alive() for t in self._threads if t is not threading.current_thread())

    def _run(self) -> None:
        while True:
            try:
                task = self._queue.take()
                if task is None:
                    return
                task()
            except Exception as error:  # noqa: BLE001 (whatever a task raises belongs to its owner)
                self._on_error(error)

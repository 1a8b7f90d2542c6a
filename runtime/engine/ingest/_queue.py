"""The task queue: the engine's own tasks first, then those that format what sources brought.

Workers never wait to put a task, so that work in the engine always drains. How much sources may bring is bounded by
`Admission`, in bytes; there are never more format tasks than workers for a formatter.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

__all__ = ["Task", "TaskQueue"]

Task = Callable[[], None]


class TaskQueue:
    """Tasks for worker threads. Thread-safe; closing it wakes every waiting worker."""

    def __init__(self) -> None:
        self._internal: deque[Task] = deque()
        self._admitted: deque[Task] = deque()
        self._closed = False
        self._changed = threading.Condition()

    def admit(self, task: Task) -> None:
        """Add a task for what a source brought; does nothing once the queue is closed."""
        with self._changed:
            if not self._closed:
                self._admitted.append(task)
                self._changed.notify()

    def put(self, task: Task) -> None:
        """Add a task of the engine's own; does nothing once the queue is closed."""
        with self._changed:
            if not self._closed:
                self._internal.append(task)
                self._changed.notify()

    def take(self) -> Task | None:
        """The next task, internal ones first; waits for one; None once the queue is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._internal or self._admitted)
            if self._closed:
                return None
            return self._internal.popleft() if self._internal else self._admitted.popleft()

    def close(self) -> None:
        """Drop what is queued and let the workers go."""
        with self._changed:
            self._closed = True
            self._internal.clear()
            self._admitted.clear()
            self._changed.notify_all()

    def __len__(self) -> int:
        with self._changed:
            return len(self._internal) + len(self._admitted)

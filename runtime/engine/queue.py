"""The task queue: unbounded for the engine's own tasks, bounded for what sources admit.

Workers take their own tasks first and never wait to put one, so that work in the engine always drains; sources are
refused when the bounded half is full and are told when there is room again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

__all__ = ["Task", "TaskQueue"]

Task = Callable[[], None]


class TaskQueue:
    """Tasks for worker threads. Thread-safe; closing it wakes every waiting worker."""

    def __init__(self, capacity: int, on_room: Callable[[], None]) -> None:
        """``on_room`` is called, on a worker's thread, after an offer was refused and a place became free."""
        self._capacity = capacity
        self._on_room = on_room
        self._internal: deque[Task] = deque()
        self._admitted: deque[Task] = deque()
        self._refused = False
        self._closed = False
        self._changed = threading.Condition()

    def offer(self, task: Task) -> bool:
        """Admit a source's task, or return False when the bounded half is full or the queue is closed."""
        with self._changed:
            if self._closed or len(self._admitted) >= self._capacity:
                self._refused = not self._closed
                return False
            self._admitted.append(task)
            self._changed.notify()
            return True

    def put(self, task: Task) -> None:
        """Add a task of the engine's own; never waits, does nothing once the queue is closed."""
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
            if self._internal:
                return self._internal.popleft()
            task = self._admitted.popleft()
            tell, self._refused = self._refused, False
        if tell:
            self._on_room()
        return task

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

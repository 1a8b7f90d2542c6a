"""Task queue: the engine's own tasks first, then the tasks for sources' input, and delayed tasks when they are due.

Workers never wait to put a task, so that work in the engine always drains. `Admission` bounds the input of sources; a
node never has more planned tasks than its `Pipeline.concurrency`.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import deque
from collections.abc import Callable

__all__ = ["Task", "TaskQueue"]

Task = Callable[[], None]


class TaskQueue:
    """Queue of tasks for worker threads. Thread-safe: all of its state is accessed with `_changed` held."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._internal: deque[Task] = deque()
        self._admitted: deque[Task] = deque()
        self._delayed: list[tuple[float, int, Task]] = []  # heap by deadline, then in the order of arrival
        self._delays = 0
        self._waiting = 0
        self._closed = False
        self._finishing = False
        self._changed = threading.Condition(threading.Lock())

    def admit(self, task: Task) -> None:
        """Add a task for input of a source, or one that only repeats input; do nothing if the queue is closed."""
        with self._changed:
            if not self._closed:
                self._admitted.append(task)
                if self._waiting:
                    self._changed.notify()

    def put(self, task: Task) -> None:
        """Add one of the engine's own tasks; do nothing if the queue is closed."""
        with self._changed:
            if not self._closed:
                self._internal.append(task)
                if self._waiting:
                    self._changed.notify()

    def hand_on(self, task: Task) -> None:
        """Add one of the engine's own tasks when the task of the calling worker is about to end.

        That worker takes the task next. No other worker is woken unless more tasks wait, because a wake-up takes longer
        than most tasks.
        """
        with self._changed:
            if not self._closed:
                self._internal.append(task)
                if self._waiting and len(self._internal) > 1:
                    self._changed.notify()

    def put_at(self, task: Task, deadline_s: float) -> None:
        """Add a task that becomes one of the engine's own at ``deadline_s`` of the clock.

        Tasks of equal times keep their order.
        """
        with self._changed:
            if not self._closed:
                self._delays += 1
                heapq.heappush(self._delayed, (deadline_s, self._delays, task))
                if self._waiting:
                    self._changed.notify()

    def take(self) -> Task | None:
        """Wait for the next task and return it.

        Return None once the queue is closed, or is finishing and no task is ready.
        """
        with self._changed:
            while True:
                task = self._next()
                if task is not None:
                    return task
                if self._closed or self._finishing:
                    return None
                self._waiting += 1
                try:
                    self._changed.wait(max(0.0, self._delayed[0][0] - self._now_s()) if self._delayed else None)
                finally:
                    self._waiting -= 1

    def take_now(self) -> Task | None:
        """Return the next task that is ready, or None; never waits."""
        with self._changed:
            return self._next()

    def _next(self) -> Task | None:
        if self._delayed:
            now_s = self._now_s()
            while self._delayed and self._delayed[0][0] <= now_s:
                self._internal.append(heapq.heappop(self._delayed)[2])
        if self._internal:
            return self._internal.popleft()
        return self._admitted.popleft() if self._admitted else None

    @property
    def next_deadline_s(self) -> float | None:
        """Return the time at which the first delayed task is due; None if there is none."""
        with self._changed:
            return self._delayed[0][0] if self._delayed else None

    def wake(self) -> None:
        """Wake the workers so that they check again which delayed tasks are due; called after the clock was set."""
        with self._changed:
            self._changed.notify_all()

    def finish(self) -> None:
        """Drop delayed tasks, and release workers once no task is ready; tasks that run may still put others."""
        with self._changed:
            self._finishing = True
            self._delayed.clear()
            self._changed.notify_all()

    def close(self) -> None:
        """Drop all queued tasks and release the workers."""
        with self._changed:
            self._closed = True
            self._internal.clear()
            self._admitted.clear()
            self._delayed.clear()
            self._changed.notify_all()

    def __len__(self) -> int:
        with self._changed:
            return len(self._internal) + len(self._admitted) + len(self._delayed)

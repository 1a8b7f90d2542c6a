"""The engine without threads: one task at a time, in one of the orders in which workers could have run the tasks."""

from __future__ import annotations

import random
from collections.abc import Callable

from runtime.engine.queue import Task, TaskQueue
from runtime.engine.tasks import WorkTask
from runtime.engine.workers import set_current_worker

__all__ = ["ManualClock", "Stepper"]


class ManualClock:
    """Clock that stands still until it is advanced; for one thread."""

    def __init__(self, now_s: float = 0.0) -> None:
        self._now_s = now_s
        self._calls: list[Callable[[], None]] = []

    def __call__(self) -> float:
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Advance the clock."""
        self._now_s += seconds
        for call in self._calls:
            call()

    def when_set(self, call: Callable[[], None]) -> None:
        """Call a function, such as `TaskQueue.wake`, whenever the clock was advanced."""
        self._calls.append(call)


class Stepper:
    """Runs an engine's tasks on request, in an order given by a seed; pass it to `QueryEngine` as its ``workers``.

    A stepper has as many places for tasks as there are workers. A step moves a task from the queue to an empty place,
    lets a task take its inputs, or runs a task. So inputs that were taken first may be executed last. This happens with
    threads too, because a thread may be interrupted after its task has taken inputs. Calls themselves run one at a
    time. The same seed makes the same steps.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._queue: TaskQueue | None = None
        self._places: list[Task | None] = []
        self._on_error: Callable[[BaseException], None] = _raise
        self.steps = 0

    def __call__(self, queue: TaskQueue, count: int, on_error: Callable[[BaseException], None]) -> Stepper:
        """Connect to the engine's queue; the engine calls this to make its workers."""
        self._queue, self._places, self._on_error = queue, [None] * count, on_error
        return self

    def start(self) -> None:
        """See `Crew`."""

    def join(self, timeout_s: float) -> bool:
        """Run ready tasks; see `Crew`."""
        del timeout_s
        self.run()
        return True

    def step(self) -> bool:
        """Make one step; return False if no task is ready."""
        assert self._queue is not None, "expected an engine that was made with the stepper"
        free = [place for place, task in enumerate(self._places) if task is None]
        if free and (len(free) == len(self._places) or self._random.random() < 0.6):
            task = self._queue.take_now()
            if task is not None:
                self._places[self._random.choice(free)] = task
                self.steps += 1
                return True
        taken = [place for place, task in enumerate(self._places) if task is not None]
        if not taken:
            return False
        self.steps += 1
        place = self._random.choice(taken)
        task = self._places[place]
        assert task is not None
        if isinstance(task, WorkTask) and not task.is_prepared and self._random.random() < 0.5:
            task.prepare()
            return True
        self._places[place] = None
        set_current_worker(place)
        try:
            task()
        except Exception as error:  # noqa: BLE001 (as `Workers` does)
            self._on_error(error)
        return True

    def run(self, most: int = 10_000_000) -> int:
        """Step until no task is ready, at most ``most`` times; return the number of steps."""
        for count in range(most):
            if not self.step():
                return count
        return most


def _raise(error: BaseException) -> None:
    raise error

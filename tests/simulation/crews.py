"""The workers of the engines that processes start: steppers, which the world moves."""

from __future__ import annotations

import random
from collections.abc import Callable

from runtime.engine.queue import TaskQueue
from tests.harness import Stepper

__all__ = ["Crews"]


class Crews:
    """In the place of `runtime.engine.workers.Workers`; the newest stepper is the one that works."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._newest: Stepper | None = None

    def __call__(self, queue: TaskQueue, count: int, on_error: Callable[[BaseException], None]) -> Stepper:
        """The crew of an engine."""
        self._newest = Stepper(self._chance.getrandbits(32))
        return self._newest(queue, count, on_error)

    def step(self) -> bool:
        """One step of one worker; False if none has anything to do."""
        return self._newest is not None and self._newest.step()

    def forget(self) -> None:
        """Their process is gone."""
        self._newest = None

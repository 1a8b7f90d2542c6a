"""Threads of the engines that processes start: steppers and the committer, which the world runs."""

from __future__ import annotations

import random
from collections.abc import Callable

from runtime.engine.queue import TaskQueue
from tests.harness import Stepper
from tests.simulation.committer import SimulatedCommitter

__all__ = ["Crews"]

_COMMITS = 0.1
"""Share of steps in which a pending epoch is committed."""


class Crews:
    """Replaces `runtime.engine.workers.Workers`; the newest stepper is the one in use."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._newest: Stepper | None = None
        self.committer = SimulatedCommitter(chance)
        """Committer of the process."""

    def __call__(self, queue: TaskQueue, count: int, on_error: Callable[[BaseException], None]) -> Stepper:
        """Return the crew of an engine."""
        self._newest = Stepper(self._chance.getrandbits(32))
        return self._newest(queue, count, on_error)

    def step(self) -> bool:
        """Make one step of a worker, or a commit; return False if there is none to make."""
        if self._chance.random() < _COMMITS and self.committer.step():
            return True
        return (self._newest is not None and self._newest.step()) or self.committer.step()

    def forget(self) -> None:
        """Drop the stepper and the committer of an ended process."""
        self._newest = None
        self.committer = SimulatedCommitter(self._chance)

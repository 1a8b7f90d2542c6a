"""What may go wrong, and when: crashes and errors of the machine, counted down from where the world armed them."""

from __future__ import annotations

import errno
import random
from collections import Counter
from typing import Final, Literal

from tests.simulation.trace import Trace

__all__ = ["CrashError", "Fate", "Faults"]

Fate = Literal["done", "lost", "unheard", "late"]
"""Of a task of Spark's: it ends in the middle; it is done and its answer is lost; it is given up and done later."""
_BAD_FATES: Final[tuple[Fate, ...]] = ("lost", "unheard", "late")


class CrashError(BaseException):
    """The process is gone at this point; no handler of its own may see it as an error."""


class Faults:
    """The machine's share of bad luck for one process.

    Every operation that could be the last one calls `point`, every one that the disk may refuse calls `refusal`. The
    world arms either to strike after so many calls: the seed decides what is hit, and nothing is drawn on the way.
    """

    def __init__(self, chance: random.Random, trace: Trace) -> None:
        self.chance = chance
        self.trace = trace
        self.counts: Counter[str] = Counter()
        self.crash_in = -1
        """Points until the process is killed; below 0 it is not."""
        self.error_in = -1
        """Operations until the disk refuses one."""
        self.error_code = errno.EIO
        self.is_full = False
        """The disk refuses everything that needs room."""
        self.is_dead = False
        self.bad_tasks = 0.0
        """Share of Spark's tasks that do not simply succeed."""

    def reborn(self) -> None:
        """There is a new process, and nothing is armed."""
        self.crash_in = self.error_in = -1
        self.is_dead = False

    def calm(self) -> None:
        """From now on nothing goes wrong."""
        self.crash_in = self.error_in = -1
        self.is_full = False
        self.bad_tasks = 0.0

    def fate_of_task(self) -> Fate:
        """What becomes of the next task of Spark's."""
        if not self.bad_tasks or self.chance.random() >= self.bad_tasks:
            return "done"
        fate = self.chance.choice(_BAD_FATES)
        self.counts[f"{fate} tasks"] += 1
        self.trace.say("the task will be {}", fate)
        return fate

    def point(self, what: str) -> None:
        """The process may be killed here; of a dead one nothing gets any further."""
        if self.is_dead:
            raise CrashError(what)
        if self.crash_in >= 0:
            self.crash_in -= 1
            if self.crash_in < 0:
                self.kill(what)

    def kill(self, what: str) -> None:
        """The process is killed now."""
        self.is_dead = True
        self.counts["crashes"] += 1
        self.trace.say("crash at {}", what)
        raise CrashError(what)

    def refusal(self, what: str, *, grows: bool) -> OSError | None:
        """The error that the disk gives in place of an operation, if it does; ``grows``: the operation needs room."""
        if grows and self.is_full:
            self.counts["disk full"] += 1
            self.trace.say("no space for {}", what)
            return OSError(errno.ENOSPC, "No space left on device", what)
        if self.error_in >= 0:
            self.error_in -= 1
            if self.error_in < 0:
                self.counts["disk errors"] += 1
                self.trace.say("input/output error at {}", what)
                return OSError(errno.EIO, "Input/output error", what)
        return None

"""Faults and their times: crashes and errors of the machine, counted down from the number that the world set."""

from __future__ import annotations

import errno
import random
from collections import Counter
from typing import Final, Literal

from tests.simulation.trace import Trace

__all__ = ["CrashError", "Fate", "Faults"]

Fate = Literal["done", "lost", "unheard", "late"]
"""Result of a task of Spark's: done; lost in the middle; done with its answer lost; or given up and done later."""
_BAD_FATES: Final[tuple[Fate, ...]] = ("lost", "unheard", "late")


class CrashError(BaseException):
    """The process is dead at this point; none of its handlers may catch this as an error."""


class Faults:
    """Faults of one process.

    Every operation that a crash may interrupt calls `point`, every one that the disk may refuse calls `refusal`. The
    world sets either to strike after a number of calls: the seed decides which call is hit, and calls before it draw no
    random numbers.
    """

    def __init__(self, chance: random.Random, trace: Trace) -> None:
        self.chance = chance
        self.trace = trace
        self.counts: Counter[str] = Counter()
        self.crash_in = -1
        """Number of points until the process is killed; below 0 it is not."""
        self.error_in = -1
        """Number of operations until the disk refuses one; below 0 it does not."""
        self.error_code = errno.EIO
        self.is_full = False
        """True if the disk refuses everything that needs room."""
        self.is_dead = False
        self.bad_tasks = 0.0
        """Share of Spark's tasks that do not simply succeed."""

    def reborn(self) -> None:
        """Reset the faults for a new process."""
        self.crash_in = self.error_in = -1
        self.is_dead = False

    def calm(self) -> None:
        """Disable all faults from now on."""
        self.crash_in = self.error_in = -1
        self.is_full = False
        self.bad_tasks = 0.0

    def fate_of_task(self) -> Fate:
        """Return the result of the next task of Spark's."""
        if not self.bad_tasks or self.chance.random() >= self.bad_tasks:
            return "done"
        fate = self.chance.choice(_BAD_FATES)
        self.counts[f"{fate} tasks"] += 1
        self.trace.say("the task will be {}", fate)
        return fate

    def point(self, what: str) -> None:
        """Kill the process here if it is due; raise `CrashError` in a dead process."""
        if self.is_dead:
            raise CrashError(what)
        if self.crash_in >= 0:
            self.crash_in -= 1
            if self.crash_in < 0:
                self.kill(what)

    def kill(self, what: str) -> None:
        """Kill the process now."""
        self.is_dead = True
        self.counts["crashes"] += 1
        self.trace.say("crash at {}", what)
        raise CrashError(what)

    def refusal(self, what: str, *, grows: bool) -> OSError | None:
        """Return the error of the disk in place of an operation, or None; ``grows``: the operation needs room."""
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

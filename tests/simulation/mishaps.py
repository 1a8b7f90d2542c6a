"""Faults of a process, its machine, its network and its Spark: one method a fault."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections import Counter
from typing import Final

from tests.simulation.faults import Faults
from tests.simulation.machine import Machine
from tests.simulation.market import SESSION, Market
from tests.simulation.network import FeedServer, Network
from tests.simulation.process import Process
from tests.simulation.trace import Trace

__all__ = ["Mishaps"]

_PAUSES_S: Final = (2.0, 60.0, 3_600.0)
_STEPS_OF_CLOCKS_S: Final = (-86_400.0, -60.0, -0.5, 0.5, 3_600.0)


class Mishaps:
    """Faults of a world. Any may be drawn in any step; its method returns False if it is not possible now."""

    chance: random.Random
    trace: Trace
    counts: Counter[str]
    faults: Faults
    machine: Machine
    market: Market
    network: Network
    server: FeedServer
    process: Process | None
    _back_at: int

    @abstractmethod
    def _advance(self, by_s: float) -> None:
        """Advance the time."""

    @abstractmethod
    def _stop(self, why: str) -> None:
        """Stop the process in order."""

    def _do_pause(self) -> bool:
        """Pause the process for a long time, as SIGSTOP does: the market continues, and timers are late."""
        if self.process is None:
            return False
        self.counts["pauses"] += 1
        self.trace.say("the process stands still")
        for link in self.server.links:
            if self.chance.random() < 0.5:  # the exchange disconnects a client that reads nothing
                link.cut(self.chance.randint(0, len(link.to_client)))
        self._advance(self.chance.choice(_PAUSES_S))
        return True

    def _do_clock(self) -> bool:
        """Set the machine's clock; clocks for durations are not affected."""
        step_s = self.chance.choice(_STEPS_OF_CLOCKS_S)
        self.counts["clock steps"] += 1
        self.trace.say("the clock is set by {} s", step_s)
        self.machine.clock_s += step_s
        return True

    def _do_crash(self) -> bool:
        if self.process is None:
            return False
        self.faults.kill("a task's end")
        return True

    def _do_arm(self) -> bool:
        if self.process is None:
            return False
        self.faults.crash_in = self.chance.randint(0, 40)
        return True

    def _do_error(self) -> bool:
        if self.process is None:
            return False
        self.faults.error_in = self.chance.randint(0, 12)
        return True

    def _do_full(self) -> bool:
        if self.process is None:
            return False
        self.trace.say("the disk is full")
        self.faults.is_full = True
        return self._for_a_while()

    def _do_executor(self) -> bool:
        if self.process is None:
            return False
        self.counts["lost executors"] += 1
        self.trace.say("an executor is lost")
        self.process.spark.lose_executor()
        return True

    def _do_late(self) -> bool:
        return self.process is not None and self.process.spark.hear_of_late()

    def _do_stop(self) -> bool:
        if self.process is None:
            return False
        self.counts["stops"] += 1
        self._stop("stopped")
        return True

    def _do_cut(self) -> bool:
        if not self.server.links:
            return False
        link = self.chance.choice(self.server.links)
        self.counts["lost connections"] += 1
        if self.chance.random() < 0.3:
            self.trace.say("the connection goes silent")
            link.is_silent = True
        else:
            self.trace.say("the connection breaks")
            link.cut(self.chance.randint(0, len(link.to_client)))
        return True

    def _do_down(self) -> bool:
        self.trace.say("the exchange is away")
        self.network.is_down = True
        return self._for_a_while()

    def _do_session(self) -> bool:
        self.trace.say("another exchange is in its place")
        self.counts["other sessions"] += 1
        self.server.session = "S2"
        return self._for_a_while()

    def _for_a_while(self) -> bool:
        self._back_at = self.trace.step + self.chance.randint(1, 25)
        return True

    def _restore(self) -> None:
        self.trace.say("disk and exchange are as they should be")
        self.faults.is_full = False
        self.network.is_down = False
        self.server.session = SESSION

    def _do_spoil(self) -> bool:
        if self.process is None:
            return False
        files = [file for file in self.process.files if file.can_read]
        if files:
            self.counts["failed sources"] += 1
            self.chance.choice(files).fail()
        return bool(files)

    def _do_break(self) -> bool:
        if self.process is None:
            return False
        self.counts["broken views"] += 1
        self.process.view.breaks_in = self.chance.randint(0, 6)
        return True

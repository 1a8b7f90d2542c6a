"""Faults of the exchange, its disk, its clock and its connections, and of the desk: one method a fault."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections import Counter
from typing import Final

from exchange_server.errors import ExchangeError
from tests.simulation.exchange.desks import DeskClient
from tests.simulation.exchange.network import Link
from tests.simulation.exchange.process import Process
from tests.simulation.faults import Faults
from tests.simulation.trace import Trace

__all__ = ["Mishaps"]

_PAUSES_S: Final = (3.0, 20.0, 600.0)
_STEPS_OF_CLOCKS_NS: Final = (-86_400 * 10**9, -(10**9), 10**6, 3_600 * 10**9)


class Mishaps:
    """Faults of a world. Any may be drawn in any step; its method returns False if it is not possible now."""

    chance: random.Random
    trace: Trace
    counts: Counter[str]
    faults: Faults
    process: Process | None
    links: list[Link]
    desk: DeskClient
    clock_ns: int
    """Difference of the exchange's wall clock from the elapsed time in nanoseconds; read when the exchange starts."""

    @abstractmethod
    def _ended(self, process: Process | None) -> None:
        """Process the death of the process, and perhaps of the machine."""

    def _do_full(self) -> bool:
        """Fill the disk of the exchange, until an exchange started on it finds room."""
        self.faults.is_full = True
        self.trace.say("the disk is full")
        return True

    def _do_clock(self) -> bool:
        """Set the clock of one of the two machines; clocks for durations are not affected."""
        step_ns = self.chance.choice(_STEPS_OF_CLOCKS_NS)
        self.counts["clock steps"] += 1
        if self.chance.random() < 0.5:
            self.clock_ns += step_ns
        else:
            self.desk.clock_ns += step_ns
        return True

    def _do_pause(self) -> bool:
        """Pause the exchange for a long time, as SIGSTOP does; the desk waits for it, and gives up."""
        if self.process is None:
            return False
        self.counts["pauses"] += 1
        for_s = self.chance.choice(_PAUSES_S)
        self.trace.say("the exchange stands still for {} s", for_s)
        self.desk.advance(for_s)
        self.process.clock.advance(for_s)
        return True

    def _do_desk_pause(self) -> bool:
        """Pause the desk; it continues when its link is healed."""
        if self.desk.link is not None:
            self.counts["desk pauses"] += 1
            self.desk.link.is_stalled = True
        return self.desk.link is not None

    def _do_desk_kill(self) -> bool:
        """Kill the desk."""
        self.counts["desk kills"] += 1
        self.desk.kill()
        return True

    def _do_desk_full(self) -> bool:
        """Fill the disk of the desk's journal, until the desk has died of it."""
        self.counts["desk disk full"] += 1
        self.desk.fill_disk(is_full=True)
        return True

    def _link(self) -> Link | None:
        return self.chance.choice(self.links) if self.links else None

    def _do_cut(self) -> bool:
        link = self._link()
        if link is not None:
            self.counts["partitions"] += 1
            link.is_cut = True
        return link is not None

    def _do_heal(self) -> bool:
        for link in self.links:
            if self.chance.random() < 0.5:
                link.is_cut = link.is_stalled = False
        return True

    def _do_stall(self) -> bool:
        link = self._link()
        if link is not None:
            self.counts["slow clients"] += 1
            link.is_stalled = True
        return link is not None

    def _do_hang_up(self) -> bool:
        link = self._link()
        if link is not None:
            self.counts["dead clients"] += 1
            link.end()
        return link is not None

    def _do_crash(self) -> bool:
        if self.process is not None:
            self.faults.kill("a moment between two acts")
        return False

    def _do_crash_later(self) -> bool:
        self.faults.crash_in = self.chance.randint(0, 30)
        return True

    def _do_disk(self) -> bool:
        self.faults.error_in = self.chance.randint(0, 10)
        return True

    def _do_stop(self) -> bool:
        process = self.process
        if process is None:
            return False
        self.counts["stops"] += 1
        self.trace.say("the exchange is stopped")
        try:
            process.stop()
        except ExchangeError as error:
            process.fail(str(error))
            return True
        for link in self.links:
            while link.down and not link.is_cut and not link.is_stalled and not link.is_over:
                link.fall(1 << 20)
        self._ended(process)
        return True

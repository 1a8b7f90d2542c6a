"""The machine that processes run on: what is left of one when the next begins."""

from __future__ import annotations

import random

from tests.simulation.crews import Crews
from tests.simulation.disk import Platter, SimulatedDisk
from tests.simulation.faults import Faults
from tests.simulation.network import Network
from tests.simulation.spark import Checkpoint
from tests.simulation.store import Shelf, SimulatedStore
from tests.simulation.threads import Threads
from tests.simulation.trace import Trace

__all__ = ["Machine"]


class Machine:
    """Disk, store and Spark's checkpoint outlive processes; the network is the world's."""

    def __init__(self, chance: random.Random, network: Network, trace: Trace) -> None:
        self.chance = chance
        self.trace = trace
        self.network = network
        self.faults = Faults(chance, trace)
        self.platter = Platter(chance)
        self.shelf = Shelf()
        self.checkpoint = Checkpoint()
        self.disk = SimulatedDisk(self.platter, self.faults)
        self.threads = Threads()
        self.crews = Crews(chance)
        self.clock_s = 0.0
        """What the wall clock shows beyond the time that has passed."""

    def store(self) -> SimulatedStore:
        """The store as the next process has it."""
        return SimulatedStore(self.shelf, self.faults)

    def kill(self, *, powers_off: bool) -> None:
        """The process is gone; with the power goes what was not synced."""
        self.network.forget()
        self.threads.forget()
        self.crews.forget()
        self.shelf.is_open = False
        if powers_off:
            self.trace.say("the machine stops")
            self.platter.crash()
            self.checkpoint.lose(self.chance)

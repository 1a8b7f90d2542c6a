"""The machine of the processes: the data that a process leaves for the next one."""

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
    """Disk, store and Spark's checkpoint, which survive processes; the network belongs to the world."""

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
        """Difference of the wall clock from the elapsed time, in seconds."""

    def store(self) -> SimulatedStore:
        """Return the store for the next process."""
        return SimulatedStore(self.shelf, self.faults)

    def kill(self, *, powers_off: bool) -> None:
        """Kill the process; a power cut also loses unsynced data."""
        self.network.forget()
        self.threads.forget()
        self.crews.forget()
        self.shelf.is_open = False
        if powers_off:
            self.trace.say("the machine stops")
            self.platter.crash()
            self.checkpoint.lose(self.chance)

"""The command line of the exchange's simulation.

::

    python -m tests.simulation.exchange --seeds 10000 [--start 0] [--jobs 2]
    python -m tests.simulation.exchange --seed 17 -v             one seed, with its events
"""

from __future__ import annotations

from tests.simulation.__main__ import simulation
from tests.simulation.exchange.world import World

if __name__ == "__main__":
    simulation(
        "Drive the exchange through faults, crashes and restarts, and compare what it says with what was asked.", World
    )()

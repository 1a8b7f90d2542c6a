"""The command line of the simulation of upstreams.

::

    python -m tests.simulation.upstreams --seeds 10000 [--start 0] [--jobs 2]
    python -m tests.simulation.upstreams --seed 17 -v             one seed, with its events
"""

from __future__ import annotations

from tests.simulation.__main__ import simulation
from tests.simulation.upstreams.world import World

if __name__ == "__main__":
    simulation(
        "Drive runtimes that feed another one through crashes, retention and take-overs, and compare what it holds "
        "with the markets.",
        World,
    )()

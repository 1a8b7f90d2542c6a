"""The command line of the random closed simulations.

::

    python -m tests.simulation.closed --seeds 1000 [--start 0] [--jobs 2]
    python -m tests.simulation.closed --seed 17 -v               one seed, with its events
"""

from __future__ import annotations

from tests.simulation.__main__ import simulation
from tests.simulation.closed.world import World

if __name__ == "__main__":
    simulation("Run random closed simulations, and check their journals, feeds and results.", World)()

"""Closed simulations: an exchange, its background agents and strategies that react to each other, in one process.

```
config.py ──▶ simulation.py puts the parts together ──▶ deltabook.backtest.Result
                ├ venue.py        the exchange: over a journal, or in memory; its operator with planned halts
                ├ (exchange_server.agents, exchange_server.day: the agents and the phases of the live exchange)
                ├ publication.py  the feed as changes of views
                ├ participant.py  one strategy: engine, desk, latencies, computation delay
                └ SimulationExperiment: a simulation for each point of a grid, by deltabook.backtest.sweep
```

All of it runs on one `deltabook.backtest.clock.SimulatedClock`: nothing waits, and the same configuration gives the
same bytes. docs/simulation.md shows how to use it.
"""

from deltabook.simulation.config import SimulationConfig
from deltabook.simulation.simulation import Simulation, SimulationError

__all__ = ["Simulation", "SimulationConfig", "SimulationError"]

"""Closed simulations: market events a second of the day's population, and how long a whole day takes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from bench.report import Record, record
from deltabook.simulation import Simulation, SimulationConfig

__all__ = ["measure_simulations"]

_AGENTS: Final = "day"
_SPARSE_PER_S: Final = 160.0
_DENSE_PER_S: Final = 2_000.0
_DAY_HOURS: Final = 6.5


def measure_simulations(quick: bool) -> list[Record]:
    """``simulate.events_per_s`` and its relatives, a run of each in turn, and ``simulate.day_s``.

    An event is a message of the feed, as everybody reads it. The population is the preset ``day``: 200 agents on one
    symbol. ``dense`` has 2,000 requests a second of them in place of 160, ``strategy`` a market maker among them,
    ``journal`` writes the exchange's directory.
    """
    runs, hours = (1, 0.05) if quick else (5, 0.5)
    rates: dict[str, list[float]] = {"": [], "dense.": [], "strategy.": [], "journal.": []}
    for seed in range(1, runs + 1):
        plain = SimulationConfig(hours=hours, seed=seed, agents=_AGENTS, rate_per_s=_SPARSE_PER_S)
        dense = SimulationConfig(hours=hours / 5, seed=seed, agents=_AGENTS, rate_per_s=_DENSE_PER_S)
        traded = SimulationConfig(
            ("market_maker",), hours=hours / 5, seed=seed, agents=_AGENTS, rate_per_s=_SPARSE_PER_S
        )
        rates[""].append(_events_per_s(plain))
        rates["dense."].append(_events_per_s(dense))
        rates["strategy."].append(_events_per_s(traded))
        with tempfile.TemporaryDirectory(prefix="bench-trading-") as folder:
            rates["journal."].append(_events_per_s(plain, Path(folder) / "exchange"))
    found = [record(f"simulate.{name}events_per_s", values, "events/s") for name, values in rates.items()]
    day = SimulationConfig(
        hours=0.1 if quick else _DAY_HOURS, seed=1, agents=_AGENTS, rate_per_s=_SPARSE_PER_S, opening_s=60, closing_s=60
    )
    found.append(record("simulate.day_s", [Simulation(day).run().elapsed_s], "s"))
    return found


def _events_per_s(config: SimulationConfig, directory: Path | None = None) -> float:
    result = Simulation(config, directory=directory).run()
    return result.figures.feed_messages / result.elapsed_s

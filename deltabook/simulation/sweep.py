"""Sweeps of simulations: over seeds, the market, and the parameters of strategies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from algo_engine.strategy import Strategy
from deltabook.backtest.result import Result
from deltabook.simulation.config import SimulationConfig, checked
from deltabook.simulation.simulation import Simulation

__all__ = ["SimulationExperiment"]

_AGENTS: Final = "agents."
_FIELDS: Final = {
    "seed": "seed",
    "hours": "hours",
    "agents": "agents",
    "rate": "rate_per_s",
    "agent_delay": "agent_delay",
    "collar_bps": "collar_bps",
    "latency": "latency",
    "compute": "compute",
    "step_us": "step_us",
}
"""Axis → field of the configuration."""


class SimulationExperiment:
    """Experiment whose runs are simulations, see `deltabook.backtest.sweep.Experiment`.

    An axis is a field of the configuration (``seed``, ``rate``, ``latency``, …), a setting of the agents
    (``agents.noise.market``), or else a parameter of a strategy.
    """

    config_type = SimulationConfig

    @staticmethod
    def run(config: SimulationConfig, classes: Mapping[str, type[Strategy[Any]]]) -> Result:
        """See `Experiment.run`."""
        return Simulation(config, classes=classes).run()

    @staticmethod
    def at(config: SimulationConfig, values: Sequence[tuple[str, str]]) -> SimulationConfig:
        """See `Experiment.at`."""
        fields: dict[str, Any] = {}
        settings, parameters = list(config.settings), list(config.parameters)
        for key, value in values:
            if key in _FIELDS:
                fields[_FIELDS[key]] = value
            elif key.startswith(_AGENTS):
                settings.append(f"{key.removeprefix(_AGENTS)}={value}")
            else:
                parameters.append(f"{key}={value}")
        return checked(
            msgspec.structs.replace(config, **fields, settings=tuple(settings), parameters=tuple(parameters))
        )

    @staticmethod
    def files(config: SimulationConfig) -> list[Path]:
        """See `Experiment.files`."""
        return [Path(config.agents)] if config.agents.endswith(".json") else []

"""Sweeps of simulations: a point is the simulation with its values, wherever it is run."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

import deltabook
from deltabook.backtest import ConfigurationError, SweepError
from deltabook.simulation import Simulation, SimulationConfig
from deltabook.simulation.sweep import SimulationExperiment

GRID: dict[str, list[Any]] = {"seed": [1, 2], "agents.noise.market": [0.01, 0.2], "replace_ticks": [1, 3]}
SHORT: dict[str, Any] = {"hours": 0.001, "agents": "lively"}


def test_points_are_simulations(tmp_path: Path) -> None:
    """Also in another process, with files that say the same."""
    found = deltabook.sweep_simulations("market_maker", GRID, folder=tmp_path, **SHORT)
    assert [point.values for point in found.points][:3] == [
        ("1", "0.01", "1"), ("1", "0.01", "3"), ("1", "0.2", "1")
    ]  # fmt: skip
    assert {point.error for point in found.points} == {""}
    config = SimulationConfig(
        ("market_maker",), hours=0.001, seed=2, agents="lively", settings=("noise.market=0.01",),
        parameters=("replace_ticks=3",),
    )  # fmt: skip
    data = Simulation(config).run().to_json()
    assert (tmp_path / "00006.json").read_bytes() == data
    assert found.points[5].sha256 == hashlib.sha256(data).hexdigest()
    assert "Simulation of market_maker" in (tmp_path / "00006.html").read_text()


@pytest.mark.process
def test_processes_give_the_same_points() -> None:
    grid = {"seed": range(3)}
    here = deltabook.sweep_simulations("market_maker", grid, **SHORT)
    assert deltabook.sweep_simulations("market_maker", grid, jobs=2, **SHORT).points == here.points


def test_agents_alone_are_swept() -> None:
    found = deltabook.sweep_simulations((), {"rate": [50, 100]}, **SHORT)
    assert [(point.orders, point.error) for point in found.points] == [(0, ""), (0, "")]
    assert found.points[0].sha256 != found.points[1].sha256


def test_a_point_that_cannot_be_says_why() -> None:
    found = deltabook.sweep_simulations((), {"agents.noise.market": [0.1, 7]}, **SHORT)
    assert found.points[0].error == ""
    assert "<= 1" in found.points[1].error
    with pytest.raises(SweepError, match="expected a point that can be run"):
        deltabook.sweep_simulations((), {"agents": ["none such"]}, **SHORT)
    with pytest.raises(ConfigurationError, match="expected a configuration of a simulation"):
        deltabook.sweep_simulations((), {"seed": ["x"]}, **SHORT)
    with pytest.raises(ConfigurationError, match="was hour"):
        deltabook.sweep_simulations((), {"seed": [1]}, hour=1)


def test_axes_of_the_configuration() -> None:
    config = SimulationExperiment.at(SimulationConfig(), [("latency", "distance:5km"), ("rate", "99")])
    assert (config.latency, config.rate_per_s) == ("distance:5km", 99.0)

"""The example of docs/learning.md learns, and gets more than TWAP does in markets that it has not seen."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "learn_execution.py"
GENERATIONS = 4
HELD_OUT = range(1_000_000, 1_000_016)
"""Fewer than the example has: kernels are interpreted in tests."""


@pytest.fixture(scope="module")
def example() -> ModuleType:
    for library in ("gymnasium", "cma"):
        pytest.importorskip(library)
    spec = importlib.util.spec_from_file_location("learn_execution", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_learnt_policy_beats_twap(example: ModuleType) -> None:
    weights, curve = example.learn(GENERATIONS)
    assert [generation for generation, _, _ in curve] == list(range(1, GENERATIONS + 1))
    policy, twap, error = example.compare(weights, HELD_OUT)
    assert policy - twap > 2 * error > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_does_not_sell_loses(example: ModuleType) -> None:
    """A policy that waits for the end and sells everything at the market gets less than TWAP."""
    environment = example.make_environment()
    (numbers,) = environment.observation_space.shape
    weights = example.np.zeros((2, numbers + 1))
    weights[0, -1] = -20.0
    seeds = range(6)
    assert example.mean_reward(environment, seeds, weights.ravel()) < example.mean_reward(environment, seeds, None)

"""Learn to sell 2,000 lots in 20 seconds for more than TWAP gets, in a simulated market of calm agents.

    pip install 'deltabook[gym]'
    python examples/learn_execution.py     # takes some minutes; `--generations 3` is a short run

The policy's pace and urgency are the tanh of linear functions of the observation. CMA-ES (the library `cma`) searches
for the coefficients: in each generation every candidate sells in the same few markets, and the best candidates shape
the next generation. At the end the policy is compared with TWAP, which sells equal parts with market orders. The
comparison uses markets that training never used.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import cma
import gymnasium
import numpy as np
from numpy.typing import NDArray

import deltabook.gym  # noqa: F401 - registers the environments
from deltabook.gym import Execution
from deltabook.simulation import SimulationConfig

MARKET = SimulationConfig(agents="calm", rate_per_s=60, warm_up_s=5)
CANDIDATES, MARKETS = 8, 6
HELD_OUT = range(1_000_000, 1_000_040)
"""Seeds of markets that training never uses."""

Numbers = NDArray[np.float64]


def make_environment() -> gymnasium.Env:  # type: ignore[type-arg, unused-ignore]
    """Return the environment, in which a decision is made every two seconds."""
    return gymnasium.make("deltabook/Execution-v0", lots=2_000, seconds=20, steps=10, market=MARKET)


def act(weights: Numbers, seen: Numbers) -> Numbers:
    """Return the policy's action: pace and urgency, each the tanh of a weighted sum of the observation and a
    constant."""
    action: Numbers = np.tanh(weights.reshape(2, -1) @ np.append(seen, 1.0))
    return action


def total_reward(environment: gymnasium.Env, seed: int, weights: Numbers | None) -> float:  # type: ignore[type-arg, unused-ignore]
    """Return the reward of an episode: minus the implementation shortfall, in hundredths of a percent.

    Without ``weights`` the episode is played with TWAP.
    """
    seen, _ = environment.reset(seed=seed)
    total, is_over = 0.0, False
    while not is_over:
        action = np.array(Execution.twap) if weights is None else act(weights, seen)
        seen, reward, is_over, _, _ = environment.step(action.astype(np.float32))
        total += float(reward)
    return total


def mean_reward(environment: gymnasium.Env, seeds: range, weights: Numbers | None) -> float:  # type: ignore[type-arg, unused-ignore]
    """Return the mean reward over the markets with these seeds."""
    return float(np.mean([total_reward(environment, seed, weights) for seed in seeds]))


def learn(generations: int, seed: int = 1) -> tuple[Numbers, list[tuple[int, float, float]]]:
    """Return the best weights, and the learning curve: generation, mean and best reward of its candidates."""
    environment = make_environment()
    (numbers,) = environment.observation_space.shape or (0,)
    search = cma.CMAEvolutionStrategy(
        np.zeros(2 * (numbers + 1)), 0.3, {"popsize": CANDIDATES, "seed": seed, "verbose": -9}
    )
    curve = []
    for generation in range(generations):
        seeds = range(generation * MARKETS, (generation + 1) * MARKETS)
        candidates = search.ask()
        # Rewards are relative to TWAP in the same markets, so that the trend of a market does not count.
        even = mean_reward(environment, seeds, None)
        rewards = [mean_reward(environment, seeds, candidate) - even for candidate in candidates]
        search.tell(candidates, [-reward for reward in rewards])
        curve.append((generation + 1, float(np.mean(rewards)), max(rewards)))
        print(
            f"generation {generation + 1}: {np.mean(rewards):+.2f} against TWAP, best {max(rewards):+.2f}", flush=True
        )
    environment.close()
    return np.asarray(search.result.xfavorite), curve


def compare(weights: Numbers, seeds: range = HELD_OUT) -> tuple[float, float, float]:
    """Return the mean rewards of the policy and of TWAP in the same markets, and their difference's standard error."""
    environment = make_environment()
    learnt = np.array([total_reward(environment, seed, weights) for seed in seeds])
    even = np.array([total_reward(environment, seed, None) for seed in seeds])
    environment.close()
    return float(learnt.mean()), float(even.mean()), float((learnt - even).std(ddof=1) / len(seeds) ** 0.5)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--generations", type=int, default=15)
    parser.add_argument("--curve", type=Path, help="CSV file for the learning curve")
    given = parser.parse_args()
    best, rows = learn(given.generations)
    if given.curve:
        with given.curve.open("w", newline="") as out:
            csv.writer(out).writerows([("generation", "mean", "best"), *rows])
    policy, twap, error = compare(best)
    print(
        f"{len(HELD_OUT)} new markets: policy {policy:+.2f}, TWAP {twap:+.2f}, gain {policy - twap:+.2f} ± {error:.2f}"
    )

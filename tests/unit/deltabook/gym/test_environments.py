"""Environments keep Gymnasium's rules, and their rewards add up to what their docstrings say."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.utils.env_checker import check_env  # noqa: E402 - behind the check for the extra

from deltabook.backtest import ConfigurationError  # noqa: E402
from deltabook.gym import Execution, MarketMaking, compressed  # noqa: E402
from deltabook.simulation import SimulationConfig  # noqa: E402

MARKET = SimulationConfig(agents="lively", rate_per_s=80, warm_up_s=5)
NAMES = ("deltabook/Execution-v0", "deltabook/MarketMaking-v0")


def made(name: str, **options: Any) -> Any:
    return gymnasium.make(name, **{"seconds": 4, "steps": 4, "market": MARKET, **options})


def played(environment: Any, seed: int, action: tuple[float, float] | None = None) -> list[Any]:
    """Observations and rewards of an episode; without an action, drawn ones."""
    environment.action_space.seed(seed)
    seen, _ = environment.reset(seed=seed)
    found, is_over = [seen.tolist()], False
    while not is_over:
        given = environment.action_space.sample() if action is None else np.array(action, dtype=np.float32)
        seen, reward, is_over, is_cut, _ = environment.step(given)
        assert not is_cut
        assert environment.observation_space.contains(seen)
        found.append((seen.tolist(), reward))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_gymnasiums_own_check_passes(name: str) -> None:
    """Without a single warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(made(name, views={"imbalance": None}).unwrapped)


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_episode(name: str) -> None:
    first, second = made(name), made(name)
    assert played(first, 3) == played(second, 3) == played(first, 3)
    assert played(first, 4) != played(first, 3)


@pytest.mark.parametrize("name", NAMES)
def test_vectorised(name: str) -> None:
    """Environments of one vector are markets of their own."""
    vector = gymnasium.make_vec(name, num_envs=2, vectorization_mode="sync", seconds=2, steps=2, market=MARKET)
    seen, _ = vector.reset(seed=1)
    assert seen.shape == (2, *vector.single_observation_space.shape)
    assert seen[0].tolist() != seen[1].tolist()
    seen, rewards, over, _, _ = vector.step(vector.action_space.sample())
    assert rewards.shape == (2,)
    assert not over.any()
    vector.close()


def test_execution_reward_is_the_shortfall() -> None:
    """Sum of rewards = proceeds against the middle at the beginning, by the result's own fills."""
    environment = made(NAMES[0], lots=300).unwrapped
    assert isinstance(environment, Execution)
    rewards = [each[1] for each in played(environment, 5, Execution.twap)[1:]]
    middle = environment._arrival_ticks
    fills = environment.simulation.recorder.trades
    assert sum(trade.volume_lots for trade in fills) == 300
    assert {trade.side for trade in fills} == {"S"}
    earned = sum((trade.price_ticks - middle) * trade.volume_lots for trade in fills)
    assert sum(rewards) == pytest.approx(10_000 * earned / (middle * 300))
    assert environment.left_lots == 0
    # Evenly: after half of the time about half is sold.
    half = [t for t in fills if t.time_ns < environment._begin_ns + 2_000_000_000]
    assert 120 <= sum(trade.volume_lots for trade in half) <= 180


def test_execution_never_sells_more_than_there_is() -> None:
    environment = made(NAMES[0], lots=500, steps=8).unwrapped
    for seed in range(6):
        played(environment, seed)
        assert -500 <= environment._puppet.position_lots <= 0
        assert environment.left_lots == 0


@pytest.mark.parametrize(("latency", "seed"), [("fixed:order=300ms,answer=300ms", 1), ("fixed:order=2s,answer=2s", 0)])
def test_latencies_do_not_exceed_the_limits(latency: str, seed: int) -> None:
    """An order that trades before its cancellation arrives counts: nothing is sold twice, and no limit is exceeded."""
    market = SimulationConfig(agents="calm", rate_per_s=60, warm_up_s=5, latency=latency)
    seller = made(NAMES[0], seconds=10, steps=10, market=market).unwrapped
    maker = made(NAMES[1], lots=200, most_lots=400, farthest_ticks=1, seconds=10, steps=20, market=market).unwrapped
    played(seller, seed, (1.0, -0.5))
    assert seller.left_lots == 0
    assert sum(trade.volume_lots for trade in seller.simulation.recorder.trades) == 2_000
    played(maker, seed, (-1.0, -1.0))
    position, largest = 0, 0
    for trade in maker.simulation.recorder.trades:
        position += trade.volume_lots if trade.side == "B" else -trade.volume_lots
        largest = max(largest, abs(position))
    assert 0 < largest <= 400


def test_patience_rests_and_urgency_takes() -> None:
    environment = made(NAMES[0], lots=200).unwrapped
    played(environment, 1, (0.0, 1.0))
    assert {t.liquidity for t in environment.simulation.recorder.trades} == {"taker"}
    played(environment, 1, (0.0, -1.0))
    before_end = [
        trade
        for trade in environment.simulation.recorder.trades
        if trade.time_ns < environment._begin_ns + 4_000_000_000
    ]
    assert {trade.liquidity for trade in before_end} <= {"maker"}


def test_making_reward_is_the_change_of_wealth() -> None:
    environment = made(NAMES[1], inventory_cost=0.0, steps=8).unwrapped
    assert isinstance(environment, MarketMaking)
    rewards = [each[1] for each in played(environment, 2, (-0.9, -0.9))[1:]]
    trades = environment.simulation.recorder.trades
    assert trades
    position = sum(t.volume_lots if t.side == "B" else -t.volume_lots for t in trades)
    cash = -sum((t.volume_lots if t.side == "B" else -t.volume_lots) * t.price_ticks for t in trades)
    bid, ask = environment.touch_ticks
    assert sum(rewards) == pytest.approx((cash + position * (bid if position > 0 else ask)) / 50)
    assert {t.liquidity for t in trades} == {"maker"}


def test_inventory_costs_and_is_limited() -> None:
    # Bids alone: the position can only rise.
    played_with = {}
    for cost in (0.0, 1.0):
        environment = made(NAMES[1], inventory_cost=cost, most_lots=100, steps=8).unwrapped
        rewards = [each[1] for each in played(environment, 7, (-1.0, 1.0))[1:]]
        assert environment._puppet.position_lots <= 100
        played_with[cost] = sum(rewards)
    assert played_with[1.0] < played_with[0.0]


def test_observations_come_from_named_views() -> None:
    """Prices count from the middle at the reset; own SQL is a view like those that ship."""
    lots = "SELECT symbol, SUM(volume) AS lots, COUNT(*) AS orders FROM bids GROUP BY symbol"
    environment = made(NAMES[0], views={"imbalance": None, "resting": lots}).unwrapped
    assert environment.names == (
        "left", "time_left", "behind",
        "best_quote.bid_price", "best_quote.bid_volume", "best_quote.ask_price", "best_quote.ask_volume",
        "imbalance.bid_volume", "imbalance.ask_volume", "resting.lots", "resting.orders",
    )  # fmt: skip
    seen, _ = environment.reset(seed=1)
    named = dict(zip(environment.names, seen.tolist(), strict=True))
    book = environment.simulation.venue.market.books["ACME"]
    bid, ask = book.best("B"), book.best("S")
    middle = (bid + ask) / 2
    assert named["best_quote.bid_price"] == pytest.approx(compressed(bid - middle), abs=1e-5)
    assert named["best_quote.ask_price"] == pytest.approx(compressed(ask - middle), abs=1e-5)
    assert named["resting.lots"] == pytest.approx(compressed(sum(v for _, v, _ in book.levels("B"))), abs=1e-5)
    assert named["left"] == named["time_left"] == 1.0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"steps": 0}, "1 to 1,000,000 steps"),
        ({"seconds": 0}, "more than 0 s"),
        ({"lots": 0}, "1 lot or more"),
        ({"market": SimulationConfig(("sobi",))}, "was one with sobi"),
        ({"views": {"nothing": None}}, "expected one of the views"),
        ({"views": {"bad": "SELECT COUNT(*) AS n FROM bids"}}, "without the column"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        made(NAMES[0], **options)


def test_a_step_needs_an_episode() -> None:
    environment = made(NAMES[0]).unwrapped
    with pytest.raises(gymnasium.error.ResetNeeded):
        environment.step(np.zeros(2, dtype=np.float32))


def test_an_episode_that_is_over_takes_no_step() -> None:
    environment = made(NAMES[0], seconds=1, steps=1).unwrapped
    played(environment, 1)
    with pytest.raises(gymnasium.error.ResetNeeded, match="that is over"):
        environment.step(np.zeros(2, dtype=np.float32))

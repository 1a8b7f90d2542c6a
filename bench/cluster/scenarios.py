"""What is asked of the model: clusters that are not here."""

from __future__ import annotations

from typing import Final

import msgspec

from bench.cluster.model import Costs, Layout, Outcome, limits, steady

__all__ = ["BIG", "RATE", "Answer", "Scenario", "Swing", "answer", "besides", "sensitivity"]

RATE: Final = 50_000
"""Messages a second at which freshness is asked for."""
_STEADY_S: Final = 60.0


class Scenario(msgspec.Struct, frozen=True):
    """A cluster and what it is to do."""

    key: str
    """In the names of figures."""
    title: str
    """In words."""
    layout: Layout
    """Processes and cores."""
    one_shard: bool = False
    """With a view besides that cannot be spread."""


class Answer(msgspec.Struct, frozen=True):
    """What the model says."""

    most_rate: float
    """Messages a second at which the first part is at its end."""
    limit: str
    """Which."""
    at_rate: Outcome
    """At `RATE`, or at nine tenths of the most where that is less."""
    rate: float
    """That rate."""


class Swing(msgspec.Struct, frozen=True):
    """How an answer goes with one cost."""

    cost: str
    """Which."""
    rate: tuple[float, float]
    """Most messages a second with half and with twice of it."""
    p50_ms: tuple[float, float]
    """Median age with half and with twice of it."""


def _big(key: str, title: str, layout: Layout) -> tuple[Scenario, Scenario]:
    return (
        Scenario(key, title, layout),
        Scenario(f"{key}.one_shard", f"{title}, and VWAP over all symbols", layout, one_shard=True),
    )


BIG: Final = (
    *_big("symbols_100.workers_4", "100 symbols, 4 workers", Layout(4, 1, 8, 2, 100)),
    *_big("symbols_100.workers_10", "100 symbols, 10 workers", Layout(10, 1, 20, 4, 100)),
    *_big("symbols_100.workers_100", "100 symbols, 100 workers", Layout(100, 1, 200, 10, 100)),
    *_big("symbols_100.workers_100.shards_32", "100 symbols, 100 workers, 32 shards", Layout(100, 1, 32, 10, 100)),
)
"""Each process of Spark's and each runtime has a machine, or at least a core, of its own."""


def answer(costs: Costs, scenario: Scenario, one_shard_us: float) -> Answer:
    """What a scenario comes to; ``one_shard_us`` is what a message costs the view that cannot be spread."""
    if scenario.one_shard:
        costs = besides(costs, one_shard_us)
    found = limits(costs, scenario.layout)
    limit = min(found, key=lambda name: found[name])
    rate = min(RATE, 0.9 * found[limit])
    return Answer(found[limit], limit, steady(costs, scenario.layout, rate, _STEADY_S), rate)


def besides(costs: Costs, one_shard_us: float) -> Costs:
    """The costs with a view that lives in one shard besides."""
    whole_us, single_us = costs.executor_us + one_shard_us, costs.single_us + one_shard_us
    return msgspec.structs.replace(costs, executor_us=whole_us, single_us=single_us)


def sensitivity(costs: Costs, scenario: Scenario) -> list[Swing]:
    """Half and twice of each cost, the others as they are."""
    swings = []
    for name in costs.__struct_fields__:
        value = getattr(costs, name)
        if not value:
            continue
        low, high = (answer(msgspec.structs.replace(costs, **{name: value * by}), scenario, 0.0) for by in (0.5, 2.0))
        swings.append(Swing(name, (low.most_rate, high.most_rate), (low.at_rate.p50_ms, high.at_rate.p50_ms)))
    return swings

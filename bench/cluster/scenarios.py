"""Scenarios for the model: clusters that cannot be measured here."""

from __future__ import annotations

from typing import Final

import msgspec

from bench.cluster.model import Costs, Layout, Outcome, limits, steady

__all__ = ["BIG", "RATE", "Answer", "Scenario", "Swing", "answer", "sensitivity", "with_one_shard_view"]

RATE: Final = 50_000
"""Messages per second at which freshness is modelled."""
_STEADY_S: Final = 60.0


class Scenario(msgspec.Struct, frozen=True):
    """A cluster and its load."""

    key: str
    """Part of the names of the scenario's figures."""
    title: str
    """Title for readers."""
    layout: Layout
    """Processes and cores."""
    one_shard: bool = False
    """True if there is also a view that cannot be distributed."""


class Answer(msgspec.Struct, frozen=True):
    """Result of the model for a scenario."""

    most_rate: float
    """Messages per second at which the first part reaches its limit."""
    limit: str
    """Name of the part that reaches its limit first."""
    at_rate: Outcome
    """Outcome at `RATE`, or at nine tenths of the largest rate if that is less."""
    rate: float
    """Rate of ``at_rate`` in messages per second."""


class Swing(msgspec.Struct, frozen=True):
    """Dependence of a result on one cost."""

    cost: str
    """Name of the cost."""
    rate: tuple[float, float]
    """Largest rate in messages per second, with half and with twice the cost."""
    p50_ms: tuple[float, float]
    """Median age in milliseconds, with half and with twice the cost."""


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
"""Scenarios in which each process of Spark and each runtime has its own machine, or at least its own core."""


def answer(costs: Costs, scenario: Scenario, one_shard_us: float) -> Answer:
    """Return the result of a scenario; ``one_shard_us`` is the cost of a message for the view that cannot be
    distributed.
    """
    if scenario.one_shard:
        costs = with_one_shard_view(costs, one_shard_us)
    found = limits(costs, scenario.layout)
    limit = min(found, key=lambda name: found[name])
    rate = min(RATE, 0.9 * found[limit])
    return Answer(found[limit], limit, steady(costs, scenario.layout, rate, _STEADY_S), rate)


def with_one_shard_view(costs: Costs, one_shard_us: float) -> Costs:
    """Return the costs with an additional view that is in one shard."""
    whole_us, single_us = costs.executor_us + one_shard_us, costs.single_us + one_shard_us
    return msgspec.structs.replace(costs, executor_us=whole_us, single_us=single_us)


def sensitivity(costs: Costs, scenario: Scenario) -> list[Swing]:
    """Return the results for half and twice each cost, with the other costs unchanged."""
    swings = []
    for name in costs.__struct_fields__:
        value = getattr(costs, name)
        if not value:
            continue
        low, high = (answer(msgspec.structs.replace(costs, **{name: value * by}), scenario, 0.0) for by in (0.5, 2.0))
        swings.append(Swing(name, (low.most_rate, high.most_rate), (low.at_rate.p50_ms, high.at_rate.p50_ms)))
    return swings

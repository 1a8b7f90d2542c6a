"""Amounts of the measurements, in full and quick."""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["FULL", "MAIN", "QUICK", "STATES", "Plan"]

MAIN: Final = 10_000
"""Size of batch of the main figures in process, and of the cost of a larger state."""
STATES: Final = (20_000, 200_000, 2_000_000)
"""Numbers of live orders per side."""

Batches = tuple[tuple[int, int], ...]
"""Pairs of the events of a batch and the number of such batches."""


class Plan(msgspec.Struct, frozen=True):
    """Amounts of a run."""

    runs: int
    """Number of timed runs of each figure in process."""
    sizes: tuple[int, ...]
    """Sizes of batches in process at the smallest state."""
    larger_sizes: tuple[int, ...]
    """Sizes of batches in process at the intermediate states."""
    largest_sizes: tuple[int, ...]
    """Sizes of batches in process at the largest state."""
    states: tuple[int, ...]
    """Numbers of live orders per side, ascending."""
    checked_orders: int
    """Number of live orders per side with which the answers are compared before they are timed."""
    stall_batches: int
    """Number of batches at the largest state that are timed one by one."""
    written_seconds: float
    """Time limit in seconds for DuckDB with the original SQL."""
    spark: Batches
    """Batches through Spark at the smallest state, by size; the first of each size warms up."""
    spark_larger: Batches
    """Batches through Spark at the other states, with all six views together."""
    spark_cost: Batches
    """Batches through Spark for the cost of a larger state, at the smallest and the largest state."""
    small: int
    """Number of small epochs through Spark, for latencies."""
    state_events: tuple[int, int]
    """Numbers of events after which the size of the state is measured."""
    flat_batches: int
    """Number of batches of a million events over which memory is watched."""

    def sizes_at(self, live_orders: int) -> tuple[int, ...]:
        """Return the sizes of batches in process at a state."""
        if live_orders == self.states[0]:
            return self.sizes
        return self.largest_sizes if live_orders == self.states[-1] else self.larger_sizes


FULL: Final = Plan(
    runs=5,
    sizes=(1, 10, 100, 1_000, 10_000, 100_000, 1_000_000),
    larger_sizes=(1, 10_000, 1_000_000),
    largest_sizes=(1, 10, 100, 1_000, 10_000, 100_000, 1_000_000),
    states=STATES,
    checked_orders=20_000,
    stall_batches=200,
    written_seconds=30,
    spark=((1_000, 9), (10_000, 9), (100_000, 7), (1_000_000, 6), (4_000_000, 4)),
    spark_larger=((10_000, 7), (1_000_000, 5)),
    spark_cost=((MAIN, 11),),
    small=100,
    state_events=(1_000_000, 10_000_000),
    flat_batches=50,
)
"""Full plan: about 40 minutes."""
QUICK: Final = Plan(
    runs=3,
    sizes=(1, 100, 10_000, 100_000),
    larger_sizes=(),
    largest_sizes=(10_000,),
    states=(STATES[0], STATES[-1]),
    checked_orders=2_000,
    stall_batches=60,
    written_seconds=2,
    spark=((10_000, 4), (4_000_000, 3)),
    spark_larger=((10_000, 4), (1_000_000, 2)),
    spark_cost=((MAIN, 5),),
    small=20,
    state_events=(200_000, 2_000_000),
    flat_batches=6,
)
"""Quick plan: about 6 minutes."""

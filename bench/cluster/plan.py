"""The points to measure, and the amounts of each."""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["FULL", "ONE_SHARD", "QUICK", "VIEWS", "Plan", "Point"]

VIEWS: Final = ("book_depth", "vwap_book", "best_quote", "imbalance", "broker_volume", "trades_1s")
"""Views that are distributed over the shards by keys that contain the symbol."""
ONE_SHARD: Final = "vwap"
"""View over all symbols, which is in one shard, whatever the number of shards. It is measured without Spark only."""


class Point(msgspec.Struct, frozen=True):
    """A layout of the system."""

    workers: int
    """Number of workers of a standalone cluster, with a core each; 0 for Spark in the runtime's own process,
    ``local[2]``.
    """
    runtimes: int
    """Number of runtimes that read a feed. With 1, the runtime with the views reads all symbols; with 2, two upstreams
    read one half each, and a third runtime has the views.
    """
    shards: int = 4
    """Number of shards of the view program."""

    @property
    def name(self) -> str:
        """Name in the keys of the figures."""
        where = f"workers_{self.workers}" if self.workers else "local_2"
        return f"{where}.runtimes_{self.runtimes}" + (f".shards_{self.shards}" if self.shards != 4 else "")

    @property
    def executor_cores(self) -> int:
        """Total number of concurrent tasks."""
        return self.workers or 2


class Plan(msgspec.Struct, frozen=True):
    """Amounts of a run."""

    points: tuple[Point, ...]
    """Points in the order of measurement; an interrupted run lacks the last ones."""
    symbols: int
    """Number of symbols, half of them in each feed."""
    live_orders: int
    """Number of live orders over all symbols."""
    requests: int
    """Number of recorded requests; the recording must contain the messages of a point."""
    warm: int
    """Number of messages before any timing, which fill the books and warm up the workers."""
    burst: int
    """Number of messages of a burst, sent as fast as they are taken."""
    bursts: int
    """Number of bursts."""
    rate: int
    """Messages per second, over all feeds, at which freshness is measured."""
    steady_s: float
    """Seconds for which messages are sent at ``rate``."""
    windows: int
    """Number of windows into which ``steady_s`` is divided, for the spread."""
    budget_s: float
    """Seconds after which no further point is begun."""

    @property
    def messages(self) -> int:
        """Number of messages of a point."""
        return self.warm + self.burst * self.bursts + round(self.rate * self.steady_s)


_LOCAL: Final = Point(0, 1)
_SHARDED: Final = Point(2, 1, shards=16)
"""Point that shows the cost of more tasks, for the model."""
FULL: Final = Plan(
    points=(_LOCAL, *(Point(w, r) for w in (1, 2, 4) for r in (1, 2)), _SHARDED),
    symbols=100,
    live_orders=40_000,
    requests=1_250_000,
    warm=200_000,
    burst=300_000,
    bursts=3,
    rate=5_000,
    steady_s=20,
    windows=4,
    budget_s=780,
)
"""Full plan: about 13 minutes on two otherwise idle cores."""
QUICK: Final = Plan(
    points=(_LOCAL, Point(1, 1), Point(2, 1), Point(2, 2)),
    symbols=100,
    live_orders=4_000,
    requests=80_000,
    warm=20_000,
    burst=25_000,
    bursts=2,
    rate=2_000,
    steady_s=4,
    windows=2,
    budget_s=150,
)
"""Quick plan: under 3 minutes, with four of the points."""

"""Which points are measured, and how much of each."""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["FULL", "ONE_SHARD", "QUICK", "VIEWS", "Plan", "Point"]

VIEWS: Final = ("book_depth", "vwap_book", "best_quote", "imbalance", "broker_volume", "trades_1s")
"""All are spread over the shards by keys that have the symbol in them."""
ONE_SHARD: Final = "vwap"
"""A view over all symbols: it lives in one shard, however many there are. Measured by itself alone."""


class Point(msgspec.Struct, frozen=True):
    """A way to lay the system out."""

    workers: int
    """Of a standalone cluster, with a core each; 0: Spark in the runtime's own process, ``local[2]``."""
    runtimes: int
    """1: the runtime with the views reads all symbols; 2: two upstreams read one half each, a third has the views."""
    shards: int = 4
    """Of the view program."""

    @property
    def name(self) -> str:
        """As in the keys of the figures."""
        where = f"workers_{self.workers}" if self.workers else "local_2"
        return f"{where}.runtimes_{self.runtimes}" + (f".shards_{self.shards}" if self.shards != 4 else "")

    @property
    def executor_cores(self) -> int:
        """Tasks at a time, in all."""
        return self.workers or 2


class Plan(msgspec.Struct, frozen=True):
    """How much is measured."""

    points: tuple[Point, ...]
    """In this order: what a run that is cut short lacks is the end."""
    symbols: int
    """Half of them in either feed."""
    live_orders: int
    """Over all symbols."""
    requests: int
    """What is recorded; it must hold the messages of a point."""
    warm: int
    """Messages before anything is timed: they fill the books and warm up the workers."""
    burst: int
    """Messages sent as fast as they are taken."""
    bursts: int
    """How often."""
    rate: int
    """Messages a second, over all feeds, at which freshness is measured."""
    steady_s: float
    """Seconds of that."""
    windows: int
    """Stretches of it, for the spread."""
    budget_s: float
    """No further point is begun behind it."""

    @property
    def messages(self) -> int:
        """Messages of a point."""
        return self.warm + self.burst * self.bursts + round(self.rate * self.steady_s)


_LOCAL: Final = Point(0, 1)
_SHARDED: Final = Point(2, 1, shards=16)
"""What more tasks cost, for the model."""
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
"""About 13 minutes on two cores that have nothing else to do."""
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
"""Under 3 minutes: four of the points."""

"""Random properties of a seed's world: a few at a time, so that each of them is driven far in some seeds."""

from __future__ import annotations

import dataclasses
import random
from typing import Final

import msgspec

from runtime.compiler import Lane
from runtime.engine.ingest import IngestConfig
from runtime.epochs import RetentionConfig
from runtime.relations import Retention
from runtime.service.rundir.upkeep import SnapshotConfig, UpkeepConfig
from runtime.spark.config import SparkConfig
from tests.simulation.market import MarketShape
from tests.simulation.process import ProcessConfig
from tests.simulation.views import VIEWS, SimulatedView

__all__ = ["Shape"]

_LIVELY: Final = {
    "boot": 2.0, "task": 30.0, "network": 20.0, "time": 4.0, "market": 6.0, "barrier": 1.5, "spark": 8.0, "file": 8.0,
    "upkeep": 2.0,
}  # fmt: skip
_FAULTS: Final = {
    "crash": 0.25, "arm": 1.0, "error": 0.3, "full": 0.25, "stop": 0.3, "cut": 0.8, "down": 0.2, "session": 0.15,
    "spoil": 0.2, "catalogue": 0.6,
    "break": 0.15, "executor": 0.3, "late": 0.5, "pause": 0.2, "clock": 0.2,
}  # fmt: skip


def _in_lane(view: SimulatedView, lane: Lane) -> SimulatedView:
    return msgspec.structs.replace(view, select=dataclasses.replace(view.select, lane=lane))


class Shape(msgspec.Struct, frozen=True):
    """Properties drawn once for a seed."""

    market: MarketShape
    process: ProcessConfig
    messages: int
    """Approximate number of messages that the exchange sends in all."""
    steps: int
    """Number of steps with faults."""
    reads_file: bool
    """True if the messages come from a file, which ends, and not over the network."""
    weights: dict[str, float]
    """Relative frequency of each kind of step."""
    views: tuple[SimulatedView, ...]
    """Views that the catalogue may have."""
    byte_scale: int
    """Factor by which the runtime counts bytes, since its limits are in megabytes."""
    power_share: float
    """Share of crashes that stop the machine."""
    crash_at_start: float
    """Probability that a process dies while it starts."""
    bad_tasks: float
    """Share of Spark's tasks that are lost, unreported, or late."""

    @classmethod
    def of(cls, chance: random.Random) -> Shape:
        """Return the shape of a seed, from its random generator."""
        weights = {name: weight * chance.choice((0.3, 1.0, 1.0, 3.0)) for name, weight in _LIVELY.items()}
        weights |= {
            name: weight * chance.choice((0.5, 1.0, 2.0)) for name, weight in _FAULTS.items() if chance.random() < 0.5
        }
        cheap = [view for view in VIEWS if not view.is_dear]
        dear = [view for view in VIEWS if view.is_dear]
        views = chance.sample(cheap, 3) + ([chance.choice(dear)] if chance.random() < 0.1 else [])
        count = chance.choice((1, 1, 2))
        fast = chance.choice((0.0, 0.5, 0.5, 1.0))
        views = [_in_lane(view, "express" if chance.random() < fast else "spark") for view in views]
        table = "".join(f"{n},{chance.choice(('north', 'south'))}\n" for n in range(1, chance.randint(0, 4) + 1))
        return cls(
            market=MarketShape(malformed=chance.choice((0.0, 0.0, 0.05))),
            process=ProcessConfig(
                selects=tuple(view.select for view in views[:count]),
                table=table.encode(),
                is_table_first=chance.random() < 0.7,
                retention=Retention(rows=chance.choice((3, 10, 1000)), time_ns=chance.choice((200, 10**9))),
                ingest=IngestConfig(
                    workers=chance.choice((1, 2, 3)),
                    admitted_bytes=chance.choice((200, 2_000, 1 << 20)),
                    in_flight_bytes=chance.choice((100, 1_000, 1 << 20)),
                    in_flight=chance.choice((1, 3, 64)),
                    epoch_messages=chance.choice((0, 0, 0, 1, 7, 25)),
                    epoch_most_messages=chance.choice((10, 1_000_000)),
                ),
                spark=SparkConfig(shards=chance.choice((1, 2, 3)), max_epochs_per_batch=chance.choice((1, 2, 5, 64))),
                upkeep=UpkeepConfig(
                    SnapshotConfig(epochs=chance.choice((1, 1, 3, 5)), results=chance.choice((1, 2, 4, 500))),
                    RetentionConfig(epochs=chance.choice((0, 2, 10_000))),
                    limit_megabytes=chance.choice((64_000, 64_000, 4)),
                ),
            ),
            messages=chance.choice((10, 40, 60)),
            reads_file=chance.random() < 0.15,
            steps=chance.choice((100, 150, 200)),
            weights=weights,
            views=tuple(views),
            byte_scale=100,
            power_share=chance.choice((0.0, 0.5, 1.0)),
            crash_at_start=chance.choice((0.0, 0.0, 0.3)),
            bad_tasks=chance.choice((0.0, 0.0, 0.2, 0.5)),
        )

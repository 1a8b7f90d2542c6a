"""How the Spark lane runs; nothing of Spark is imported here."""

from __future__ import annotations

import msgspec

__all__ = ["SparkConfig"]


class SparkConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the Spark lane runs."""

    master: str = "local[2]"
    """Any Spark master."""
    shards: int = 2
    """Shards of the view program, fixed per checkpoint; also Spark's shuffle partitions."""
    max_epochs_per_batch: int = 64
    """Most epochs in a micro-batch; 1 publishes every epoch."""
    driver_memory: str = "1g"
    """Heap of the driver's Java."""
    ui: bool = False
    """Whether Spark's own pages are served, on loopback."""
    settings: dict[str, str] = {}
    """Further Spark settings, the last word."""

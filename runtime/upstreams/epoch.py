"""What comes from an upstream: its epochs, as they are sealed there, and the position behind one of them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pyarrow as pa

from runtime.epochs import Cut

__all__ = ["UpstreamEpoch", "UpstreamPosition"]


class UpstreamPosition(msgspec.Struct, frozen=True):
    """Up to where an upstream's log is inside."""

    identity: str
    """Tells the log from any other one; see `runtime.epochs.EpochLogReader.identity`."""
    epoch: int
    """The newest epoch inside."""
    checksum: int | None = None
    """Of its footer, which the next epoch has to follow; None where a snapshot of an earlier release stands for it."""


class UpstreamEpoch(msgspec.Struct, frozen=True, eq=False):
    """An epoch of an upstream, or the snapshot that stands for all up to it: taken whole or not at all."""

    origin_id: int
    """Which upstream."""
    position: UpstreamPosition
    """Behind it."""
    relations: Mapping[str, pa.RecordBatch]
    """By relation of the market: rows with their column ``weight``; none of them is empty."""
    messages: int
    """Well-formed messages inside."""
    cuts: Mapping[str, Cut]
    """The upstream's cut by its name, and those of its own origins below it: ``NAME/feed``."""
    time_ns: int
    """When it was sealed there, nanoseconds since the UTC epoch."""
    size: int
    """Bytes of its rows."""
    epoch_time: int | None = None
    """The time of the epoch there, event time in nanoseconds; None where it has not moved."""
    symbols: tuple[str, ...] = ()
    """Symbols that no epoch before it had, since the log was opened."""

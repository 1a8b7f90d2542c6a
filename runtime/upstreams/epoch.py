"""Epoch of an upstream as it is read here, and the position after it; and the errors of upstreams."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pyarrow as pa

from deltabook.wire.errors import DamageError
from runtime.epochs import Cut, EpochLogError

__all__ = ["DamagedConsumerError", "UpstreamEpoch", "UpstreamError", "UpstreamPosition"]


class UpstreamError(EpochLogError):
    """An upstream's log is not the one that was read so far, or repeats what another origin has."""


class DamagedConsumerError(UpstreamError, DamageError):
    """The file of a consumer's progress is damaged."""


class UpstreamPosition(msgspec.Struct, frozen=True):
    """Position in an upstream's log: the newest epoch read."""

    identity: str
    """Identity of the log; see `runtime.epochs.EpochLogReader.identity`."""
    epoch: int
    """Newest epoch read."""
    checksum: int | None = None
    """Checksum of its footer, which the next epoch has to follow; None after a snapshot of an earlier release."""


class UpstreamEpoch(msgspec.Struct, frozen=True, eq=False):
    """Epoch of an upstream, or the snapshot in place of all up to it: taken whole or not at all."""

    origin_id: int
    """Origin id of the upstream."""
    position: UpstreamPosition
    """Position after the epoch."""
    relations: Mapping[str, pa.RecordBatch]
    """Rows of each changed relation of the market with their column ``weight``; none of them is empty."""
    messages: int
    """Number of well-formed messages inside."""
    cuts: Mapping[str, Cut]
    """Cut of the upstream under its name, and those of its own origins below it: ``NAME/feed``."""
    time_ns: int
    """Time of sealing, nanoseconds since the UTC epoch."""
    size: int
    """Size of the rows in bytes."""
    epoch_time: int | None = None
    """Event time of the epoch in nanoseconds; None where it has not advanced."""
    symbols: tuple[str, ...] = ()
    """Symbols that no earlier epoch had since the log was opened."""
    watermarks: Mapping[str, int] | None = None
    """Relation → its watermark there, see `runtime.epochs.Footer`; None in an epoch of an earlier release."""

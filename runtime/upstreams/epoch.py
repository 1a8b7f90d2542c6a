"""Epoch of an upstream, the position after it, and the errors of upstreams."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pyarrow as pa

from deltabook.wire.errors import DamageError
from runtime.epochs import Cut, EpochLogError

__all__ = ["DamagedConsumerError", "UpstreamEpoch", "UpstreamError", "UpstreamPosition"]


class UpstreamError(EpochLogError):
    """An upstream's log is not the expected one, repeats another origin, or has too many consumers."""


class DamagedConsumerError(UpstreamError, DamageError):
    """The file of a consumer's progress is damaged."""


class UpstreamPosition(msgspec.Struct, frozen=True):
    """Position in an upstream's log: the newest epoch read."""

    identity: str
    """Identity of the log; see `runtime.epochs.EpochLogReader.identity`."""
    epoch: int
    """Newest epoch read."""
    checksum: int | None = None
    """Checksum of the epoch's footer, which the next epoch has to follow; None after a snapshot of an earlier
    release."""


class UpstreamEpoch(msgspec.Struct, frozen=True, eq=False):
    """Epoch of an upstream, or the snapshot that replaces all epochs up to it; taken as a whole or not at all."""

    origin_id: int
    """Origin id of the upstream."""
    position: UpstreamPosition
    """Position after the epoch."""
    relations: Mapping[str, pa.RecordBatch]
    """Relation of the market → its changed rows with their column ``weight``, at least one."""
    messages: int
    """Number of well-formed messages in the epoch."""
    cuts: Mapping[str, Cut]
    """Cut of the upstream under its name, and the cuts of its own origins below it: ``NAME/feed``."""
    time_ns: int
    """Time of sealing, in nanoseconds since the UTC epoch."""
    size: int
    """Size of the rows in bytes."""
    epoch_time: int | None = None
    """Event time of the epoch in nanoseconds; None if it has not advanced."""
    symbols: tuple[str, ...] = ()
    """Symbols that no earlier epoch had since the log was opened."""
    watermarks: Mapping[str, int] | None = None
    """Relation → its watermark at the epoch, see `runtime.epochs.Footer`; None in an epoch of an earlier release."""

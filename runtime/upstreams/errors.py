"""Errors of upstreams."""

from __future__ import annotations

from deltabook.wire.errors import DamageError
from runtime.epochs import EpochLogError

__all__ = ["DamagedConsumerError", "UpstreamError"]


class UpstreamError(EpochLogError):
    """An upstream's log is not the one that was read so far, or repeats what another origin has."""


class DamagedConsumerError(UpstreamError, DamageError):
    """The file of a consumer's progress is damaged."""

"""Errors of upstreams."""

from __future__ import annotations

from deltabook.wire.errors import DamageError
from runtime.epochs import EpochLogError

__all__ = ["DamagedConsumerError", "UpstreamError"]


class UpstreamError(EpochLogError):
    """An upstream's log is not the expected one, repeats another origin, or has too many consumers."""


class DamagedConsumerError(UpstreamError, DamageError):
    """The file of a consumer's progress is damaged."""

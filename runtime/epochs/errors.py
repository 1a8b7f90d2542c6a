"""What can go wrong with the epoch log."""

from __future__ import annotations

__all__ = ["EpochLogError", "TornSegmentError"]


class EpochLogError(RuntimeError):
    """The log cannot be used as asked."""


class TornSegmentError(EpochLogError):
    """A segment's bytes are not what was sealed; the message names the file."""

"""What can go wrong with the epoch log."""

from __future__ import annotations

__all__ = ["EpochLogError", "FencedError", "TornSegmentError"]


class EpochLogError(RuntimeError):
    """The log cannot be used as asked."""


class FencedError(RuntimeError):
    """Another process has taken the run directory: this one must not write into it any more."""


class TornSegmentError(EpochLogError):
    """A segment's bytes are not what was sealed; the message names the file."""

"""What can go wrong with the epoch log."""

from __future__ import annotations

from deltabook.wire.errors import DamageError

__all__ = ["EpochLogError", "FencedError", "MissingSegmentError", "TornSegmentError"]


class EpochLogError(RuntimeError):
    """The log cannot be used as asked."""


class FencedError(RuntimeError):
    """Another process has taken the run directory: this one must not write into it any more."""


class MissingSegmentError(EpochLogError, DamageError):
    """Epochs or results that were durable are not there, or state that was."""


class TornSegmentError(EpochLogError, DamageError):
    """A segment's bytes are not what was sealed; the message names the file."""

"""Errors of the epoch log."""

from __future__ import annotations

from deltabook.wire.errors import DamageError

__all__ = ["EpochLogError", "FencedError", "MissingSegmentError", "TornSegmentError"]


class EpochLogError(RuntimeError):
    """The log cannot be used as requested."""


class FencedError(RuntimeError):
    """Another process has taken the run directory: this one must not write into it any more."""


class MissingSegmentError(EpochLogError, DamageError):
    """Epochs, results or state that were durable are missing."""


class TornSegmentError(EpochLogError, DamageError):
    """A segment's bytes differ from those that were sealed; the message names the file."""

"""Errors of the Spark lane."""

from __future__ import annotations

__all__ = ["SparkLaneError"]


class SparkLaneError(RuntimeError):
    """Spark cannot start, or its streaming query cannot continue; the message is the reason in one line."""

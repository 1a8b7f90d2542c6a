"""What can go wrong with the Spark lane."""

from __future__ import annotations

__all__ = ["SparkLaneError"]


class SparkLaneError(RuntimeError):
    """Spark cannot start, or its streaming query cannot go on; the message says why in one line."""

"""What can go wrong in the engine."""

from __future__ import annotations

__all__ = ["EngineError"]


class EngineError(RuntimeError):
    """The engine cannot go on; the message says what was expected, what was there, and where."""

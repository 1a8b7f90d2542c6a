"""What the tuple-wise kernel cannot do."""

from __future__ import annotations

__all__ = ["UnsupportedError"]


class UnsupportedError(ValueError):
    """A view whose body the tuple-wise kernel has no code for; the vectorised one has."""

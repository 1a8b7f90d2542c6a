"""How fast a count goes up."""

from __future__ import annotations

__all__ = ["Rate"]


class Rate:
    """Messages a second between two looks; belongs to who looks."""

    def __init__(self) -> None:
        self._count, self._at = 0, 0.0
        self._last = 0.0

    def per_second(self, count: int, now: float) -> float:
        """The rate, where the count is this one at this second; that of before if the last look was just now."""
        elapsed = now - self._at
        if elapsed >= 0.5:
            self._last = (count - self._count) / elapsed if self._at else 0.0
            self._count, self._at = count, now
        return self._last

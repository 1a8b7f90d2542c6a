"""How far what is published is behind what is sealed."""

from __future__ import annotations

from collections import deque

__all__ = ["Freshness"]


class Freshness:
    """How long the oldest epoch has waited to be published. `sealed` may be called from another thread."""

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._waiting: deque[tuple[int, float]] = deque()

    def sealed(self, epoch: int, now_s: float) -> None:
        """There is a new epoch."""
        self._waiting.append((epoch, now_s))

    def waited_s(self, version: int, now_s: float) -> float | None:
        """With this version published, how long the oldest epoch has waited; None if none does."""
        while self._waiting and self._waiting[0][0] <= version:
            self._waiting.popleft()
        return now_s - self._waiting[0][1] if self._waiting else None

    def is_fresh(self, version: int, now_s: float) -> bool:
        """With this version published, no epoch waits too long."""
        waited_s = self.waited_s(version, now_s)
        return waited_s is None or waited_s <= self._longest_s

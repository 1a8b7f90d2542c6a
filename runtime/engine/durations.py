"""How long something took, again and again, in buckets that double."""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["DurationCounter", "Durations"]

_BUCKETS: Final = 48  # of microseconds, each twice as wide as the one before: up to eight years


class Durations(msgspec.Struct, frozen=True):
    """How many there were of each length."""

    counts: tuple[int, ...] = (0,) * _BUCKETS
    """How many took less than 2 to the power of the bucket's number microseconds, and not less than half of that."""

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(self.counts)

    def quantile_us(self, share: float) -> int:
        """So many microseconds were enough for this share of them, to a factor of 2; 0 if there were none.

        >>> Durations((0, 0, 98, 0, 0, 0, 2) + (0,) * 41).quantile_us(0.5)
        4
        """
        wanted, seen = share * self.count, 0
        for bucket, count in enumerate(self.counts):
            seen += count
            if count and seen >= wanted:
                return 1 << bucket
        return 0


class DurationCounter:
    """Counts them; one writer at a time, who reads sees whole counts."""

    def __init__(self) -> None:
        self._counts = [0] * _BUCKETS

    def add(self, seconds: float) -> None:
        """One took so long."""
        micros = max(0, int(seconds * 1e6))
        self._counts[min(micros.bit_length(), _BUCKETS - 1)] += 1

    @property
    def durations(self) -> Durations:
        """Of those so far."""
        return Durations(tuple(self._counts))

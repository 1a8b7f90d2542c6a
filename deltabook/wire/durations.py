"""Durations of something that happens often: counts by powers of two, which a monitor reads as a histogram."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

__all__ = ["Durations", "timed"]

_BUCKETS: Final = 26
"""The last one begins at half a minute."""


class Durations:
    """Counts durations in buckets that double, from a microsecond on. Several threads may add: one at a time does."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * _BUCKETS
        """Those of at most 2ⁿ microseconds and more than half of that; the last one of all longer ones."""
        self.total_s = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        microseconds = max(int(seconds * 1e6 - 1e-6), 0)
        self.counts[min(microseconds.bit_length(), _BUCKETS - 1)] += 1
        self.total_s += seconds

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(self.counts)

    def quantile_us(self, share: float) -> int:
        """So many microseconds were enough for this share of them, to a factor of 2; 0 if there were none.

        >>> durations = Durations()
        >>> for milliseconds in (3, 3, 900):
        ...     durations.add(milliseconds / 1000)
        >>> durations.quantile_us(0.5)
        4096
        """
        wanted, seen = share * self.count, 0
        for bucket, count in enumerate(self.counts):
            seen += count
            if count and seen >= wanted:
                return 1 << bucket
        return 0

    def buckets(self) -> Iterator[tuple[str, float]]:
        """Upper bound in seconds and how many were no longer, as a histogram of Prometheus wants it."""
        seen = 0
        for exponent, count in enumerate(self.counts[:-1]):
            seen += count
            yield str((1 << exponent) / 1e6), seen
        yield "+Inf", seen + self.counts[-1]


def timed(function: Callable[[int], None], durations: Durations, seconds: Callable[[], float]) -> Callable[[int], None]:
    """The same function, with how long each call takes added; ``seconds`` is a monotonic clock."""

    def call(argument: int) -> None:
        begin_s = seconds()
        function(argument)
        durations.add(seconds() - begin_s)

    return call

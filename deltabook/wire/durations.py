"""Histogram of the durations of a frequent operation, with buckets of doubling width, for a monitor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

__all__ = ["Durations", "timed"]

_BUCKETS: Final = 26
"""Number of buckets; the last has all durations above 2²⁴ microseconds, which are 16.8 seconds."""


class Durations:
    """Counts durations in buckets of doubling width, from a microsecond on. Not thread-safe: only one thread at a time
    may add.
    """

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * _BUCKETS
        """Item n: number of durations of at most 2ⁿ microseconds and more than half of that. Item 0 also has all
        shorter durations, the last item all longer ones.
        """
        self.total_s = 0.0
        """Sum of all durations in seconds."""

    def add(self, seconds: float) -> None:
        """Add a duration."""
        microseconds = max(int(seconds * 1e6 - 1e-6), 0)
        self.counts[min(microseconds.bit_length(), _BUCKETS - 1)] += 1
        self.total_s += seconds

    @property
    def count(self) -> int:
        """Number of durations."""
        return sum(self.counts)

    def quantile_us(self, share: float) -> int:
        """Return a quantile in microseconds, rounded up to a power of 2; 0 if there are no durations.

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
        """Yield the upper bound in seconds and the number of durations up to it, as a histogram of Prometheus needs
        them.
        """
        seen = 0
        for exponent, count in enumerate(self.counts[:-1]):
            seen += count
            yield str((1 << exponent) / 1e6), seen
        yield "+Inf", seen + self.counts[-1]


def timed(function: Callable[[int], None], durations: Durations, seconds: Callable[[], float]) -> Callable[[int], None]:
    """Return a function that calls ``function`` and adds each call's duration; ``seconds`` is a monotonic clock."""

    def call(argument: int) -> None:
        begin_s = seconds()
        function(argument)
        durations.add(seconds() - begin_s)

    return call

"""The values of a column in a group, with how often each is there: their number, their sum, the first and the last."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Any, Final

from sortedcontainers import SortedList

__all__ = ["Integers", "Sorted"]

_SLACK: Final = 64


class Integers:
    """Integers, of which the first and the last are found by heaps.

    A value is entered in a heap when it comes and leaves it when it is found on top though it has gone, or when the
    heap has grown to twice what it should be: O(log n) for each change, whatever comes and goes.
    """

    __slots__ = ("_counts", "_highs", "_lows", "present", "total")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._lows: list[int] | None = None
        self._highs: list[int] | None = None
        self.present = 0
        """How many different values are there."""
        self.total = 0
        """Their sum, each once."""

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, value: int, weight: int) -> None:
        """So many more of a value; only a positive number of them is there."""
        counts = self._counts
        old = counts.get(value, 0)
        new = old + weight
        if new:
            counts[value] = new
        else:
            del counts[value]
        if old > 0:
            if new <= 0:
                self.present -= 1
                self.total -= value
        elif new > 0:
            self.present += 1
            self.total += value
            if self._highs is not None:
                heappush(self._highs, -value)
                if len(self._highs) > 2 * self.present + _SLACK:
                    self._highs = self._heap(-1)
            if self._lows is not None:
                heappush(self._lows, value)
                if len(self._lows) > 2 * self.present + _SLACK:
                    self._lows = self._heap(1)

    def first(self) -> int | None:
        """The least value that is there."""
        heap = self._lows
        if heap is None:
            heap = self._lows = self._heap(1)
        counts = self._counts
        while heap and counts.get(heap[0], 0) <= 0:
            heappop(heap)
        return heap[0] if heap else None

    def last(self) -> int | None:
        """The greatest value that is there."""
        heap = self._highs
        if heap is None:
            heap = self._highs = self._heap(-1)
        counts = self._counts
        while heap and counts.get(-heap[0], 0) <= 0:
            heappop(heap)
        return -heap[0] if heap else None

    def _heap(self, sign: int) -> list[int]:
        heap = [sign * value for value, count in self._counts.items() if count > 0]
        heapify(heap)
        return heap

    def _check(self) -> None:
        live = [value for value, count in self._counts.items() if count > 0]
        assert all(self._counts.values())
        assert (self.present, self.total) == (len(live), sum(live))
        assert self.first() == min(live, default=None)
        assert self.last() == max(live, default=None)


class Sorted:
    """Values of any other type that has an order."""

    __slots__ = ("_counts", "_live")

    def __init__(self) -> None:
        self._counts: dict[Any, int] = {}
        self._live: SortedList[Any] = SortedList()

    def __len__(self) -> int:
        return len(self._counts)

    @property
    def present(self) -> int:
        """See `Integers.present`."""
        return len(self._live)

    def add(self, value: Any, weight: int) -> None:
        """See `Integers.add`."""
        old = self._counts.get(value, 0)
        new = old + weight
        if new:
            self._counts[value] = new
        else:
            del self._counts[value]
        if old > 0 >= new:
            self._live.remove(value)
        elif new > 0 >= old:
            self._live.add(value)

    def first(self) -> Any:
        """See `Integers.first`."""
        return self._live[0] if self._live else None

    def last(self) -> Any:
        """See `Integers.last`."""
        return self._live[-1] if self._live else None

    def _check(self) -> None:
        assert all(self._counts.values())
        assert list(self._live) == sorted(value for value, count in self._counts.items() if count > 0)

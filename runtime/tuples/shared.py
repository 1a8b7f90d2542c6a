"""Case B: one queue for all queries, with a position for each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, Final, TypeVar

from runtime.tuples.errors import OverrunError, QueueEmptyError, QueueFullError, UnknownQueryError
from runtime.tuples.queue import AtLimit, TupleQueue, unit_size

__all__ = ["SharedQueue"]

T = TypeVar("T")

_GONE: Final[Any] = None
_TIDY: Final = 64
"""Number of empty places at the front at which they are freed, if they are half of all."""


class SharedQueue(TupleQueue[T]):
    """One copy of the items: an item is dropped when the last query that needs it has taken it, left or been overrun.

    A counter beside every item is the number of queries that get it next, so the first item that is still needed is
    found by passing each item once: `add`, `get` and `leave` take amortised constant time for any number of queries.
    Only an overrun visits all queries.
    """

    def __init__(self, capacity: int, *, at_limit: AtLimit, size: Callable[[T], int] = unit_size) -> None:
        super().__init__(capacity, at_limit=at_limit, size=size)
        self._lock = threading.Lock()
        self._joined: dict[Hashable, None] = {}
        self._at: dict[Hashable, int] = {}
        """Position of each query without an unreported overrun."""
        self._lost_from: dict[Hashable, int] = {}
        """First item that each overrun query missed."""
        self._items: list[T] = []
        """Items from number ``_base`` on; those before ``_first`` are dropped already."""
        self._next: list[int] = [0]
        """Number of queries that get each of the items next; the last entry counts queries without a pending item."""
        self._base = 0
        self._first = 0
        """Number of the first item that a query needs; the end if none does."""
        self._pending_size = 0
        """Sum of the sizes of the items from there on."""

    @property
    def end(self) -> int:
        with self._lock:
            return self._end()

    @property
    def queries(self) -> tuple[Hashable, ...]:
        with self._lock:
            return tuple(self._joined)

    def join(self, query: Hashable) -> None:
        with self._lock:
            if query in self._joined:
                raise ValueError(f"expected a query that has not joined, was {query!r}")
            self._joined[query] = None
            self._to_end(query)

    def leave(self, query: Hashable) -> None:
        with self._lock:
            self._away(query)
            del self._joined[query]

    def add(self, item: T) -> None:
        size = self._size(item)
        room = self._capacity - size
        with self._lock:
            if self._pending_size > room and self._at:
                if self._at_limit == "refuse":
                    raise QueueFullError(
                        f"expected room for an item of size {size}, was a capacity of {self._capacity} of which "
                        f"{self._pending_size} wait for the slowest query"
                    )
                self._overrun(room)
            self._items.append(item)
            self._next.append(0)
            self._pending_size += size
            self._forget()

    def get(self, query: Hashable) -> T:
        with self._lock:
            number = self._number(query)
            item = self._items[number - self._base]
            self._take(query, number, number + 1)
            return item

    def peek(self, query: Hashable) -> T:
        with self._lock:
            return self._items[self._number(query) - self._base]

    def get_all(self, query: Hashable, most: int | None = None) -> list[T]:
        with self._lock:
            number, end = self._intact(query), self._end()
            if most is not None:
                end = min(end, number + most)
            items = self._items[number - self._base : end - self._base]
            self._take(query, number, end)
            return items

    def is_empty(self, query: Hashable) -> bool:
        with self._lock:
            self._known(query)
            return self._at.get(query) == self._end()

    def position(self, query: Hashable) -> int:
        with self._lock:
            self._known(query)
            return self._at.get(query, self._end())

    def kept(self) -> int:
        with self._lock:
            return self._end() - self._first

    def skip(self, query: Hashable) -> None:
        with self._lock:
            self._away(query)
            self._to_end(query)

    def _end(self) -> int:
        return self._base + len(self._items)

    def _known(self, query: Hashable) -> None:
        if query not in self._joined:
            raise UnknownQueryError(f"expected a query that has joined, was {query!r}")

    def _intact(self, query: Hashable) -> int:
        """Return the query's position; raise `OverrunError` for an overrun that was not reported yet."""
        self._known(query)
        lost_from = self._lost_from.pop(query, None)
        if lost_from is not None:
            self._to_end(query)
            raise OverrunError(self._end() - lost_from)
        return self._at[query]

    def _number(self, query: Hashable) -> int:
        """Return the query's position; raise `QueueEmptyError` if no item is pending there."""
        number = self._at.get(query)
        if number is None:
            number = self._intact(query)
        if number == self._base + len(self._items):
            raise QueueEmptyError(f"expected an item for query {query!r}, nothing waits")
        return number

    def _to_end(self, query: Hashable) -> None:
        self._at[query] = self._end()
        self._next[-1] += 1

    def _away(self, query: Hashable) -> None:
        """Drop everything stored for the query."""
        self._known(query)
        if self._lost_from.pop(query, None) is None:
            self._next[self._at.pop(query) - self._base] -= 1
            self._forget()

    def _take(self, query: Hashable, number: int, after: int) -> None:
        waiting, place = self._next, number - self._base
        waiting[place] -= 1
        waiting[after - self._base] += 1
        self._at[query] = after
        if number == self._first and not waiting[place]:
            self._forget()

    def _overrun(self, room: int) -> None:
        """Drop the pending items of the queries with more than `room` pending."""
        place, size = self._first - self._base, self._pending_size
        while place < len(self._items) and size > room:
            size -= self._size(self._items[place])
            self._next[place] = 0
            place += 1
        if size > room:  # The item alone is too large, so queries without pending items are overrun too.
            self._next[place] = 0
            place += 1
        for query, number in list(self._at.items()):
            if number < self._base + place:
                self._lost_from[query] = number
                del self._at[query]
        self._forget()

    def _forget(self) -> None:
        """Drop the items at the front that no query needs any more."""
        items, waiting = self._items, self._next
        place = self._first - self._base
        while place < len(items) and not waiting[place]:
            self._pending_size -= self._size(items[place])
            items[place] = _GONE
            place += 1
        self._first = self._base + place
        if place == len(items) or (place >= _TIDY and 2 * place >= len(items)):
            del items[:place], waiting[:place]
            self._base = self._first

    def _check(self) -> None:
        """Assert every invariant."""
        assert len(self._next) == len(self._items) + 1
        assert self._base <= self._first <= self._end()
        kept = self._items[self._first - self._base :]
        assert self._pending_size == sum(map(self._size, kept))
        assert self._pending_size <= self._capacity
        assert set(self._joined) == set(self._at) | set(self._lost_from)
        assert not set(self._at) & set(self._lost_from)
        counts = [0] * len(self._next)
        for number in self._at.values():
            counts[number - self._base] += 1
        assert counts == self._next
        assert self._first == min(self._at.values(), default=self._end())

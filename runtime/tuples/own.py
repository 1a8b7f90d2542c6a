"""Case A: every query has a queue of its own."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from runtime.tuples.errors import OverrunError, QueueEmptyError, QueueFullError, UnknownQueryError
from runtime.tuples.queue import AtLimit, TupleQueue, unit_size

__all__ = ["OwnQueues"]

T = TypeVar("T")


class _Own(Generic[T]):
    """Pending items of one query."""

    __slots__ = ("items", "lost_from", "size")

    def __init__(self) -> None:
        self.items: deque[T] = deque()
        self.size = 0
        """The sum of the sizes of the items."""
        self.lost_from: int | None = None
        """Number of the first item that was dropped, until `OverrunError` has reported it."""


class OwnQueues(TupleQueue[T]):
    """Queue for each query: `add` costs as much as there are queries, and every item is stored once for each.

    With ``copy`` each query gets a copy of its own, which it may change; without it all get the same object.
    """

    def __init__(
        self,
        capacity: int,
        *,
        at_limit: AtLimit,
        size: Callable[[T], int] = unit_size,
        copy: Callable[[T], T] | None = None,
    ) -> None:
        super().__init__(capacity, at_limit=at_limit, size=size)
        self._copy = copy
        self._lock = threading.Lock()
        self._own: dict[Hashable, _Own[T]] = {}
        self._end = 0

    @property
    def end(self) -> int:
        return self._end

    @property
    def queries(self) -> tuple[Hashable, ...]:
        with self._lock:
            return tuple(self._own)

    def join(self, query: Hashable) -> None:
        with self._lock:
            if query in self._own:
                raise ValueError(f"expected a query that has not joined, was {query!r}")
            self._own[query] = _Own()

    def leave(self, query: Hashable) -> None:
        with self._lock:
            self._of(query)
            del self._own[query]

    def add(self, item: T) -> None:
        size = self._size(item)
        room = self._capacity - size
        with self._lock:
            if self._at_limit == "refuse":
                for query, own in self._own.items():
                    if own.size > room:
                        raise QueueFullError(
                            f"expected room for an item of size {size}, was a capacity of {self._capacity} of which "
                            f"{own.size} wait for query {query!r}"
                        )
            for own in self._own.values():
                if own.lost_from is not None:
                    continue
                if own.size > room:
                    own.lost_from = self._end - len(own.items)
                    own.items.clear()
                    own.size = 0
                    continue
                own.items.append(item if self._copy is None else self._copy(item))
                own.size += size
            self._end += 1

    def get(self, query: Hashable) -> T:
        with self._lock:
            own = self._next(query)
            item = own.items.popleft()
            own.size -= self._size(item)
            return item

    def peek(self, query: Hashable) -> T:
        with self._lock:
            return self._next(query).items[0]

    def get_all(self, query: Hashable, most: int | None = None) -> list[T]:
        with self._lock:
            own = self._intact(query)
            if most is None or most >= len(own.items):
                items = list(own.items)
                own.items.clear()
                own.size = 0
                return items
            items = [own.items.popleft() for _ in range(most)]
            own.size -= sum(map(self._size, items))
            return items

    def is_empty(self, query: Hashable) -> bool:
        with self._lock:
            own = self._of(query)
            return not own.items and own.lost_from is None

    def position(self, query: Hashable) -> int:
        with self._lock:
            return self._end - len(self._of(query).items)

    def kept(self) -> int:
        with self._lock:
            return sum(len(own.items) for own in self._own.values())

    def skip(self, query: Hashable) -> None:
        with self._lock:
            self._of(query)
            self._own[query] = _Own()

    def _of(self, query: Hashable) -> _Own[T]:
        try:
            return self._own[query]
        except KeyError:
            raise UnknownQueryError(f"expected a query that has joined, was {query!r}") from None

    def _intact(self, query: Hashable) -> _Own[T]:
        """Return the query's queue; raise `OverrunError` for an overrun that was not reported yet."""
        own = self._of(query)
        if own.lost_from is not None:
            missed = self._end - own.lost_from
            own.lost_from = None
            raise OverrunError(missed)
        return own

    def _next(self, query: Hashable) -> _Own[T]:
        """Return the query's queue; raise `QueueEmptyError` if no item is pending in it."""
        own = self._intact(query)
        if not own.items:
            raise QueueEmptyError(f"expected an item for query {query!r}, nothing waits")
        return own

    def _check(self) -> None:
        """Assert every invariant."""
        for own in self._own.values():
            assert own.size == sum(map(self._size, own.items)) <= self._capacity
            assert own.lost_from is None or (not own.items and 0 <= own.lost_from < self._end)
            assert len(own.items) <= self._end

"""Tuple queues: items of one source that wait for the queries that read them.

```
          add(item)                get(query)
 source ────────────▶ TupleQueue ────────────▶ queries
                       ├── SharedQueue (case B): one copy of the items, a position for each query
                       └── OwnQueues   (case A): a queue, and so a copy of the items, for each query
```

Both cases give each query the same items in the same order; the cases differ in memory and time. The results service
has such a queue for the changes of each view; every slow subscriber is a query of this queue. Every queue has a
capacity and a policy for items beyond it (see `TupleQueue`). No call blocks, and every call may be made from any
thread.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

__all__ = [
    "AtLimit",
    "OverrunError",
    "OwnQueues",
    "QueueEmptyError",
    "QueueFullError",
    "SharedQueue",
    "TupleQueue",
    "TupleQueueError",
    "UnknownQueryError",
    "unit_size",
]


class TupleQueueError(Exception):
    """Base of all errors of tuple queues."""


class QueueFullError(TupleQueueError):
    """The queue has no room for another item, because a query has not taken enough of its pending items."""


class QueueEmptyError(TupleQueueError, LookupError):
    """No item is pending for the query."""


class OverrunError(TupleQueueError, LookupError):
    """The query was too slow: its pending items were dropped. The next item of the query is the first item that is
    added after this error."""

    def __init__(self, missed: int) -> None:
        super().__init__(f"expected the query to keep up with its queue, was one that missed {missed} items")
        self.missed = missed
        """Number of items dropped."""


class UnknownQueryError(TupleQueueError, KeyError):
    """No query of this name has joined."""

    __str__ = Exception.__str__  # `KeyError` shows the repr of its message


T = TypeVar("T")

AtLimit = Literal["refuse", "overrun"]
"""Policy for an item for which there is no room: see `TupleQueue`."""


def unit_size(_item: Any) -> int:
    """Return 1, the size of every item of a queue whose capacity is a number of items."""
    return 1


class TupleQueue(ABC, Generic[T]):
    """Bounded queue of the items of one source, in order of arrival, for the queries that have joined.

    Every query gets each item that was added after the query joined, once and in order, at its own pace. Items are
    numbered from 0; a query's position is the number of the item that it gets next.

    The capacity bounds the pending items of any one query, as a sum of their sizes. ``size`` returns the size of an
    item, which must not change; without it every item has the size 1. There are two policies for an item that exceeds
    the capacity for a query:

    * ``refuse``: `add` raises `QueueFullError` and changes nothing for any query; the source has to wait. No item is
      ever lost.
    * ``overrun``: the item is added for all other queries. A query for which the item does not fit loses all its
      pending items, and also misses this item and later items until the overrun is reported. Its next `get` reports the
      overrun by `OverrunError`, with the number of items missed; afterwards the query gets the items that are added
      from then on.

    All methods may be called from any thread, never block, and are atomic.
    """

    def __init__(self, capacity: int, *, at_limit: AtLimit, size: Callable[[T], int] = unit_size) -> None:
        """Create an empty queue; raise `ValueError` for a capacity below 1."""
        if capacity < 1:
            raise ValueError(f"expected a capacity of 1 or more, was {capacity}")
        self._capacity = capacity
        self._at_limit: AtLimit = at_limit
        self._size = size

    @property
    def capacity(self) -> int:
        """Upper bound of the sizes pending for one query."""
        return self._capacity

    @property
    def at_limit(self) -> AtLimit:
        """Policy for items beyond the capacity."""
        return self._at_limit

    @property
    @abstractmethod
    def end(self) -> int:
        """Number of the next item, which is the number of items added so far."""

    @property
    @abstractmethod
    def queries(self) -> tuple[Hashable, ...]:
        """Queries that have joined, in that order."""

    @abstractmethod
    def join(self, query: Hashable) -> None:
        """Register a query for the items added from now on; raise `ValueError` if the query has joined already."""

    @abstractmethod
    def leave(self, query: Hashable) -> None:
        """Remove a query and its pending items; raise `UnknownQueryError` if the query has not joined."""

    @abstractmethod
    def add(self, item: T) -> None:
        """Add an item for all queries; if no query has joined, the item is only numbered.

        Raise `QueueFullError` as the class describes.
        """

    @abstractmethod
    def get(self, query: Hashable) -> T:
        """Take the query's next item; raise `QueueEmptyError` if there is none, and the errors of `get_all`."""

    @abstractmethod
    def peek(self, query: Hashable) -> T:
        """Return the item that `get` would take; raises the same errors, after which an overrun counts as reported."""

    @abstractmethod
    def get_all(self, query: Hashable, most: int | None = None) -> list[T]:
        """Take the pending items of the query, at most the first ``most`` of them; the list is empty if there is none.

        Raise `OverrunError` if items of the query were dropped, and `UnknownQueryError` if there is no such query.
        """

    @abstractmethod
    def is_empty(self, query: Hashable) -> bool:
        """Return True if no item is pending; False also for a query with an unreported overrun."""

    @abstractmethod
    def position(self, query: Hashable) -> int:
        """Return the number of the query's next item; `end` for a query with an unreported overrun."""

    @abstractmethod
    def kept(self) -> int:
        """Return the number of stored items; an item that is stored several times counts several times."""

    @abstractmethod
    def skip(self, query: Hashable) -> None:
        """Drop the query's pending items and its unreported overrun; it resumes with the items added from now on."""


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
    """Tuple queue that stores every item once for each query; the time of `add` is linear in the number of queries.

    With ``copy`` each query gets its own copy of an item, which the query may change; without ``copy`` all queries get
    the same object.
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
            # All copies are made first: if one fails, no query gets the item.
            copies = None if self._copy is None else [self._copy(item) for _ in self._own]
            for own in self._own.values():
                if own.lost_from is not None:
                    continue
                if own.size > room:
                    own.lost_from = self._end - len(own.items)
                    own.items.clear()
                    own.size = 0
                    continue
                own.items.append(item if copies is None else copies.pop())
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
            raise QueueEmptyError(f"expected an item for query {query!r}, was none")
        return own

    def _check(self) -> None:
        """Assert every invariant."""
        for own in self._own.values():
            assert own.size == sum(map(self._size, own.items)) <= self._capacity
            assert own.lost_from is None or (not own.items and 0 <= own.lost_from < self._end)
            assert len(own.items) <= self._end


_GONE: Final[Any] = None
_TIDY: Final = 64
"""Least number of empty places at the front of the lists that are removed, if at least half of all places are empty. If
all places are empty, they are removed whatever their number."""


class SharedQueue(TupleQueue[T]):
    """Tuple queue that stores every item once, until no query needs the item any more.

    A query no longer needs an item once the query has taken the item, left the queue, or been overrun. Each item has a
    counter of the queries that get this item next. Thus the first item that is still needed is found by passing each
    item once, and `add`, `get` and `leave` take amortised constant time for any number of queries. Only an overrun
    visits all queries.
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
        """Items from number ``_base`` on; items before ``_first`` are dropped already."""
        self._next: list[int] = [0]
        """For each item, the number of queries that get it next; the last entry counts queries without a pending
        item."""
        self._base = 0
        self._first = 0
        """Number of the first item that a query needs; the end if no item is needed."""
        self._pending_size = 0
        """Sum of the sizes of the items from ``_first`` on."""

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
            raise QueueEmptyError(f"expected an item for query {query!r}, was none")
        return number

    def _to_end(self, query: Hashable) -> None:
        """Move a query without a position to the end."""
        self._at[query] = self._end()
        self._next[-1] += 1

    def _away(self, query: Hashable) -> None:
        """Remove the query's position, or its unreported overrun."""
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

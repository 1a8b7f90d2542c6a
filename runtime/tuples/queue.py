"""Interface of tuple queues."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import Any, Generic, Literal, TypeVar

__all__ = ["AtLimit", "TupleQueue", "unit_size"]

T = TypeVar("T")

AtLimit = Literal["refuse", "overrun"]
"""Policy for an item for which there is no room: see `TupleQueue`."""


def unit_size(_item: Any) -> int:
    """Return 1, the size of every item where items are counted."""
    return 1


class TupleQueue(ABC, Generic[T]):
    """Bounded queue of the items of one source, in order of arrival, for the queries that have joined.

    Every query gets each item that was added after it joined, once and in order, at its own pace. Items are numbered
    from 0; a query's position is the number of the item that it gets next.

    The capacity bounds the pending items of any one query, as a sum of their sizes (each counts 1 unless ``size`` is
    given; the size of an item must not change). Policies for an item for which there is no room:

    * ``refuse``: `add` raises `QueueFullError` and nothing has changed for any query; the source has to wait. No item
      is ever lost.
    * ``overrun``: it is added for the others. The query for which it is too much loses all its pending items, and
      takes no memory until the overrun is reported: its next `get` raises `OverrunError`, once, with the number of
      items up to that moment; then the query resumes with the items added afterwards. Others are not affected.

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
        """Number that the next item gets, which is how many have been added."""

    @property
    @abstractmethod
    def queries(self) -> tuple[Hashable, ...]:
        """Queries that have joined, in that order."""

    @abstractmethod
    def join(self, query: Hashable) -> None:
        """Register a query for the items added from now on; raise `ValueError` if it has joined already."""

    @abstractmethod
    def leave(self, query: Hashable) -> None:
        """Remove a query and its pending items; raise `UnknownQueryError` if it has not joined."""

    @abstractmethod
    def add(self, item: T) -> None:
        """Add an item for all queries; without a query it is only numbered. Raise `QueueFullError` as said above."""

    @abstractmethod
    def get(self, query: Hashable) -> T:
        """Take the query's next item; raise `QueueEmptyError`, `OverrunError` or `UnknownQueryError`."""

    @abstractmethod
    def peek(self, query: Hashable) -> T:
        """Return what `get` would take; raise the same errors, and an overrun that it raises counts as reported."""

    @abstractmethod
    def get_all(self, query: Hashable, most: int | None = None) -> list[T]:
        """Take all pending items of the query, or at most ``most`` of the first; return an empty list if there is none.

        Raise `OverrunError` or `UnknownQueryError`.
        """

    @abstractmethod
    def is_empty(self, query: Hashable) -> bool:
        """Return True if no item is pending; False also for a query with an unreported overrun."""

    @abstractmethod
    def position(self, query: Hashable) -> int:
        """Return the number of the query's next item; `end` for a query with an unreported overrun."""

    @abstractmethod
    def kept(self) -> int:
        """Return the number of stored items, each counted as often as it is stored."""

    @abstractmethod
    def skip(self, query: Hashable) -> None:
        """Drop the query's pending items and its unreported overrun; it resumes with the items added from now on."""

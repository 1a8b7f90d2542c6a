"""What a tuple queue is, whichever way it keeps the items."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import Any, Generic, Literal, TypeVar

__all__ = ["AtLimit", "TupleQueue", "one"]

T = TypeVar("T")

AtLimit = Literal["refuse", "overrun"]
"""What happens to an item for which there is no room: see `TupleQueue`."""


def one(_item: Any) -> int:
    """The size of an item where items are counted."""
    return 1


class TupleQueue(ABC, Generic[T]):
    """The items of one source, in the order in which they came, for the queries that have joined.

    Every query gets each item that was added after it joined, once and in order, at its own pace. Items are numbered
    from 0; a query's position is the number of the item that it gets next.

    The capacity bounds what waits for any one query, as a sum of the sizes of the items (each counts 1 unless ``size``
    says otherwise; it must say the same of an item each time). What happens to an item for which there is no room:

    * ``refuse``: `add` raises `QueueFullError` and nothing has changed for any query; the source has to wait. No item
      is ever lost.
    * ``overrun``: it is added for the others. The query for which it is too much loses everything that waits for it,
      and holds nothing in memory until it has been told so: its next `get` raises `OverrunError`, once, with the
      number of items up to that moment, and then it goes on with what is added afterwards. Others see nothing of it.

    All methods may be called from any thread, never block, and are atomic.
    """

    def __init__(self, capacity: int, *, at_limit: AtLimit, size: Callable[[T], int] = one) -> None:
        """Raises `ValueError` for a capacity below 1."""
        if capacity < 1:
            raise ValueError(f"expected a capacity of 1 or more, was {capacity}")
        self._capacity = capacity
        self._at_limit: AtLimit = at_limit
        self._size = size

    @property
    def capacity(self) -> int:
        """The most that waits for one query, in sizes."""
        return self._capacity

    @property
    def at_limit(self) -> AtLimit:
        """What happens beyond it."""
        return self._at_limit

    @property
    @abstractmethod
    def end(self) -> int:
        """The number that the next item gets: how many have been added."""

    @property
    @abstractmethod
    def queries(self) -> tuple[Hashable, ...]:
        """Who has joined, in that order."""

    @abstractmethod
    def join(self, query: Hashable) -> None:
        """The query gets what is added from now on; raises `ValueError` if it has joined already."""

    @abstractmethod
    def leave(self, query: Hashable) -> None:
        """The query gets nothing more, and nothing is kept for it; raises `UnknownQueryError`."""

    @abstractmethod
    def add(self, item: T) -> None:
        """Add an item for all queries; with no query it is numbered and gone. Raises `QueueFullError`, see above."""

    @abstractmethod
    def get(self, query: Hashable) -> T:
        """Take the query's next item; raises `QueueEmptyError`, `OverrunError` and `UnknownQueryError`."""

    @abstractmethod
    def peek(self, query: Hashable) -> T:
        """What `get` would take; raises the same, and an overrun that it raises has been told."""

    @abstractmethod
    def get_all(self, query: Hashable, most: int | None = None) -> list[T]:
        """Take all that waits for the query, or the first so many items; an empty list if nothing does.

        Raises `OverrunError` and `UnknownQueryError`.
        """

    @abstractmethod
    def is_empty(self, query: Hashable) -> bool:
        """Whether `get` would find nothing; False too for one that has an overrun to hear of."""

    @abstractmethod
    def position(self, query: Hashable) -> int:
        """The number of the item that the query gets next; `end` for one that is to hear of an overrun."""

    @abstractmethod
    def kept(self) -> int:
        """The items that are held for queries, each as often as it is held."""

    @abstractmethod
    def skip(self, query: Hashable) -> None:
        """Let the query go on with what is added from now on, as if it had taken the rest and heard of its overrun."""

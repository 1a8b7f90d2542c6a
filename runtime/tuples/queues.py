"""The tuple queues of all sources, and the queries that have something to do."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

from runtime.tuples.errors import OverrunError, QueueEmptyError, UnknownQueryError
from runtime.tuples.queue import TupleQueue

__all__ = ["Sourced", "TupleQueues"]

T = TypeVar("T")


class Sourced(NamedTuple, Generic[T]):
    """An item on its way from a source to the queries that read it."""

    stamp: int
    """Its number among the items of all sources."""
    source: Hashable
    """Where it came from."""
    item: T
    """Itself."""


class TupleQueues(Generic[T]):
    """A queue for each source that is read, and the runnable queries, in the order in which they became runnable.

    A query reads one or more sources and gets their items in the order in which they were added. It is runnable while
    something waits for it. Threads take runnable queries with `next_query`, the items with `get`, and say `done`; no
    two threads have the same query at once, so what a query gets stays in order. A query that is done and for which
    something waits queues up behind the others.

    All methods may be called from any thread; only `next_query` blocks, and only when told to.
    """

    def __init__(self, queue: Callable[[], TupleQueue[Sourced[T]]]) -> None:
        """``queue`` makes the empty queue of a source: its case, its capacity and what happens at it."""
        self._queue = queue
        self._changed = threading.Condition()
        self._stamp = 0
        self._queues: dict[Hashable, TupleQueue[Sourced[T]]] = {}
        self._sources: dict[Hashable, tuple[Hashable, ...]] = {}
        """Query → the sources that it reads."""
        self._idle: dict[Hashable, dict[Hashable, None]] = {}
        """Source → the queries that become runnable by its next item, so that `add` looks at no others."""
        self._runnable: OrderedDict[Hashable, None] = OrderedDict()
        self._running: set[Hashable] = set()
        self._closed = False

    def add_query(self, query: Hashable, sources: Iterable[Hashable]) -> None:
        """The query reads these sources from now on.

        Raises `ValueError` if it has been added already, if a thread has not said `done` of an earlier one of that
        name, and for no sources or the same twice.
        """
        read = tuple(sources)
        if not read or len(set(read)) != len(read):
            raise ValueError(f"expected different sources for query {query!r}, were {list(read)!r}")
        with self._changed:
            if query in self._sources or query in self._running:
                raise ValueError(f"expected a query that is not there, was {query!r}")
            for source in read:
                if source not in self._queues:
                    self._queues[source] = self._queue()
                    self._idle[source] = {}
                self._queues[source].join(query)
                self._idle[source][query] = None
            self._sources[query] = read

    def remove_query(self, query: Hashable) -> None:
        """The query gets nothing more; the queue of a source that nobody reads is gone. Raises `UnknownQueryError`."""
        with self._changed:
            for source in self._of(query):
                self._queues[source].leave(query)
                self._idle[source].pop(query, None)
                if not self._queues[source].queries:
                    del self._queues[source], self._idle[source]
            del self._sources[query]
            self._runnable.pop(query, None)

    def add(self, source: Hashable, item: T) -> None:
        """Add an item for all queries that read the source; gone at once if none does. Raises `QueueFullError`."""
        with self._changed:
            if source not in self._queues:
                return
            self._queues[source].add(Sourced(self._stamp, source, item))
            self._stamp += 1
            idle = tuple(self._idle[source])
            for query in idle:
                for each in self._sources[query]:
                    del self._idle[each][query]
                self._runnable[query] = None
            if idle:
                self._changed.notify(len(idle))

    def get(self, query: Hashable) -> Sourced[T]:
        """Take the query's next item.

        Raises `QueueEmptyError`, `UnknownQueryError`, and `OverrunError` with the source of which it missed items.
        """
        with self._changed:
            first: Sourced[T] | None = None
            for source in self._of(query):
                try:
                    found = self._queues[source].peek(query)
                except QueueEmptyError:
                    continue
                except OverrunError as error:
                    raise OverrunError(error.missed, source) from None
                if first is None or found.stamp < first.stamp:
                    first = found
            if first is None:
                raise QueueEmptyError(f"expected an item for query {query!r}, nothing waits")
            return self._queues[first.source].get(query)

    def has_next(self, query: Hashable) -> bool:
        """Whether something waits for the query; raises `UnknownQueryError`."""
        with self._changed:
            return self._has_next(query)

    def next_query(self, timeout_s: float | None = 0.0) -> Hashable | None:
        """The query that has been runnable longest; the caller has it until `done`.

        None if there is none within the time, and once the queues are closed. Without a limit it waits until then.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._runnable or self._closed, timeout_s)
            if self._closed or not self._runnable:
                return None
            query, _ = self._runnable.popitem(last=False)
            self._running.add(query)
            return query

    def done(self, query: Hashable) -> None:
        """Give back a query of `next_query`; raises `UnknownQueryError` if nobody has it."""
        with self._changed:
            if query not in self._running:
                raise UnknownQueryError(f"expected a query that is running, was {query!r}")
            self._running.remove(query)
            if query not in self._sources:
                return
            if self._has_next(query):
                self._runnable[query] = None
                self._changed.notify()
            else:
                for source in self._sources[query]:
                    self._idle[source][query] = None

    def close(self) -> None:
        """Nothing is runnable any more; wakes all that wait in `next_query`."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def kept(self) -> int:
        """The items that are held in all queues, each as often as it is held."""
        with self._changed:
            return sum(queue.kept() for queue in self._queues.values())

    def _of(self, query: Hashable) -> tuple[Hashable, ...]:
        try:
            return self._sources[query]
        except KeyError:
            raise UnknownQueryError(f"expected a query that was added, was {query!r}") from None

    def _has_next(self, query: Hashable) -> bool:
        return any(not self._queues[source].is_empty(query) for source in self._of(query))

    def _check(self) -> None:
        """Assert every invariant."""
        read = {source for sources in self._sources.values() for source in sources}
        assert set(self._queues) == set(self._idle) == read
        assert not set(self._runnable) & self._running
        assert set(self._runnable) <= set(self._sources)
        for query, sources in self._sources.items():
            is_idle = query not in self._runnable and query not in self._running
            assert all((query in self._idle[source]) == is_idle for source in sources)
            assert all(query in self._queues[source].queries for source in sources)
            if query not in self._running:
                assert self._has_next(query) == (query in self._runnable)

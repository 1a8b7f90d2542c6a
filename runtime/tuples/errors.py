"""Errors of tuple queues."""

from __future__ import annotations

from collections.abc import Hashable

__all__ = [
    "OverrunError",
    "QueueEmptyError",
    "QueueFullError",
    "TupleQueueError",
    "UnknownQueryError",
]


class TupleQueueError(Exception):
    """Base of all errors of tuple queues."""


class QueueFullError(TupleQueueError):
    """A query has not taken enough items for one more to fit, and the queue refuses rather than loses items."""


class QueueEmptyError(TupleQueueError, LookupError):
    """No item is pending for the query."""


class OverrunError(TupleQueueError, LookupError):
    """The query was too slow: its pending items were dropped, and it resumes after them."""

    def __init__(self, missed: int, source: Hashable = None) -> None:
        of = "" if source is None else f" of source {source!r}"
        super().__init__(f"expected the query to keep up with its queue, it missed {missed} items{of}")
        self.missed = missed
        """Number of items dropped."""
        self.source = source
        """Source of the items, for a query that reads several sources."""


class UnknownQueryError(TupleQueueError, KeyError):
    """No query of this name has joined."""

    __str__ = Exception.__str__

"""What goes wrong with tuple queues."""

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
    """A query has not taken enough items for one more, and the queue refuses rather than lose one."""


class QueueEmptyError(TupleQueueError, LookupError):
    """Nothing waits for the query."""


class OverrunError(TupleQueueError, LookupError):
    """The query was too slow: the items that waited for it are gone, and it goes on behind them."""

    def __init__(self, missed: int, source: Hashable = None) -> None:
        of = "" if source is None else f" of source {source!r}"
        super().__init__(f"expected the query to keep up with its queue, it missed {missed} items{of}")
        self.missed = missed
        """How many items it will never see."""
        self.source = source
        """Whose items, where it reads several sources."""


class UnknownQueryError(TupleQueueError, KeyError):
    """No such query has joined."""

    __str__ = Exception.__str__

"""The changes of one view on their way to its subscribers."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Literal

import pyarrow as pa

from runtime.service.subscriptions.message import Message, added_up
from runtime.tuples import OverrunError, OwnQueues, SharedQueue, TupleQueue

__all__ = ["QueueConfigured", "ViewStream", "queues"]

QueueConfigured = Callable[[], TupleQueue[Message]]
"""Makes the queue of a view."""

_MESSAGE_BYTES: Final = 4096
"""Counted for each message beside its rows, so that not very many have to be added up."""


def _size(message: Message) -> int:
    return _MESSAGE_BYTES + (message.rows.nbytes if message.rows is not None else 0)


def queues(case: Literal["shared", "own"], capacity_bytes: int) -> QueueConfigured:
    """Queues of case B or A; what would go past the capacity is lost to the subscribers for whom it waits."""
    if case == "own":
        return lambda: OwnQueues[Message](capacity_bytes, at_limit="overrun", size=_size)
    return lambda: SharedQueue[Message](capacity_bytes, at_limit="overrun", size=_size)


class ViewStream:
    """One view's changes for the subscribers who have to wait; who keeps up is told directly and waits for nothing.

    The queue is empty while nobody waits. On the owner's thread.
    """

    def __init__(self, schema: pa.Schema, queue: TupleQueue[Message]) -> None:
        """``schema``: the view's columns and ``weight``."""
        self._schema = schema
        self._queue = queue
        self._sum: tuple[int, int, Message] | None = None
        self._waiting = 0

    def add(self, message: Message) -> None:
        """Keep a message for all who wait."""
        if self._waiting:  # mostly nobody does, and to find out how large a message is takes longer than to send it
            self._queue.add(message)

    def wait(self, subscriber: Hashable) -> None:
        """Keep what is added from now on for a subscriber."""
        self._queue.join(subscriber)
        self._waiting += 1

    def leave(self, subscriber: Hashable) -> None:
        """Keep nothing more for a subscriber who waits."""
        self._queue.leave(subscriber)
        self._waiting -= 1
        if not self._waiting:
            self._sum = None

    def take(self, subscriber: Hashable) -> list[Message] | None:
        """What a subscriber has waited for, changes added up; None if it was too much. It waits no longer.

        Those who have waited equally long share the sum. The changes come first: an error is a view's last message.
        """
        begin, end = self._queue.position(subscriber), self._queue.end
        try:
            waiting = self._queue.get_all(subscriber)
        except OverrunError:
            return None
        finally:
            self.leave(subscriber)
        changes = [message for message in waiting if message.header.kind == "changes"]
        others = [message for message in waiting if message.header.kind != "changes"]
        if not changes:
            return others
        if len(changes) == 1:
            return [*changes, *others]
        if self._sum is None or self._sum[:2] != (begin, end):
            self._sum = (begin, end, added_up(changes, self._schema))
        found = self._sum[2]
        return [found, *others] if found.rows is not None and found.rows.num_rows else others

    @property
    def kept(self) -> int:
        """Messages that are held for subscribers."""
        return self._queue.kept()

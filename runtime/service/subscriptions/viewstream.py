"""Messages to the subscribers of a view, encoded once for all of them, and the queue for subscribers that must wait."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final, Literal

import msgspec
import pyarrow as pa

from deltabook.wire.results import FrameHeader, encode_frame
from runtime.epochs.consolidating import consolidate
from runtime.tuples import OverrunError, OwnQueues, SharedQueue, TupleQueue

__all__ = ["Message", "QueueConfigured", "ViewStream", "arrow_frame", "queues"]


class Message:
    """Header and rows of a message; immutable."""

    __slots__ = ("_encoded", "body", "header", "rows")

    def __init__(self, header: FrameHeader, rows: pa.Table | None = None, body: bytes = b"") -> None:
        """Create a message; ``body`` is the rows as encoded by `encode_rows`, if they are already encoded."""
        self.header = header
        self.rows = rows
        self.body = body
        self._encoded: dict[Callable[[Message], bytes], bytes] = {}

    def encoded(self, encode: Callable[[Message], bytes]) -> bytes:
        """Return the message in a format; it is encoded on the first call."""
        data = self._encoded.get(encode)
        if data is None:
            data = self._encoded[encode] = encode(self)
        return data

    def since(self, epoch: int) -> Message:
        """Return the message for a subscriber at an earlier epoch; the view must not have changed in between."""
        if self.header.from_epoch == epoch:
            return self
        return Message(msgspec.structs.replace(self.header, from_epoch=epoch), self.rows, self.body)


def arrow_frame(message: Message) -> bytes:
    """Return the message in the format of `deltabook.wire.results`."""
    return encode_frame(message.header, message.rows, body=message.body)


def added_up(messages: Sequence[Message], schema: pa.Schema) -> Message:
    """Return consecutive changes of one view as one message, which may have no rows left."""
    if len(messages) == 1:
        return messages[0]
    tables = [message.rows for message in messages if message.rows is not None]
    rows = consolidate(pa.concat_tables(tables), schema) if tables else None
    return Message(msgspec.structs.replace(messages[-1].header, from_epoch=messages[0].header.from_epoch), rows)


QueueConfigured = Callable[[], TupleQueue[Message]]
"""Callable that returns a new queue for a view."""

_MESSAGE_BYTES: Final = 4096
"""Size in bytes that is counted for each message in addition to its rows, to bound the number of messages to add up."""


def _size(message: Message) -> int:
    return _MESSAGE_BYTES + (message.rows.nbytes if message.rows is not None else 0)


def queues(case: Literal["shared", "own"], capacity_bytes: int) -> QueueConfigured:
    """Return a factory of shared or own queues; a subscriber is overrun if its messages exceed the capacity."""
    if case == "own":
        return lambda: OwnQueues[Message](capacity_bytes, at_limit="overrun", size=_size)
    return lambda: SharedQueue[Message](capacity_bytes, at_limit="overrun", size=_size)


class ViewStream:
    """Changes of one view for the subscribers that have to wait; all other subscribers receive changes directly.

    The queue is empty while no subscriber waits. Belongs to the reactor's thread.
    """

    def __init__(self, schema: pa.Schema, queue: TupleQueue[Message]) -> None:
        """Create an empty stream; ``schema`` has the view's columns and ``weight``."""
        self._schema = schema
        self._queue = queue
        self._sum: tuple[int, int, Message] | None = None  # begin and end of the items that were last added up, and sum
        self._waiting = 0

    def add(self, message: Message) -> None:
        """Queue a message for all waiting subscribers."""
        if self._waiting:  # mostly no subscriber waits, and measuring a message takes longer than sending it
            self._queue.add(message)

    def wait(self, subscriber: Hashable) -> None:
        """Queue messages for a subscriber from now on."""
        self._queue.join(subscriber)
        self._waiting += 1

    def leave(self, subscriber: Hashable) -> None:
        """Queue no more messages for a waiting subscriber."""
        self._queue.leave(subscriber)
        self._waiting -= 1
        if not self._waiting:
            self._sum = None

    def take(self, subscriber: Hashable) -> list[Message] | None:
        """End the waiting of a subscriber; return its messages with changes added up, or None after an overrun.

        Subscribers that have waited equally long share the sum. Changes come first: an error is a view's last message.
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
        total = self._sum[2]
        return [total, *others] if total.rows is not None and total.rows.num_rows else others

    @property
    def kept(self) -> int:
        """Number of messages that are queued for subscribers."""
        return self._queue.kept()

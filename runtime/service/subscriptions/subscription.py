"""Subscriptions of one subscriber to views: their common base, and subscriptions to versions.

Subscriptions to committed epochs are in `runtime.service.subscriptions.epochsubscription`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from runtime.service.subscriptions.viewstream import Message, ViewStream

__all__ = ["Listener", "Subscription", "SubscriptionSource", "VersionSource", "VersionSubscription"]


class Listener(Protocol):
    """Connection to a subscriber."""

    reads_arrow: bool = False
    """True if the listener sends messages as Arrow streams, which are encoded before they are published."""

    def write(self, message: Message) -> None:
        """Send a message; never blocks."""

    def flush(self) -> None:
        """Mark the end of a group of messages: those written since the last call belong together."""

    def finish(self) -> None:
        """Close the connection after all written messages have been sent."""


class SubscriptionSource(Protocol):
    """Source of views that subscriptions follow."""

    def stream(self, name: str) -> ViewStream:
        """Return the queue in which a view's changes wait."""

    def is_held(self, name: str) -> bool:
        """Return True while a view is held back and none of its changes are sent."""


class VersionSource(SubscriptionSource, Protocol):
    """Source of views whose versions are sent as they are published."""

    def snapshot(self, name: str) -> Message:
        """Return a view's full result."""

    def follow(self, name: str, subscription: VersionSubscription, listener: Listener) -> None:
        """Write a view's messages to a listener as they are published; `Subscription.flush` follows."""

    def unfollow(self, name: str, subscription: VersionSubscription) -> None:
        """Write no more of a view's messages."""


class Subscription(ABC):
    """Subscription of one subscriber to views. Not thread-safe: belongs to the hub's thread.

    Messages of a followed view are sent at once. While the connection is full or the view is held back, the view waits:
    its messages are queued in the view's stream. Afterwards the sum of these messages is sent, or a snapshot if the
    queue has overrun.
    """

    def __init__(self, names: Sequence[str], listener: Listener, source: SubscriptionSource) -> None:
        self._names = list(names)
        self._listener = listener
        self._source = source
        self._full = False
        self._followed: set[str] = set()
        self._waiting: dict[str, ViewStream] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the views that have not ended."""
        return tuple(self._names)

    def pause(self) -> None:
        """Stop sending, because the connection is full."""
        self._full = True
        for name in tuple(self._followed):
            self._wait(name)

    def resume(self) -> None:
        """Send again, because the connection has room."""
        self._full = False
        self.catch_up()

    def hold(self) -> None:
        """Stop sending views that the source now holds back, and catch up with views that the source has released."""
        for name in tuple(self._followed):
            if self._source.is_held(name):
                self._wait(name)
        self.catch_up()

    def catch_up(self) -> None:
        """Send the pending messages of every view that is not followed yet, while the connection has room."""
        for name in tuple(self._names):
            if name not in self._followed and not self._full and not self._source.is_held(name):
                for message in self._due(name):
                    self._listener.write(message)
        self._listener.flush()

    def changed(self, name: str, message: Message) -> bool:
        """Send a message if its view is followed; return True if the message was sent, in which case `flush` must
        follow."""
        if name not in self._followed:
            return False
        self._listener.write(message)
        return True

    def flush(self) -> None:
        """Mark the end of a version's messages."""
        self._listener.flush()

    def dropped(self, name: str, message: Message) -> bool:
        """Send the last message of a dropped view; if no view is left, close the connection and return True."""
        if name not in self._names:
            return False
        self._forget(name)
        self._names.remove(name)
        self._listener.write(message)
        self._listener.flush()
        if not self._names:
            self._listener.finish()
        return not self._names

    def leave(self, name: str) -> None:
        """Stop following a view."""
        if name in self._names:
            self._forget(name)
            self._names.remove(name)

    def close(self) -> None:
        """Release everything that is queued for this subscriber."""
        for name in self._names:
            self._forget(name)
        self._names.clear()

    def heartbeat(self, message: Message) -> None:
        """Send a heartbeat if all views of the subscription are fresh."""
        if not self._full and not any(self._source.is_held(name) for name in self._names):
            self._listener.write(message)
            self._listener.flush()

    @abstractmethod
    def _due(self, name: str) -> list[Message]:
        """Return the pending messages of a view, and follow the view from now on, or later if it must wait longer."""

    def _unfollow(self, name: str) -> None:
        """Stop sending a view's messages at once."""
        self._followed.discard(name)

    def _wait(self, name: str) -> None:
        self._unfollow(name)
        stream = self._waiting[name] = self._source.stream(name)
        stream.wait(self)

    def _forget(self, name: str) -> None:
        self._unfollow(name)
        if (stream := self._waiting.pop(name, None)) is not None:
            stream.leave(self)


class VersionSubscription(Subscription):
    """Subscription to versions; a view that is neither followed nor waiting begins with a snapshot."""

    _source: VersionSource

    def __init__(self, names: Sequence[str], listener: Listener, source: VersionSource) -> None:
        super().__init__(names, listener, source)

    def _due(self, name: str) -> list[Message]:
        stream = self._waiting.pop(name, None)
        changes = stream.take(self) if stream is not None else None
        self._followed.add(name)
        self._source.follow(name, self, self._listener)
        return [self._source.snapshot(name)] if changes is None else changes

    def _unfollow(self, name: str) -> None:
        if name in self._followed:
            self._source.unfollow(name, self)
        super()._unfollow(name)

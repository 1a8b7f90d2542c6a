"""One subscriber of the hub."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from runtime.service.subscriptions.message import Message
from runtime.service.subscriptions.viewstream import ViewStream

__all__ = ["Listener", "Source", "Subscription", "VersionSource", "VersionSubscription"]


class Listener(Protocol):
    """A connection to a subscriber."""

    def write(self, message: Message) -> None:
        """Send a message; never blocks."""

    def flush(self) -> None:
        """What was written since the last call belongs together."""

    def finish(self) -> None:
        """Close the connection behind what was sent."""


class Source(Protocol):
    """What subscriptions follow."""

    def stream(self, name: str) -> ViewStream:
        """Where a view's changes wait."""

    def is_held(self, name: str) -> bool:
        """Whether nothing is sent of a view now."""


class VersionSource(Source, Protocol):
    """Versions as they come."""

    def snapshot(self, name: str) -> Message:
        """A view's full result."""


class Subscription(ABC):
    """One subscriber's views; belongs to the hub's thread.

    A view is followed: each message is sent when it comes. When the connection is full, or the view held, it waits:
    messages stay in the view's stream, and what they add up to is sent when there is room again, or a snapshot if that
    was too much.
    """

    def __init__(self, names: Sequence[str], listener: Listener, source: Source) -> None:
        self._names = list(names)
        self._listener = listener
        self._source = source
        self._full = False
        self._followed: set[str] = set()
        self._waiting: dict[str, ViewStream] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The views that have not ended."""
        return tuple(self._names)

    def pause(self) -> None:
        """The connection is full."""
        self._full = True
        for name in tuple(self._followed):
            self._wait(name)

    def resume(self) -> None:
        """The connection has room again."""
        self._full = False
        self.catch_up()

    def hold(self) -> None:
        """Some views may be held from now on, others no longer."""
        for name in tuple(self._followed):
            if self._source.is_held(name):
                self._wait(name)
        self.catch_up()

    def catch_up(self) -> None:
        """Send what is due of every view that is not followed yet, as long as the connection is not full."""
        for name in tuple(self._names):
            if name not in self._followed and not self._full and not self._source.is_held(name):
                for message in self._due(name):
                    self._listener.write(message)
        self._listener.flush()

    def changed(self, name: str, message: Message) -> bool:
        """Send a message of a view if it is followed; whether anything was sent, to be followed by `flush`."""
        if name not in self._followed:
            return False
        self._listener.write(message)
        return True

    def flush(self) -> None:
        """The messages of a version are all there."""
        self._listener.flush()

    def dropped(self, name: str, message: Message) -> bool:
        """A view is no more: say so, and close the connection when it was the last one; True if it was."""
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
        """Follow a view no longer."""
        if name in self._names:
            self._forget(name)
            self._names.remove(name)

    def close(self) -> None:
        """Nothing is kept for this subscriber any more."""
        for name in self._names:
            self._forget(name)
        self._names.clear()

    def heartbeat(self, message: Message) -> None:
        """Say that the service lives and all of these views are fresh; else nothing."""
        if not self._full and not any(self._source.is_held(name) for name in self._names):
            self._listener.write(message)
            self._listener.flush()

    @abstractmethod
    def _due(self, name: str) -> list[Message]:
        """What there is to send of a view that is not followed, and may be afterwards: sending may pause it again."""

    def _wait(self, name: str) -> None:
        self._followed.discard(name)
        stream = self._waiting[name] = self._source.stream(name)
        stream.wait(self)

    def _forget(self, name: str) -> None:
        self._followed.discard(name)
        if (stream := self._waiting.pop(name, None)) is not None:
            stream.leave(self)


class VersionSubscription(Subscription):
    """Follows versions as they come; a view that neither is followed nor waits begins with a snapshot."""

    _source: VersionSource

    def __init__(self, names: Sequence[str], listener: Listener, source: VersionSource) -> None:
        super().__init__(names, listener, source)

    def _due(self, name: str) -> list[Message]:
        stream = self._waiting.pop(name, None)
        found = stream.take(self) if stream is not None else None
        self._followed.add(name)
        return [self._source.snapshot(name)] if found is None else found

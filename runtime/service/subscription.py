"""One subscriber of the hub."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

__all__ = ["Listener", "Subscription"]


class Listener(Protocol):
    """A connection to a subscriber."""

    def write(self, data: bytes) -> None:
        """Send bytes; never blocks."""

    def finish(self) -> None:
        """Close the connection behind what was sent."""


class Subscription:
    """One subscriber's views; belongs to the hub's thread."""

    def __init__(
        self,
        names: Sequence[str],
        listener: Listener,
        *,
        snapshot: Callable[[str], bytes],
        is_held: Callable[[str], bool],
    ) -> None:
        """``snapshot`` gives a view's full result as a frame, ``is_held`` says of which views nothing is sent now."""
        self._names = list(names)
        self._listener = listener
        self._snapshot = snapshot
        self._is_held = is_held
        self._full = False
        self._behind: set[str] = set(names)

    def pause(self) -> None:
        """The connection is full."""
        self._full = True

    def resume(self) -> None:
        """The connection has room again."""
        self._full = False
        self.catch_up()

    def catch_up(self) -> None:
        """Send a snapshot of every view that this subscriber has not got or has missed changes of."""
        for name in self._names:
            if name in self._behind and not self._full and not self._is_held(name):
                self._behind.discard(name)
                self._listener.write(self._snapshot(name))

    def changed(self, frames: dict[str, bytes]) -> None:
        """Send a version's changes, encoded once for all subscribers."""
        for name in self._names:
            if name in frames:
                if self._full or self._is_held(name) or name in self._behind:
                    self._behind.add(name)
                else:
                    self._listener.write(frames[name])

    def dropped(self, name: str, frame: bytes) -> bool:
        """A view is no more: say so, and close the connection when it was the last one; True if it was."""
        if name in self._names:
            self._names.remove(name)
            self._behind.discard(name)
            self._listener.write(frame)
            if not self._names:
                self._listener.finish()
                return True
        return False

    def heartbeat(self, frame: bytes) -> None:
        """Say that the service lives and all of these views are fresh; else nothing."""
        if not self._full and not any(self._is_held(name) for name in self._names):
            self._listener.write(frame)

    def wants(self, names: set[str]) -> bool:
        """Whether one of these views is among its own."""
        return not names.isdisjoint(self._names)

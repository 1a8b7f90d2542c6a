"""Events: rows that a shard processes one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from runtime.views.composed import EventLoop

__all__ = ["Events"]

Changes = list[tuple[str, tuple[Any, ...], int]]


class Events(Iterator[tuple[int, Changes]]):
    """Iterator over events that change a watched view; yields an event's number and the changes of watched views.

    All other events are processed without the interpreter, in 0.2 to 1 µs each; their changes of views that are not
    watched are only counted. Between two events of the iteration the owner may take other steps on the shard, but
    neither migrate it, nor write a base of it (which may renumber strings), nor begin another iteration.
    """

    def __init__(self, loop: EventLoop, advance: Callable[[], Changes | None]) -> None:
        """Iterate with ``advance``, which processes events up to the next one that changes a watched view.

        ``advance`` returns the changes of that event, or None if there are no events left.
        """
        self._loop, self._advance = loop, advance

    @property
    def done(self) -> int:
        """Number of events processed so far."""
        return self._loop.event

    @property
    def rows(self) -> int:
        """Number of rows removed from and added to views so far, including those of watched views."""
        return self._loop.rows

    def __next__(self) -> tuple[int, Changes]:
        changes = self._advance()
        if changes is None:
            raise StopIteration
        return self.done - 1, changes

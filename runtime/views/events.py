"""Events: rows that a shard processes one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from runtime.views.composed import EventLoop

__all__ = ["Events"]

Changes = list[tuple[str, tuple[Any, ...], int]]


class Events(Iterator[tuple[int, Changes]]):
    """Iterates over the events that change a watched view: the number of the event, and the changes of watched views.

    All other events are taken in without the interpreter, in 0.2 to 1 µs each; the rows by which they change views that
    are not watched are counted. Between two events of the iteration the owner may take other steps on the shard, but
    neither migrate it, nor write a base of it (which may number strings anew), nor begin another iteration.
    """

    def __init__(self, loop: EventLoop, advance: Callable[[], Changes | None]) -> None:
        """``advance``: takes events in up to the next one that changes a watched view; None: there is none left."""
        self._loop, self._advance = loop, advance

    @property
    def done(self) -> int:
        """Events taken in so far."""
        return self._loop.event

    @property
    def rows(self) -> int:
        """Rows by which views have changed so far, removed and added ones; those of watched views are counted too."""
        return self._loop.rows

    def __next__(self) -> tuple[int, Changes]:
        changes = self._advance()
        if changes is None:
            raise StopIteration
        return self.done - 1, changes
